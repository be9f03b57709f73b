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
class _Drawn:
    """The whole batch of a call that has drawn random numbers, the places of some rows in it, and
    the generators as they were before."""

    batch: Tensor
    rows: Tensor
    states: GeneratorStates


@dataclass(frozen=True)
class _Answered:
    """Sequences of an evaluation, and the outputs that were scored: (sequences, time, channels)."""

    inputs: Tensor
    outputs: Tensor
    by_hidden: bool
    drawn: _Drawn | None  # what drew nothing needs no replay: another process can answer for it


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


class _SeenCalls:
    """What the calls of one evaluation leave to be examined.

    Args:
        generator: of the sample.
        positions: how many the sample may have; it has four sequences at least.
        rows: a batch counts as the largest if it has more.

    Attributes:
        count: of all calls.
        largest: the inputs of the largest batch.
        sample: some sequences of one call, each call being as likely as any other.
    """

    def __init__(
        self, model: nn.Module, generator: torch.Generator, positions: int, rows: int
    ) -> None:
        self.generator, self.positions, self.rows = generator, positions, rows
        self.device = device_of(model)
        self.count = 0
        self.largest: Tensor | None = None
        self.sample: _Answered | None = None
        self._sampled = 0  # calls whose outputs belong to sequences
        # What the calls on their way were given, and the states of the generators then.
        self._asked: list[tuple[Tensor | None, GeneratorStates, dict[str, object]]] = []

    def begin(self, inputs: Tensor | None) -> None:
        """A call begins; see :func:`watched_calls`."""
        copied = inputs if inputs is None else inputs.detach().clone()
        self._asked.append((copied, GeneratorStates(self.device), random_state(self.device)))
        self.count += 1
        if copied is not None and len(copied) > self.rows:
            self.largest, self.rows = copied, len(copied)

    def end(self, outputs: Any, by_hidden: bool) -> None:
        """A call has given its outputs."""
        inputs, states, before = self._asked.pop()
        drew = random_state(self.device) != before
        if inputs is None or not isinstance(outputs, Tensor):
            return
        if outputs.dim() != 3 or outputs.shape[:2] != inputs.shape[:2]:
            return
        self._sampled += 1
        if int(torch.randint(self._sampled, (1,), generator=self.generator)):
            return
        length, size = outputs.shape[1:]
        most = min(SAMPLE, self.positions // (CUTS * length))
        most = max(1, min(max(most, FEWEST_ROWS), LARGEST_OUTPUT // (CUTS * length * size)))
        rows = torch.randperm(len(inputs), generator=self.generator)[:most].to(inputs.device)
        drawn = _Drawn(inputs, rows, states) if drew else None
        self.sample = _Answered(inputs[rows], outputs[rows].detach().clone(), by_hidden, drawn)


class ScoredBatch:
    """Asks once more for what was scored in an evaluation.

    A model may do in batches of a hundred sequences what it does not do in those of its training.
    So the future of each sequence of the largest batch is changed, behind a cut of its own. And
    since a model may keep what it has seen, outputs that were scored are compared with those of a
    process that has never seen what comes after the cuts.

    Args:
        specification: of the task that measures the model.
        seed: of the cuts and of what is drawn.
        recipe: what other processes build the model from; None: they are not asked.
        positions: how many positions the sample may have; it has four sequences at least.

    Attributes:
        asked_elsewhere: whether another process has answered.
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
        self.before: SavedTensors | None = None  # the model before its first evaluation
        self.examined_rows = 0  # of the largest batch that was asked for once more
        self.asked_elsewhere = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In this block, an evaluation, ``forward`` and ``hidden`` are looked at."""
        self.calls = _SeenCalls(self.model, self.generator, self.positions, self.examined_rows)
        if self.before is None:  # what is noted in parameters or buffers is of later calls
            self.before = SavedTensors(self.model)
        # What models of this repository generate is tested.
        generation = self.generation.watching() if self.recipe is not None else nullcontext()
        with watched_calls(self.model, self.calls.begin, self.calls.end), generation:
            yield

    def examine(self) -> None:
        """Ask for the largest batch once more, and for it with other values behind the cuts; then
        another process for the sample. An evaluation was watched before.

        Raises:
            UnfitModel: an output before a cut, or of another sequence, has changed.
        """
        assert self.before is not None
        largest, sample = self.calls.largest, self.calls.sample
        if not self.calls.count:
            raise unfit("no call")
        with left_as_it_was(self.model, device_of(self.model)):
            if largest is not None and len(largest) > self.examined_rows:
                self.examined_rows = len(largest)
                self._change(largest)
            self.before.restore()
            if sample is not None and sample.drawn is not None:
                self._replay(sample, sample.drawn)
            self.generation.examine()
            if self.recipe is not None and sample is not None:
                self._ask_elsewhere(self.recipe, sample)

    def _cut(self, inputs: Tensor) -> CutSequences:
        source = SequenceSource(inputs, self.specification, self.generator)
        return source.draw(len(inputs), inputs.shape[1])

    def _change(self, inputs: Tensor) -> None:
        sequences = self._cut(inputs)
        reader = ModelReader(self.seed, offers_hidden(self.model))
        outputs = reader.read(self.model, sequences.inputs)
        others = reader.read(self.model, sequences.changed)
        Comparisons(self.model, reader, trained=True).compare_changed(sequences, outputs, others)

    def _replay(self, sample: _Answered, drawn: _Drawn) -> None:
        """A call that has drawn random numbers: the same batch with other values behind the cuts
        and the same numbers."""
        reader = _WithStates(self.seed, sample.by_hidden, drawn.states)
        whole = self._cut(drawn.batch)
        others = reader.read(self.model, whole.changed)
        # By the whole batch: what a row draws depends on its place.
        again = reader.read(self.model, whole.inputs)
        kept = again.clone()
        kept[drawn.rows] = sample.outputs
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
