"""What the words of a claim refuse when they are put together."""

from __future__ import annotations

import math
from numbers import Real

from core.arguments import described
from core.errors import UserError


def no_quantity(what: object) -> UserError:
    """That something is judged which is no number of runs."""
    return UserError(
        "a rule is about a number of runs, such as accuracy.of(runs) with "
        f"accuracy = Number('accuracy', 'accuracy'), and not {described(what)}; "
        "within(accuracy.of(runs), low=0.5) compares it with a limit"
    )


def limits(**numbers: float) -> dict[str, float]:
    """The finite ones of the limits of a rule, by name.

    Raises:
        UserError: one is no number, none is finite, or the lower one is above the upper one.
    """
    for name, value in numbers.items():
        if not isinstance(value, Real) or isinstance(value, bool) or math.isnan(value):
            raise UserError(f"{name} is a number, and not {described(value)}")
    finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
    if not finite:
        raise UserError(f"a rule without a limit says nothing: give {' or '.join(numbers)}")
    if numbers.get("low", -math.inf) > numbers.get("high", math.inf):
        low, high = numbers["low"], numbers["high"]
        raise UserError(f"low={low:g} is above high={high:g}: nothing lies between them")
    return finite
