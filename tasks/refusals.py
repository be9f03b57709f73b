"""What measurements refuse alike: lists that hold no usable numbers, models of another shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from tasks.measurement import Build, Refused


def check_whole_numbers(name: str, values: Sequence[Any], least: int = 1) -> None:
    """Raises:
    ValueError: ``values`` is empty or holds something else than whole numbers from ``least`` on.
    """
    if not values or not all(type(value) is int and value >= least for value in values):
        raise ValueError(
            f"tasks.{name} is {list(values)}, expected one or more whole numbers from {least} on"
        )


def check_numbers(name: str, values: Sequence[Any], above: float, below: float = math.inf) -> None:
    """Raises:
    ValueError: ``values`` is empty or holds something else than numbers between the two bounds,
        neither included.
    """
    if not values or not all(type(v) in (int, float) and above < v < below for v in values):
        span = f"above {above:g}" if below == math.inf else f"between {above:g} and {below:g}"
        raise ValueError(f"tasks.{name} is {list(values)}, expected one or more numbers {span}")


def fitting_model(
    build: Build, *sizes: Any, seed: int = 0, offers: Sequence[str] = (), choose: str
) -> nn.Module:
    """The configured model, if it is of the shape that a protocol is about.

    Args:
        sizes: positional arguments of its constructor.
        offers: attributes that the protocol needs.
        choose: for the refusal, which models have this shape, such as "bigram_probes reads three
            matrices: choose models=two_layer_attention".

    Raises:
        Refused: its constructor takes other arguments, it lacks an attribute, or it refuses its
            own settings.
    """
    try:
        model = build(*sizes, seed=seed)
    except (Refused, TypeError) as error:
        if any(isinstance(cause, TypeError) for cause in _causes(error)):
            raise Refused(choose) from error
        raise
    if not all(hasattr(model, name) for name in offers):
        raise Refused(choose)
    return model


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
