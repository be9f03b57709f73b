"""How a number grows with a size: a slope for each draw, over runs of several sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import linear_regression

from bench.records.schema import RunRecord
from reproduce.claims.grammar import Records, Rule, Runs, each, measured, once, within
from reproduce.claims.trials import drawn, finished, over_trials

Draw = dict[float, float]
Rows = Iterable[tuple[float, Sequence[float | None]]]


@dataclass(frozen=True)
class Growth:
    """A number N of some runs at several sizes; each trial of each seed is a draw by itself.

    Attributes:
        read: of a run the sizes that it has, and N of each trial there; None where a trial has no
            number, as where N may be larger.
        axis: what the size is, in words.
        exponential: log₂ N goes with the size itself, else log N with its logarithm.
    """

    runs: Runs
    read: Callable[[RunRecord], Rows]
    axis: str
    exponential: bool = False

    def draws(self, records: Records) -> list[Draw]:
        """N by size of each draw that has a number above 0 at every size."""
        draw_by_trial: dict[tuple[int, int], Draw] = {}
        sizes = set()
        for run in finished(list(filter(self.runs.has, records))):
            for size, row in self.read(run):
                sizes.add(size)
                for trial, number in enumerate(row):
                    if number:
                        draw_by_trial.setdefault((run.seed, trial), {})[size] = number
        return [draw for _, draw in sorted(draw_by_trial.items()) if {*draw} == sizes]

    def by_size(self, records: Records) -> dict[float, list[float]]:
        """N of every draw, the smallest size first, as a figure shows them."""
        numbers: dict[float, list[float]] = {}
        for draw in self.draws(records):
            for size in sorted(draw):
                numbers.setdefault(size, []).append(draw[size])
        return numbers

    def slope(self, draw: Draw) -> float:
        """Slope of a line through log N over log size, or through log₂ N over size, of one draw."""
        sizes = [size if self.exponential else math.log2(size) for size in draw]
        return linear_regression(sizes, [math.log2(number) for number in draw.values()]).slope

    def between(self, low: float, high: float) -> Rule:
        """The mean slope over draws lies between two numbers."""
        slope = "log₂ N on" if self.exponential else "log N on log"
        label = f"slope of {slope} {self.axis}, {self.runs.label}"
        return self.within(label, self.slope, low, high)

    def within(
        self, label: str, of: Callable[[Draw], float], low: float, high: float = math.inf
    ) -> Rule:
        """The mean over draws of what a function makes of each lies between two numbers."""

        def rules(records: Records) -> list[Rule]:
            return [within(drawn(label, list(map(of, self.draws(records)))), low, high)]

        ends = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        text = f"{label}, is {ends} with its whole 95 % interval over draws"
        runs_of = lambda records: list(filter(self.runs.has, records))  # noqa: E731
        rule = over_trials(each(rules, text), runs_of, f"{self.runs.label} of every size")
        return once(measured(self.runs, self.runs.label, "laptop"), rule)
