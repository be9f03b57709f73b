"""Which seeds of a row are there. Whoever runs many seeds and shows the best of them shows honest
records: only the seeds that are left out tell of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

MOST_RANGES = 8  # of numbers that are listed


def missing_seeds(runs: Iterable[tuple[int, int]]) -> str:
    """Which of the first seeds a row lacks, in a clause; "" if it has the first ones of each kind.

    A sweep numbers its final runs from seed 0; those of further data seeds have training seeds of
    their own, which follow on. Figures take seed 0 for each data seed. Both are the first ones.

    Args:
        runs: data seed and seed of each run.

    Example: ``missing_seeds([(0, 1), (0, 3)])`` is "seeds 0–3 of which 0, 2 are missing".
    """
    seeds_by_data_seed: dict[int, set[int]] = defaultdict(set)
    for data_seed, seed in runs:
        seeds_by_data_seed[data_seed].add(seed)
    if not seeds_by_data_seed:
        return ""
    clauses = [_of_which("data seed", 0, set(seeds_by_data_seed))]
    step = max(map(len, seeds_by_data_seed.values()))
    for data_seed, seeds in sorted(seeds_by_data_seed.items()):
        starts = {start for start in (0, data_seed * step) if start <= min(seeds)}
        clause = _of_which("seed", max(starts), seeds)  # from there on the fewest are missing
        if clause and len(seeds_by_data_seed) > 1:
            clause = f"of data seed {data_seed} {clause}"
        clauses.append(clause)
    return "; ".join(filter(None, clauses))


def _of_which(name: str, start: int, numbers: set[int]) -> str:
    """Which numbers from ``start`` to the largest of some are none of these."""
    missing = gaps(start, sorted(numbers))
    if not missing:
        return ""
    lacking = sum(last - first + 1 for first, last in missing)
    listed = in_ranges(missing)
    verb = "are" if lacking > 1 else "is"
    return f"{name}s {start}–{max(numbers)} of which {listed} {verb} missing"


def gaps(start: int, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last number of each stretch, from ``start`` on, that sorted numbers leave out."""
    stretches = []
    expected = start
    for number in numbers:
        if number > expected:
            stretches.append((expected, number - 1))
        expected = max(expected, number + 1)
    return stretches


def in_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """Stretches of numbers in words: "0–2, 5"."""
    parts = []
    for first, last in ranges[:MOST_RANGES]:
        if last > first + 1:
            parts.append(f"{first}–{last}")
        else:
            parts += [str(number) for number in range(first, last + 1)]
    more = len(ranges) - MOST_RANGES
    return ", ".join(parts) + (f" and {more} stretches more" if more > 0 else "")
