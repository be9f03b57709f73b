"""Memory Mosaic with parts exchanged: keys without an average, values that look elsewhere, MLPs.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), section 7 with footnote 6:
the key idea is to combine a couple of successive inputs, and many variations perform more or less
equivalently; the peek of values is what the induction head of one block needs.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.memory_mosaic import Implementation, MemoryMosaic
from models.specification import SequenceSpecification

Keys = Literal["leaky", "plain"]
Values = Literal["mixed", "next", "current"]
Persistent = Literal["memory", "mlp", "none"]


class MemoryMosaicVaried(MemoryMosaic):
    """A :class:`models.memory_mosaic.MemoryMosaic` of which parts are exchanged.

    Args:
        specification, width, layers, heads, dropout, persistent_slots, implementation: as there.
        keys: "leaky" averages of the past, or "plain" maps of the present input alone.
        values: "mixed" of the present and the next input as there, or of one of them alone:
            "next", or "current", which peeks at nothing.
        persistent: what follows the contextual memories: "memory" as there, an "mlp" of 4 width
            hidden units, or "none".

    Raises:
        ValueError: as there, or an unknown part.
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
        keys: Keys = "leaky",
        values: Values = "mixed",
        persistent: Persistent = "memory",
    ) -> None:
        for name, chosen, choices in (
            ("keys", keys, get_args(Keys)),
            ("values", values, get_args(Values)),
            ("persistent", persistent, get_args(Persistent)),
        ):
            if chosen not in choices:
                raise ValueError(
                    f"{name}={chosen!r} is unknown; choose one of {', '.join(choices)}"
                )
        super().__init__(
            specification,
            width=width,
            layers=layers,
            heads=heads,
            dropout=dropout,
            persistent_slots=persistent_slots,
            implementation=implementation,
        )
        self.persistent = persistent
        for block in self._typed_blocks():
            if keys == "plain":
                for memory in (block.contextual, block.persistent):
                    memory.key_extractor = PlainKeys(heads)  # type: ignore[assignment]
            if values != "mixed":
                # The share of the present input; a buffer in place of the parameter.
                del block.contextual.value_mixing
                share = torch.full((heads,), 0.0 if values == "next" else 1.0)
                block.contextual.register_buffer("value_mixing", share)
            if persistent == "mlp":
                block.persistent = FeedForward(width, layers)  # type: ignore[assignment]
            elif persistent == "none":
                block.persistent = Nothing()  # type: ignore[assignment]
                block.persistent_norm = nn.Identity()  # type: ignore[assignment]

    def state_bytes(self, length: int) -> int:
        """As there; what is no memory keeps no average."""
        averages = len(self.blocks) * self.width * 4 if length else 0
        kept = super().state_bytes(length)
        return kept if self.persistent == "memory" else kept - averages


class PlainKeys(nn.Module):
    """Keys of the present input: an average that forgets at once."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, projected: Tensor) -> Tensor:
        """(batch, heads, time, head width), at least float32."""
        return projected.to(torch.promote_types(projected.dtype, torch.float32))

    def step(self, projected: Tensor, average: Tensor | None) -> Tensor:
        """One position: (batch, heads, head width)."""
        return self(projected)

    def coefficients(self) -> Tensor:
        """λ = 0 of each head."""
        return torch.zeros(self.heads)


class FeedForward(nn.Module):
    """The two layers of a transformer block in the place of a persistent memory."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 4 * width, bias=False)
        self.second = nn.Linear(4 * width, width, bias=False)
        nn.init.normal_(self.first.weight, std=width**-0.5)
        nn.init.normal_(self.second.weight, std=(4 * width * layers) ** -0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        return self.second(functional.gelu(self.first(hidden)))

    def prefill(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, time, width) -> the same shape, and no state."""
        return self(hidden), hidden[:, -1, :0]

    def step(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One position: (batch, width) -> the same shape, and no state."""
        return self(hidden), hidden[:, :0]


class Nothing(FeedForward):
    """Adds nothing."""

    def __init__(self) -> None:
        nn.Module.__init__(self)

    def forward(self, hidden: Tensor) -> Tensor:
        """Zeros of the shape of ``hidden``."""
        return torch.zeros_like(hidden)
