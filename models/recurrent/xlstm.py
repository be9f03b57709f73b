"""xLSTM (Beck et al. 2024, arXiv 2405.04517): LSTM cells whose gates are exponentials, one with a
matrix of memory and no recurrent weights (mLSTM), one of scalars with recurrent weights (sLSTM)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.general_delta import in_float32_or_wider
from models.layers.recurrence.mixer import Neighbours, RecurrentMixer
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.linear.parts import without_weight_decay
from models.specification import SequenceSpecification

BLOCK = 4  # channels that a map of queries, keys and values mixes
FORGET_BIASES = 3.0, 6.0  # at the start, from the first to the last head
INPUT_BIAS_DEVIATION = 0.1
NORM_EPSILON = 1e-5


class BlockMap(nn.Module):
    """A linear map of blocks of channels, each by itself.

    Args:
        blocks: of equal width.
        inputs, outputs: channels of a block.
        deviation: of its weights at the start.
    """

    def __init__(self, blocks: int, inputs: int, outputs: int, deviation: float) -> None:
        super().__init__()
        self.weights = nn.Parameter(deviation * torch.randn(blocks, inputs, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, blocks · inputs) -> (batch, time, blocks · outputs)."""
        blocks = x.unflatten(-1, (len(self.weights), -1))
        return torch.einsum("btni,nio->btno", blocks, self.weights).flatten(2)


class ScaledMatrix(NamedTuple):
    """Memory and normaliser as one, (batch, heads, key width, value width + 1), divided by e^m;
    m, (batch, heads)."""

    memory: Tensor
    scale: Tensor


def matrix_lstm(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_inputs: Tensor,
    log_forgets: Tensor,
    state: ScaledMatrix | None = None,
) -> tuple[Tensor, ScaledMatrix]:
    """C_t = f C_{t−1} + i k ⊗ v,  n_t = f n_{t−1} + i k,  h_t = C_tᵀ q / max(|n_t · q|, 1).

    i = e^ĩ may be of any size. Everything is divided by e^m, with m the largest exponent inside, as
    a softmax is; the quotient does not depend on m, so that no gradient goes through it.

    Args:
        queries: q, (batch, time, heads, key width); what h is scaled by, they are.
        keys: k, of the same shape.
        values: v, (batch, time, heads, value width).
        log_inputs: ĩ, (batch, time, heads).
        log_forgets: ln f <= 0, (batch, time, heads).
        state: what the last call returned; None starts a sequence.

    Returns:
        h (batch, time, heads, value width) in the type of the values, and the state in float32 or
        wider.
    """
    dtype = values.dtype
    with torch.autocast(queries.device.type, enabled=False):
        queries, keys, values, log_inputs, log_forgets = map(
            in_float32_or_wider, (queries, keys, values, log_inputs, log_forgets)
        )
        with torch.no_grad():
            # Of an empty memory any scale will do; 0 keeps max(|n · q|, 1) as it is.
            first = torch.zeros_like(log_inputs[:, 0]) if state is None else state.scale
            sums = log_forgets.cumsum(1)
            # m_t = max(ln f_t + m_{t−1}, ĩ_t) for all t at once: m less Σ ln f only rises.
            largest = (log_inputs - sums).cummax(1).values
            scales = torch.maximum(largest, first.unsqueeze(1)) + sums
            before = torch.cat((first.unsqueeze(1), scales[:, :-1]), 1)
        # At most 1 by the choice of m.
        weights = (log_inputs - scales).exp().unsqueeze(-1)
        # n is a column of the memory: a value that is always 1.
        counted = torch.cat((values, torch.ones_like(values[..., :1])), -1)
        # The decay also changes the scale of what is stored, from m_{t−1} to m_t.
        writes = Writes(keys, weights * counted, log_forgets + (before - scales))
        read, memory = linear_recurrence(queries, writes, None if state is None else state.memory)
        total, count = read[..., :-1], read[..., -1:]
        # The 1 of max(|n · q|, 1) in units of e^m; never 0, where e^{−m} underflows.
        floor = (-scales).exp().clamp(min=torch.finfo(count.dtype).tiny).unsqueeze(-1)
        outputs = total / torch.maximum(count.abs(), floor)
    return outputs.to(dtype), ScaledMatrix(memory, scales[:, -1])


class MatrixState(NamedTuple):
    """Inputs that the convolution still sees, and the memories."""

    past: Tensor
    memory: ScaledMatrix


class MatrixLSTMMixer(RecurrentMixer):
    """mLSTM between a map to twice the width and one back. With E = expand·width:

        x, z = split(W_up u);  c = SiLU(causal depthwise convolution of x);
        q, k = maps of blocks of four channels of c, v of x, k scaled by 1/√(head width);
        ĩ, f̃ = linear maps of (q, k, v) for each head, ln f = ln σ(f̃);
        W_down ((norm(h) + s ∘ c) ∘ SiLU(z)), h of :func:`matrix_lstm`.

    The norm is LayerNorm of a head with a gain; s starts at 1. Maps of gates start at 0, ĩ with
    biases N(0, 0.1²), f̃ with biases from 3 to 6. The arguments are those of :class:`XLSTM`.
    """

    def __init__(self, width: int, heads: int, *, expand: int = 2, convolution: int = 4) -> None:
        super().__init__()
        self.channels = expand * width
        self.heads, self.head_width = heads, head_width(self.channels, heads)
        if self.channels % BLOCK:
            raise ValueError(
                f"queries and keys are maps of blocks of {BLOCK} channels, got expand={expand} × "
                f"width={width}; make width a multiple of {BLOCK}"
            )
        # "Small init" of Nguyen and Salazar (2019), as the released code.
        deviation = math.sqrt(2 / (5 * width))
        self.input_projection = nn.Linear(width, 2 * self.channels, bias=False)
        nn.init.normal_(self.input_projection.weight, std=deviation)
        self.neighbours = Neighbours(self.channels, convolution, bias=True)
        blocks = self.channels // BLOCK
        self.query_map, self.key_map, self.value_map = (
            BlockMap(blocks, BLOCK, BLOCK, deviation) for _ in range(3)
        )
        self.gates = nn.Linear(3 * self.channels, 2 * heads)
        # Gates depend on nothing at the start, so that heads differ by their biases alone.
        nn.init.zeros_(self.gates.weight)
        with torch.no_grad():
            self.gates.bias[:heads].normal_(std=INPUT_BIAS_DEVIATION)
            # σ(3) to σ(6): heads that remember for about 20 to 400 positions.
            self.gates.bias[heads:] = torch.linspace(*FORGET_BIASES, heads)
        self.gains = nn.Parameter(torch.ones(heads, self.head_width))
        self.skip = nn.Parameter(torch.ones(self.channels))
        self.output_projection = nn.Linear(self.channels, width, bias=False)

    @property
    def state_size(self) -> int:
        """Memory, normaliser and scale of each head, and what the convolution still sees."""
        memory = self.channels * (self.head_width + 1) + self.heads
        return memory + self.neighbours.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on gains and s."""
        return without_weight_decay(self, "gains", "skip")

    def advance(self, hidden: Tensor, state: MatrixState | None) -> tuple[Tensor, MatrixState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        inputs, gate = self.input_projection(hidden).chunk(2, -1)
        seen, past = self.neighbours(inputs, state.past if state else None)
        seen = functional.silu(seen)
        # Values skip the convolution: what is stored is the token itself.
        flat = self.query_map(seen), self.key_map(seen), self.value_map(inputs)
        log_inputs, forgets = self.gates(torch.cat(flat, -1)).chunk(2, -1)
        queries, keys, values = (x.unflatten(-1, (self.heads, -1)) for x in flat)
        read, memory = matrix_lstm(
            queries,
            keys * self.head_width**-0.5,
            values,
            log_inputs,
            functional.logsigmoid(in_float32_or_wider(forgets)),
            state.memory if state else None,
        )
        normed = functional.layer_norm(read, read.shape[-1:], eps=NORM_EPSILON) * self.gains
        # A way past the memory, as D of Mamba.
        mixed = (normed.flatten(2) + self.skip * seen) * functional.silu(gate)
        return self.output_projection(mixed), MatrixState(past, memory)


class ScalarState(NamedTuple):
    """Inputs that the convolution still sees; then, each (batch, heads, head width), the output h,
    the cell c and the normaliser n, both divided by e^m, and m."""

    past: Tensor
    output: Tensor
    cell: Tensor
    normaliser: Tensor
    scale: Tensor


class ScalarLSTMMixer(RecurrentMixer):
    """sLSTM: c_t = f c_{t−1} + i z,  n_t = f n_{t−1} + i,  h_t = o c_t / n_t, for each channel.

    Gates are of the inputs and of h_{t−1} of the same head: ĩ, f̃ = W s + R h + b of s, SiLU of a
    short convolution, z = tanh(W u + R h + b), o = σ(W u + R h + b), with i = e^ĩ, ln f = ln σ(f̃).
    All maps are within heads. The layer gives LayerNorm of each head of h, with a gain. R starts at
    0, the biases of f from 3 to 6, all others at 0. The arguments are those of :class:`XLSTM`.
    """

    def __init__(self, width: int, heads: int, *, convolution: int = 4) -> None:
        super().__init__()
        self.width, self.heads, self.head_width = width, heads, head_width(width, heads)
        self.neighbours = Neighbours(width, convolution, bias=True)
        deviation = math.sqrt(2 / (5 * width))
        sizes = heads, self.head_width, 2 * self.head_width
        self.gate_map = BlockMap(*sizes, deviation)
        self.value_map = BlockMap(*sizes, deviation)
        # 0: at the start no gate depends on the last output.
        self.recurrent = nn.Parameter(torch.zeros(heads, self.head_width, 4 * self.head_width))
        biases = torch.zeros(heads, 4, self.head_width)
        biases[:, 1] = torch.linspace(*FORGET_BIASES, heads)[:, None]
        self.biases = nn.Parameter(biases.flatten(1))
        self.gains = nn.Parameter(torch.ones(heads, self.head_width))

    @property
    def state_size(self) -> int:
        """h, c, n and m of each channel, and what the convolution still sees."""
        return 4 * self.width + self.neighbours.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on biases and gains."""
        return without_weight_decay(self, "biases", "gains")

    def advance(self, hidden: Tensor, state: ScalarState | None) -> tuple[Tensor, ScalarState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        seen, past = self.neighbours(hidden, state.past if state else None)
        # i and f see the neighbours; z and o the position alone.
        parts = self.gate_map(functional.silu(seen)), self.value_map(hidden)
        # (batch, time, heads, [i, f, z, o] · head width)
        inputs = torch.cat([part.unflatten(-1, (self.heads, -1)) for part in parts], -1)
        with torch.autocast(hidden.device.type, enabled=False):
            outputs, state = self._loop(in_float32_or_wider(inputs + self.biases), state, past)
        normed = functional.layer_norm(outputs, outputs.shape[-1:], eps=NORM_EPSILON) * self.gains
        return normed.flatten(2).to(hidden.dtype), state

    def _loop(
        self, inputs: Tensor, state: ScalarState | None, past: Tensor
    ) -> tuple[Tensor, ScalarState]:
        zeros = torch.zeros_like(inputs[:, 0, :, : self.head_width])
        if state is None:
            # m = −∞: the first position decides the scale.
            state = ScalarState(past, zeros, zeros, zeros, zeros - math.inf)
        _, output, cell, count, scale = state
        outputs = []
        # h enters the gates, so that no scan over positions can be parallel.
        for position in inputs.unbind(1):
            sums = position + (output.unsqueeze(-2) @ self.recurrent).squeeze(-2)
            log_input, forget, candidate, gate = sums.chunk(4, -1)
            log_forget = functional.logsigmoid(forget)
            # c / n does not depend on m, so that no gradient goes through it.
            largest = torch.maximum(log_forget.detach() + scale, log_input.detach())
            retained, entering = (log_forget + scale - largest).exp(), (log_input - largest).exp()
            cell = retained * cell + entering * torch.tanh(candidate)
            count = retained * count + entering
            output, scale = torch.sigmoid(gate) * cell / count, largest
            outputs.append(output)
        return torch.stack(outputs, 1), ScalarState(past, output, cell, count, scale)


class XLSTM(ResidualModel):
    """mLSTM and sLSTM layers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block.
        scalar_every: each so-manieth layer, counted from the last, is sLSTM and the others are
            mLSTM; 0 has mLSTM alone, 1 sLSTM alone.
        expand: inner channels of mLSTM for each hidden channel.
        convolution: positions that the short convolutions see; 1 has none.
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
        scalar_every: int = 2,
        expand: int = 2,
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        if scalar_every < 0:
            raise ValueError(
                f"scalar_every={scalar_every} is no distance between layers; 0 has mLSTM alone"
            )
        mixers: list[RecurrentMixer] = []
        for layer in range(layers):
            # Counted from the last layer, so that a model of one layer has sLSTM.
            if scalar_every and (layers - 1 - layer) % scalar_every == 0:
                mixers.append(ScalarLSTMMixer(width, heads, convolution=convolution))
            else:
                mixers.append(MatrixLSTMMixer(width, heads, expand=expand, convolution=convolution))
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
