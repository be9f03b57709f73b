"""At which level a verdict still stands: every test here is one at a level, so it has a p-value."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context

from core.statistics import LEVEL
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, Finding, at_levels

SMALLEST = 1e-6  # smaller p-values are not told apart: no correction here needs it
PRECISION = 0.02  # to which a p-value is found
ROUNDED_UP = Context(prec=2, rounding=ROUND_CEILING)


def smallest_p(finding: Finding, test: Callable[[float], Finding]) -> float | None:
    """The smallest share of error at which a test still decides as it did, rounded up and no
    smaller than ``SMALLEST``.

    Args:
        finding: of the test at ``LEVEL``.
        test: at a level.

    Returns:
        0 where no chance enters, so that the verdict stands at any level; None where nothing is
        decided.
    """
    if finding.verdict not in (REPRODUCED, CONTRADICTED):
        return None
    decide = at_levels(finding, LEVEL, test)
    if decide(1.0) == finding.verdict:
        return 0.0
    low, high = SMALLEST, 1 - LEVEL
    if decide(1 - low) == finding.verdict:
        return low
    while high > low * (1 + PRECISION):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if decide(1 - middle) == finding.verdict else (middle, high)
    return min(float(ROUNDED_UP.create_decimal_from_float(high)), round(1 - LEVEL, 9))
