"""The exponent of a power law, from points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def slope(
    x: Sequence[float], y: Sequence[float], low: float = 0.0, high: float = math.inf
) -> float | None:
    """Least squares of log y on log x over low ≤ x ≤ high, without points where y is 0; None where
    fewer than two are left."""
    # A mean error of 0 has no logarithm: trials too few to see one.
    points = [(a, b) for a, b in zip(x, y, strict=True) if low <= a <= high and b > 0]
    if len(points) < 2:
        return None
    logs = np.log(points)
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
