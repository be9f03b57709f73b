"""What the memories of Cabannes, Dohmatob and Bietti share: embedded tokens, scores by class.

Several independent trials are one module: the leading axis of every tensor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

EPSILON = 1e-6  # added to squared norms


class EmbeddedMemory(nn.Module, ABC):
    """Input embeddings E (tokens, dimension) and output embeddings U (dimension, classes), one pair
    for each trial; subclasses say what lies between them and what is trained.

    Args:
        tokens: how many inputs there are.
        dimension: width d of the embeddings.
        classes: how many outputs there are.
        generators: one for each trial, on the CPU. Its numbers are the same alone and among others,
            and the caller may go on drawing from it.
        layer_norm: bring what lies between the embeddings to norm one before it is read out.

    Raises:
        ValueError: a size below 1, or no generator.
    """

    embedding: Tensor  # (trials, tokens, dimension)
    readout: Tensor  # (trials, dimension, classes)

    def __init__(
        self,
        tokens: int,
        dimension: int,
        classes: int,
        generators: Sequence[torch.Generator],
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        if min(tokens, dimension, classes, len(generators)) < 1:
            raise ValueError(
                "a memory of embedded tokens needs at least one token, dimension, class and trial, "
                f"got {tokens}, {dimension}, {classes} and {len(generators)}"
            )
        self.dimension, self.layer_norm = dimension, layer_norm

    @abstractmethod
    def hidden(self, inputs: Tensor) -> Tensor:
        """What lies between the embeddings: (trials, items, dimension) of vectors of that shape."""

    @abstractmethod
    def step_scales(self) -> list[tuple[nn.Parameter, float]]:
        """Each trained tensor and the factor of its step where every entry moves by the same size,
        as with Adam without momentum: the change of a score then does not grow with d."""

    def read(self, inputs: Tensor) -> Tensor:
        """Scores of all classes.

        Args:
            inputs: (trials, items, dimension), such as embedded tokens.

        Returns:
            (trials, items, classes), before the softmax.
        """
        hidden = self.hidden(inputs)
        return (on_sphere(hidden) if self.layer_norm else hidden) @ self.readout

    def embed(self, tokens: Tensor) -> Tensor:
        """(trials, items, dimension) of int64 ``tokens`` (trials, items)."""
        trials = torch.arange(len(tokens), device=tokens.device)
        return self.embedding[trials[:, None], tokens]

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores (trials, items, classes) of int64 ``tokens`` (trials, items)."""
        return self.read(self.embed(tokens))


def normal(generators: Sequence[torch.Generator], rows: int, columns: int, d: int) -> Tensor:
    """(trials, rows, columns) from N(0, 1/d), float32; the next numbers of each generator."""
    return torch.stack([torch.randn(rows, columns, generator=g) for g in generators]) / d**0.5


def on_sphere(x: Tensor) -> Tensor:
    """The layer normalisation of this study: vectors of norm one, without centring."""
    return x / torch.sqrt((x**2).sum(-1, keepdim=True) + EPSILON)
