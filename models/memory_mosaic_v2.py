"""Memory Mosaic v2: blocks of a long-term, a short-term and a persistent memory.

Source: Zhang and Bottou, "Memory Mosaics at scale" (NeurIPS 2025, arXiv 2507.03285), sections 3
and 4. No code of it is public. What the paper leaves open: gates and forgetting are one number for
each head; the short-term memory sees the pairs t − window … t − 1, as the appendix draws it; the
outputs of the long-term heads come before those of the short-term heads; the read-out is tied and
not scaled; dropout as in the first version. Each part can be exchanged for what the first version
(arXiv 2405.06394) has, or left out, so that an ablation is a sweep.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.contextual_memory import FAST
from models.layers.delayed_memory import (
    Choices,
    DelayedMemory,
    DelayedMemoryState,
    LongTermMemory,
    ShortTermMemory,
)
from models.layers.embedding import InputOutput
from models.layers.heads import head_width, join_heads
from models.memory_mosaic import PersistentMemory
from models.specification import SequenceSpecification

Persistent = Literal["gated", "slots", "none"]
BYTES_PER_NUMBER = 4
TRUNCATED_AT = 3.0  # standard deviations


class MosaicV2BlockState(NamedTuple):
    """States of the contextual memories, and the leaky average of slots."""

    contextual: tuple[DelayedMemoryState, ...]
    persistent: Tensor | tuple[()]


class GatedNetwork(nn.Module):
    """The persistent memory of the second version: W_o (SiLU(W_g x) ∘ W_u x), without biases.

    Args:
        width: of x and of the outputs.
        hidden: units between them.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, 2 * hidden, bias=False)  # rows of W_g, then of W_u
        self.output = nn.Linear(hidden, width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (..., width) -> (..., width)."""
        gates, units = self.projection(hidden).chunk(2, -1)
        return self.output(functional.silu(gates) * units)

    def prefill(self, hidden: Tensor) -> tuple[Tensor, tuple[()]]:
        """What ``forward`` gives; nothing is kept."""
        return self(hidden), ()

    def step(self, hidden: Tensor, state: tuple[()] | None) -> tuple[Tensor, tuple[()]]:
        """One position, (batch, width) -> (batch, width); nothing is kept."""
        return self(hidden), ()


class MosaicV2Block(nn.Module):
    """x + W_o [contextual memories of norm(x)], then x + persistent(norm(x))."""

    def __init__(
        self,
        contextual: list[DelayedMemory],
        persistent: GatedNetwork | PersistentMemory | None,
        width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.contextual = nn.ModuleList(contextual)
        # A block without contextual memories has neither their norm nor their map, so that an
        # ablation counts no parameters that do nothing.
        if contextual:
            self.contextual_norm = nn.LayerNorm(width, eps=1e-5, bias=False)
            self.output = nn.Linear(len(contextual) * width, width, bias=False)
        self.persistent = persistent
        if persistent is not None:
            self.persistent_norm = nn.LayerNorm(width, eps=1e-5, bias=False)

    def forward(self, hidden: Tensor, delay: int) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden, delay)[0]

    def prefill(self, hidden: Tensor, delay: int) -> tuple[Tensor, MosaicV2BlockState]:
        """Hidden vectors (batch, time, width) -> (batch, time, width), and the last state."""
        results: list[tuple[Tensor, DelayedMemoryState]] = []
        if self.contextual:
            normed = self.contextual_norm(hidden)
            results = [memory(normed, delay) for memory in self.memories()]
            hidden = hidden + self._write_out([join_heads(read) for read, _ in results])
        contextual = tuple(state for _, state in results)
        if self.persistent is None:
            return hidden, MosaicV2BlockState(contextual, ())
        read, persistent = self.persistent.prefill(self.persistent_norm(hidden))
        return hidden + self.dropout(read), MosaicV2BlockState(contextual, persistent)

    def step(
        self, hidden: Tensor, state: MosaicV2BlockState | None, delay: int
    ) -> tuple[Tensor, MosaicV2BlockState]:
        """One position: hidden vectors (batch, width) -> (batch, width), and the next state."""
        results: list[tuple[Tensor, DelayedMemoryState]] = []
        if self.contextual:
            normed = self.contextual_norm(hidden)
            before = state.contextual if state else [None] * len(self.contextual)
            results = [
                memory.step(normed, memory_state, delay)
                for memory, memory_state in zip(self.memories(), before, strict=True)
            ]
            hidden = hidden + self._write_out([read.flatten(1) for read, _ in results])
        contextual = tuple(memory_state for _, memory_state in results)
        if self.persistent is None:
            return hidden, MosaicV2BlockState(contextual, ())
        persistent_state = cast(Tensor, state.persistent) if state else None
        read, persistent = cast(PersistentMemory, self.persistent).step(
            self.persistent_norm(hidden), persistent_state
        )
        return hidden + self.dropout(read), MosaicV2BlockState(contextual, persistent)

    def attention_of_last(self, hidden: Tensor, delay: int) -> Tensor:
        """(batch, heads of all memories, time)"""
        normed = self.contextual_norm(hidden)
        attention = [memory.attention_of_last(normed, delay) for memory in self.memories()]
        return torch.cat(attention, 1)

    def vectors_after(self, positions: int) -> int:
        """Vectors of the whole width that one sequence keeps."""
        vectors = sum(memory.vectors_after(positions) for memory in self.memories())
        return vectors + isinstance(self.persistent, PersistentMemory)

    def memories(self) -> list[DelayedMemory]:
        """The contextual memories: long-term, short-term."""
        return cast(list[DelayedMemory], list(self.contextual))

    def _write_out(self, read: list[Tensor]) -> Tensor:
        return self.dropout(self.output(torch.cat(read, -1)))


class MemoryMosaicV2(nn.Module):
    """Memory Mosaic of the second version, without encoding of positions and with a tied head.

    In training the delay of the long-term memory is drawn anew for each pass, uniformly from
    ``delay`` … ``longest_delay`` and for all layers, from torch's global generator as dropout is.
    Matrices of block l start as normal with σ = 1/√(2 width (l + 1)), truncated at 3σ; the output
    map of a gated network with its own fan-in in the place of width; the embedding with
    σ = 1/√(2 width).

    Args:
        specification: shapes of the task. Its ``maximum_length`` sets no limit here.
        width: size of the hidden vectors, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each kind in a block.
        adaptive_bandwidth: β grows with the number of pairs; false: the constant of version 1.
        gated_keys: weights of key averages depend on the input; false: the leaky average of
            version 1.
        long_term: whether blocks have a memory of the pairs s <= t − delay.
        short_term: whether they have a memory of the pairs t − window <= s < t.
        window: pairs of the short-term memory; None sees all, as the one memory of version 1.
        delay: outside of training.
        longest_delay: largest delay that is drawn in training.
        persistent: "gated" (SwiGLU), "slots" (version 1), or "none".
        persistent_width: units of the gated network, or slots for each head. None makes a block as
            large as a transformer's: 2 width − 4/3 heads if both contextual memories are there,
            and 3.5 width slots.
        dropout: probability, on attention weights and after output maps.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 8,
        adaptive_bandwidth: bool = True,
        gated_keys: bool = True,
        long_term: bool = True,
        short_term: bool = True,
        window: int | None = 32,
        delay: int = 8,
        longest_delay: int = 32,
        persistent: Persistent = "gated",
        persistent_width: int | None = None,
        dropout: float = 0.05,
    ) -> None:
        super().__init__()
        head_width(width, heads)
        _check(layers, window, delay, longest_delay, persistent, persistent_width)
        if not (long_term or short_term or persistent != "none"):
            raise ValueError("no memory is left; switch long_term, short_term or persistent on")
        self.width, self.delay, self.longest_delay = width, delay, longest_delay
        self.long_term = long_term
        tokens = specification.vocabulary is not None
        # σ of the embedding: that of a matrix of block 0.
        deviation = 1 / math.sqrt(2 * width)
        self.input_output = InputOutput(
            specification, width, standard_deviation=deviation if tokens else None
        )
        if tokens:
            # InputOutput draws an untruncated normal.
            _truncated_normal(self.input_output.matrix, deviation)
        choices = Choices(width, heads, adaptive_bandwidth, gated_keys, dropout)
        blocks = []
        for layer in range(layers):
            contextual: list[DelayedMemory] = []
            if long_term:
                contextual.append(LongTermMemory(choices))
            if short_term:
                contextual.append(ShortTermMemory(choices, window))
            persistent_memory = _persistent(persistent, persistent_width, choices, len(contextual))
            blocks.append(MosaicV2Block(contextual, persistent_memory, width, dropout))
            _initialise(blocks[-1], width, layer)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width, eps=1e-5, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 (batch, time) or (batch, time, channels) -> (batch, time, output_size)."""
        return self.input_output.read_out(self.hidden(inputs))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (batch, time, width), what ``output_matrix`` reads out."""
        hidden, delay = self.input_output.embed(inputs), self._delay()
        for block in self.blocks:
            hidden = block(hidden, delay)
        return self.norm(hidden)

    @property
    def output_matrix(self) -> Tensor:
        """(output_size, width)"""
        return self.input_output.matrix

    def prefill(self, inputs: Tensor) -> tuple[Tensor, list[MosaicV2BlockState]]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden = self.input_output.embed(inputs)
        states = []
        for block in self._typed_blocks():
            hidden, state = block.prefill(hidden, self.delay)
            states.append(state)
        return self.input_output.read_out(self.norm(hidden[:, -1])), states

    def step(
        self, inputs: Tensor, state: list[MosaicV2BlockState] | None = None
    ) -> tuple[Tensor, list[MosaicV2BlockState]]:
        """One position: (batch,) or (batch, channels) -> (batch, output_size), state per block."""
        hidden = self.input_output.embed(inputs)
        states = []
        for index, block in enumerate(self._typed_blocks()):
            hidden, following = block.step(hidden, state[index] if state else None, self.delay)
            states.append(following)
        return self.input_output.read_out(self.norm(hidden)), states

    def attention_of_last(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (layers, batch, heads, time): the weights with which the
        last position reads the pair of each position; long-term heads before short-term ones."""
        hidden = self.input_output.embed(inputs)
        weights = []
        for block in self._typed_blocks():
            weights.append(block.attention_of_last(hidden, self.delay))
            hidden = block(hidden, self.delay)
        return torch.stack(weights)

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) after ``length`` positions: pairs of the long-term memory, those in the
        window of the short-term memory, and an average and a pending value of each. The pair of
        the last position counts as one, although its value waits."""
        vectors = sum(block.vectors_after(length) for block in self._typed_blocks())
        return BYTES_PER_NUMBER * self.width * vectors

    def _delay(self) -> int:
        # In evaluation the delay is fixed, so that a result does not depend on a draw.
        if not (self.training and self.long_term):
            return self.delay
        # One draw for all layers, so that a position sees as far back in each of them.
        return int(torch.randint(self.delay, self.longest_delay + 1, ()))

    def _typed_blocks(self) -> list[MosaicV2Block]:
        return cast(list[MosaicV2Block], list(self.blocks))


def _check(
    layers: int,
    window: int | None,
    delay: int,
    longest_delay: int,
    persistent: str,
    persistent_width: int | None,
) -> None:
    counts = {"layers": layers, "window": window, "persistent_width": persistent_width}
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be at least 1; raise it")
    if not 1 <= delay <= longest_delay:
        raise ValueError(
            f"delay={delay} and longest_delay={longest_delay} are no range of delays; they need "
            "1 <= delay <= longest_delay, because a pair is complete one position later"
        )
    if persistent not in get_args(Persistent):
        names = ", ".join(get_args(Persistent))
        raise ValueError(f"persistent={persistent!r} is unknown; choose one of {names}")


def _persistent(
    kind: str, size: int | None, choices: Choices, memories: int
) -> GatedNetwork | PersistentMemory | None:
    """The persistent memory; without a size a block of 12 width² with two gated contextual ones."""
    if kind == "none":
        return None
    if kind == "slots":
        slots = 7 * choices.width // 2 if size is None else size
        return PersistentMemory(choices.width, choices.heads, slots, choices.dropout, FAST)
    # 6 width² + 4 width heads (both memories) + 3 width units (this network) = 12 width²
    return GatedNetwork(choices.width, size or round(2 * choices.width - 4 * choices.heads / 3))


def _initialise(block: MosaicV2Block, width: int, layer: int) -> None:
    for name, parameter in block.named_parameters():
        if parameter.dim() == 3:  # stored keys and values of slots
            nn.init.normal_(parameter, std=1 / math.sqrt(parameter.shape[-1]))
        elif parameter.dim() == 2:
            # The paper gives the network's output map its own fan-in. The map of the contextual
            # memories has 2 width inputs and is drawn as if it had width.
            full_fan_in = name == "persistent.output.weight" and isinstance(
                block.persistent, GatedNetwork
            )
            fan_in = parameter.shape[1] if full_fan_in else width
            _truncated_normal(parameter, 1 / math.sqrt(2 * fan_in * (layer + 1)))


def _truncated_normal(parameter: Tensor, deviation: float) -> None:
    bound = TRUNCATED_AT * deviation
    nn.init.trunc_normal_(parameter, std=deviation, a=-bound, b=bound)
