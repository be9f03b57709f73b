"""What a curve of error against context length says about one system of moons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import torch
from torch import Tensor

MARGIN = 5
"""Samples that a window keeps away from the period it follows (protocol of section 5)."""

PLAUSIBLE = (0.4, 1.2)
"""Range of the error before any moon is known, for a predictor that at least repeats what it saw; a
rollout that diverges leaves it upwards."""


def score_curve(
    errors: Tensor, contexts: Tensor, periods: list[float], full: float
) -> dict[str, float]:
    """Scalars of one system.

    Args:
        errors: (contexts, moons), mean absolute deviation of the rollout for each moon.
        contexts: context lengths n, in samples.
        periods: p_1 … p_m in samples, in the order of the moons.
        full: least common multiple of the periods, in samples.

    Returns:
        Only what is defined: windows without any context, levels never reached and numbers that
        are not finite are left out.

        ``error_before_p1`` … ``error_after_lcm``: mean error for n < p_1, then from p_i + 5 to the
        next period, then from lcm + 5 to 1.6 lcm. The window after the longest period and before
        the lcm is the disentanglement score.

        ``error_before_max_period``: for n from 5 to 0.9 max(p).

        ``plausible``: 1 if the error before p_1 lies in [0.4, 1.2] and that before max(p) is at
        most 1.2, else 0. A diverged rollout can pass the next tests by accident, but not this one.

        ``half_error_context``: the first n with an error below half of
        ``error_before_max_period``, also divided by max(p) and by the lcm. Where the fast moons
        make up more than half of the error, it falls before the slowest moon is known, even for a
        perfect predictor.

        ``slowest_moon_half_error_context``: the same with the error of the slowest moon alone.

        ``every_moon_half_error_context``: the first n at which the error of each moon is below half
        of its own level for n from 5 to 0.9 of its own period. A network that has a memory for the
        slowest moon, but shares one between the others, passes the former and not this one.
    """
    n = contexts.to(errors.dtype)
    error = errors.mean(dim=1)
    # Windows lie between the sorted periods, whatever the order of the moons.
    ordered = sorted(periods)
    slowest = ordered[-1]

    def level(values: Tensor, low: float, high: float) -> float:
        return float(values[(n >= low) & (n <= high)].mean())

    scores = {"error_before_p1": level(error, 1, ordered[0])}
    for index, (period, following) in enumerate(itertools.pairwise([*ordered, full]), start=1):
        end = "lcm" if index == len(ordered) else f"p{index + 1}"
        scores[f"error_p{index}_to_{end}"] = level(error, period + MARGIN, following)
    scores["error_after_lcm"] = level(error, full + MARGIN, 1.6 * full)

    before = level(error, MARGIN, 0.9 * slowest)
    scores["error_before_max_period"] = before
    low, high = PLAUSIBLE
    scores["plausible"] = float(low <= scores["error_before_p1"] <= high and before <= high)
    # Each moon against its own level while it cannot be known: up to 0.9 of its own period.
    levels = [level(errors[:, moon], MARGIN, 0.9 * period) for moon, period in enumerate(periods)]
    fall = errors / errors.new_tensor(levels)
    ratios = {
        "half_error": error / before,
        "slowest_moon_half_error": fall[:, periods.index(slowest)],
        # The moon that falls last decides.
        "every_moon_half_error": fall.amax(dim=1),
    }
    for name, ratio in ratios.items():
        reached = n[ratio < 0.5]
        if len(reached):
            first = float(reached[0])
            scores[f"{name}_context"] = first
            scores[f"{name}_over_max_period"] = first / slowest
            scores[f"{name}_over_lcm"] = first / full
    return finite(scores)


def disentanglement(moduli: Mapping[str, Tensor]) -> dict[str, float]:
    """How far the three matrices dedicate one memory dimension to each moon (figure 10).

    Args:
        moduli: "key_extractor", "value_extractor" (memories × moons) and "output" (moons ×
            memories).

    Returns:
        ``disentanglement``: the largest share, over one assignment of moons to memories, of the
        squared moduli that lie on it, in the worst of the three matrices; 1 is complete, 1/3 is
        chance for three moons.

        ``disentangled``: 1 if every row of the key extractor has a modulus at least three times its
        second largest, each in another column, else 0.
    """
    keys = moduli["key_extractor"]
    matrices = [keys, moduli["value_extractor"], moduli["output"].T]
    rows = torch.arange(len(keys), device=keys.device)
    shares = [
        # The worst of the three matrices: a moon needs a key, a value and an output of its own.
        min(float(m[rows, list(order)].square().sum() / m.square().sum()) for m in matrices)
        for order in itertools.permutations(range(len(keys)))
    ]
    # One memory, one moon: the first modulus of a row must be three times its second.
    ranked = keys.sort(dim=1, descending=True).values
    dedicated = bool((ranked[:, 0] >= 3 * ranked[:, 1]).all())
    distinct = len(set(keys.argmax(dim=1).tolist())) == len(keys)
    return finite({"disentanglement": max(shares), "disentangled": float(dedicated and distinct)})


def finite(numbers: Mapping[str, float]) -> dict[str, float]:
    """The entries that are finite: JSON knows no others, and an empty window has no mean."""
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def finite_curve(contexts: Tensor, errors: Tensor) -> dict[str, list[float]]:
    """The points (contexts,) of a curve whose error is finite, ready for JSON."""
    is_finite = errors.isfinite()
    return {"x": contexts[is_finite].double().tolist(), "y": errors[is_finite].tolist()}
