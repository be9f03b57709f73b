"""The two examinations of a run: with fresh weights before its training, and with the weights that
are scored before any data of the test split are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from bench.config.settings import Configuration
from bench.examination.examination import (
    RepeatedAnswers,
    examine,
    left_as_it_was,
    positions_of_a_pass,
)
from bench.examination.examined import Examined
from bench.examination.fresh_process import ModelRecipe
from bench.examination.reader import ModelReader, offers_hidden
from bench.examination.scored import ScoredBatch
from bench.records.code import is_own
from bench.records.schema import Examination
from bench.runs.carried_state import examine_state
from bench.training.storage import device_of
from bench.training.training import total_steps
from tasks.interface import IGNORED, Batch, Task

MOST_NAMES = 1000  # of parameters without use in a record


def examine_fresh(
    model: nn.Module, task: Task, batch: Batch, configuration: Configuration
) -> Examined:
    """Examine a model whose weights are those of its construction.

    Args:
        batch: of its training, on the device of the model.

    Raises:
        UnfitModel: what it fails.
    """
    training = configuration.training
    trained_on = total_steps(task, training) * training.batch_size * batch.inputs.shape[1]
    positions = positions_of_a_pass(trained_on)
    examined = examine(
        model,
        task.specification(),
        batch.inputs,
        seed=configuration.seed,
        positions=positions,
        scored=_scored_positions(batch),
    )
    if not is_own(configuration.models["_target_"]) and hasattr(model, "state_bytes"):
        with left_as_it_was(model, batch.inputs.device):
            longest = task.specification().maximum_length
            if examine_state(model, batch.inputs, longest, positions):
                examined.passed.append("state bytes")
    return examined


def _scored_positions(batch: Batch) -> Tensor | None:
    """Which outputs are scored, bool (batch, time); None where all are."""
    return None if batch.targets.is_floating_point() else batch.targets != IGNORED


class ExaminedWeights:
    """A model with the weights that are scored, once it has passed.

    Args:
        task: that measures it.
        trained_by: the task that it was trained on, which may be another one.
        trained_on: positions of all batches of its training, padding included.
        initial_seed: of the initial weights that it was trained from.

    Raises:
        UnfitModel: what it fails.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        trained_by: Task,
        configuration: Configuration,
        trained_on: int,
        initial_seed: int,
    ) -> None:
        seed, size = configuration.seed, configuration.training.batch_size
        batch = trained_by.training_batch(seed, 0, size).to(device_of(model))
        # The classes of this repository are code that anybody can read, and cost nothing more.
        recipe = None  # made before the first call, for its environment
        if not is_own(configuration.models["_target_"]):
            recipe = ModelRecipe(configuration.models, task.specification(), initial_seed)
        positions = positions_of_a_pass(trained_on)
        self.examined = examine(
            model,
            task.specification(),
            batch.inputs,
            seed=seed,
            positions=positions,
            trained=True,
            scored=_scored_positions(batch),
        )
        self.answers = RepeatedAnswers(model, batch.inputs[:2], seed)
        self.scored = ScoredBatch(model, task.specification(), seed, recipe, positions)
        self.model, self.batch, self.seed = model, batch, seed

    @contextmanager
    def during_evaluation(self) -> Iterator[None]:
        """Look at the evaluation in this block, and ask once more after it.

        Raises:
            UnfitModel: the answers are others, so that what was measured depends on the order in
                which it was measured; or the largest batch shows what smaller ones did not.
        """
        with self.scored.watching():
            yield
        self.answers.refuse_others()
        self.scored.examine()

    def examine_elsewhere(self) -> None:
        """Ask another process for sequences of a training batch, where no evaluation is made.

        Raises:
            UnfitModel: it answers otherwise.
        """
        reader = ModelReader(self.seed, offers_hidden(self.model))
        with left_as_it_was(self.model, self.batch.inputs.device), self.scored.watching():
            reader.read(self.model, self.batch.inputs)
        self.scored.examine()

    def record(self, before: list[str]) -> Examination:
        """What a record says of it.

        Args:
            before: what the model had passed before its training.
        """
        unused, passed = self.examined.unused[:MOST_NAMES], [*self.examined.passed]
        if self.scored.asked_elsewhere:
            passed.append("in new processes")
        return Examination.model_validate(
            {"before": before, "trained": passed, "unused_parameters": unused}
        )
