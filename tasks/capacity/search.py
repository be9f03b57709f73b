"""The largest number of associations that a memory recalls, for several trials at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Recall = Callable[[list[int], int], Sequence[float]]


@dataclass
class Bracket:
    """Of one trial: ``low`` associations are recalled, ``high`` are not (None: not yet found)."""

    low: int = 0
    high: int | None = None
    tried: list[tuple[int, float]] = field(default_factory=list)

    def next(self, start: int, most: int) -> int | None:
        """How many to try next; None when the search is over.

        It doubles until it fails, then halves the bracket, until that is within 1 % or of length 1
        (the published rule).
        """
        if self.high is None:
            if self.low >= most:
                return None
            return min(most, max(start, 2 * self.low))
        if self.high - self.low <= 1 or (self.low and self.high / self.low <= 1.01):
            return None
        return (self.low + self.high) // 2


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
                if share >= threshold - 1e-9:
                    bracket.low = number
                else:
                    bracket.high = number
            tried += 1
            report(tried)
