"""Large steps of gradient descent on the memories of a two-layer transformer.

Cabannes, Simsek and Bietti 2024, Learning associative memories with gradient descent (ICML 2024,
arXiv 2402.18724): what large steps do to one matrix, looked for in the simplified model of the
bigram task (Bietti et al. 2023, arXiv 2306.00802, section 4), by SGD without momentum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tasks.bigram import Bigram
from tasks.bigram.sequences import Sequences
from tasks.bigram_probes.task import NOTHING_KNOWN
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement, Refused
from tasks.refusals import check_numbers, fitting_model

OUTPUT, ALL = "output_2", "all"
CHOOSE = (
    "attention_descent trains the three memories of an induction head: choose "
    "models=two_layer_attention or models=disentangled_attention"
)


class Known(NamedTuple):
    """Sequences int64 (batch, time), their next tokens, and where these are told by the past: the
    second and later occurrence of a trigger, bool (batch, time)."""

    inputs: Tensor
    targets: Tensor
    known: Tensor

    @classmethod
    def of(cls, sequences: Sequences, device: torch.device | str) -> Known:
        """The three parts of drawn sequences, on ``device``."""
        parts = (sequences.inputs, sequences.targets, sequences.occurrences() >= 2)
        return cls(*(torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in parts))

    def loss(self, logits: Tensor) -> Tensor:
        """Mean cross-entropy of what is known, in nats."""
        return functional.cross_entropy(logits[self.known], self.targets[self.known])


class AttentionDescent(Measurement):
    """Loss and margins at every step, for several learning rates from the same start.

    Example of a sequence (``length=16, number_of_triggers=2``; blanks are written _). Loss and
    margins are over the targets that the past tells, which here are three, and over no others:

        input   e o , _ x t _ x ' l l e o o _ x
        target  . . . . . . x . . . . o . . x .

    The model must look up what followed the same trigger before: the induction head that it
    trains. Without it a guess among 65 characters is right at 1 in 65 of them.

    Args:
        source, number_of_triggers, length, data_seed: of the bigram task, with fixed triggers.
        evaluated: sequences on which loss and margins are measured.
        batch: fresh sequences of a step, the same for every learning rate.
        steps: of SGD, on the outputs that the past tells.
        output_lrs: learning rates of W_O² where it alone is trained; may be empty.
        lrs: learning rates where all three matrices are trained; may be empty.

    Raises:
        ValueError: a number out of range, or nothing to train.
    """

    headline = Metric("accuracy", "maximise")

    def __init__(
        self,
        source: Any = "tiny_shakespeare",
        number_of_triggers: int = 5,
        length: int = 256,
        data_seed: int = 0,
        evaluated: int = 256,
        batch: int = 512,
        steps: int = 50,
        output_lrs: Sequence[float] = (20.0, 50.0, 100.0, 200.0),
        lrs: Sequence[float] = (2.0, 5.0, 10.0, 20.0),
    ) -> None:
        if min(batch, steps) < 1:
            raise ValueError(f"tasks.batch={batch} and tasks.steps={steps} are at least 1")
        if not output_lrs and not lrs:
            raise ValueError("tasks.output_lrs and tasks.lrs are empty: give at least one number")
        for name, values in (("output_lrs", output_lrs), ("lrs", lrs)):
            if values:
                check_numbers(name, values, 0)
        self.bigram = Bigram(
            source=source,
            number_of_triggers=number_of_triggers,
            length=length,
            validation_size=evaluated,
            test_size=evaluated,
            data_seed=data_seed,
        )
        self.length, self.batch, self.steps = length, batch, steps
        self.runs = [(OUTPUT, lr) for lr in output_lrs] + [(ALL, lr) for lr in lrs]

    def data_hashes(self) -> dict[str, str]:
        """The hashes of the bigram task."""
        return self.bigram.data_hashes()

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """Descent with every learning rate, called ``output_2,lr=…`` (W_O² alone) or ``all,lr=…``.

        Curves against steps: ``loss/…``; ``margin/…``, the mean over what is known of the right
        logit minus the best wrong one; ``memory_margin/…``, the same for the scores that W_O²
        stores, over tokens. Metrics: the last of them, ``increases/…``, how often the loss rose,
        and ``accuracy``, the best over all runs; ``diverged/…``, the step whose loss is not finite,
        where a curve ends before it.

        Raises:
            Diverged: every run is lost.
            Refused: the model has no such matrices, or nothing is told by the past.
        """
        evaluated = Known.of(self.bigram.splits[split], device)
        # All learning rates see the same batches: curves differ by the step alone.
        batches = [
            Known.of(self.bigram.training_sequences(seed, step, self.batch), device)
            for step in range(self.steps)
        ]
        if not all(sequences.known.any() for sequences in (evaluated, *batches)):
            raise Refused(NOTHING_KNOWN)
        result, accuracies = Evaluation({}), []
        for done, (trained, lr) in enumerate(self.runs):
            report("learning rates", done, len(self.runs))
            # Built anew with the same seed: each run starts from the same matrices.
            model = fitting_model(
                build,
                self.bigram.sampler.table.vocabulary,
                self.length,
                seed=seed,
                offers=("output_2", "output_scores"),
                choose=CHOOSE,
            )
            accuracies += self._descend(
                result, f"{trained},lr={lr:g}", model, lr, batches, evaluated
            )
        if not accuracies:
            raise Diverged("the loss of every run is not finite: lower tasks.lrs")
        result.metrics["accuracy"] = max(accuracies)
        return result

    def _descend(
        self,
        result: Evaluation,
        name: str,
        model: nn.Module,
        lr: float,
        batches: Sequence[Known],
        asked: Known,
    ) -> list[float]:
        """The last accuracy, if there is one."""
        alone = name.startswith(OUTPUT)
        # W_O² alone is a convex problem, as in the paper's theory; all three are not.
        trained = [model.get_parameter(OUTPUT)] if alone else list(model.parameters())
        optimiser = torch.optim.SGD(trained, lr)
        curves: dict[str, list[float]] = {"loss": [], "margin": [], "memory_margin": []}
        accuracy: list[float] = []
        for step in range(self.steps + 1):
            looked = _look(model, asked)
            if not math.isfinite(looked["loss"]):
                result.metrics[f"diverged/{name}"] = float(step)
                # A curve ends before the step that is not finite, and has no accuracy.
                accuracy = []
                break
            accuracy = [looked.pop("accuracy")]
            for quantity, value in looked.items():
                curves[quantity].append(value)
            # Looked at before each step and once after the last one.
            if step < self.steps:
                optimiser.zero_grad()
                batches[step].loss(model(batches[step].inputs)).backward()
                optimiser.step()
        losses = curves["loss"]
        for quantity, values in curves.items():
            if values:
                x = [float(step) for step in range(len(values))]
                result.curves[f"{quantity}/{name}"] = {"x": x, "y": values}
                result.metrics[f"{quantity}/{name}"] = values[-1]
        # The loss is always that of the same sequences, so a rise is the step's doing.
        rises = sum(after > before for before, after in pairwise(losses))
        result.metrics[f"increases/{name}"] = float(rises)
        return accuracy


@torch.no_grad()
def _look(model: Any, asked: Known) -> dict[str, float]:
    logits = model(asked.inputs)
    of_logits = margins(logits[asked.known], asked.targets[asked.known])
    scores = model.output_scores()
    # Token k should read out token k: the right scores are on the diagonal.
    of_memory = margins(scores, torch.arange(len(scores), device=scores.device))
    return {
        "loss": asked.loss(logits).item(),
        "margin": of_logits.mean().item(),
        "memory_margin": of_memory.mean().item(),
        "accuracy": (of_logits > 0).double().mean().item(),
    }


def margins(scores: Tensor, right: Tensor) -> Tensor:
    """(items,) the right score minus the best wrong one, of scores (items, classes)."""
    right_scores = scores.gather(1, right[:, None])
    wrong = scores.scatter(1, right[:, None], -math.inf).amax(1)
    return right_scores[:, 0] - wrong
