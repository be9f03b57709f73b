"""A model of ours that a task of somebody else is tried with: what goes wrong is the task's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.examination.contract.faults import fault_of_inputs
from models.specification import SequenceSpecification

WIDTH = 4
GIVEN = "a batch that evaluate gives the model"
# For sentences on what is other each time.
MANY_RESULTS = "so that one run would have many results"
SOURCES = (
    "from no clock, no numbers of the system (os.urandom) and no generator or count that is kept "
    "between calls"
)


class SmallModel(nn.Module):
    """Answers each position by its own input alone, (batch, time, output size); it has what a loss
    over a large vocabulary asks for, ``hidden`` and ``output_matrix``.

    Attributes:
        asked_in_training: whether it was in training mode in some call.
        fault: what is wrong with inputs that it was given, in a sentence; "" if nothing is.
        answered: how many numbers it has given.
    """

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__()
        self.embedding: nn.Module
        if specification.vocabulary is not None:
            self.embedding = nn.Embedding(specification.vocabulary, WIDTH)
        else:
            assert specification.input_channels is not None
            self.embedding = nn.Linear(specification.input_channels, WIDTH)
        self.output_matrix = nn.Parameter(torch.randn(specification.output_size, WIDTH))
        self.specification = specification
        self.asked_in_training, self.fault = False, ""
        self.answered = 0

    def hidden(self, inputs: Tensor) -> Tensor:
        """(batch, time, width)."""
        self.asked_in_training |= self.training
        if not self.fault and isinstance(inputs, Tensor):
            self.fault = fault_of_inputs(GIVEN, inputs, self.specification) or ""
        vectors: Tensor = self.embedding(inputs)
        return vectors

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.hidden(inputs) @ self.output_matrix.T
        self.answered += outputs.numel()
        return outputs


def stopped_within(error: BaseException, model: nn.Module) -> bool:
    """Whether an error came out of a call of a model, or of a part of it, or by asking it for what
    it does not have."""
    parts = {id(part) for part in model.modules()}
    step = error.__traceback__
    while step is not None:
        if id(step.tb_frame.f_locals.get("self")) in parts:
            return True
        step = step.tb_next
    return False
