"""One matrix between fixed random embeddings: the associative memory of the scaling laws.

Cabannes, Dohmatob and Bietti 2024, Scaling laws for associative memories (arXiv 2310.02984),
optimisation experiments.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.associative.embedded import EmbeddedMemory, normal


class Matrix(EmbeddedMemory):
    """score(z, y) = (E_z W) U_y: only W (dimension, dimension) is trained.

    W, E and U are drawn in this order, all entries from N(0, 1/d); in the published experiments W
    does not start at zero.

    Args:
        layer_norm: bring E_z W to norm one before it is read out.
    """

    weight: nn.Parameter  # (trials, dimension, dimension)

    def __init__(
        self,
        tokens: int,
        dimension: int,
        classes: int,
        generators: Sequence[torch.Generator],
        layer_norm: bool = False,
    ) -> None:
        super().__init__(tokens, dimension, classes, generators, layer_norm)
        self.weight = nn.Parameter(normal(generators, dimension, dimension, dimension))
        self.register_buffer("embedding", normal(generators, tokens, dimension, dimension))
        self.register_buffer("readout", normal(generators, dimension, classes, dimension))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Vectors times W."""
        return inputs @ self.weight

    def step_scales(self) -> list[tuple[nn.Parameter, float]]:
        """W moves by 1/d."""
        return [(self.weight, 1 / self.dimension)]
