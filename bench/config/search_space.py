"""What a search space may hold, and how a sweep widens its own grid.

A best setting on an edge asks for the value beyond it. Example: of the learning
rates [2e-3, 6e-3] the best is 6e-3, so 1.8e-2 is tried as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from bench.config.sections import TrainingSettings
from core.errors import UserError, nearest

Space = Mapping[str, Sequence[Any]]
GEOMETRIC = 0.25  # each step of a grid is so near its mean step, as a share, in logarithms


def check_space(space: Space) -> None:
    """Refuse keys that cannot be searched, and values that are no list of different plain ones.

    Raises:
        UserError: which, and how it is written.
    """
    training = [f"training.{name}" for name in TrainingSettings.model_fields]
    for key, values in space.items():
        if not key.startswith("models.") and key not in training:
            raise UserError(
                f"the search space has the key '{key}', but it may hold models.KEY and "
                f"training.KEY only: {nearest(key, training)}"
            )
        for value in values:
            parts = value.split() if isinstance(value, str) else []
            if len(parts) > 1 and all(map(_is_number, parts)):
                raise UserError(
                    f"the search space gives {key} the one value {value!r}: a comma separates the "
                    f"values of a list, {key}:[{','.join(parts)}]"
                )
        plain = all(v is None or isinstance(v, str | int | float) for v in values)
        if not values or not plain or len({json.dumps(v) for v in values}) < len(values):
            raise UserError(
                f"the search space gives {key} the values {values!r}, but it needs a list of "
                "different numbers, words, true, false or null"
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def reach_of(space: Space, most: int) -> dict[str, list[Any]]:
    """Each key that can be widened -> its values in order, with ``most`` more on each side: two or
    more positive numbers of about equal ratios. They go on by their mean ratio, rounded to two
    significant digits, or to whole numbers where all are whole."""
    values_by_key = {}
    for key, values in space.items():
        if not most or not _is_geometric(values):
            continue
        low, high = min(values), max(values)
        step = math.log(high / low) / (len(values) - 1)
        are_whole = all(type(value) is int for value in values)
        in_order = {*values}
        for number in range(1, most + 1):
            for value in (low * math.exp(-number * step), high * math.exp(number * step)):
                new = round(value) if are_whole else float(f"{value:.1e}")
                if new > 0 and not low <= new <= high:
                    in_order.add(new)
        values_by_key[key] = sorted(in_order)
    return values_by_key


def _is_geometric(values: Sequence[Any]) -> bool:
    """Whether values are two or more positive numbers of about equal ratios."""
    if len(values) < 2 or not all(type(v) in (int, float) and v > 0 for v in values):
        return False
    step = math.log(max(values) / min(values)) / (len(values) - 1)
    for smaller, larger in pairwise(sorted(values)):
        if abs(math.log(larger / smaller) / step - 1) > GEOMETRIC:
            return False
    return True


def widened(space: Space, reach: Space, best: Iterable[Mapping[str, Any]]) -> Space:
    """``space`` with the next value of ``reach`` beside every edge on which one of the ``best``
    settings lies; equal to ``space`` where all lie inside, or the reach has no more."""
    settings, wider = list(best), dict(space)
    for key, values in reach.items():
        low, high = values.index(min(space[key])), values.index(max(space[key]))
        chosen = [setting[key] for setting in settings if key in setting]
        first = max(low - (values[low] in chosen), 0)
        wider[key] = values[first : high + (values[high] in chosen) + 1]
    return wider
