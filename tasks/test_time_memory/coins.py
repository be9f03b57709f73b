"""The events of a stream in which a coin decides between writing and asking."""

from __future__ import annotations

import torch


def coins(events: int, generator: torch.Generator) -> list[bool]:
    """Whether each event writes, else it asks: a coin for each. The first writes, for there is
    nothing to ask yet; the last asks if no other does, so that every stream has a recall."""
    writes = torch.rand(events, generator=generator) < 0.5
    writes[0] = True
    if writes.all():
        writes[-1] = False
    return writes.tolist()
