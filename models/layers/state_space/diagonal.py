"""Diagonal linear recurrences without a loop over time: their first frequencies, impulse responses,
convolutions and last states.

A power x^t with t = i·chunk + j is a product of two from short lists of powers, which leaves
2 √length exponentials instead of length, and a matrix product.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

INITIALISATIONS = ("inverse", "linear")


def diagonal_frequencies(state: int, initialisation: str) -> Tensor:
    """Imaginary parts of the initial A, (state/2,): one of each conjugate pair.

    "inverse" (S4D-Inv, equation 9): N/π (N/(2n+1) − 1). "linear" (S4D-Lin, equation 10): π n.
    """
    if state < 2 or state % 2:
        raise ValueError(f"state counts conjugate pairs twice, got {state}; make it even and >= 2")
    index = torch.arange(state // 2, dtype=torch.get_default_dtype())
    if initialisation == "inverse":
        # N/(2n+1) − 1 as one fraction: for the last n it is 1/(N−1), a difference of near numbers.
        return state / math.pi * (state - 2 * index - 1) / (2 * index + 1)
    if initialisation == "linear":
        return math.pi * index
    raise ValueError(
        f"unknown initialisation {initialisation!r} of the state matrix; use one of "
        f"{', '.join(INITIALISATIONS)}"
    )


def causal_convolution(inputs: Tensor, kernel: Tensor) -> Tensor:
    """Σ_{s<=t} kernel[c, t−s] inputs[b, c, s] by FFT: (batch, channels, time) -> the same.

    Zeros up to twice the length keep the circular convolution from wrapping round.
    """
    length = inputs.shape[-1]
    spectrum = torch.fft.rfft(inputs, 2 * length) * torch.fft.rfft(kernel, 2 * length)
    return torch.fft.irfft(spectrum, 2 * length)[..., :length]


def impulse_response(exponents: Tensor, coefficients: Tensor, length: int) -> Tensor:
    """Re Σ_n coefficients_n exp(exponents_n t) for t = 0 … length − 1.

    Args:
        exponents, coefficients: complex (channels, states).

    Returns:
        real (channels, length)
    """
    chunk = math.isqrt(length - 1) + 1  # ⌈√length⌉
    powers = exponents.unsqueeze(-1) * _times(chunk, exponents)
    # As real numbers: Re(ab) = Re a Re b − Im a Im b.
    left = (coefficients.unsqueeze(-1) * torch.exp(powers * chunk)).transpose(-1, -2)
    right = torch.exp(powers)
    # (channels, i, j), flat in t = i·chunk + j.
    return (left.real @ right.real - left.imag @ right.imag).flatten(-2)[..., :length]


def state_after(inputs: Tensor, exponents: Tensor) -> Tensor:
    """Σ_k exp(exponents_n k) inputs_{T−1−k}: where h_t = exp(exponents) h_{t−1} + inputs_t ends.

    Args:
        inputs: real (batch, channels, parts, time); all parts of a channel share its exponents.
        exponents: complex (channels, states).

    Returns:
        complex (batch, channels, parts, states)
    """
    length = inputs.shape[-1]
    chunk = math.isqrt(length - 1) + 1
    chunks = math.ceil(length / chunk)
    # The newest first: its distance to the end is its place.
    past = functional.pad(inputs.flip(-1), (0, chunks * chunk - length))
    past = past.unflatten(-1, (chunks, chunk)).to(exponents.dtype)
    powers = exponents.unsqueeze(-1) * _times(max(chunk, chunks), exponents)
    within = torch.einsum("bhpkc,hnc->bhpnk", past, torch.exp(powers[..., :chunk]))
    return (within * torch.exp(powers[..., :chunks] * chunk).unsqueeze(1)).sum(-1)


def _times(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, device=like.device, dtype=like.real.dtype)
