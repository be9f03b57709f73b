"""Splitting a width into heads. The split is a view, so that no layer pays for a copy."""

from __future__ import annotations

from torch import Tensor


def head_width(width: int, heads: int) -> int:
    """Width of one head; ValueError where ``heads`` does not divide ``width``."""
    if heads < 1 or width < 1 or width % heads:
        raise ValueError(
            f"width={width} cannot be split in heads={heads}; make width a multiple of heads"
        )
    return width // heads


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(batch, time, width) -> (batch, heads, time, head width), a view."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(batch, heads, time, head width) -> (batch, time, width); undoes ``split_heads``."""
    # A view only where the heads of a position lie together in memory; else a copy.
    return x.transpose(1, 2).flatten(2)
