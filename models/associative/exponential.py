"""Rectified embeddings that are trained, without a matrix (arXiv 2310.02984, optimisation)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.associative.embedded import EmbeddedMemory, normal, on_sphere


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
        super().__init__(tokens, dimension, classes, generators)
        self.layer_norm = layer_norm
        self.embedding = nn.Parameter(normal(generators, tokens, dimension, dimension))
        self.readout = nn.Parameter(normal(generators, dimension, classes, dimension))

    def read(self, inputs: Tensor) -> Tensor:
        """Scores (trials, items, classes) of vectors (trials, items, dimension)."""
        hidden = torch.relu(inputs)
        return (on_sphere(hidden) if self.layer_norm else hidden) @ self.readout

    def step_scales(self) -> list[tuple[nn.Parameter, float]]:
        """Embeddings move by 1/√d."""
        root = self.dimension**-0.5
        return [(self.embedding, root), (self.readout, root)]
