"""The batches that a model is scored on, which are larger than those that it was examined with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench.examination.comparisons import Comparisons
from bench.examination.elsewhere import ComparedElsewhere
from bench.examination.examination import left_as_it_was
from bench.examination.fresh_process import ModelRecipe
from bench.examination.reader import LARGEST_OUTPUT, ModelReader, offers_hidden
from bench.examination.sequences import FEWEST_ROWS, CutSequences, SequenceSource
from core.seeding import derive_seed
from models.specification import SequenceSpecification

HIDDEN = "hidden"
SAMPLE, CUTS = 16, 4  # sequences of an evaluation that other processes are asked for; cuts of each


@dataclass(frozen=True)
class _Answered:
    """Sequences of an evaluation, and the outputs that were scored: (sequences, time, channels)."""

    inputs: Tensor
    outputs: Tensor
    by_hidden: bool


@contextmanager
def watched_calls(
    model: nn.Module, before: Callable[[Tensor | None], None], after: Callable[[Any, bool], None]
) -> Iterator[None]:
    """In this block every call of ``forward`` and of ``hidden`` is looked at.

    Args:
        before: is given its inputs, (batch, time) or (batch, time, channels) of two positions at
            least, or None where they are something else.
        after: is given what it gave, and whether that are hidden vectors.
    """
    hooks = [
        model.register_forward_pre_hook(lambda module, arguments: before(_sequences(arguments))),
        model.register_forward_hook(lambda module, arguments, outputs: after(outputs, False)),
    ]
    earlier, by_hidden = vars(model).get(HIDDEN), offers_hidden(model)
    if by_hidden:
        method: Any = model.hidden

        def watched(*arguments: Any, **named: Any) -> Any:
            before(_sequences(arguments))
            outputs = method(*arguments, **named)
            after(outputs, True)
            return outputs

        object.__setattr__(model, HIDDEN, watched)  # no part of the model
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        if by_hidden and earlier is None:
            object.__delattr__(model, HIDDEN)
        elif by_hidden:
            object.__setattr__(model, HIDDEN, earlier)


def _sequences(arguments: tuple[Any, ...]) -> Tensor | None:
    inputs = arguments[0] if arguments else None
    if not isinstance(inputs, Tensor) or inputs.dim() < 2 or inputs.shape[1] < 2:
        return None
    if torch._C._functorch.is_functorch_wrapped_tensor(inputs):  # has no values of its own
        return None
    return inputs


class ScoredBatch:
    """The batch of most sequences that a model was given in an evaluation, and a sample of all.

    A model may do in batches of a hundred sequences what it does not do in those of its training.
    So the future of each sequence of the largest batch is changed, behind a cut of its own. And
    since a model may keep what it has seen, outputs that were scored are compared with those of a
    process that has never seen what comes after the cuts.

    Args:
        specification: of the task that measures the model.
        seed: of the cuts and of what is drawn.
        recipe: what other processes build the model from; None: they are not asked.
        positions: how many positions the sample may have; it has four sequences at least.
    """

    def __init__(
        self,
        model: nn.Module,
        specification: SequenceSpecification,
        seed: int,
        recipe: ModelRecipe | None = None,
        positions: int = 0,
    ) -> None:
        self.model, self.specification, self.seed = model, specification, seed
        self.recipe, self.positions = recipe, positions
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "a scored batch"))
        self.inputs: Tensor | None = None
        self.asked: list[Tensor | None] = []  # what the calls on their way were given
        self.sample: _Answered | None = None
        self.calls = 0
        self.examined_rows = 0
        self.asked_elsewhere = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In this block, an evaluation, ``forward`` and ``hidden`` are looked at."""
        self.calls, self.sample, self.asked = 0, None, []
        with watched_calls(self.model, self._look, self._draw):
            yield

    def _look(self, inputs: Tensor | None) -> None:
        self.asked.append(inputs)
        if inputs is None:
            return
        rows = 0 if self.inputs is None else len(self.inputs)
        if len(inputs) > max(rows, self.examined_rows):
            self.inputs = inputs.detach().clone()

    def _draw(self, outputs: Any, by_hidden: bool) -> None:
        """Keep some sequences of one call, each call being as likely as any other."""
        inputs = self.asked.pop() if self.asked else None
        if self.recipe is None or inputs is None or not isinstance(outputs, Tensor):
            return
        if outputs.dim() != 3 or outputs.shape[:2] != inputs.shape[:2]:
            return
        self.calls += 1
        if int(torch.randint(self.calls, (1,), generator=self.generator)):
            return
        length, size = outputs.shape[1:]
        most = min(SAMPLE, self.positions // (CUTS * length))
        most = max(1, min(max(most, FEWEST_ROWS), LARGEST_OUTPUT // (CUTS * length * size)))
        rows = torch.randperm(len(inputs), generator=self.generator)[:most].to(inputs.device)
        self.sample = _Answered(inputs[rows], outputs[rows].detach(), by_hidden)

    def examine(self) -> None:
        """Ask for the largest batch once more, and for it with other values behind the cuts; then
        another process for the sample.

        Raises:
            UnfitModel: an output before a cut, or of another sequence, has changed.
        """
        inputs, self.inputs = self.inputs, None
        with left_as_it_was(self.model, self._device()):
            if inputs is not None:
                self.examined_rows = len(inputs)
                self._change(inputs)
            if self.recipe is not None and self.sample is not None:
                self._ask_elsewhere(self.recipe, self.sample)

    def _device(self) -> torch.device:
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    def _cut(self, inputs: Tensor) -> CutSequences:
        source = SequenceSource(inputs, self.specification, self.generator)
        return source.draw(len(inputs), inputs.shape[1])

    def _change(self, inputs: Tensor) -> None:
        sequences = self._cut(inputs)
        reader = ModelReader(self.seed, offers_hidden(self.model))
        outputs = reader.read(self.model, sequences.inputs)
        others = reader.read(self.model, sequences.changed)
        Comparisons(self.model, reader, trained=True).compare_changed(sequences, outputs, others)

    def _ask_elsewhere(self, recipe: ModelRecipe, sample: _Answered) -> None:
        sequences = self._cut(torch.cat([sample.inputs] * CUTS))
        outputs = torch.cat([sample.outputs] * CUTS)
        reader = ModelReader(self.seed, sample.by_hidden)
        now = reader.read(self.model, sequences.inputs)
        if reader.drew:  # other numbers than in the evaluation
            outputs = now
        compared = ComparedElsewhere(recipe, self.model, reader, trained=True)
        compared.compare(sequences, outputs)
        self.asked_elsewhere = True
