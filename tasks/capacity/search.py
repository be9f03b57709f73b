"""The largest number of associations that a memory recalls, for several trials at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Recall = Callable[[list[int], int], Sequence[float]]


@dataclass
class Bracket:
    """One trial recalls ``low`` associations and not ``high`` (None: not yet found).

    Numbers are doubled until two in a row fail, since one failure of a training may be bad luck:
    small stores are not always recalled where larger ones are. Then the bracket is halved until it
    is within 1 % or of length 1 (the published rule).
    """

    low: int = 0
    high: int | None = None
    failed: int | None = None  # the last number of the doubling, if it failed
    tried: list[tuple[int, float]] = field(default_factory=list)

    def next(self, start: int, most: int) -> int | None:
        """How many to try next; None when the search is over."""
        if self.high is None:
            # Two failures in a row set ``high``; after one the doubling goes on from that number.
            last = self.failed or self.low
            return None if last >= most else min(most, max(start, 2 * last))
        # The published rule; ``low`` may be 0 after the first failures.
        if self.high - self.low <= 1 or (self.low and self.high / self.low <= 1.01):
            return None
        return (self.low + self.high) // 2

    def learn(self, number: int, recalled: bool, most: int) -> None:
        """The outcome of a try."""
        if recalled:
            self.low, self.failed = number, None
        elif self.high is not None:
            self.high = number
        elif self.failed is not None or number >= most:
            # The first of the two failures: nothing above it was recalled.
            self.high = self.failed or number
        else:
            self.failed = number


def largest(
    recall: Recall,
    trials: int,
    threshold: float,
    start: int,
    most: int,
    report: Callable[[int], None] = lambda tried: None,
) -> list[Bracket]:
    """Bisection in every trial; those that ask for the same number are measured together.

    Args:
        recall: for the numbers of some trials and a number of associations N, the share recalled
            in each.
        threshold: recall from which N counts as stored.
        start: N of the first try.
        most: no more is tried; a bracket whose ``low`` is this was never filled.
        report: called with the number of tries so far.
    """
    brackets = [Bracket() for _ in range(trials)]
    tried = 0
    while True:
        wanted: dict[int, list[int]] = {}
        for trial, bracket in enumerate(brackets):
            number = bracket.next(start, most)
            if number is not None:
                wanted.setdefault(number, []).append(trial)
        if not wanted:
            return brackets
        for number, chosen in wanted.items():
            for trial, share in zip(chosen, recall(chosen, number), strict=True):
                bracket = brackets[trial]
                bracket.tried.append((number, share))
                # For shares such as 99 of 100, which are no exact binary fractions.
                bracket.learn(number, share >= threshold - 1e-9, most)
            tried += 1
            report(tried)
