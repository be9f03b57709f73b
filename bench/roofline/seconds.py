"""Seconds of work on a device: the roofline of every operator, and its launch.

An operator takes as long as its arithmetic or its bytes, whichever is longer (Williams, Waterman
and Patterson 2009, "Roofline"), and a launch beside it:

    seconds = Σ max(FLOPs / peak + functions / rate, bytes / bandwidth) + launches · launch.

Summed by operator, since one runs after the other: a step is no shorter than max(Σ FLOPs / peak,
Σ bytes / bandwidth) + launches · launch, and no longer than twice that. At its best a device that
is launched on ahead of its work takes max(work, launches · launch).

N trainings as one computation (``sweep.stack``) make the same launches, each on N times the data,
and each takes longer under ``torch.func.vmap``; a step of all N is what this gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.roofline.devices import Device, Rates, Span
from bench.roofline.work import Work

VIEW = 0.5  # launches that a view takes: it goes through the same layers, but to no kernel
STACKED_UPDATE_LAUNCHES = 13  # of a tensor: clipping (3) and AdamW (10), bench/training/stack.py


@dataclass(frozen=True)
class Parts:
    """What the seconds of some work are made of; no stacking gets below those of ``device``."""

    device: float
    launches: float


def parts(work: Work, rates: Rates, together: int = 1, launch: float = 1.0) -> Parts:
    """The parts of the time of ``together`` trainings as one computation, whose launches take
    ``launch`` times as long as those of one alone."""
    plain = work.plain_launches if together > 1 else 0.0
    device = 0.0
    for operation, often in work.calls.items():
        of_all = operation.times(together)
        arithmetic = of_all.flops / rates.peak + of_all.functions / rates.functions
        moving = of_all.moved / rates.bytes_a_second(of_all.moved) if of_all.moved else 0.0
        device += often * max(arithmetic, moving)
    calls = work.launches + plain + VIEW * work.views
    return Parts(device, calls * rates.launch * launch)


def total_seconds(of_work: Parts, rates: Rates) -> float:
    """Seconds of both parts."""
    both_parts = of_work.device, of_work.launches
    return max(both_parts) if rates.overlaps else math.fsum(both_parts)


def seconds(work: Work, device: Device, precision: str, together: int = 1) -> Span:
    """Seconds of a pass over ``work``, or of ``together`` such passes as one."""
    slower = device.stacked_launch if together > 1 else Span(1.0, 1.0, 1.0)
    return Span(
        *(
            total_seconds(parts(work, rates, together, launch), rates)
            for rates, launch in zip(device.corners[precision], slower, strict=True)
        )
    )


def without_launches(work: Work, device: Device, precision: str) -> Span:
    """Seconds of the work alone: no stack, and no sharing of a device, gets below them."""
    corners = device.corners[precision]
    return Span(*(parts(work, rates).device for rates in corners))
