"""The leaky average as one Triton kernel; ``models/layers/leaky_average.py`` has the plain form.

A program takes one head of one sequence. It goes along time in blocks: in a block every position
reads the ones before it by a triangle of powers of λ, and the last average is carried to the next
block. Powers are exp(-decay · n), as in the plain form, and products are in float32. Only a machine
with Triton imports this module.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

POSITIONS = 64  # of a block
SMALLEST = 16  # side of a product that Triton takes
WIDEST = 64  # channels of a program; wider heads are shared between programs


def scan_by_kernel(x: Tensor, decay: Tensor, backwards: bool) -> Tensor:
    """k_t = x_t + λ k_{t-1}, or k_t = x_t + λ k_{t+1} with ``backwards``.

    Args:
        x: (batch, heads, time, head width), float32, any strides.
        decay: (heads,), float32; λ = exp(-decay).

    Returns:
        (batch, heads, time, head width), float32, a view of (batch, time, heads, head width).
    """
    batch, heads, time, width = x.shape
    averages = x.new_empty(batch, time, heads, width).transpose(1, 2)
    channels = min(WIDEST, max(SMALLEST, triton.next_power_of_2(width)))
    grid = (batch * heads, triton.cdiv(width, channels))
    _scan[grid](
        x,
        decay.contiguous(),
        averages,
        heads,
        time,
        width,
        *x.stride(),
        *averages.stride(),
        BACKWARDS=backwards,
        POSITIONS=POSITIONS,
        CHANNELS=channels,
    )
    return averages


@triton.jit
def _scan(
    x,
    decays,
    averages,
    heads,
    time,
    width,
    x_sequence,
    x_head,
    x_position,
    x_channel,
    averages_sequence,
    averages_head,
    averages_position,
    averages_channel,
    BACKWARDS: tl.constexpr,
    POSITIONS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    sequence = (tl.program_id(0) // heads).to(tl.int64)  # offsets may pass 2³¹
    head = tl.program_id(0) % heads
    channels = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    steps = tl.arange(0, POSITIONS)
    decay = tl.load(decays + head)
    distance = steps[:, None] - steps[None, :]
    # What a decay of 0 or ∞ makes of the other distances is no number, and is not taken.
    powers = tl.where(distance > 0, tl.exp(-decay * distance), tl.where(distance == 0, 1.0, 0.0))
    of_carry = tl.exp(-decay * (steps + 1))[:, None]
    x += sequence * x_sequence + head * x_head
    averages += sequence * averages_sequence + head * averages_head
    carry = tl.zeros((CHANNELS,), dtype=tl.float32)
    for start in range(0, time, POSITIONS):
        passed = start + steps
        at = time - 1 - passed if BACKWARDS else passed
        inside = (passed < time)[:, None] & (channels < width)[None, :]
        places = at[:, None] * x_position + channels[None, :] * x_channel
        block = tl.load(x + places, mask=inside, other=0.0)
        averaged = tl.dot(powers, block, input_precision="ieee") + of_carry * carry[None, :]
        places = at[:, None] * averages_position + channels[None, :] * averages_channel
        tl.store(averages + places, averaged, mask=inside)
        # Triton takes no row by its index; of the last block the carry is not used.
        carry = tl.sum(tl.where(steps[:, None] == POSITIONS - 1, averaged, 0.0), axis=0)
