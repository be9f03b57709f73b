"""Whether two outputs that should be equal differ by more than rounding explains.

Sums in another order, of other length or in another block of a matrix product differ in their last
digits. An output is the end of n additions, one sum after another, of numbers of some size s, and
its error stays below λ √n u s but for a chance of 2 exp(-λ²/2) (Higham and Mary 2019, SIAM J. Sci.
Comput. 41, A2815). So the tolerance follows from the type of the outputs (u), from the lengths of
the sums in the model (n) and from the size of the outputs (s). A transform that mixes positions, as
an FFT does, has the error of the whole sequence at every position: s is not that of one number.

Some models stretch errors, as trained exponentials do. What is beyond the tolerance is therefore
computed again in float64, where rounding is a billion times smaller and a real dependence is as
large as before. Where a model rounds to fewer digits inside, or cannot be computed in float64, its
own rounding is measured: by how far its outputs are from those in float64, and by what a change of
its parameters in their last digit makes of them.

A model may be another one in float64, in a copy, or with other last digits, and so show rounding
where there is a dependence. So two properties of rounding are asked of the model itself. It has no
direction: with parameters that are moved by a digit of the coarsest type, the errors are others.
And it is no large part of what the outputs say, but for the few positions at which a choice, such
as the nearest code, falls the other way.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench.training.saved_tensors import same_numbers

LAMBDA = 8.0
# How much more may be left in float64 than the same number of units in the last place: both are
# the largest of many errors, which vary.
MARGIN = 16.0
# So many times smaller than a number that all channels have in common may their differences be:
# what this leaves to be rounding is near the last digit of that number, in which nothing hides.
COMMON = 1024.0
# By such a share of themselves parameters are moved to see other errors: no type in which a model
# may compute inside, bfloat16 included, then rounds what it rounded before.
COARSE = 2.0**-7
# What sums in another order at each call, and rounds to bfloat16 inside, differs by so much of its
# outputs between two calls at most, also in a copy in float64.
LARGEST_NOISE = 8 * COARSE
# Two draws of n errors have a cosine of about 1 / √n, of either sign; two effects of one dependence
# one near 1. Single errors, whose cosine is 1 or -1, agree in all draws by a chance of 1 in 256.
DIRECTED, DRAWS = 0.5, 8
# Root mean square over positions, of differences in terms of their sizes, 1 at most each: a
# difference as large as the outputs in a sixteenth of all positions. No model whose outputs are
# rounding there says anything by them.
MOST_ROUNDING = 0.25
# So far below the largest logit of its position a class has the probability 0 in float32, and 1e-55
# in any other type.
WITHOUT_WEIGHT = 128.0

# A model -> two outputs that should be equal, and the size of what each number is a sum of, all
# three of one shape (batch, time, channels).
Pair = Callable[[nn.Module], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True)
class OutputDifference:
    """The largest difference of two outputs, in terms of what rounding explains.

    Attributes:
        ratio: the difference divided by its tolerance; up to 1 it is rounding.
        row, position: where it is.
        amount: the difference itself.
        size: of the numbers there.
    """

    ratio: float
    row: int
    position: int
    amount: float
    size: float

    def __str__(self) -> str:
        return f"by {self.amount:.2g}, where outputs are as large as {self.size:.2g}"


def sum_lengths(model: nn.Module, length: int) -> int:
    """Additions between an input and an output of ``length`` positions: each matrix adds over its
    inputs, and the layer that it is part of over positions at most."""
    matrices = [p for p in model.parameters() if p.ndim >= 2 and p.numel()]
    return max(1, sum(p.numel() // len(p) + length for p in matrices))


def sizes_of(outputs: Tensor) -> Tensor:
    """The size of what each output (batch, time, channels) is a sum of: the smaller one of the
    largest number in its channel and the largest at its position.

    One channel or one position of very large numbers leaves the others as exact as they were. What
    happens to be small is not more exact for that, so no channel and no position counts as smaller
    than the median one. What all channels of a position have in common is left out, since no
    probability depends on it: a large number that is added to all logits makes each less exact,
    which float64 shows, and must not hide what else they differ in. And classes without weight,
    as a mask makes of those that are never meant, however many, tell nothing of the size of the
    others.
    """
    if outputs.shape[2] == 1:
        known = outputs.isfinite()
        return _sizes(outputs.masked_fill(~known, 0.0), known)
    largest = outputs.amax(2, keepdim=True)
    if bool((largest - outputs.amin(2, keepdim=True) <= WITHOUT_WEIGHT).all()):
        return _sizes_apart(outputs, None)
    known = outputs.isfinite()
    finite = outputs.masked_fill(~known, 0.0)
    largest = outputs.masked_fill(~known, -torch.inf).amax(2, keepdim=True)
    weighs = known & (outputs >= largest - WITHOUT_WEIGHT)
    # Where the numbers spread so far, a difference below the last digits of 1 is none.
    sizes = _sizes_apart(finite, weighs).clamp(min=1.0)
    return torch.where(weighs, sizes, _sizes_apart(finite, known))


def _sizes_apart(finite: Tensor, counted: Tensor | None) -> Tensor:
    """Sizes by those channels of each position that count, None is all, without what these have in
    common."""
    # The median, which one large number does not move; of two channels it is one.
    if counted is None:
        middle = finite.median(2, keepdim=True).values
    else:
        middle = finite.masked_fill(~counted, torch.nan).nanmedian(2, keepdim=True).values
    apart = finite - middle.nan_to_num(0.0)
    return torch.maximum(_sizes(apart, counted), _sizes(finite, counted) / COMMON)


def _sizes(numbers: Tensor, counted: Tensor | None) -> Tensor:
    absolute = numbers.abs()
    if counted is None:
        by_channel = absolute.amax((0, 1))
        by_position = absolute.amax(2)
        in_channel, in_position = by_channel, by_position
    else:
        absolute = absolute.masked_fill(~counted, 0.0)
        by_channel = absolute.amax((0, 1))
        by_position = absolute.amax(2)
        in_channel = by_channel[counted.any(0).any(0)]
        in_position = by_position[counted.any(2)]
    if in_channel.numel():
        by_channel = by_channel.clamp(min=float(in_channel.median()))
        by_position = by_position.clamp(min=float(in_position.median()))
    return torch.minimum(by_channel, by_position.unsqueeze(2))


def largest_difference(
    first: Tensor, second: Tensor, sizes: Tensor, terms: int
) -> OutputDifference:
    """Where two outputs (batch, time, channels) differ the most for their sizes.

    Args:
        terms: additions that led to each of them, see :func:`sum_lengths`.
    """
    same = same_numbers(first, second)  # infinities have no difference
    difference = torch.where(same, 0.0, (first - second).abs()).nan_to_num(torch.inf)
    allowed = LAMBDA * torch.finfo(first.dtype).eps * terms**0.5 * sizes
    ratios = torch.where(same, 0.0, difference / allowed)
    worst = int(ratios.argmax())
    row, position, channel = map(int, torch.unravel_index(torch.tensor(worst), ratios.shape))
    at = (row, position, channel)
    return OutputDifference(
        float(ratios[at]), row, position, float(difference[at]), float(sizes[at])
    )


def is_rounding(
    model: nn.Module, pair: Pair, difference: OutputDifference, terms: int, directed: bool = True
) -> bool:
    """Whether a difference beyond the tolerance is rounding nevertheless.

    Args:
        pair: computes what ``difference`` was found in, by the model it is given.
        directed: whether differences that are the same with other weights are none.
    """
    if not math.isfinite(difference.ratio):
        return False
    outputs, repeated, sizes = pair(model)
    if directed and _has_direction(model, pair, _in_sizes(outputs, repeated, sizes)):
        return False
    # Rounding comes again with the same sums. What does not is of the calls before: by now the
    # model has seen all that it was asked, and so has its copy.
    again = largest_difference(outputs, repeated, sizes, terms).ratio
    comes_again = MARGIN * again >= difference.ratio
    noise = 0.0
    try:
        twin = copy.deepcopy(model).double()
        exact, other, exact_sizes = pair(twin)
        if exact.dtype == torch.float64:
            left = largest_difference(exact, other, exact_sizes, terms).ratio
            if comes_again and left <= MARGIN * difference.ratio:
                return True
            # What is another number at each call, as the time is, would be taken for its noise.
            if directed and share(exact, pair(twin)[0], exact_sizes) > LARGEST_NOISE:
                return False
            noise = largest_difference(outputs, exact.to(outputs.dtype), sizes, terms).ratio
    except Exception:  # a stranger's model may refuse to be copied, or float64, in any way
        noise = 0.0
    with parameters_moved(model, torch.finfo(outputs.dtype).eps, torch.Generator().manual_seed(0)):
        nudged, _, _ = pair(model)
    noise = max(noise, largest_difference(outputs, nudged, sizes, terms).ratio)
    return difference.ratio <= MARGIN * noise


def _in_sizes(first: Tensor, second: Tensor, sizes: Tensor) -> Tensor:
    """Differences in terms of their sizes, from -1 to 1; 0 where two infinities are equal."""
    same = same_numbers(first, second)
    return torch.where(same, 0.0, (first - second) / sizes).nan_to_num(1.0).clamp(-1.0, 1.0)


def share(first: Tensor, second: Tensor, sizes: Tensor) -> float:
    """Root mean square over positions of the largest difference there, in terms of its size."""
    return float(_in_sizes(first, second, sizes).abs().amax(2).double().square().mean().sqrt())


def _has_direction(model: nn.Module, pair: Pair, differences: Tensor) -> bool:
    """Whether the differences are the same ones when all digits are others."""
    before = differences.double().flatten()
    for seed in range(DRAWS):
        with parameters_moved(model, COARSE, torch.Generator().manual_seed(seed)):
            now = _in_sizes(*pair(model)).double().flatten()
        if now.shape != before.shape:
            return False
        lengths = float(before.norm() * now.norm())
        if not lengths or float(before @ now) < DIRECTED * lengths:
            return False
    return True


@contextmanager
def parameters_moved(model: nn.Module, size: float, generator: torch.Generator) -> Iterator[None]:
    """In this block every parameter is moved by ``size`` of itself, and by ``size`` where it is 0,
    give or take a half; up or down at random."""
    parameters = [p for p in model.parameters() if p.is_floating_point() or p.is_complex()]
    before = [parameter.detach().clone() for parameter in parameters]
    try:
        with torch.no_grad():
            for parameter in parameters:
                drawn = torch.rand(parameter.shape, generator=generator) - 0.5
                steps = (drawn.sign() * (0.5 + drawn.abs() * 2)).to(parameter.device)
                scale = torch.where(parameter == 0, 1.0, parameter.abs())
                parameter.add_((size * steps * scale).to(parameter.dtype))
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.copy_(value)
