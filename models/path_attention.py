"""PaTH attention (Yang et al. 2025, arXiv 2505.16381): softmax attention whose positions are
products of Householder matrices of the inputs, alone or with the gate of a forgetting transformer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.growing_state import GrowingMixer, GrowingModel
from models.layers.heads import head_width, join_heads, split_heads
from models.layers.recurrence.general_delta import in_float32_or_wider, solve_unit_triangular
from models.layers.recurrence.mixer import Neighbours, RecurrentMixer, linear, unit
from models.specification import SequenceSpecification

CHUNK = 64
RANK = 32
TAPS = 3


class PathCache(NamedTuple):
    """What all positions so far left.

    Attributes:
        keys: as the last position sees them, (batch, heads, positions, key width).
        values: (batch, heads, positions, value width).
        decays: logarithms of what forget gates left of each, (batch, heads, positions); without
            gates (batch, heads, 0).
    """

    keys: Tensor
    values: Tensor
    decays: Tensor


def path_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    directions: Tensor,
    strengths: Tensor,
    log_gates: Tensor | None = None,
    cache: PathCache | None = None,
    *,
    chunk: int = CHUNK,
) -> tuple[Tensor, PathCache]:
    """Softmax attention with the scores q_iᵀ H_i H_{i−1} … H_{j+1} k_j + g_{j+1} + … + g_i, j <= i,
    H = I − β w ⊗ w.

    At position i all earlier keys are multiplied by H_i. In a chunk what its positions s take from
    the key of j, u_sj = β_s w_s · k, is the solution of a triangular system, and from chunk to
    chunk the keys are multiplied by the product of the chunk.

    Args:
        queries: q, (batch, heads, time, key width); what scores are scaled by, they are.
        keys: k, of the same shape.
        values: v, (batch, heads, time, value width).
        directions: w, of the shape of k, of length 1.
        strengths: β in [0, 2], (batch, heads, time).
        log_gates: g <= 0, (batch, heads, time); None forgets nothing.
        cache: what the last call returned; None starts a sequence.
        chunk: queries that are computed at once.

    Returns:
        o (batch, heads, time, value width) in the type of the values, and the cache after the last
        position.
    """
    dtype = values.dtype
    with torch.autocast(queries.device.type, enabled=False):
        queries, keys, values, directions, strengths = map(
            in_float32_or_wider, (queries, keys, values, directions, strengths)
        )
        if cache is None:
            # No column: a cache without gates keeps no decays.
            no_gates = keys.new_empty(*keys.shape[:2], 0)
            cache = PathCache(keys[:, :, :0], values[:, :, :0], no_gates)
        past_keys, past_values, decays = cache
        outputs = []
        for start in range(0, queries.shape[2], chunk):
            piece = slice(start, start + chunk)
            q, k, w = (x[:, :, piece] for x in (queries, keys, directions))
            beta = strengths[:, :, piece, None]
            # Values are never transformed: only where they are found changes.
            past_values = torch.cat((past_values, values[:, :, piece]), 2)
            # (I + β W Wᵀ) u = …, the WY form of a product of Householder matrices.
            taken, by_past = solve_unit_triangular(
                beta * (w @ w.mT), beta * (w @ k.mT).tril(-1), beta * w
            )
            # The transformation of i itself applies to keys before it, so the diagonal counts.
            reads = (q @ w.mT).tril()
            inside = q @ k.mT - reads @ taken
            # The query goes through the chunk's transformations instead of all past keys.
            before = (q - reads @ by_past) @ past_keys.mT
            if log_gates is not None:
                sums = log_gates[:, :, piece].cumsum(-1)
                inside = inside + (sums.unsqueeze(-1) - sums.unsqueeze(-2))
                before = before + (sums.unsqueeze(-1) + decays.unsqueeze(-2))
                # Relative to the end of the chunk: only differences enter a score.
                decays = torch.cat((decays, -sums), -1) + sums[..., -1:]
            later = torch.ones(inside.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = torch.cat((before, inside.masked_fill(later, -math.inf)), -1)
            if log_gates is not None:
                scores = _without_subnormal_weights(scores)
            # One softmax over old and new keys: no running maximum between chunks.
            outputs.append(torch.softmax(scores, -1) @ past_values)
            # Once a chunk, so that a query of the next one sees keys that are up to date.
            past_keys = torch.cat((past_keys - past_keys @ by_past.mT @ w, k - taken.mT @ w), 2)
    return torch.cat(outputs, 2).to(dtype), PathCache(past_keys, past_values, decays)


def _without_subnormal_weights(scores: Tensor) -> Tensor:
    """Scores whose weights would be below the normal numbers of their type, as those of keys that
    gates have forgotten are, become −∞: products of such numbers are many times as slow."""
    with torch.no_grad():
        span = -math.log(torch.finfo(scores.dtype).tiny) - 10  # a row has fewer than e^10 keys
        negligible = scores < scores.amax(-1, keepdim=True) - span
    return scores.masked_fill(negligible, -math.inf)


class PathState(NamedTuple):
    """Inputs that the convolution still sees, and keys and values."""

    past: Tensor
    cache: PathCache


class PathMixer(RecurrentMixer, GrowingMixer):
    """y_t = W_o o_t, o of :func:`path_attention`, with queries scaled by 1/√(head width).

    q, k and v are linear maps. w is SiLU of a convolution, over three positions, of a map of rank
    32, of length 1 in each head; β = 2 σ(W_β x + b), g = logsigmoid(W_g x + b'). The arguments are
    those of :class:`PathAttention`.
    """

    def __init__(self, width: int, heads: int, *, forget_gate: bool = True) -> None:
        super().__init__()
        self.width, self.heads, self.head_width = width, heads, head_width(width, heads)
        self.projection = linear(width, 3 * width)
        # Of low rank, as in the paper.
        self.direction_map = nn.Sequential(linear(width, RANK), linear(RANK, width))
        self.neighbours = Neighbours(width, TAPS)
        self.strength = linear(width, heads, bias=True)
        self.forget_gate = linear(width, heads, bias=True) if forget_gate else None
        self.output_projection = nn.Linear(width, width, bias=False)

    @property
    def state_size(self) -> int:
        """What one position adds, and what the convolution sees."""
        return self.numbers_after(1)

    def numbers_after(self, positions: int) -> int:
        """Keys, values and, with a gate, decays of all positions; what the convolution sees."""
        decays = 0 if self.forget_gate is None else self.heads
        return positions * (2 * self.width + decays) + self.neighbours.state_size

    def advance(self, hidden: Tensor, state: PathState | None) -> tuple[Tensor, PathState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        queries, keys, values = (
            split_heads(part, self.heads) for part in self.projection(hidden).chunk(3, -1)
        )
        directions, past = self.neighbours(
            self.direction_map(hidden), state.past if state else None
        )
        # Length 1, else I − β w ⊗ w would not be a reflection at β = 2.
        directions = unit(split_heads(functional.silu(directions), self.heads))
        gates = None
        if self.forget_gate is not None:
            gates = functional.logsigmoid(in_float32_or_wider(self.forget_gate(hidden))).mT
        read, cache = path_attention(
            queries * self.head_width**-0.5,
            keys,
            values,
            directions,
            # Up to 2: eigenvalues down to −1, which swaps need.
            2 * torch.sigmoid(self.strength(hidden)).mT,
            gates,
            state.cache if state else None,
        )
        return self.output_projection(join_heads(read)), PathState(past, cache)


class PathAttention(GrowingModel):
    """PaTH attention in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: of attention.
        forget_gate: whether scores also fade with distance, by gates of the inputs (PaTH-FoX).
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        forget_gate: bool = True,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [PathMixer(width, heads, forget_gate=forget_gate) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
