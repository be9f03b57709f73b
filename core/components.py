"""What a mean varies by: data seeds, training seeds within them, test items, and chance.

A number is a mean over data seeds of means over training seeds of means over test items. Each level
adds its part to the variance of what is printed, and only more of that level makes it smaller::

    components([table])  # one data seed: a table of training seeds by test items
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

from core.statistics import deviation_of, mean_of

Table = Sequence[Sequence[float]]  # training seeds by test items


class Components(NamedTuple):
    """Parts of the variance of a printed mean.

    Attributes:
        data: between data seeds; None where there is one.
        training: between training seeds.
        items: between test items, which all training seeds of a data seed have met.
        chance: of each training seed on each item: more of either makes it smaller.
    """

    data: float | None
    training: float
    items: float
    chance: float

    @property
    def total(self) -> float:
        """The variance, as far as it is known."""
        return (self.data or 0.0) + self.training + self.items + self.chance

    @property
    def share_of_items(self) -> float:
        """The share of the variance that is due to test items, with all of the chance that more of
        them would make smaller."""
        return (self.items + self.chance) / self.total if self.total else 0.0


def components(tables: Sequence[Table]) -> Components:
    """By the method of moments of the nested analysis of variance (Searle, Casella and McCulloch
    1992, Variance Components, chapter 4); a part that comes out below zero is zero.

    Args:
        tables: one for each data seed, of two training seeds and two test items at least.
    """
    parts = (mean_of(column) / len(tables) for column in zip(*map(_within, tables), strict=True))
    training, items, chance = (max(0.0, part) for part in parts)
    data = None
    if len(tables) > 1:
        spread = deviation_of([mean_of([*map(mean_of, table)]) for table in tables])
        data = max(0.0, spread**2 / len(tables) - training - items - chance)
    return Components(data, training, items, chance)


def _within(table: Table) -> tuple[float, float, float]:
    seeds = len(table)
    columns = [total / seeds for total in map(fsum, zip(*table, strict=True))]
    chance = residual_of(table)
    of_seeds = deviation_of([*map(mean_of, table)]) ** 2 / len(table)
    of_items = deviation_of(columns) ** 2 / len(columns)
    return of_seeds - chance, of_items - chance, chance


def residual_of(table: Table) -> float:
    """The variance of the mean that comes from chance in each seed and item: what is left of the
    table of seeds by items without the means of both."""
    seeds = len(table)
    items = [total / seeds for total in map(fsum, zip(*table, strict=True))]
    count = len(items)
    if seeds < 2 or count < 2:
        return 0.0
    centre = mean_of(items)
    squares = 0.0
    for row in table:
        of_seed = mean_of(row) - centre
        squares += sum((x - of_seed - item) ** 2 for x, item in zip(row, items, strict=True))
    return squares / ((seeds - 1) * (count - 1)) / (seeds * count)
