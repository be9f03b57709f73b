"""Softmax attention over the last positions alone, at a cost that is linear in time (Beltagy,
Peters and Cohan 2020, "Longformer", arXiv 2004.05150, section 3.1)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def attend_to_window(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    window: int,
    *,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """y_t = Σ_s softmax_s(scale q_t·k_s) v_s over t − window < s <= t.

    Queries in blocks of ``window`` see their own block of keys and the one before it, so a
    block is a small dense attention with a mask.

    Args:
        queries, keys, values: (batch, heads, time, head width).
        window: positions that are seen, the own one included.
        dropout: probability of dropping an attention weight.

    Returns:
        (batch, heads, time, head width)
    """
    time = queries.shape[2]
    if time <= window:
        return functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, scale=scale, dropout_p=dropout
        )
    queries, keys, values = (
        functional.pad(x, (0, 0, 0, -time % window)).unflatten(2, (-1, window))
        for x in (queries, keys, values)
    )
    # (batch, heads, blocks, 2 window, head width)
    keys, values = (
        torch.cat((functional.pad(x[:, :, :-1], (0, 0, 0, 0, 1, 0)), x), 3) for x in (keys, values)
    )
    place = torch.arange(2 * window, device=queries.device)
    age = place[window:, None] - place
    # There is nothing before the first block.
    exists = torch.arange(queries.shape[2], device=queries.device)[:, None, None] * window + place
    # Padded queries see themselves: no row of the softmax is empty.
    seen = (age >= 0) & (age < window) & (exists >= window)
    read = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=seen, scale=scale, dropout_p=dropout
    )
    return read.flatten(2, 3)[:, :, :time]
