"""Whether two states of the code compute the same numbers up to rounding.

In float64 the difference of the two must stay below a bound that follows from the type, the sizes
of the numbers, the lengths of the sums, and how a training lets a rounding error grow. A sum of n
terms in another order is that of terms each of which is off by at most n units in the last place
(Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2). What one unit in the
last place of every weight does to a number, after so many steps, is measured with the older code.
So the bound is n (ε size + that growth).

A changed constant, or another ε of a norm, changes outputs by 1e-10 of their size at the very
least; the bound is near 1e-12 of it.

In float32 that would say nothing after some steps, where rounding errors have grown. There the
difference is held against what other last bits of all weights do to the older code's training: a
newer form that is less stable differs by more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.training.saved_tensors import same_numbers

FACTOR = 4.0  # times the growth of other last bits, in float32
Numbers = Mapping[str, Mapping[str, Tensor]]  # kind -> name -> tensor


@dataclass(frozen=True)
class TrainingDifference:
    """How far two trainings are apart.

    Attributes:
        shares: kind -> the largest difference, as a share of what float64 allows, or in growths of
            last bits in float32.
        refusal: the first that is larger than allowed, in a clause; "" if none is.
    """

    shares: dict[str, float]
    refusal: str


def first_inexact(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """What must be the same bit for bit and is not, in a clause; "" if all is."""
    for place, value in old.items():
        if new.get(place) != value:
            verb = "is" if place.startswith("the batch") else "are"
            return f"{place} {verb} not the same, bit for bit"
    return ""


def compare_in_float64(
    old: Numbers, new: Numbers, changed_bits: Sequence[Numbers], longest_sum: int
) -> TrainingDifference:
    """Hold two trainings in float64 against the bound.

    Args:
        changed_bits: trainings of the older code with other last bits of all weights.
        longest_sum: terms of the longest sum in a step.
    """
    epsilon = torch.finfo(torch.float64).eps
    shares: dict[str, float] = {}
    refusal = ""
    for kind, tensors in old.items():
        size = max((_largest(tensor) for tensor in tensors.values()), default=0.0)
        shares[kind] = 0.0
        for name, tensor in tensors.items():
            growth = max(_largest(_difference(tensor, other[kind][name])) for other in changed_bits)
            own_size = _largest(tensor) if kind == "evaluation" else size
            bound = longest_sum * (epsilon * own_size + growth)
            if kind == "evaluation":  # protocols may keep numbers in float32
                bound += 4 * torch.finfo(torch.float32).eps * own_size
            difference = _largest(_difference(tensor, new[kind][name]))
            share = _ratio(difference, bound)
            shares[kind] = max(shares[kind], share)
            if share > 1 and not refusal:
                refusal = (
                    f"in float64 {_called(kind, name)} differ by {difference:.2g}, and rounding "
                    f"explains {bound:.2g}"
                )
    return TrainingDifference(shares, refusal)


def compare_in_float32(
    old: Numbers, new: Numbers, changed_bits: Sequence[Numbers]
) -> TrainingDifference:
    """Hold two trainings in float32 against those of the older code with other last bits."""
    epsilon = torch.finfo(torch.float32).eps
    shares: dict[str, float] = {}
    refusal = ""
    for kind, name, tensor in _each(old):
        difference = _so_far(kind, _difference(tensor, new[kind][name]))
        growths = [_so_far(kind, _difference(tensor, other[kind][name])) for other in changed_bits]
        rounding = epsilon * _so_far(kind, _flat(tensor))
        growth = torch.stack(growths).amax(0) + rounding
        ratios = torch.where(difference > 0, difference / growth.clamp(min=1e-300), 0.0)
        share = float(ratios.amax()) if ratios.numel() else 0.0
        shares[kind] = max(shares.get(kind, 0.0), share)
        if not share <= FACTOR and not refusal:
            refusal = (
                f"in float32 {_called(kind, name)} differ {share:.1f} times as much as other last "
                f"bits of the weights make them differ, and {FACTOR:g} times is allowed"
            )
    return TrainingDifference(shares, refusal)


def _each(numbers: Numbers) -> Iterator[tuple[str, str, Tensor]]:
    for kind, tensors in numbers.items():
        for name, tensor in tensors.items():
            yield kind, name, tensor


def _so_far(kind: str, difference: Tensor) -> Tensor:
    """The size of a difference; of a curve over steps the largest up to each step."""
    if kind == "losses":
        return difference.abs().cummax(0).values
    return difference.norm().reshape(1)


def _flat(tensor: Tensor) -> Tensor:
    real: Any = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat: Tensor = real.detach().flatten().double()
    return flat


def _difference(tensor: Tensor, other: Tensor) -> Tensor:
    """The difference of two tensors, 0 where both are no number or equally infinite."""
    first, second = _flat(tensor), _flat(other)
    difference = torch.where(same_numbers(first, second), 0.0, first - second)
    return torch.where(difference.isnan(), torch.inf, difference)


def _largest(tensor: Tensor) -> float:
    values = _flat(tensor).abs()
    values = values[~values.isnan()]
    return float(values.amax()) if values.numel() else 0.0


def _ratio(difference: float, bound: float) -> float:
    if not difference:
        return 0.0
    return difference / bound if bound else float("inf")


def _called(kind: str, name: str) -> str:
    return kind if name in ("outputs", "training loss") else f"{kind} ({name})"
