"""The batches that a model is scored on, which are larger than those that it was examined with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bench.examination.comparisons import Comparisons
from bench.examination.examination import left_as_it_was
from bench.examination.reader import ModelReader, offers_hidden
from bench.examination.sequences import SequenceSource
from core.seeding import derive_seed
from models.specification import SequenceSpecification

HIDDEN = "hidden"


class ScoredBatch:
    """The batch of most sequences that a model was given in an evaluation.

    A model may do in batches of a hundred sequences what it does not do in those of its training.
    So the future of each sequence of this very batch is changed, behind a cut of its own.

    Args:
        specification: of the task that measures the model.
        seed: of the cuts and of what is drawn.
    """

    def __init__(self, model: nn.Module, specification: SequenceSpecification, seed: int) -> None:
        self.model, self.specification, self.seed = model, specification, seed
        self.inputs: Tensor | None = None
        self.examined_rows = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In this block, an evaluation, the inputs of ``forward`` and ``hidden`` are looked at."""
        hook = self.model.register_forward_pre_hook(lambda module, arguments: self._look(arguments))
        earlier = vars(self.model).get(HIDDEN)
        by_hidden = offers_hidden(self.model)
        if by_hidden:
            method: Any = self.model.hidden

            def watched(*arguments: Any, **named: Any) -> Any:
                self._look(arguments)
                return method(*arguments, **named)

            object.__setattr__(self.model, HIDDEN, watched)  # no part of the model
        try:
            yield
        finally:
            hook.remove()
            if by_hidden and earlier is None:
                object.__delattr__(self.model, HIDDEN)
            elif by_hidden:
                object.__setattr__(self.model, HIDDEN, earlier)

    def _look(self, arguments: tuple[Any, ...]) -> None:
        inputs = arguments[0] if arguments else None
        if not isinstance(inputs, Tensor) or inputs.dim() < 2 or inputs.shape[1] < 2:
            return
        if torch._C._functorch.is_functorch_wrapped_tensor(inputs):  # has no values of its own
            return
        rows = 0 if self.inputs is None else len(self.inputs)
        if len(inputs) > max(rows, self.examined_rows):
            self.inputs = inputs.detach().clone()

    def examine(self) -> None:
        """Ask for the largest batch once more, and for it with other values behind the cuts.

        Raises:
            UnfitModel: an output before a cut, or of another sequence, has changed.
        """
        inputs, self.inputs = self.inputs, None
        if inputs is None:
            return
        self.examined_rows = len(inputs)
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "a scored batch"))
        source = SequenceSource(inputs, self.specification, generator)
        sequences = source.draw(len(inputs), inputs.shape[1])
        with left_as_it_was(self.model, inputs.device):
            reader = ModelReader(self.seed, offers_hidden(self.model))
            outputs = reader.read(self.model, sequences.inputs)
            others = reader.read(self.model, sequences.changed)
            Comparisons(self.model, reader, trained=True).compare_changed(
                sequences, outputs, others
            )
