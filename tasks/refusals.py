"""What measurements refuse alike: lists that hold no usable numbers, models of another shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from tasks.measurement import Build, Refused

LARGEST = torch.finfo(torch.float32).max


def check_whole_numbers(name: str, values: Sequence[Any], least: int = 1) -> None:
    """Raises:
    ValueError: ``values`` is empty or holds something else than whole numbers from ``least`` on.
    """
    if not values or not all(type(value) is int and value >= least for value in values):
        raise ValueError(
            f"tasks.{name} is {list(values)}, expected one or more whole numbers from {least} on"
        )


def check_number(name: str, value: float, above: float, below: float = LARGEST) -> None:
    """Raises:
    ValueError: ``value`` does not lie between the two bounds, neither included.
    """
    if not above < value < below:
        raise ValueError(f"tasks.{name} is {value:g}, expected a number {_span(above, below)}")


def check_numbers(name: str, values: Sequence[Any], above: float, below: float = LARGEST) -> None:
    """Raises:
    ValueError: ``values`` is empty or holds something else than numbers between the two bounds,
        neither included.
    """
    if not values or not all(type(v) in (int, float) and above < v < below for v in values):
        span = _span(above, below)
        raise ValueError(f"tasks.{name} is {list(values)}, expected one or more numbers {span}")


def _span(above: float, below: float) -> str:
    ends = f"{above:g} and {below:g}"
    return f"above {above:g} that float32 can hold" if below == LARGEST else f"between {ends}"


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
        # Only where the constructor takes other arguments is it the wrong kind of model; a refusal
        # with a reason of its own goes on as it is.
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
