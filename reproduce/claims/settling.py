"""How many seeds would settle what was not decided."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.statistics import (
    ROUNDING,
    Items,
    Part,
    deviation_of,
    over_seeds_and_items,
    parts_of_difference,
    seeds_needed,
)
from reproduce.claims.observations import Sample


def more_seeds(
    samples: Sequence[Sample],
    value: float,
    edges: Sequence[float],
    level: float,
    fixed: Sequence[Part],
) -> int | None:
    """Seeds that settle how a value lies to ``edges``: more than there are, which have not."""
    if any(sample.data_seeds for sample in samples):  # it would be a number of data seeds
        return None
    varying = [sample for sample in samples if not sample.deterministic]
    deviations = [deviation_of(sample.values) for sample in varying]
    if max(deviations, default=0.0) <= ROUNDING:  # equal seeds: more of them may well be equal too
        return None
    gap, *others = sorted(abs(value - edge) for edge in edges)
    between = others and min(edges) < value < max(edges)
    opposite = others[0] if between else math.inf
    needed = seeds_needed(*deviations, gap=gap, level=level, fixed=fixed, opposite=opposite)
    return None if needed is None else max(needed, counted(*samples) + 1)


def fixed_parts(parts: Sequence[Part], seeds: int = 1) -> list[Part]:
    """What more seeds make no smaller: test items, without the chance that each seed meets anew."""
    over_items = parts[seeds:]
    total = math.fsum(variance for variance, _ in over_items)
    return [(total, over_items[0][1])] if total > 0 else []


def fixed_of_difference(a: Sample, b: Sample, together: Items | None) -> list[Part]:
    """The same of a difference; ``together`` as for :func:`.verdicts.difference_within`."""
    if together is not None:
        parts = parts_of_difference(a.values, b.values, a.kind, (None, None), together)
        return fixed_parts(parts, 2)
    parts = []
    for sample in (a, b):
        if not sample.deterministic:
            of_sample = over_seeds_and_items(sample.values, sample.kind, sample.items)
            parts += fixed_parts(of_sample)
    return parts


def counted(*samples: Sample) -> int:
    """Seeds of the sample that has fewest; 1 where no seed enters."""
    counts = [len(sample.observations) for sample in samples if not sample.deterministic]
    return min(counts, default=1)
