"""The delta rule whose read vector, write key and target are three separate vectors.

The memory S of a head is a matrix from keys to values. A position lets it decay, subtracts what a
read vector x finds in it from a target z, and writes the rest at a write key k:

    S' = Diag(e^g_t) S_{t−1},  S_t = S' + k_t ⊗ (z_t − S'ᵀ x_t),  o_t = S_tᵀ q_t.

The delta rule of ``linear_recurrence.py`` is x = βk, z = βv. Other x, k and z are:

* Gated DeltaNet-2 (arXiv 2605.22791, equation 8): x = b∘k, z = w∘v;
* Q-Delta (arXiv 2606.08804, equation 17): x = β(k + λq), z = βv;
* Comba (arXiv 2506.02475): x = βp, z = βv, read from S_{t−1} instead of S' in its kernels;
* preconditioned delta rules (arXiv 2604.21100, section 3): x = βk, write key M∘k, z = βv.

Chunks of positions are computed abreast. With c_i = g_0 + … + g_i inside a chunk, what its position
j writes, u_j, depends on what the earlier ones wrote:

    u_i + Σ_{j<i} L_ij u_j = z_i − Sᵀ (x_i ∘ e^{c_i}),  L_ij = Σ_d x_id k_jd e^{c_id − c_jd}.

The triangular system is solved as it is, for z and for x ∘ e^c at once, before S is known.

The step Diag(e^g) − k ⊗ (x ∘ e^g) is not symmetric, and its norm can pass 1 for unit keys and
gates in [0, 1], which that of the delta rule cannot. Tests run over long sequences for that reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from models.layers.recurrence.spans import ChannelDecay, Decay, HeadDecay, Reader

CHUNK = 32


class Edits(NamedTuple):
    """What a sequence, or one position, does to the memory. ``...`` is (batch, time), or (batch,).

    Attributes:
        read_vectors: x, (..., heads, key width).
        write_keys: k, (..., heads, key width).
        targets: z, (..., heads, value width).
        log_decays: g <= 0, natural and finite, (..., heads) or (..., heads, key width); None
            forgets nothing.
        undecayed: x reads S_{t−1}; else S', the memory after its decay.
    """

    read_vectors: Tensor
    write_keys: Tensor
    targets: Tensor
    log_decays: Tensor | None = None
    undecayed: bool = False

    def each(self, change: Callable[[Tensor], Tensor]) -> Edits:
        """The edits with every tensor changed."""
        decays = None if self.log_decays is None else change(self.log_decays)
        vectors, keys, targets = map(change, self[:3])
        return Edits(vectors, keys, targets, decays, self.undecayed)

    def at(self, position: int) -> Edits:
        """The edits of one position of a sequence."""
        return self.each(lambda x: x[:, position])

    def empty_memory(self) -> Tensor:
        """Zeros, (batch, heads, key width, value width)."""
        batch, heads, width = self.targets.shape[0], *self.targets.shape[-2:]
        return self.targets.new_zeros(batch, heads, self.write_keys.shape[-1], width)


def general_delta_step(
    queries: Tensor, edits: Edits, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One position: q (batch, heads, key width) -> o (batch, heads, value width), and the memory
    (batch, heads, key width, value width) after it. None is an empty memory."""
    with torch.autocast(queries.device.type, enabled=False):
        wide = edits.each(in_float32_or_wider)
        before = wide.empty_memory() if state is None else in_float32_or_wider(state)
        decayed = before
        if wide.log_decays is not None:
            # One number for each head, or for each row (key channel) of its memory.
            rows = wide.log_decays if wide.log_decays.dim() == 3 else wide.log_decays.unsqueeze(-1)
            decayed = rows.exp().unsqueeze(-1) * before
        # RWKV-7 erases from the memory before its decay, delta rules from the decayed one.
        prediction = _read(before if wide.undecayed else decayed, wide.read_vectors)
        correction = wide.targets - prediction
        # What was read at x is replaced along k: with x = k it is the delta rule.
        after = decayed + wide.write_keys.unsqueeze(-1) * correction.unsqueeze(-2)
        return _read(after, in_float32_or_wider(queries)).to(edits.targets.dtype), after


def general_delta_loop(
    queries: Tensor, edits: Edits, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`general_delta_rule` position by position: slow, and the truth."""
    outputs = []
    for position in range(queries.shape[1]):
        output, state = general_delta_step(queries[:, position], edits.at(position), state)
        outputs.append(output)
    assert state is not None
    return torch.stack(outputs, 1), state


def general_delta_rule(
    queries: Tensor, edits: Edits, state: Tensor | None = None, *, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """What every position reads, and the memory after the last one; linear in time.

    Differentiable in everything, and batched by ``torch.func.vmap``. One position is a step.

    Args:
        queries: q, (batch, time, heads, key width); what o is scaled by, they are.
        edits: of the same positions.
        state: the memory before them, (batch, heads, key width, value width); None is an empty one.
        chunk: most positions abreast; None is what is fast. With decays by channel it is rounded up
            to a power of two.

    Returns:
        o (batch, time, heads, value width) in the type of the targets, and the memory in float32 or
        wider.

    Raises:
        ValueError: no position in a chunk.
    """
    if chunk is not None and chunk < 1:
        raise ValueError(f"a chunk has at least one position, got chunk={chunk}")
    # A chunk of one position would solve a system for nothing.
    if queries.shape[1] == 1:
        output, state = general_delta_step(queries[:, 0], edits.at(0), state)
        return output.unsqueeze(1), state
    with torch.autocast(queries.device.type, enabled=False):
        wide = edits.each(in_float32_or_wider)
        memory = wide.empty_memory() if state is None else in_float32_or_wider(state)
        outputs, memory = _chunk_by_chunk(in_float32_or_wider(queries), wide, memory, chunk)
    return outputs.to(edits.targets.dtype), memory


def in_float32_or_wider(x: Tensor) -> Tensor:
    """Sums of many steps do not fit in half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def cut_in_chunks(x: Tensor, chunk: int) -> Tensor:
    """(batch, time, heads, width) -> (chunks, batch, heads, chunk, width), with zeros after the
    last position, which do nothing."""
    # z = 0 and k = 0 write nothing, and a log decay of 0 keeps all.
    filled = functional.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % chunk))
    # Chunks first: the loop over them then takes whole blocks of storage.
    return filled.unflatten(1, (-1, chunk)).permute(1, 0, 3, 2, 4).contiguous()


def join_chunks(x: Tensor, length: int) -> Tensor:
    """Undoes ``cut_in_chunks`` of a sequence of that length."""
    return x.permute(1, 0, 3, 2, 4).flatten(1, 2)[:, :length]


def solve_unit_triangular(matrix: Tensor, *sides: Tensor) -> tuple[Tensor, ...]:
    """Solutions y of (I + matrix) y = side, in which the matrix (..., chunk, chunk) counts below
    its diagonal, for each side (..., chunk, width)."""
    # All sides at once: the solver reads the matrix only once.
    solved = torch.linalg.solve_triangular(
        matrix, torch.cat(sides, -1), upper=False, unitriangular=True
    )
    return solved.split([side.shape[-1] for side in sides], -1)


def _read(memory: Tensor, vectors: Tensor) -> Tensor:
    """Sᵀ x: (batch, heads, key width, value width), (batch, heads, key width)."""
    return (vectors.unsqueeze(-2) @ memory).squeeze(-2)


def _chunk_by_chunk(
    queries: Tensor, edits: Edits, memory: Tensor, chunk: int | None
) -> tuple[Tensor, Tensor]:
    length = queries.shape[1]
    by_channel = edits.log_decays is not None and edits.log_decays.dim() == 4
    chunk = min(CHUNK if chunk is None else chunk, length)
    if by_channel:
        # Blocks are halved again and again.
        chunk = 1 << (chunk - 1).bit_length()
    q, x, k, z = (
        cut_in_chunks(part, chunk)
        for part in (queries, edits.read_vectors, edits.write_keys, edits.targets)
    )
    decay = _decay(edits, chunk)
    reader = Reader(x, before=edits.undecayed)
    # Queries and erasing vectors read the same keys: two readers of one pass.
    (scores,), (corrections,) = decay.scores([Reader(q), reader], [k])
    offsets, by_memory = solve_unit_triangular(corrections, z, decay.from_the_start(reader))
    places = decay.to_the_end(k).mT
    whole = decay.whole.expand(len(z), -1, -1, -1, -1)

    entering, written = [], []
    # Unbound at once: the gradient of each selection would be as large as the whole sequence.
    parts = (part.unbind(0) for part in (offsets, by_memory, places, whole))
    for targets, vectors, keys, factors in zip(*parts, strict=True):
        entering.append(memory)
        writes = targets - vectors @ memory
        memory = factors * memory + keys @ writes
        written.append(writes)
    # All memories that chunks found, read by one product.
    outputs = decay.from_the_start(Reader(q)) @ torch.stack(entering) + scores @ torch.stack(
        written
    )
    return join_chunks(outputs, length), memory


def _decay(edits: Edits, chunk: int) -> Decay:
    if edits.log_decays is None:
        return HeadDecay(edits.targets.new_zeros(1, 1, 1, chunk, 1))
    if edits.log_decays.dim() == 4:
        return ChannelDecay(cut_in_chunks(edits.log_decays, chunk))
    return HeadDecay(cut_in_chunks(edits.log_decays.unsqueeze(-1), chunk))
