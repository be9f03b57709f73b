"""RoPE: queries and keys turned by angles in proportion to their positions.

Source: Su et al. 2021 (arXiv 2104.09864), equation (34).
"""

from __future__ import annotations

import torch
from torch import Tensor

ROTARY_BASE = 10_000.0


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """RoPE: channels (2i, 2i+1) of x (..., time, head width) turned by angles (time, i)."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
