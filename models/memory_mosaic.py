"""Memory Mosaic: blocks of a contextual and a persistent memory, both read by kernel regression.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), sections 3, 6 and appendix C,
with what the text leaves open taken from the released library: initialisation, the scale of the
logits, bandwidth and value scale, and the order of the two inputs that make a value (equation 6
read literally would see the future). Two deviations, both without effect on ordinary data: norms
are clamped at 1e-6, and the factor (1 - λ), which the normalisation cancels, is left out.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.contextual_memory import FAST, REFERENCE, Kernels, unit
from models.layers.dropout import Dropout
from models.layers.embedding import InputOutput
from models.layers.heads import head_width, join_heads, split_heads
from models.specification import SequenceSpecification

Implementation = Literal["fast", "reference"]
# Per-head scalars are stored ten times too small: a learning rate ten times larger for them.
SCALAR_GAIN = 10.0
LARGEST_HALF_LOG_BANDWIDTH = 5.0  # β ≤ e¹⁰ ≈ 22,026, within float16, in which the authors trained
BYTES_PER_NUMBER = 4


class ContextualState(NamedTuple):
    """What a contextual memory keeps: its pairs, and what completes the pending one.

    Attributes:
        average: leaky average of the last position, (batch, heads, head width).
        value: its value projection w_t, (batch, heads, head width), which waits for w_{t+1}.
        keys, values: (batch, heads, positions - 1, head width), unit vectors.
    """

    average: Tensor
    value: Tensor
    keys: Tensor
    values: Tensor


class MosaicBlockState(NamedTuple):
    """State of the contextual memory, and the leaky average of the persistent one."""

    contextual: ContextualState
    average: Tensor


class KeyExtractor(nn.Module):
    """Leaky averages k̄_t = k̃_t + λ k̄_{t-1} with λ = exp(-10 |leak|); keys are k_t = unit(k̄_t).

    One decay per head, 0.5 to 5 at the start: the heads look back over different times.
    """

    def __init__(self, heads: int, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        # λ from 0.61 to 0.007. |leak| has a kink at 0, where a softplus would have none; but so the
        # released model is.
        self.leak = nn.Parameter(torch.linspace(0.05, 0.5, heads))

    def forward(self, projected: Tensor) -> Tensor:
        """(batch, heads, time, head width) -> averages of the same shape, at least float32, whose
        unit vectors are the keys."""
        return self.kernels.average(projected, self._decay())

    def step(self, projected: Tensor, average: Tensor | None) -> Tensor:
        """One position: (batch, heads, head width) and the last average -> the next average."""
        projected = projected.to(torch.promote_types(projected.dtype, torch.float32))
        if average is None:
            return projected
        return projected + self.coefficients()[:, None] * average

    def coefficients(self) -> Tensor:
        """λ, (heads,)"""
        return torch.exp(-self._decay())

    def _decay(self) -> Tensor:
        return SCALAR_GAIN * self.leak.abs()


class MosaicMemory(nn.Module):
    """What both memories share: keys, bandwidth β, the scale of the values and the output map.

    Args:
        width: size of the hidden vectors.
        heads: memories that are read side by side.
        projections: maps of the input, fused in one matrix: 1 (keys) or 2 (keys and values).
    """

    def __init__(
        self, width: int, heads: int, projections: int, dropout: float, kernels: Kernels
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.kernels = heads, dropout, kernels
        self.projection = nn.Linear(width, projections * width, bias=False)
        self.key_extractor = KeyExtractor(heads, kernels)
        self.bandwidth = nn.Parameter(torch.full((heads,), 0.1))  # β = e² ≈ 7.4 at the start
        # values of length e^−0.5 ≈ 0.61
        self.value_scale = nn.Parameter(torch.full((heads,), -0.05))
        self.output = nn.Linear(width, width, bias=False)

    def _queries(self, keys: Tensor) -> Tensor:
        """β k with β = exp(2 min(10 bandwidth, 5)) for keys (batch, heads, ..., head width)."""
        exponent = (SCALAR_GAIN * self.bandwidth).clamp(max=LARGEST_HALF_LOG_BANDWIDTH)
        return torch.exp(2 * exponent)[:, None, None] * keys

    def _write_out(self, read: Tensor) -> Tensor:
        """Output map of the values read, (..., width) in the order of the heads.

        The scale exp(10 value_scale) of a head commutes with the average over its values. It is
        applied to the matrix, which is smaller than the activations.
        """
        scale = torch.exp(SCALAR_GAIN * self.value_scale)[:, None]
        weight = (self.output.weight.unflatten(1, (self.heads, -1)) * scale).flatten(1)
        return functional.linear(read, weight)

    def _attention_dropout(self) -> float:
        return self.dropout if self.training else 0.0


class ContextualMemory(MosaicMemory):
    """Memory of the pairs (k_s, v_s) of this sequence before t, read at k_t.

    Values look one position ahead: v_s = unit((1 - c) w_{s+1} + c w_s), c = ``value_mixing``.
    """

    def __init__(self, width: int, heads: int, dropout: float, kernels: Kernels) -> None:
        super().__init__(width, heads, 2, dropout, kernels)
        self.value_mixing = nn.Parameter(torch.rand(heads))  # starts on [0, 1] and may leave it

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, ContextualState]:
        """Hidden vectors (batch, time, width) -> (batch, time, width), and the last state."""
        for_keys, for_values = (
            split_heads(part, self.heads) for part in self.projection(hidden).chunk(2, dim=-1)
        )
        averages = self.key_extractor(for_keys)
        keys = unit(averages)
        queries, keys = self._queries(keys).to(hidden.dtype), keys.to(hidden.dtype)
        # One value less than positions: that of the last one needs an input that is not there yet.
        values = self._values(for_values[:, :, :-1], for_values[:, :, 1:]).to(hidden.dtype)
        read = self.kernels.read_past(queries, keys, values, self._attention_dropout())
        state = ContextualState(averages[:, :, -1], for_values[:, :, -1], keys[:, :, :-1], values)
        return self._write_out(join_heads(read)), state

    def attention_of_last(self, hidden: Tensor) -> Tensor:
        """Weights (batch, heads, time) with which the last of hidden vectors (batch, time, width)
        reads the pairs that start at each position; its own is not in memory and has 0."""
        for_keys, _ = self.projection.weight.chunk(2)
        projected = split_heads(functional.linear(hidden, for_keys), self.heads)
        keys = unit(self.key_extractor(projected))
        scores = (self._queries(keys[:, :, -1:]) * keys[:, :, :-1]).sum(-1)
        return functional.pad(scores.softmax(-1), (0, 1))

    def step(self, hidden: Tensor, state: ContextualState | None) -> tuple[Tensor, ContextualState]:
        """One position: hidden vectors (batch, width) -> (batch, width), and the next state."""
        for_keys, value = (
            part.unflatten(-1, (self.heads, -1)) for part in self.projection(hidden).chunk(2, -1)
        )
        if state is None:
            average = self.key_extractor.step(for_keys, None)
            empty = value[:, :, None][:, :, :0]  # (batch, heads, 0, head width)
            read, keys, values = torch.zeros_like(value), empty, empty
        else:
            average = self.key_extractor.step(for_keys, state.average)
            key = unit(state.average)[:, :, None]
            completed = self._values(state.value[:, :, None], value[:, :, None])
            keys = torch.cat((state.keys, key.to(value.dtype)), dim=2)
            # The pair of the position before is complete now, and may be read at once.
            values = torch.cat((state.values, completed.to(value.dtype)), dim=2)
            queries = self._queries(unit(average)[:, :, None]).to(value.dtype)
            # Without a mask: the pair of this position is not complete, so what is stored is
            # earlier.
            read = functional.scaled_dot_product_attention(
                queries, keys, values, scale=1.0
            ).squeeze(2)
        return self._write_out(read.flatten(1)), ContextualState(average, value, keys, values)

    def _values(self, current: Tensor, following: Tensor) -> Tensor:
        """Unit values (batch, heads, time, head width) of projections one position apart."""
        mixing = self.value_mixing[:, None, None].to(current.dtype)
        return unit(torch.lerp(following, current, mixing))


class PersistentMemory(MosaicMemory):
    """Memory of learned pairs, the same for all sequences; it stands where others have an MLP.

    The stored keys are not normalised: their length is learned with them.
    """

    def __init__(
        self, width: int, heads: int, slots: int, dropout: float, kernels: Kernels
    ) -> None:
        super().__init__(width, heads, 1, dropout, kernels)
        # drawn by MemoryMosaic, with all matrices
        self.keys = nn.Parameter(torch.empty(heads, slots, width // heads))
        self.values = nn.Parameter(torch.empty(heads, slots, width // heads))

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden vectors (batch, time, width) -> (batch, time, width), and the last average."""
        averages = self.key_extractor(split_heads(self.projection(hidden), self.heads))
        return self._read(unit(averages).to(hidden.dtype)), averages[:, :, -1]

    def step(self, hidden: Tensor, average: Tensor | None) -> tuple[Tensor, Tensor]:
        """One position: hidden vectors (batch, width) -> (batch, width), and the next average."""
        projected = self.projection(hidden).unflatten(-1, (self.heads, -1))
        average = self.key_extractor.step(projected, average)
        return self._read(unit(average)[:, :, None].to(hidden.dtype)).squeeze(1), average

    def _read(self, keys: Tensor) -> Tensor:
        """(batch, heads, time, head width) -> (batch, time, width)"""
        # The same query rule as the contextual memory's, on keys that are parameters.
        read = self.kernels.read_slots(
            self._queries(keys), self.keys, self.values, self._attention_dropout()
        )
        return self._write_out(join_heads(read))


class MosaicBlock(nn.Module):
    """x + contextual(norm(x)), then x + persistent(norm(x))."""

    def __init__(
        self, width: int, heads: int, slots: int, dropout: float, kernels: Kernels
    ) -> None:
        super().__init__()
        self.contextual_norm = nn.LayerNorm(width, eps=1e-5, bias=False)
        self.contextual = ContextualMemory(width, heads, dropout, kernels)
        self.persistent_norm = nn.LayerNorm(width, eps=1e-5, bias=False)
        self.persistent = PersistentMemory(width, heads, slots, dropout, kernels)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, MosaicBlockState]:
        """Hidden vectors (batch, time, width) -> (batch, time, width), and the last state."""
        read, contextual = self.contextual.prefill(self.contextual_norm(hidden))
        hidden = hidden + self.dropout(read)
        read, average = self.persistent.prefill(self.persistent_norm(hidden))
        return hidden + self.dropout(read), MosaicBlockState(contextual, average)

    def step(
        self, hidden: Tensor, state: MosaicBlockState | None
    ) -> tuple[Tensor, MosaicBlockState]:
        """One position: hidden vectors (batch, width) -> (batch, width), and the next state."""
        contextual, average = state or (None, None)
        read, contextual = self.contextual.step(self.contextual_norm(hidden), contextual)
        hidden = hidden + self.dropout(read)
        read, average = self.persistent.step(self.persistent_norm(hidden), average)
        return hidden + self.dropout(read), MosaicBlockState(contextual, average)


class MemoryMosaic(nn.Module):
    """Memory Mosaic without encoding of positions and with a tied head.

    Dropout acts on the attention weights of both memories and after their output maps. Matrices
    start as N(0, 1/fan_in), output maps as N(0, 1/(fan_in layers)), stored keys and values as
    N(0, 1/head width). Logits are scaled by 1/√width; outputs in channels are not.

    Args:
        specification: shapes of the task. Its ``maximum_length`` sets no limit here.
        width: size of the hidden vectors, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each kind in a block.
        dropout: probability.
        persistent_slots: learned pairs per head; None means 3.5 width, which gives a block the
            size of a transformer's.
        implementation: "fast", or "reference": the same function in plain steps, to check it.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 8,
        dropout: float = 0.05,
        persistent_slots: int | None = None,
        implementation: Implementation = "fast",
    ) -> None:
        super().__init__()
        size = head_width(width, heads)
        slots = 7 * width // 2 if persistent_slots is None else persistent_slots
        if layers < 1 or slots < 1:
            raise ValueError(
                f"layers={layers} and persistent_slots={slots} must be at least 1; raise them"
            )
        if implementation not in get_args(Implementation):
            choices = ", ".join(get_args(Implementation))
            raise ValueError(
                f"implementation={implementation!r} is unknown; choose one of {choices}"
            )
        kernels = FAST if implementation == "fast" else REFERENCE
        self.width = width
        self.input_output = InputOutput(specification, width)
        self.blocks = nn.ModuleList(
            MosaicBlock(width, heads, slots, dropout, kernels) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width, eps=1e-5, bias=False)
        # Of the released code, which has tokens alone; neither it nor the paper says why.
        self.output_scale = 1.0 if specification.vocabulary is None else 1 / math.sqrt(width)
        for name, parameter in self.blocks.named_parameters():
            if name.endswith("output.weight"):
                # The released code divides by √layers; GPT-2, with as many writes, by √(2 layers).
                nn.init.normal_(parameter, std=1 / math.sqrt(width * layers))
            elif name.endswith("projection.weight"):
                nn.init.normal_(parameter, std=1 / math.sqrt(width))
            # Stored keys and values, of length about 1: as the unit keys that they are compared
            # with.
            elif parameter.dim() == 3:
                nn.init.normal_(parameter, std=1 / math.sqrt(size))

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 (batch, time) or (batch, time, channels) -> (batch, time, output_size)."""
        return self.input_output.read_out(self.hidden(inputs))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (batch, time, width), what ``output_matrix`` reads out."""
        hidden = self.input_output.embed(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        return self._finish(hidden)

    @property
    def output_matrix(self) -> Tensor:
        """(output_size, width)"""
        return self.input_output.matrix

    def prefill(self, inputs: Tensor) -> tuple[Tensor, list[MosaicBlockState]]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden = self.input_output.embed(inputs)
        states = []
        for block in self._typed_blocks():
            hidden, state = block.prefill(hidden)
            states.append(state)
        return self.input_output.read_out(self._finish(hidden[:, -1])), states

    def step(
        self, inputs: Tensor, state: list[MosaicBlockState] | None = None
    ) -> tuple[Tensor, list[MosaicBlockState]]:
        """One position: (batch,) or (batch, channels) -> (batch, output_size), state per block."""
        hidden = self.input_output.embed(inputs)
        states = []
        for index, block in enumerate(self._typed_blocks()):
            hidden, following = block.step(hidden, state[index] if state else None)
            states.append(following)
        return self.input_output.read_out(self._finish(hidden)), states

    def attention_of_last(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (layers, batch, heads, time): the weights with which the
        last position reads the pair of each position in the contextual memories. The pair of the
        last position is not complete and has weight 0."""
        hidden = self.input_output.embed(inputs)
        weights = []
        for block in self._typed_blocks():
            weights.append(block.contextual.attention_of_last(block.contextual_norm(hidden)))
            if len(weights) < len(self.blocks):
                hidden = block(hidden)
        return torch.stack(weights)

    def leaky_coefficients(self) -> Tensor:
        """λ of the keys of the contextual memories (equation 6), (layers, heads)."""
        extractors = (block.contextual.key_extractor for block in self._typed_blocks())
        return torch.stack([extractor.coefficients() for extractor in extractors])

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) after ``length`` positions: the complete pairs, two leaky averages and
        the value projection that waits for the next position, in every block."""
        vectors = 2 * (length - 1) + 3 if length else 0
        return BYTES_PER_NUMBER * len(self.blocks) * self.width * vectors

    def _finish(self, hidden: Tensor) -> Tensor:
        return self.norm(hidden) * self.output_scale

    def _typed_blocks(self) -> list[MosaicBlock]:
        return cast(list[MosaicBlock], list(self.blocks))
