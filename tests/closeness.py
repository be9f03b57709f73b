"""How near two computations of the same numbers have to be.

A tolerance that was found by trying holds on the processor where it was tried. Another one adds
the same products in another order, with or without fused multiply-adds, and rounds otherwise. What
holds everywhere follows from the type, the length of the sums and the size of what is added: a sum
of n products is off by at most n u Σ|x y|, with u = eps / 2 the rounding unit, whatever the order
(Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). Rounding errors are
rarely all of one sign, so λ √n u Σ|x y| holds too, but for a chance of 2 exp(-λ² / 2) for each
operation (Higham and Mary 2019, SIAM J. Sci. Comput. 41, A2815); λ = 8 makes that 3e-14. The
errors of both sides add up, which makes u into eps.

So the allowed error is absolute, and the same for all elements of a tensor: one that is small
because large numbers cancelled in it is as uncertain as they were.
"""

from collections.abc import Mapping
from numbers import Number
from typing import Any

import torch
from torch import Tensor

LAMBDA = 8.0


def rounding(
    largest: float, dtype: torch.dtype, *, terms: int = 1, condition: float = 1.0
) -> float:
    """By how much two computations of numbers as large as ``largest`` may differ.

    Args:
        largest: magnitude of the numbers that are added up.
        dtype: the type of the computation; of the two, the one of fewer digits.
        terms: lengths of the sums between inputs and outputs, one after the other, added up.
        condition: by how much the computation stretches a relative error on the way, as does
            ``exp(b x)`` by b |x|, or a division by a difference of near numbers.
    """
    return LAMBDA * torch.finfo(dtype).eps * terms**0.5 * condition * largest


def assert_near(
    actual: Any,
    expected: Any,
    *,
    terms: int = 1,
    condition: float = 1.0,
    dtype: torch.dtype | None = None,
    largest: float | Mapping[str, float] | None = None,
    name: str = "",
) -> None:
    """Equal up to ``rounding``; tensors, arrays, numbers, or nested mappings and sequences of them.

    Args:
        dtype: the type of the computation where it is not that of both sides: where the truth has
            more digits, or where numbers came out as Python's.
        largest: magnitude of what is added; by default the largest expected value of each tensor.
            Give it where nothing but a remainder, or 0, is left of large numbers; of a mapping, one
            for all of it or one for each key.
    """
    options: dict[str, Any] = {"terms": terms, "condition": condition, "dtype": dtype}
    if isinstance(expected, Mapping):
        assert actual.keys() == expected.keys(), name
        for key, value in expected.items():
            size = largest[key] if isinstance(largest, Mapping) else largest
            assert_near(actual[key], value, name=f"{name}[{key!r}]", largest=size, **options)
        return
    if isinstance(largest, Mapping):
        raise TypeError(f"sizes by name, where {type(expected).__name__} has no names")
    options["largest"] = largest
    if isinstance(expected, tuple | list) and not all(isinstance(x, Number) for x in expected):
        assert len(actual) == len(expected), name
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_near(one, other, name=f"{name}[{index}]", **options)
    elif expected is None:
        assert actual is None, name
    else:
        _tensors_near(_tensor(actual), _tensor(expected), name=name, **options)


def _tensor(value: Any) -> Tensor:
    """Python's numbers are float64, which torch would make float32."""
    if isinstance(value, Number | tuple | list) and not isinstance(value, complex):
        return torch.tensor(value, dtype=torch.float64)
    return torch.as_tensor(value).detach()


def _tensors_near(
    actual: Tensor,
    expected: Tensor,
    *,
    terms: int,
    condition: float,
    dtype: torch.dtype | None,
    largest: float | None,
    name: str,
) -> None:
    assert actual.shape == expected.shape, f"{name}: {actual.shape} is not {expected.shape}"
    if dtype is None:
        assert actual.dtype == expected.dtype, f"{name}: {actual.dtype} is not {expected.dtype}"
        dtype = expected.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        assert torch.equal(actual, expected), f"{name}: whole numbers differ"
        return
    wide = torch.complex128 if actual.is_complex() else torch.float64
    actual, expected = actual.to(wide), expected.to(wide)
    if not expected.numel():
        return
    assert expected.isfinite().all(), f"{name}: an expected value is not finite"
    size = float(expected.abs().max()) if largest is None else largest
    allowed = rounding(size, dtype, terms=terms, condition=condition)
    difference = (actual - expected).abs()
    worst = int(difference.nan_to_num(torch.inf).argmax())
    _judge(
        float(difference.flatten()[worst]),
        allowed,
        f"{name}: {actual.flatten()[worst].item()!r} is not {expected.flatten()[worst].item()!r} "
        f"(element {worst} of {expected.numel()}, largest {size:.3g}): "
        f"off by {float(difference.flatten()[worst]):.3g}, where {dtype} allows {allowed:.3g}",
    )


def _judge(difference: float, allowed: float, sentence: str) -> None:
    assert difference <= allowed, sentence  # false for NaN
