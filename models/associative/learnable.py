"""A matrix between embeddings that are trained with it (arXiv 2310.02984, optimisation)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from models.associative.matrix import Matrix


class Learnable(Matrix):
    """score(z, y) = (E_z W) U_y, where W, E and U are all trained.

    Drawn as ``models.associative.matrix.Matrix``.

    Args:
        layer_norm: bring E_z W to norm one before it is read out.
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
        # Buffers of the parent: a parameter takes such a name only once it is free.
        fixed = self.embedding, self.readout
        del self.embedding, self.readout
        self.embedding, self.readout = (nn.Parameter(x) for x in fixed)

    def step_scales(self) -> list[tuple[nn.Parameter, float]]:
        """W moves by 1/d, embeddings by 1/√d."""
        root = self.dimension**-0.5
        return [*super().step_scales(), (self.embedding, root), (self.readout, root)]
