"""What the curves and matrices of three moons tell, as ``tasks/three_moons/scores.py`` has it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from bench.records.schema import RunRecord
from core.statistics import Interval, mean_of
from leaderboards.checks.points import Fact, Points, inside, points_in, ys

FLOAT32 = 1e-5  # of means over some thousand numbers of float32, in another order
EDGE = 2**-24  # by which float32 rounds the ends of a window
LONGEST = 10**5  # samples: no sequence of the task has so many
MARGIN, PLAUSIBLE = 5, (0.4, 1.2)
DEDICATED = 3  # times the second largest modulus


def facts(record: RunRecord) -> Iterator[Fact]:
    """Windows between the periods of each system, where its error falls to a half, and whether each
    memory has a moon of its own."""
    settings, test = record.config["tasks"], record.metrics["test"]
    length = settings["length"]
    if not 0 < settings["rollout_steps"] < length < LONGEST:
        raise ValueError
    contexts = range(1, length - settings["rollout_steps"], settings["contexts_every"])
    rate = length / max(map(_full_period, settings["systems"])) / 3
    headline: list[float] = []
    for periods in [*settings["test_systems"], *settings["display_systems"]]:
        system = ",".join(f"{period:g}" for period in periods)
        curve, points = f"curves.error/{system}", points_in(record, f"error/{system}")
        first, second, third = sorted(period * rate for period in periods)
        full = _full_period(periods) * rate
        windows = {
            "before_p1": (1, first),
            "p1_to_p2": (first + MARGIN, second),
            "p2_to_p3": (second + MARGIN, third),
            "p3_to_lcm": (third + MARGIN, full),
            "after_lcm": (full + MARGIN, 1.6 * full),
            "before_max_period": (MARGIN, 0.9 * third),
        }
        levels = {name: _level(points, contexts, *ends) for name, ends in windows.items()}
        for name, (low, high) in windows.items():
            by = f"the mean of {curve} from {low:g} to {high:g}"
            yield Fact(f"error_{name}/{system}", levels[name], by, FLOAT32)
        if periods in settings["test_systems"]:
            level = levels["p3_to_lcm"]
            headline.append(math.nan if level is None else level)
        # What follows from numbers of the record follows from just these.
        start, before = (test.get(f"error_before_{end}/{system}") for end in ("p1", "max_period"))
        low, high = PLAUSIBLE
        sound = start is not None and before is not None and low <= start <= high >= before
        yield Fact(f"plausible/{system}", float(sound), f"what its errors of {system} tell")
        yield from _half_error(points, test, system, {"max_period": third, "lcm": full})
    mean = mean_of(headline)
    by = "the mean over test systems of curves.error/… from the longest period to the full one"
    yield Fact("error_after_max_period", None if math.isnan(mean) else mean, by, FLOAT32)
    if "key_extractor" in record.arrays or "disentanglement" in test:
        yield from _disentanglement(record.arrays)


def _level(points: Points, contexts: range, low: float, high: float) -> float | None:
    """The mean of a window; None where it has no point, or has lost one that is not finite."""
    low, high = low * (1 - EDGE), high * (1 + EDGE)
    errors = ys(inside(points, low, high))
    expected = sum(low <= context <= high for context in contexts)
    return mean_of(errors) if errors and len(errors) == expected else None


def _half_error(
    points: Points, test: Mapping[str, float], system: str, units: Mapping[str, float]
) -> Iterator[Fact]:
    """The first context whose error is below half of that before the longest period, also in units
    of periods; nothing where rounding decides whether there is one."""
    before = test.get(f"error_before_max_period/{system}")
    # Not there, it was infinite, and every error is below its half; or it was no number.
    lost = math.inf if f"half_error_context/{system}" in test else -math.inf
    half = lost if before is None else before / 2
    perhaps = _first_below(points, half * (1 + FLOAT32))
    surely = _first_below(points, half * (1 - FLOAT32))
    if (perhaps is None) != (surely is None):
        return
    by = f"the first x at which curves.error/{system} is below half of error_before_max_period"
    for name, unit in (("context", 1.0), *((f"over_{k}", v) for k, v in units.items())):
        context = None
        if perhaps is not None and surely is not None:
            context = Interval(perhaps / unit, surely / unit)
        yield Fact(f"half_error_{name}/{system}", context, f"{by}, {name.replace('_', ' ')},")


def _first_below(points: Points, level: float) -> float | None:
    return next((x for x, y in points if y < level), None)


def _full_period(periods: Sequence[float]) -> float:
    """The least common multiple of periods."""
    fractions = [Fraction(period).limit_denominator(1000) for period in periods]
    numerator = math.lcm(*(fraction.numerator for fraction in fractions))
    return float(Fraction(numerator, math.gcd(*(part.denominator for part in fractions))))


def _disentanglement(arrays: dict[str, Any]) -> Iterator[Fact]:
    keys = arrays["key_extractor"]
    matrices = [keys, arrays["value_extractor"], list(zip(*arrays["output"], strict=True))]
    (moons,) = {len(line) for matrix in matrices for line in (matrix, *matrix)}
    if moons != 3:
        raise ValueError
    best = 0.0
    for order in itertools.permutations(range(moons)):
        shares = []
        for matrix in matrices:
            total = sum(modulus**2 for row in matrix for modulus in row)
            assigned = sum(row[moon] ** 2 for row, moon in zip(matrix, order, strict=True))
            shares.append(assigned / total)
        best = max(best, min(shares))
    yield Fact("disentanglement", best, "the share on one assignment of its matrices", FLOAT32)
    ranked = [sorted(row, reverse=True) for row in keys]
    dedicated = all(row[0] >= DEDICATED * row[1] for row in ranked)
    distinct = len({row.index(max(row)) for row in keys}) == moons
    yield Fact("disentangled", float(dedicated and distinct), "what arrays.key_extractor tells")
