"""The batches that a model is scored on, which are larger than those that it was examined with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench.examination.answers import calls_through, method_through
from bench.examination.comparisons import Comparisons
from bench.examination.elsewhere import ComparedElsewhere
from bench.examination.examination import left_as_it_was
from bench.examination.fresh_process import ModelRecipe
from bench.examination.generation import WatchedGeneration
from bench.examination.reader import (
    LARGEST_OUTPUT,
    ModelReader,
    offers_hidden,
    plain,
    random_state,
)
from bench.examination.sequences import FEWEST_ROWS, CutSequences, SequenceSource
from bench.training.saved_tensors import SavedTensors
from bench.training.seeding import GeneratorStates
from bench.training.storage import device_of
from bench.training.unfit import unfit
from core.seeding import derive_seed
from models.specification import SequenceSpecification

SAMPLE, CUTS = 16, 4  # sequences of an evaluation that other processes are asked for; cuts of each


@dataclass(frozen=True)
class _Answered:
    """Sequences of an evaluation, and the outputs that were scored: (sequences, time, channels)."""

    inputs: Tensor
    outputs: Tensor
    by_hidden: bool


@dataclass(frozen=True)
class _Replayed:
    """A whole call of an evaluation: outputs of some rows, and the states that it drew from."""

    inputs: Tensor
    rows: Tensor
    states: GeneratorStates


@contextmanager
def watched_calls(
    model: nn.Module, before: Callable[[Tensor | None], None], after: Callable[[Any, bool], None]
) -> Iterator[None]:
    """In this block every call of ``forward`` and of ``hidden`` is looked at.

    Args:
        before: is given its inputs, (batch, time) or (batch, time, channels) of two positions at
            least, or None where they are something else.
        after: is given what it gave, and whether those are hidden vectors.
    """

    def watched(by_hidden: bool, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        before(_sequences(arguments))
        outputs = plain(call(*arguments, **named))
        after(outputs, by_hidden)
        return outputs

    hidden: AbstractContextManager[None] = nullcontext()
    if offers_hidden(model):
        hidden = method_through(model, "hidden", partial(watched, True))
    with hidden, calls_through(model, partial(watched, False)):
        yield


def _sequences(arguments: tuple[Any, ...]) -> Tensor | None:
    inputs = arguments[0] if arguments else None
    if not isinstance(inputs, Tensor) or inputs.dim() < 2 or inputs.shape[1] < 2:
        return None
    if torch._C._functorch.is_functorch_wrapped_tensor(inputs):  # has no values of its own
        return None
    return inputs


class _WithStates(ModelReader):
    """Asks with the random numbers of an earlier call."""

    def __init__(self, seed: int, by_hidden: bool, states: GeneratorStates) -> None:
        super().__init__(seed, by_hidden)
        self.states = states

    def seed_draws(self, device: torch.device) -> None:
        self.states.restore()


class ScoredBatch:
    """The largest batch that a model was given in an evaluation, and some sequences of one call.

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
        self.generation = WatchedGeneration(model, specification, seed)
        self.inputs: Tensor | None = None
        # What the calls on their way were given, and the states of the generators then.
        self.asked: list[tuple[Tensor | None, GeneratorStates, dict[str, object]]] = []
        self.replayed: _Replayed | None = None
        self.seen = 0  # calls of the evaluation
        self.before: SavedTensors | None = None  # the model before its first evaluation
        self.sample: _Answered | None = None
        self.calls = 0  # those whose outputs belong to sequences, so that a sample can be of them
        self.examined_rows = 0  # of the largest batch that was asked for once more
        self.asked_elsewhere = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In this block, an evaluation, ``forward`` and ``hidden`` are looked at."""
        self.calls, self.sample, self.replayed, self.asked, self.seen = 0, None, None, [], 0
        if self.before is None:  # what is noted in parameters or buffers is of later calls
            self.before = SavedTensors(self.model)
        # What models of this repository generate is tested.
        generation = self.generation.watching() if self.recipe is not None else nullcontext()
        with watched_calls(self.model, self._note_call, self._keep_sample), generation:
            yield

    def _note_call(self, inputs: Tensor | None) -> None:
        copied = inputs if inputs is None else inputs.detach().clone()
        device = device_of(self.model)
        self.asked.append((copied, GeneratorStates(device), random_state(device)))
        self.seen += 1
        if inputs is None:
            return
        rows = 0 if self.inputs is None else len(self.inputs)
        if len(inputs) > max(rows, self.examined_rows):
            self.inputs = inputs.detach().clone()

    def _keep_sample(self, outputs: Any, by_hidden: bool) -> None:
        """Keep some sequences of one call, each call being as likely as any other."""
        inputs, states, before = self.asked.pop()
        drew = random_state(device_of(self.model)) != before
        if inputs is None or not isinstance(outputs, Tensor):
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
        self.sample = _Answered(inputs[rows], outputs[rows].detach().clone(), by_hidden)
        # What drew nothing needs no replay: another process can answer for it.
        self.replayed = _Replayed(inputs, rows, states) if drew else None

    def examine(self) -> None:
        """Ask for the largest batch once more, and for it with other values behind the cuts; then
        another process for the sample.

        Raises:
            UnfitModel: an output before a cut, or of another sequence, has changed.
        """
        if self.before is not None and not self.seen:
            raise unfit("no call")
        inputs, self.inputs = self.inputs, None
        with left_as_it_was(self.model, device_of(self.model)):
            if inputs is not None:
                self.examined_rows = len(inputs)
                self._change(inputs)
            if self.before is not None:
                self.before.restore()
            if self.sample is not None and self.replayed is not None:
                self._replay(self.sample, self.replayed)
            self.generation.examine()
            if self.recipe is not None and self.sample is not None:
                self._ask_elsewhere(self.recipe, self.sample)

    def _cut(self, inputs: Tensor) -> CutSequences:
        source = SequenceSource(inputs, self.specification, self.generator)
        return source.draw(len(inputs), inputs.shape[1])

    def _change(self, inputs: Tensor) -> None:
        sequences = self._cut(inputs)
        reader = ModelReader(self.seed, offers_hidden(self.model))
        outputs = reader.read(self.model, sequences.inputs)
        others = reader.read(self.model, sequences.changed)
        Comparisons(self.model, reader, trained=True).compare_changed(sequences, outputs, others)

    def _replay(self, sample: _Answered, replayed: _Replayed) -> None:
        """A call that has drawn random numbers: the same batch with other values behind the cuts
        and the same numbers."""
        states, rows = replayed.states, replayed.rows
        reader = _WithStates(self.seed, sample.by_hidden, states)
        whole = self._cut(replayed.inputs)
        others = reader.read(self.model, whole.changed)
        # By the whole batch: what a row draws depends on its place.
        again = reader.read(self.model, whole.inputs)
        kept = again.clone()
        kept[rows] = sample.outputs
        comparisons = Comparisons(self.model, reader, trained=True)
        comparisons.same_twice(whole, kept, again)
        comparisons.compare_changed(whole, kept, others)

    def _ask_elsewhere(self, recipe: ModelRecipe, sample: _Answered) -> None:
        sequences = self._cut(torch.cat([sample.inputs] * CUTS))
        outputs = torch.cat([sample.outputs] * CUTS)
        reader = ModelReader(self.seed, sample.by_hidden)
        with left_as_it_was(self.model, sequences.inputs.device):
            now = reader.read(self.model, sequences.inputs)
        if reader.drew:  # other numbers than in the evaluation
            outputs = now
        compared = ComparedElsewhere(recipe, self.model, reader, trained=True)
        compared.compare(sequences, outputs)
        self.asked_elsewhere = True
