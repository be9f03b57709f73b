"""Rectified embeddings that are trained, without a matrix (arXiv 2310.02984, optimisation)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.associative.embedded import EmbeddedMemory, normal


class Exponential(EmbeddedMemory):
    """score(z, y) = relu(E_z) U_y, where E and U are trained.

    E and U are drawn in this order, all entries from N(0, 1/d).

    Args:
        layer_norm: bring relu(E_z) to norm one before it is read out.
    """

    embedding: nn.Parameter
    readout: nn.Parameter

    def __init__(
        self,
        tokens: int,
        dimension: int,
        classes: int,
        generators: Sequence[torch.Generator],
        layer_norm: bool = False,
    ) -> None:
        super().__init__(tokens, dimension, classes, generators, layer_norm)
        self.embedding = nn.Parameter(normal(generators, tokens, dimension, dimension))
        self.readout = nn.Parameter(normal(generators, dimension, classes, dimension))

    def hidden(self, inputs: Tensor) -> Tensor:
        """relu of each number."""
        return torch.relu(inputs)

    def step_scales(self) -> list[tuple[nn.Parameter, float]]:
        """Embeddings move by 1/√d."""
        root = self.dimension**-0.5
        return [(self.embedding, root), (self.readout, root)]
