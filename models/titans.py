"""Titans: attention over a few positions beside a neural memory of all of them.

Behrouz, Zhong and Mirrokni 2025, "Titans: learning to memorize at test time" (arXiv 2501.00663),
section 4. The memory is that of ``models/layers/neural_memory.py``; see there for its equations.

With p for learned tokens that persist, all variants end in W_out (o ⊙ SiLU(W_g x)):

* context (section 4.1): segments S of the sequence, one after the other. The memory as the segment
  finds it is asked, h = M(q(S)); y = attention over [p ‖ h ‖ S]; y, what came out of the attention,
  is written, and read again: o = norm(y) ⊙ σ(norm(M_t(y))). Position t sees h and S up to its own,
  and M_t with the writes up to its own. The M after the whole segment, which the paper's formula
  can be read to mean, would hand the future to all but its last position.
* gate (section 4.2): attention in a sliding window, that always sees p, and memory, side by side
  over [p ‖ x]: o = norm(attention) ⊙ σ(norm(memory)).
* layer (section 4.3): the memory over [p ‖ x], then attention in a sliding window over its answers.
* alone: the memory over [p ‖ x].
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.contextual_memory import unit
from models.layers.heads import head_width, join_heads, split_heads
from models.layers.memory_network import Activation, Weights, read_memory
from models.layers.neural_memory import UpdateRule
from models.layers.residual import BYTES_PER_NUMBER, Mixer, ResidualModel
from models.layers.short_convolution import ConvolvedProjection
from models.layers.titans import (
    AttentionState,
    LearnedMemory,
    LearnedState,
    Sizes,
    TitansAttention,
    attend,
)
from models.specification import SequenceSpecification

Variant = Literal["context", "gate", "layer", "alone"]
# Added to mean squares: readings far below 0.03 stay weak, and those of an empty memory are zeros
# without a steep slope.
NORM_EPSILON = 1e-3


class TitansMixer(Mixer):
    """What the variants share: persistent tokens, the memory, and the output gate.

    Args:
        sizes: of all parts.
        persistent: number of learned tokens.
    """

    def __init__(self, sizes: Sizes, persistent: int) -> None:
        super().__init__()
        self.sizes = sizes
        # Like the normalised vectors that they stand beside.
        self.persistent = nn.Parameter(torch.randn(persistent, sizes.width))
        self.memory = LearnedMemory(sizes)
        self.memory_norm = nn.RMSNorm(sizes.width, eps=NORM_EPSILON)
        self.gate = nn.Linear(sizes.width, sizes.width, bias=False)
        self.output_projection = nn.Linear(sizes.width, sizes.width, bias=False)

    @abstractmethod
    def advance(self, x: Tensor, state: Any | None) -> tuple[Tensor, Any]:
        """A piece of a sequence (batch, time, width) -> o of the same shape, and the next state.
        With a state the piece is one position."""

    @abstractmethod
    def numbers_after(self, length: int) -> int:
        """Most numbers in the state of one sequence after so many positions, or fewer."""

    @property
    def state_size(self) -> int:
        """Most numbers in the state of one sequence of any length."""
        # Window, open chunk and segment are full by then, and nothing grows further.
        return self.numbers_after(self.sizes.segment + self.sizes.rule.chunk)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, Any]:
        """What ``forward`` gives, and the state after the last position."""
        mixed, state = self.advance(hidden, None)
        return self._finish(mixed, hidden), state

    def step(self, hidden: Tensor, state: Any | None) -> tuple[Tensor, Any]:
        """One position, (batch, width) -> (batch, width) and the next state; None starts."""
        mixed, state = self.advance(hidden.unsqueeze(1), state)
        return self._finish(mixed.squeeze(1), hidden), state

    def _finish(self, mixed: Tensor, hidden: Tensor) -> Tensor:
        return self.output_projection(mixed * functional.silu(self.gate(hidden)))

    def _after_persistent(self, x: Tensor, state: Any | None) -> tuple[Tensor, int]:
        """[p ‖ x] at the start of a sequence, else x; and how many positions p has there."""
        # With a state the tokens were written and attended to when the sequence started.
        if state is not None:
            return x, 0
        tokens = self.persistent.expand(x.shape[0], -1, -1).to(x.dtype)
        return torch.cat((tokens, x), 1), tokens.shape[1]


class MemoryAlone(TitansMixer):
    """The memory and nothing else."""

    def advance(self, x: Tensor, state: LearnedState | None) -> tuple[Tensor, LearnedState]:
        """o = norm(memory of [p ‖ x])."""
        x, before = self._after_persistent(x, state)
        read, state = self.memory(x, state)
        # What p itself reads is dropped; what it wrote remains in the memory.
        return self.memory_norm(read[:, before:]), state

    def numbers_after(self, length: int) -> int:
        """Numbers that are kept after ``length`` positions: those of the memory."""
        return self.memory.numbers_after(length + len(self.persistent))


class BothState(NamedTuple):
    """States of a memory and an attention."""

    memory: LearnedState
    attention: AttentionState


class MemoryAsGate(TitansMixer):
    """Memory and attention side by side."""

    def __init__(self, sizes: Sizes, persistent: int) -> None:
        super().__init__(sizes, persistent)
        self.attention = TitansAttention(sizes)
        self.attention_norm = nn.RMSNorm(sizes.width, eps=NORM_EPSILON)

    def advance(self, x: Tensor, state: BothState | None) -> tuple[Tensor, BothState]:
        """o = norm(attention) ⊙ σ(norm(memory)), both over [p ‖ x]."""
        x, before = self._after_persistent(x, state)
        read, memory = self.memory(x, state.memory if state else None)
        seen, attention = self.attention(
            x, state.attention if state else None, always=len(self.persistent)
        )
        mixed = self.attention_norm(seen) * torch.sigmoid(self.memory_norm(read))
        return mixed[:, before:], BothState(memory, attention)

    def numbers_after(self, length: int) -> int:
        """Numbers that are kept after ``length`` positions: those of the memory and of the
        window."""
        always = len(self.persistent)
        return self.memory.numbers_after(length + always) + self.attention.numbers_after(
            length + always, always
        )


class MemoryAsLayer(TitansMixer):
    """The memory, and attention over what it reads."""

    def __init__(self, sizes: Sizes, persistent: int) -> None:
        super().__init__(sizes, persistent)
        self.attention = TitansAttention(sizes)
        self.attention_norm = nn.RMSNorm(sizes.width, eps=NORM_EPSILON)

    def advance(self, x: Tensor, state: BothState | None) -> tuple[Tensor, BothState]:
        """o = norm(attention over norm(memory of [p ‖ x]))."""
        x, before = self._after_persistent(x, state)
        read, memory = self.memory(x, state.memory if state else None)
        # p enters as what the memory answers to it, and leaves the window like any position.
        seen, attention = self.attention(
            self.memory_norm(read), state.attention if state else None, always=0
        )
        return self.attention_norm(seen)[:, before:], BothState(memory, attention)

    def numbers_after(self, length: int) -> int:
        """Numbers that are kept after ``length`` positions: those of the memory and of the
        window."""
        positions = length + len(self.persistent)
        return self.memory.numbers_after(positions) + self.attention.numbers_after(positions, 0)


class SegmentState(NamedTuple):
    """Between two positions of :class:`MemoryAsContext`.

    Attributes:
        context_past, attention_past: states of the convolutions over x.
        memory: of what attention gave.
        start: weights of the memory as the segment found it.
        context: keys and values of h in this segment, (batch, heads, positions, head width).
        own: keys and values of x in this segment.
    """

    context_past: Tensor
    attention_past: Tensor
    memory: LearnedState
    start: Weights
    context: tuple[Tensor, Tensor]
    own: tuple[Tensor, Tensor]


class MemoryAsContext(TitansMixer):
    """Attention that sees what the memory knows, and feeds it."""

    def __init__(self, sizes: Sizes, persistent: int) -> None:
        super().__init__(sizes, persistent)
        self.attention = TitansAttention(sizes)
        self.attention_norm = nn.RMSNorm(sizes.width, eps=NORM_EPSILON)
        self.context = ConvolvedProjection(sizes.width, sizes.width, sizes.taps)
        self.context_norm = nn.RMSNorm(sizes.width, eps=NORM_EPSILON)

    def advance(self, x: Tensor, state: SegmentState | None) -> tuple[Tensor, SegmentState]:
        """Segment by segment; all of x but the memory is projected at once."""
        memory_queries, context_past = self.context(x, state.context_past if state else None)
        # Queries of the memory have length 1, as its keys.
        memory_queries = unit(split_heads(memory_queries, self.sizes.heads))
        projected, attention_past = self.attention.project(
            x, state.attention_past if state else None
        )
        nothing = projected[1][:, :, :0], projected[2][:, :, :0]
        context, segment = (state.context, state.own) if state else (nothing, nothing)
        memory = state.memory if state else None
        start = state.start if state else self.memory.weights_at(None, memory_queries)
        mixed, position = [], 0
        while position < x.shape[1]:
            end = min(position + self.sizes.segment - segment[0].shape[2], x.shape[1])
            # To the end of the segment that is open: a step goes on in its middle.
            span = slice(position, end)
            recalled = read_memory(start, memory_queries[:, :, span], self.sizes.rule.activation)
            recalled = self.context_norm(join_heads(recalled).to(x.dtype))
            context = _longer(context, self.attention.tokens(recalled))
            queries, keys, values = (part[:, :, span] for part in projected)
            segment = _longer(segment, (keys, values))
            seen = self.attention_norm(self._attend(queries, context, segment))
            read, memory = self.memory(seen, memory)
            mixed.append(seen * torch.sigmoid(self.memory_norm(read)))
            if segment[0].shape[2] == self.sizes.segment:
                # The segment is full: the next one asks the memory as it is now.
                context, segment = nothing, nothing
                start = self.memory.weights_at(memory, memory_queries)
            position = end
        assert memory is not None
        following = SegmentState(context_past, attention_past, memory, start, context, segment)
        return torch.cat(mixed, 1), following

    def numbers_after(self, length: int) -> int:
        """Numbers that are kept after ``length`` positions: those of the memory, of its weights at
        the start of the segment, and of the segment."""
        start = sum(layer.numel() for layer in self.memory.start)
        rows = min(length, self.sizes.segment - 1)  # a full segment is dropped at once
        convolutions = self.context.state_size + self.attention.inputs.state_size
        segment = 4 * rows * self.sizes.width  # keys and values of h and of S
        return self.memory.numbers_after(length) + start + convolutions + segment

    def _attend(
        self, queries: Tensor, context: tuple[Tensor, Tensor], own: tuple[Tensor, Tensor]
    ) -> Tensor:
        """The last positions of a segment over [p ‖ h ‖ S], (batch, time, width)."""
        batch, _, new, _ = queries.shape
        persistent = self.attention.tokens(self.persistent.unsqueeze(0))
        keys, values = (
            torch.cat((p.expand(batch, -1, -1, -1).to(h.dtype), h, s), 2)
            for p, h, s in zip(persistent, context, own, strict=True)
        )
        filled = own[0].shape[2]
        time = torch.arange(filled, device=queries.device)
        # h_t is the answer to x_t, so h is masked as S is: [always ‖ causal ‖ causal].
        causal = time[filled - new :, None] >= time
        # Persistent tokens are seen from every position.
        always = causal.new_ones(new, persistent[0].shape[2])
        return join_heads(attend(queries, keys, values, torch.cat((always, causal, causal), 1)))


def _longer(rows: tuple[Tensor, Tensor], more: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Keys and values with more positions."""
    return torch.cat((rows[0], more[0]), 2), torch.cat((rows[1], more[1]), 2)


VARIANTS: dict[str, type[TitansMixer]] = {
    "context": MemoryAsContext,
    "gate": MemoryAsGate,
    "layer": MemoryAsLayer,
    "alone": MemoryAlone,
}


class Titans(ResidualModel):
    """Titans mixers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories, and attention heads, of each block.
        variant: "context" (MAC), "gate" (MAG), "layer" (MAL) or "alone" (LMM).
        depth: layers of each memory; 1 is a matrix.
        expansion: units of a hidden layer of the memory for each channel of a head.
        chunk: positions whose surprises are measured by the same weights.
        segment: positions of a segment (context) or of the attention window (gate, layer).
        persistent: learned tokens of each block.
        convolution: positions that the short convolutions see.
        activation: of the memories, "silu" or "gelu".
        largest_surprise: bound on the gradient of one position; null has none.
        largest_gradient: bound on what the gradient of a loss has for one layer of a memory where
            two chunks meet; null has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an unknown variant, or sizes that make no sense or do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        variant: Variant = "context",
        depth: int = 2,
        expansion: int = 2,
        chunk: int = 16,
        segment: int = 32,
        persistent: int = 4,
        convolution: int = 4,
        activation: Activation = "silu",
        largest_surprise: float | None = 10.0,
        largest_gradient: float | None = 1.0,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        head_width(width, heads)
        if variant not in VARIANTS:
            raise ValueError(f"variant={variant!r} is unknown; choose {', '.join(VARIANTS)}")
        rule = UpdateRule(chunk, activation, largest_surprise, largest_gradient).checked()
        if segment < 1 or persistent < 0 or expansion < 1:
            raise ValueError(
                f"segment={segment} and expansion={expansion} are at least 1, and "
                f"persistent={persistent} at least 0"
            )
        if variant == "context" and segment % chunk:
            raise ValueError(
                f"segments of {segment} positions are not whole chunks of {chunk}, but a segment "
                "reads the memory at the end of a chunk; make segment a multiple of chunk"
            )
        sizes = Sizes(width, heads, convolution, segment, depth, expansion, rule)
        mixers = [VARIANTS[variant](sizes, persistent) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)

    def state_bytes(self, length: int) -> int:
        """Most bytes (float32) kept for one sequence after ``length`` positions, or fewer."""
        mixers = (block.mixer for block in self._typed_blocks())
        return BYTES_PER_NUMBER * sum(
            mixer.numbers_after(length) for mixer in mixers if isinstance(mixer, TitansMixer)
        )
