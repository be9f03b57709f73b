"""How large a difference is beside its noise, and how many of many findings may be chance.

Example: 0.87 against 0.53 over three seeds each, with a spread of 0.01, is +0.34 in the unit of the
number and Hedges' g is about 27: in units of the spread over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.statistics import ROUNDING, deviation_of, mean_of

FALSE_DISCOVERIES = 0.05  # the share of false ones among all findings that is allowed


@dataclass(frozen=True)
class Effect:
    """How large what was found is.

    Attributes:
        of: what was subtracted from what: "Memory Mosaic minus GPT2".
        difference: of the means, in the unit of the number.
        unit: the kind of the number: "share", "loss".
        standardised: Hedges' g, see :func:`hedges_g`; None where nothing varies over seeds.
    """

    of: str
    difference: float
    unit: str
    standardised: float | None

    def __str__(self) -> str:
        size = "" if self.standardised is None else f", Hedges' g {self.standardised:+.3g}"
        unit = "" if self.unit == "real" else f" ({self.unit})"
        return f"{self.of} {self.difference:+.3g}{unit}{size}"


def effect_of(of: str, a: Sequence[float], b: Sequence[float], unit: str) -> Effect:
    """The effect of ``a`` minus ``b``, one number for each seed; a single number has no spread."""
    difference, g = mean_of(a) - mean_of(b), hedges_g(a, b)
    return Effect(of, _rounded(difference), unit, None if g is None else _rounded(g))


def _rounded(value: float) -> float:
    """A value without the last digits, in which two machines may differ."""
    return float(f"{value:.6g}")


def hedges_g(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The difference of two means in standard deviations over seeds, pooled over both, without the
    bias of few seeds (Hedges 1981, Journal of Educational Statistics 6, equations 5 and 6d); with a
    single number on one side, in those of the other side. None where there is no spread.

    Seeds differ less than people do, for whom "0.8 is large" was coined: values above 10 are usual.
    """
    freedom = len(a) + len(b) - 2
    squares = math.fsum((len(x) - 1) * deviation_of(x) ** 2 for x in (a, b))
    if freedom < 2 or squares <= ROUNDING**2:
        return None
    # The exact factor; 1 - 3 / (4 freedom - 1) is its usual approximation.
    log = math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2)
    unbiased = math.exp(log) / math.sqrt(freedom / 2)
    return unbiased * (mean_of(a) - mean_of(b)) / math.sqrt(squares / freedom)


def discoveries(ps: Sequence[float | None], share: float = FALSE_DISCOVERIES) -> list[bool]:
    """Which findings stay where at most this share of all that stay may be false, by Benjamini and
    Hochberg (1995, Journal of the Royal Statistical Society B 57). It holds for independent tests
    and for those that depend on each other positively, as tests on the same runs mostly do.

    Args:
        ps: the p-value of every question that was asked; None where it was not decided, which
            counts as a question all the same. With decided ones alone nothing would be corrected.
    """
    from scipy.stats import false_discovery_control  # a second that not every reader needs

    if not ps:
        return []
    adjusted = false_discovery_control([1.0 if p is None else p for p in ps])
    return [p is not None and bool(q <= share) for p, q in zip(ps, adjusted, strict=True)]
