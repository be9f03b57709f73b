"""Log-linear attention (Guo et al. 2025, arXiv 2506.04761): the past of a position in blocks, the
nearest shortest, each with a memory of its own, and a weight for each of them when it reads.

At position t the positions before it are cut into blocks by removing the lowest set bit of t again
and again: 6 = 110₂ sees {4, 5} and {0, 1, 2, 3}. A block of 2^(l−1) positions has the level l, the
own position the level 0. With level(t, s) that of the block of s and λ_t a weight for each level,

    o_t = Σ_{s<=t} λ_t[level(t, s)] q_tᵀ P_ts β_s k_s v_s,

where P_ts is what the positions s+1 … t make of a memory: a decay, or decays and the erasures of
the delta rule. With all weights 1 it is the recurrence of ``linear_recurrence.py``.

A chunk of a power of two positions is a block, or part of one, for all later positions. So inside a
chunk levels are a mask on the matrix from values to outputs, and from chunk to chunk go as many
memories as blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from models.layers.recurrence.general_delta import (
    cut_in_chunks,
    in_float32_or_wider,
    join_chunks,
    solve_unit_triangular,
)
from models.layers.recurrence.mixer import count_more
from models.layers.recurrence.spans import HeadDecay, Reader
from models.layers.recurrence.writes import Writes

CHUNK = 32  # a power of two


class LevelState(NamedTuple):
    """Memories of all blocks that the last position read.

    Attributes:
        counter: of positions, (batch, positions, 0).
        memories: (batch, levels, heads, key width, value width), level by level; zeros where the
            last position had no block of that level. :func:`levels_after` says how many.
    """

    counter: Tensor
    memories: Tensor


def levels_after(positions: int) -> int:
    """Levels of the last of so many positions: its own and one for each binary digit of t."""
    return 1 + (positions - 1).bit_length()


def log_linear_recurrence(
    queries: Tensor, writes: Writes, weights: Tensor, state: LevelState | None = None
) -> tuple[Tensor, LevelState]:
    """What every position reads, and the memories after the last one.

    A sequence from its start goes in chunks; one that goes on from a state, step by step.

    Args:
        queries: q, (batch, time, heads or 1, key width); what o is scaled by, they are.
        writes: of the same positions, with a decay for each head, additive or by the delta rule.
        weights: λ, (batch, time, heads, levels), at least as many as the last position has.
        state: what the last call returned; None starts a sequence.

    Returns:
        o (batch, time, heads, value width) in the type of the values, and the state in float32 or
        wider.

    Raises:
        ValueError: more positions than levels reach.
    """
    before, counter = count_more(None if state is None else state.counter, writes.values)
    length = counter.shape[1]
    if levels_after(length) > weights.shape[-1]:
        raise ValueError(
            f"{weights.shape[-1]} levels reach over {2 ** (weights.shape[-1] - 1)} positions, "
            f"and the sequence has {length}"
        )
    with torch.autocast(queries.device.type, enabled=False):
        wide = writes.each(in_float32_or_wider)
        queries, weights = in_float32_or_wider(queries), in_float32_or_wider(weights)
        if state is None:
            outputs, memories = _by_chunks(queries, wide, weights)
        else:
            outputs, memories = _by_steps(
                queries, wide, weights, in_float32_or_wider(state.memories), before
            )
    return outputs.to(writes.values.dtype), LevelState(counter, memories)


def _by_steps(
    queries: Tensor, writes: Writes, weights: Tensor, memories: Tensor, position: int
) -> tuple[Tensor, Tensor]:
    outputs = []
    for offset in range(queries.shape[1]):
        now, q = writes.at(offset), queries[:, offset]
        memories = _merge(memories, position + offset)
        if now.log_decays is not None:
            memories = now.log_decays.exp()[:, None, :, None, None] * memories
        keys, values = now.keys.unsqueeze(1), now.values
        if now.strengths is not None:
            strengths = now.strengths.unsqueeze(-1)
            erased = (keys.unsqueeze(-2) @ memories).squeeze(-2)
            erasures = (strengths * now.keys).unsqueeze(1).unsqueeze(-1)
            memories = memories - erasures * erased.unsqueeze(-2)
            values = strengths * values
        written = now.keys.unsqueeze(-1) * values.unsqueeze(-2)
        memories = torch.cat((written.unsqueeze(1), memories), 1)
        read = (q[:, None, :, None] @ memories).squeeze(-2)
        levels = weights[:, offset, :, : memories.shape[1]].mT.unsqueeze(-1)
        outputs.append((levels * read).sum(1))
    return torch.stack(outputs, 1), memories


def _merge(memories: Tensor, position: int) -> Tensor:
    """Memories that ``position`` > 0 finds, (batch, levels from 1 on, ...), from those that the
    position before it left, from level 0 on."""
    filled = (position & -position).bit_length()  # the level whose block is full now
    # As a carry in binary: all lower blocks merge into that of the lowest set bit.
    merged = memories[:, :filled].sum(1, keepdim=True)
    return torch.cat(
        (torch.zeros_like(memories[:, : filled - 1]), merged, memories[:, filled + 1 :]), 1
    )


def _levels_of_chunk(chunk: int, device: torch.device) -> Tensor:
    """level(i, j) for j <= i inside a chunk, 0 elsewhere, (chunk, chunk): one more than the place
    of the highest digit in which i and j differ."""
    positions = torch.arange(chunk, device=device)
    differing = positions[:, None] ^ positions
    levels = torch.zeros_like(differing)
    for digit in range((chunk - 1).bit_length()):
        levels = torch.where(differing >= 1 << digit, digit + 1, levels)
    return levels.tril()


def _by_chunks(queries: Tensor, writes: Writes, weights: Tensor) -> tuple[Tensor, Tensor]:
    """A sequence from its start. Tensors are (chunks, batch, heads, chunk, width)."""
    length = queries.shape[1]
    chunk = min(CHUNK, 1 << (length - 1).bit_length())
    q, k, v, by_level = (
        cut_in_chunks(x, chunk) for x in (queries, writes.keys, writes.values, weights)
    )
    if writes.log_decays is None:
        decay = HeadDecay(v.new_zeros(1, 1, 1, chunk, 1))
    else:
        decay = HeadDecay(cut_in_chunks(writes.log_decays.unsqueeze(-1), chunk))
    at_the_end = decay.to_the_end(k).mT
    reads = decay.from_the_start(Reader(q))
    erasures = None
    if writes.strengths is None:
        (from_values,) = decay.scores([Reader(q)], [k])[0]
        to_the_end = at_the_end
    else:
        strengths = cut_in_chunks(writes.strengths.unsqueeze(-1), chunk)
        erased = Reader(strengths * k)
        (scores,), (corrections,) = decay.scores([Reader(q), erased], [k])
        diagonal = torch.diag_embed(strengths.squeeze(-1))
        written, erasures = solve_unit_triangular(
            corrections, diagonal, decay.from_the_start(erased)
        )
        from_values, to_the_end = scores @ written, at_the_end @ written
        reads = reads - scores @ erasures
    levels = _levels_of_chunk(chunk, q.device)
    # The same in every chunk, as each begins at a multiple of its length, a power of two.
    inside = by_level.gather(-1, levels.expand(*by_level.shape[:-1], chunk))
    outputs = (from_values * inside) @ v

    chunks, factors = len(v), decay.whole.expand(len(v), -1, -1, -1, -1).unbind(0)
    additions, looks = (to_the_end @ v).unbind(0), reads.unbind(0)
    ends = at_the_end.unbind(0)
    lowest = (chunk - 1).bit_length() + 1
    blocks: dict[int, Tensor] = {}  # level -> memory (batch, heads, key width, value width)
    past = [torch.zeros_like(outputs[0])]
    for index in range(1, chunks):
        _fade(blocks, factors[index - 1], ends[index - 1], erasures, index - 1)
        blocks = _join(blocks, additions[index - 1], index, lowest)
        read = [by_level[index, ..., n : n + 1] * (looks[index] @ s) for n, s in blocks.items()]
        past.append(torch.stack(read).sum(0))
    _fade(blocks, factors[-1], ends[-1], erasures, chunks - 1)
    last = levels[(length - 1) % chunk]
    places = torch.arange(chunk, device=q.device) <= (length - 1) % chunk
    memories = []
    for level in range(levels_after(length)):
        if level < lowest:
            at_level = (last == level) & places
            memories.append((to_the_end[-1] * at_level) @ v[-1])
        else:
            memories.append(blocks.get(level, torch.zeros_like(additions[0])))
    outputs = outputs + torch.stack(past)
    return join_chunks(outputs, length), torch.stack(memories, 1)


def _fade(
    blocks: dict[int, Tensor], factors: Tensor, ends: Tensor, erasures: Tensor | None, index: int
) -> None:
    """What the chunk ``index`` makes of the memories that entered it."""
    for level, memory in blocks.items():
        faded = factors * memory
        if erasures is not None:
            faded = faded - ends @ (erasures[index] @ memory)
        blocks[level] = faded


def _join(
    blocks: dict[int, Tensor], addition: Tensor, index: int, lowest: int
) -> dict[int, Tensor]:
    """Blocks that the chunk ``index`` finds, from those before and what the last chunk wrote."""
    filled = lowest + (index & -index).bit_length() - 1
    joined = addition
    for level, memory in blocks.items():
        if level < filled:
            joined = joined + memory
    later = {level: memory for level, memory in blocks.items() if level > filled}
    return {filled: joined} | later
