"""How a sequence enters and leaves a model: tokens or real channels, the same for every model."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification


class InputOutput(nn.Module):
    """First and last map of a sequence model.

    Tokens use an embedding table that is also the output matrix (``tie=True``) or has an output
    matrix of its own; channels use two linear maps. There are no biases.

    Args:
        specification: shapes of the task; a vocabulary selects tokens, otherwise channels.
        width: size of the hidden vectors.
        tie: share one (vocabulary, width) table between input and output. Ignored for channels.
        standard_deviation: of the normal initialisation of every matrix. None means
            1/sqrt(fan_in); a table that is tied has the fan_in of the output, ``width``, and one
            that is not has the fan_in of a one-hot vector, 1.

    Attributes:
        source: embedding (vocabulary, width) or linear (width, input_channels).
        target: linear (output_size, width); None when it is tied to ``source``.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        width: int,
        *,
        tie: bool = True,
        standard_deviation: float | None = None,
    ) -> None:
        super().__init__()
        self.source: nn.Embedding | nn.Linear
        self.target: nn.Linear | None
        if specification.vocabulary is not None:
            self.source = nn.Embedding(specification.vocabulary, width)
            # A tied table is read out from width numbers; an untied one picks a row, as a product
            # with a one-hot vector does.
            source_fan_in = width if tie else 1
        else:
            assert specification.input_channels is not None
            # Channels in and out may differ in number: one matrix cannot be both.
            self.source = nn.Linear(specification.input_channels, width, bias=False)
            source_fan_in = specification.input_channels
        if specification.vocabulary is not None and tie:
            self.target = None
        else:
            self.target = nn.Linear(width, specification.output_size, bias=False)
            self._initialise(self.target.weight, width, standard_deviation)
        self._initialise(self.source.weight, source_fan_in, standard_deviation)

    @staticmethod
    def _initialise(weight: Tensor, fan_in: int, standard_deviation: float | None) -> None:
        std = 1 / math.sqrt(fan_in) if standard_deviation is None else standard_deviation
        nn.init.normal_(weight, std=std)

    def embed(self, inputs: Tensor) -> Tensor:
        """Hidden vectors (..., width) of int64 tokens (...) or real channels (..., channels)."""
        return self.source(inputs)

    def read_out(self, hidden: Tensor) -> Tensor:
        """Outputs (..., output_size) of hidden vectors (..., width)."""
        return functional.linear(hidden, self.matrix)

    @property
    def matrix(self) -> Tensor:
        """The matrix of ``read_out``, (output_size, width)."""
        return self.source.weight if self.target is None else self.target.weight
