"""Triton kernels for the recurrence of ``linear_recurrence.py``: those of flash-linear-attention.

Yang and Zhang 2024, https://github.com/fla-org/flash-linear-attention, package fla-core, which the
extra ``[gpu]`` of this project installs. They are taken on CUDA, where the package is there; on a
CPU it is not even imported. They give the numbers of the loop up to float32, and no more: Triton's
products are in TF32 unless ``TRITON_F32_DEFAULT`` says otherwise, as the engine does. The rank-one
rule has none here: the package warns that its kernel for it does not keep float32 everywhere.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from models.layers.recurrence.writes import Writes

WIDEST_KEYS = 256  # that the kernels take


@lru_cache(maxsize=1)
def installed() -> bool:
    """Whether flash-linear-attention and Triton are there."""
    return all(importlib.util.find_spec(name) is not None for name in ("fla", "triton"))


def fit(queries: Tensor, writes: Writes) -> bool:
    """Whether a kernel can compute this: float32 on a GPU, keys that are not too wide, and no
    ``torch.func`` transform, for the kernels have no batching rule."""
    return (
        queries.is_cuda
        and queries.dtype == torch.float32
        and writes.rank_one is None
        and queries.shape[-1] <= WIDEST_KEYS
        and not torch._C._are_functorch_transforms_active()
        and installed()
    )


def by_kernel(queries: Tensor, writes: Writes, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """What every position reads, and the memory after the last one, as ``linear_recurrence``.

    Args:
        queries: (batch, time, heads, key width), float32.
        writes: of the same positions; a tensor of one head or one sequence stands for all.
        state: the memory before them; None is an empty one.
    """
    batch, time, heads = (*queries.shape[:2], writes.values.shape[2])

    def for_all(x: Tensor) -> Tensor:
        return x.expand(batch, time, heads, *x.shape[3:]).contiguous()

    q, k, v = map(for_all, (queries, writes.keys, writes.values))
    decays = None if writes.log_decays is None else for_all(writes.log_decays)
    strengths = None if writes.strengths is None else for_all(writes.strengths)
    kernel, more = _choose(q, decays, strengths)
    start = None if state is None else state.contiguous()
    # The default of the package is 1/√(key width); o = S q has no such factor.
    outputs, last = kernel(q, k, v, scale=1.0, initial_state=start, output_final_state=True, **more)
    return outputs, last


def _choose(
    queries: Tensor, decays: Tensor | None, strengths: Tensor | None
) -> tuple[Callable[..., tuple[Tensor, Tensor]], dict[str, Any]]:
    """The kernel of a rule, and its arguments beside queries, keys and values."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.gla import chunk_gla
    from fla.ops.kda import chunk_kda
    from fla.ops.simple_gla import chunk_simple_gla

    # (batch, time, heads, key width) in place of (batch, time, heads).
    by_channel = decays is not None and decays.dim() == 4
    if strengths is None:
        return (chunk_gla if by_channel else chunk_simple_gla), {"g": decays}
    if decays is None:  # the kernel without a decay takes no float32
        decays = queries.new_zeros(queries.shape[:3])
    kernel = chunk_kda if by_channel else chunk_gated_delta_rule
    return kernel, {"g": decays, "beta": strengths}
