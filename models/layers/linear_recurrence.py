"""The recurrence behind linear attention, in three forms that give the same numbers.

Every head has a memory S, a matrix from keys to values. Position t lets it decay by α_t = exp(g_t),
one number for the head or one for each channel of the keys, writes to it, and reads it:

* additive (Katharopoulos et al. 2020, arXiv 2006.16236): S_t = α_t S_{t−1} + k_t ⊗ v_t;
* delta rule (Yang et al. 2024, arXiv 2406.06484 and 2412.06464), after the decay and with a
  strength β_t: S' = α_t S_{t−1}, S_t = S' + β_t k_t ⊗ (v_t − S'ᵀ k_t);
* rank one (Peng et al. 2025, RWKV-7, arXiv 2503.14456), with two more vectors and before the decay:
  S_t = α_t S_{t−1} + b_t ⊗ (S_{t−1}ᵀ a_t) + k_t ⊗ v_t;

and o_t = S_tᵀ q_t: a position reads what it wrote. :func:`recurrence_step` is this page of algebra,
:func:`recurrence_loop` repeats it, and :func:`linear_recurrence` computes chunks of positions
abreast. In a chunk that finds S, with the decays of ``models/layers/recurrence/spans.py`` between q
and k,

    o_i = Σ_{j<=i} (q_i · k_j) v_j + Sᵀ q_i.

The other two rules also write X, at places b, which depends on what they wrote before. That is a
triangular system for each chunk, with a solution X = X₀ + W S in which X₀ and W are the same
whatever S is. So all systems are solved together, and only S goes from one chunk to the next. They
are solved as they are: where keys repeat, an inverse as a product of powers loses all its digits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from models.layers.recurrence.kernels import by_kernel, fit
from models.layers.recurrence.spans import ChannelDecay, Decay, HeadDecay, Reader
from models.layers.recurrence.writes import Writes

# Positions abreast. A long chunk has a large square of scores, and few steps from chunk to chunk.
CHUNK = 64
CHUNK_OF_SYSTEMS = 32
CHUNK_BY_CHANNEL = 32


def recurrence_step(
    queries: Tensor, writes: Writes, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One position: q (batch, heads, key width) -> o (batch, heads, value width), and the memory
    (batch, heads, key width, value width) after it. None is an empty memory."""
    with torch.autocast(queries.device.type, enabled=False):
        write = writes.each(_wide)
        state = write.empty_memory() if state is None else _wide(state)
        retained, values = state, write.values
        if write.log_decays is not None:
            by_row = (
                write.log_decays if write.log_decays.dim() == 3 else write.log_decays.unsqueeze(-1)
            )
            retained = by_row.exp().unsqueeze(-1) * state
        # The delta rule corrects against the decayed memory, RWKV-7 erases from the one before the
        # decay: Gated DeltaNet is its form with a strength α β instead of β.
        if write.strengths is not None:
            values = write.strengths.unsqueeze(-1) * (values - _read(retained, write.keys))
        if write.rank_one is not None:
            a, b = write.rank_one
            retained = retained + b.unsqueeze(-1) * _read(state, a).unsqueeze(-2)
        state = retained + write.keys.unsqueeze(-1) * values.unsqueeze(-2)
        return _read(state, _wide(queries)).to(writes.values.dtype), state


def recurrence_loop(
    queries: Tensor, writes: Writes, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`linear_recurrence` position by position: slow, and the truth."""
    outputs = []
    for position in range(queries.shape[1]):
        output, state = recurrence_step(queries[:, position], writes.at(position), state)
        outputs.append(output)
    assert state is not None
    return torch.stack(outputs, 1), state


def linear_recurrence(
    queries: Tensor, writes: Writes, state: Tensor | None = None, *, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """What every position reads, and the memory after the last one; linear in time.

    Differentiable in everything, and batched by ``torch.func.vmap``. One position is a step. On
    CUDA kernels of flash-linear-attention compute it, where they are installed and fit.

    Args:
        queries: q, (batch, time, heads, key width); what o is scaled by, they are.
        writes: of the same positions.
        state: the memory before them, (batch, heads, key width, value width); None is an empty one.
        chunk: most positions abreast; None is what is fast. With decays by channel it is rounded up
            to a power of two.

    Returns:
        o (batch, time, heads, value width) in the type of the values, and the memory in float32 or
        wider.

    Raises:
        ValueError: two rules at once, or no position in a chunk.
    """
    if writes.strengths is not None and writes.rank_one is not None:
        raise ValueError("writes have strengths or vectors of rank one, got both: leave one out")
    if chunk is not None and chunk < 1:
        raise ValueError(f"a chunk has at least one position, got chunk={chunk}")
    if queries.shape[1] == 1:
        output, state = recurrence_step(queries[:, 0], writes.at(0), state)
        return output.unsqueeze(1), state
    with torch.autocast(queries.device.type, enabled=False):
        wide_writes, queries = writes.each(_wide), _wide(queries)
        state = None if state is None else _wide(state)
        # Whoever sets a chunk asks for this form, not for a kernel.
        if chunk is None and fit(queries, wide_writes):
            outputs, state = by_kernel(queries, wide_writes, state)
        else:
            state = wide_writes.empty_memory() if state is None else state
            outputs, state = _chunk_by_chunk(queries, wide_writes, state, chunk)
    return outputs.to(writes.values.dtype), state


def _wide(x: Tensor) -> Tensor:
    """x in float32 or wider: sums of many steps do not fit in half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _read(memory: Tensor, vectors: Tensor) -> Tensor:
    """Sᵀ q: (batch, heads, key width, value width), (batch, heads, key width)."""
    return (vectors.unsqueeze(-2) @ memory).squeeze(-2)


# Below, tensors are (chunks, batch, heads, chunk, width).


class _Added(NamedTuple):
    """v, written at places k: how it reaches the positions, and the end of the chunk."""

    values: Tensor
    scores: Tensor
    at_the_end: Tensor


class _Corrections(NamedTuple):
    """X = X₀ + W S, written at places b: also how it reaches the positions, and b at the end."""

    known: Tensor
    by_memory: Tensor
    scores: Tensor
    places: Tensor


def _chunk_by_chunk(
    queries: Tensor, writes: Writes, state: Tensor, chunk: int | None
) -> tuple[Tensor, Tensor]:
    length = queries.shape[1]
    chunk = _positions_abreast(writes, length, chunk)
    q, k, v = (_cut(x, chunk) for x in (queries, writes.keys, writes.values))
    decay = _decay(writes, chunk)
    added: _Added | None = None
    corrections: _Corrections | None = None
    if writes.strengths is not None:
        corrections = _by_delta_rule(decay, q, k, v, _cut(writes.strengths.unsqueeze(-1), chunk))
    elif writes.rank_one is not None:
        a, b = (_cut(x, chunk) for x in writes.rank_one)
        added, corrections = _by_rank_one(decay, q, k, v, a, b)
    else:
        added = _Added(v, decay.scores([Reader(q)], [k])[0][0], decay.to_the_end(k).mT @ v)

    # The only loop over chunks: all before it was done for every chunk at once.
    entering, written, state = _carry(
        decay.whole.expand(len(v), -1, -1, -1, -1), added, corrections, state
    )
    outputs = decay.from_the_start(Reader(q)) @ entering
    if added is not None:
        outputs = outputs + added.scores @ added.values
    if corrections is not None and written is not None:
        outputs = outputs + corrections.scores @ written
    # (chunks, batch, heads, chunk, width) -> (batch, time, heads, width), without the padding.
    return outputs.permute(1, 0, 3, 2, 4).flatten(1, 2)[:, :length], state


def _positions_abreast(writes: Writes, length: int, chunk: int | None) -> int:
    by_channel = writes.log_decays is not None and writes.log_decays.dim() == 4
    if chunk is None:
        additive = writes.strengths is None and writes.rank_one is None
        chunk = CHUNK_BY_CHANNEL if by_channel else CHUNK if additive else CHUNK_OF_SYSTEMS
    chunk = min(chunk, length)
    return 1 << (chunk - 1).bit_length() if by_channel else chunk


def _cut(x: Tensor, chunk: int) -> Tensor:
    """(batch, time, heads, width), with zeros after it: positions that do nothing."""
    # A log decay of 0 keeps all, and k = v = 0 write nothing: the last memory is right too.
    filled = functional.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % chunk))
    return filled.unflatten(1, (-1, chunk)).permute(1, 0, 3, 2, 4).contiguous()


def _decay(writes: Writes, chunk: int) -> Decay:
    if writes.log_decays is None:
        # e⁰ for every position, in one chunk that all others broadcast.
        return HeadDecay(writes.values.new_zeros(1, 1, 1, chunk, 1))
    if writes.log_decays.dim() == 4:
        return ChannelDecay(_cut(writes.log_decays, chunk))
    return HeadDecay(_cut(writes.log_decays.unsqueeze(-1), chunk))


def _by_delta_rule(
    decay: Decay, q: Tensor, k: Tensor, v: Tensor, strengths: Tensor
) -> _Corrections:
    """x_i = β_i (v_i − what k_i reads before the write of i), written at k_i."""
    # What the reader reads is added, so it carries −β: β v + (−β k)ᵀ S.
    correcting = Reader(-strengths * k)
    (scores,), (between_writes,) = decay.scores([Reader(q), correcting], [k])
    offsets, by_memory = _solve(between_writes, strengths * v, decay.from_the_start(correcting))
    return _Corrections(offsets, by_memory, scores, decay.to_the_end(k))


def _by_rank_one(
    decay: Decay, q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor
) -> tuple[_Added, _Corrections]:
    """x_i = what a_i reads before the decay of i, written at b_i; v_i is added at k_i."""
    reading = Reader(a, before=True)
    (by_added, scores), (of_added, between_writes) = decay.scores([Reader(q), reading], [k, b])
    offsets, by_memory = _solve(between_writes, of_added @ v, decay.from_the_start(reading))
    added = _Added(v, by_added, decay.to_the_end(k).mT @ v)
    return added, _Corrections(offsets, by_memory, scores, decay.to_the_end(b))


def _solve(own: Tensor, known: Tensor, by_memory: Tensor) -> tuple[Tensor, Tensor]:
    """X₀ and W of X = known + by_memory S + own X, in which own counts below its diagonal."""
    batch = torch.broadcast_shapes(known.shape[:-2], by_memory.shape[:-2])
    sides = [side.expand(*batch, *side.shape[-2:]) for side in (known, by_memory)]
    # Substitution in (1 − own) X = known + by_memory S, for both right sides at once.
    solved = torch.linalg.solve_triangular(
        -own, torch.cat(sides, -1), upper=False, unitriangular=True
    )
    offsets, by_memory = solved.split([side.shape[-1] for side in sides], -1)
    return offsets, by_memory


def _carry(
    whole: Tensor, added: _Added | None, corrections: _Corrections | None, state: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The memory that each chunk finds, what each writes as a correction, and the last memory."""
    entering, written = [], []
    # Unbound at once: the gradient of each selection would be as large as the whole sequence.
    additions = None if added is None else added.at_the_end.unbind(0)
    systems = None
    if corrections is not None:
        offsets, by_memory, places = corrections.known, corrections.by_memory, corrections.places.mT
        systems = list(zip(offsets.unbind(0), by_memory.unbind(0), places.unbind(0), strict=True))
    for index, factors in enumerate(whole.unbind(0)):
        entering.append(state)
        # Over the whole chunk, by row (key channel) of the memory.
        following = factors * state
        if additions is not None:
            following = following + additions[index]
        if systems is not None:
            offset, of_memory, at = systems[index]
            x = offset + of_memory @ state
            following = following + at @ x
            written.append(x)
        state = following
    return torch.stack(entering), torch.stack(written) if written else None, state
