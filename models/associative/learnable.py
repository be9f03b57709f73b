"""A matrix between embeddings that are trained with it (arXiv 2310.02984, optimisation)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.associative.embedded import EmbeddedMemory, normal, on_sphere


class Learnable(EmbeddedMemory):
    """score(z, y) = (E_z W) U_y, where W, E and U are all trained.

    Drawn as ``models.associative.matrix.Matrix``.

    Args:
        layer_norm: bring E_z W to norm one before it is read out.
    """

    weight: nn.Parameter  # (trials, dimension, dimension)
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
        self.weight = nn.Parameter(normal(generators, dimension, dimension, dimension))
        self.embedding = nn.Parameter(normal(generators, tokens, dimension, dimension))
        self.readout = nn.Parameter(normal(generators, dimension, classes, dimension))

    def read(self, inputs: Tensor) -> Tensor:
        """Scores (trials, items, classes) of vectors (trials, items, dimension)."""
        hidden = inputs @ self.weight
        return (on_sphere(hidden) if self.layer_norm else hidden) @ self.readout

    def step_scales(self) -> list[tuple[nn.Parameter, float]]:
        """W moves by 1/d, embeddings by 1/√d."""
        root = self.dimension**-0.5
        return [
            (self.weight, 1 / self.dimension),
            (self.embedding, root),
            (self.readout, root),
        ]
