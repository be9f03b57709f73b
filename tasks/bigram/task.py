"""The bigram task.

Source: Bietti et al., "Birth of a Transformer: A Memory Viewpoint" (2023, arXiv 2306.00802),
section 3. To name the output of a trigger a model must find what followed it earlier in the same
sequence: an induction head, two layers of attention, or one layer of memory units, whose values
look one position ahead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.bigram.metrics import Predictor, in_context_loss, measure
from tasks.bigram.sequences import Outputs, Sampler, Sequences, Triggers
from tasks.bigram.table import Source, load
from tasks.interface import Batch, Evaluation, Metric, Split, Task

TRAIN, VALIDATION, TEST = 1, 2, 3  # 0 draws the table


class Bigram(Task):
    """Predict the next token where some tokens are followed by what followed them before.

    Training asks for every next token. The headline and ``loss`` of an evaluation are about the
    outputs that the past tells: the second and later occurrence of a trigger.

    Example: ``length=16, number_of_triggers=2``, sequence 1 of training seed 0; blanks are written
    _, and the triggers are _ (its output here is x) and e (o). All targets train, "told" are
    evaluated:

        input   e o , _ x t _ x ' l l e o o _ x
        target  o , _ x t _ x ' l l e o o _ x f
        told    . . . . . . x . . . . o . . x .

    To be right there, a model must find the token that followed this trigger before; the bigram
    table alone, without a look back, is right at about 1 in 65 of them, as outputs are uniform.

    Args:
        source: the table of ordinary bigrams: "tiny_shakespeare" (characters, kept with this file),
            "dirichlet" (random), or "text".
        text: path of a plain text whose characters are counted; read where ``source`` is "text".
        vocabulary: tokens of a random table; a text has as many as it has characters.
        concentration: of the Dirichlet distribution of each row.
        triggers: "fixed": the most frequent tokens, "random": new ones in each sequence, ~ π_u.
        number_of_triggers: K.
        skip_most_frequent: tokens that are left out of the fixed triggers.
        outputs: "uniform" over the vocabulary, or "bigram": ~ π_b(· | trigger).
        no_repeat: no output equals its trigger.
        length: inputs of a sequence, T.
        validation_size, test_size: sequences of an evaluation; they never change with the model.
        data_seed: seed of all data; the run's seed is mixed into the training batches.

    Raises:
        ValueError: an unknown choice, a number out of range, more triggers than tokens, or a text
            that cannot be used.
    """

    headline: ClassVar[Metric] = Metric("in_context_accuracy", "maximise")

    def __init__(
        self,
        *,
        source: Source = "tiny_shakespeare",
        text: str | None = None,
        vocabulary: int = 65,
        concentration: float = 0.1,
        triggers: Triggers = "fixed",
        number_of_triggers: int = 5,
        skip_most_frequent: int = 0,
        outputs: Outputs = "uniform",
        no_repeat: bool = False,
        length: int = 256,
        validation_size: int = 256,
        test_size: int = 1024,
        data_seed: int = 0,
    ) -> None:
        for name, choice, choices in (
            ("source", source, get_args(Source)),
            ("triggers", triggers, get_args(Triggers)),
            ("outputs", outputs, get_args(Outputs)),
        ):
            if choice not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {choice!r}")
        for name, value, least in (
            ("vocabulary", vocabulary, 2),
            ("number_of_triggers", number_of_triggers, 1),
            ("skip_most_frequent", skip_most_frequent, 0),
            ("length", length, 2),
            ("validation_size", validation_size, 1),
            ("test_size", test_size, 1),
            ("data_seed", data_seed, 0),
        ):
            if value < least:
                raise ValueError(f"{name}={value} is too small: give at least {least}")
        if concentration <= 0:
            raise ValueError(f"concentration={concentration} is too small: give a number above 0")
        self.length, self.data_seed = length, data_seed
        self.sizes = {"validation": validation_size, "test": test_size}
        # Made when they are used: a text is read then, and not when a configuration is only
        # checked.
        self._load = partial(load, source, text, vocabulary, concentration, data_seed)
        self._sampler = partial(
            Sampler,
            length=length,
            number=number_of_triggers,
            triggers=triggers,
            skipped=skip_most_frequent,
            outputs=outputs,
            no_repeat=no_repeat,
        )

    @cached_property
    def sampler(self) -> Sampler:
        """Made at the first use, when a text is read."""
        return self._sampler(self._load())

    @cached_property
    def splits(self) -> dict[str, Sequences]:
        """The fixed sequences of "validation" and "test"."""
        streams = {"validation": VALIDATION, "test": TEST}
        return {name: self._draw(size, streams[name]) for name, size in self.sizes.items()}

    def specification(self) -> SequenceSpecification:
        """``length`` positions over the tokens of the table."""
        return SequenceSpecification(self.length, vocabulary=self.sampler.table.vocabulary)

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the splits and of the table of bigrams. "train" is what seed 0 draws first."""
        hashes = {"table": self.sampler.table.sha256()}
        for name, sequences in {"train": self._draw(64, TRAIN, 0, 0), **self.splits}.items():
            hashes[name] = hashlib.sha256(sequences.tokens.astype("<i8").tobytes()).hexdigest()
        return hashes

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """int64 (batch, time); every next token is asked for."""
        sequences = self.training_sequences(seed, step, size)
        tokens = torch.from_numpy(sequences.tokens)
        return Batch(tokens[:, :-1], tokens[:, 1:], tokens=size * self.length)

    def training_sequences(self, seed: int, step: int, size: int) -> Sequences:
        """What ``training_batch`` is made of, with its triggers and outputs."""
        return self._draw(size, TRAIN, seed, step)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of every next token, in nats."""
        return functional.cross_entropy(outputs.flatten(0, 1).float(), batch.targets.flatten())

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """The metrics of :func:`tasks.bigram.metrics.measure`."""
        return measure(_of_model(model, device), self.splits[split], self.sampler.table)

    def validation_loss(self, model: nn.Module, device: torch.device | str) -> float:
        """Mean cross-entropy of the outputs that the past tells (c_t >= 2), in nats."""
        sequences = self.splits["validation"]
        return in_context_loss(_of_model(model, device), sequences, self.sampler.table)

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """A guess, the table of bigrams without a look back, and whoever knows the triggers."""
        predictors: dict[str, Predictor] = {
            "uniform": self._uniform,
            "global bigram": self._global,
            "in-context bigram (oracle)": self._oracle,
        }
        return {
            label: lambda split, predictor=predictor: measure(  # type: ignore[misc]
                predictor, self.splits[split], self.sampler.table
            )
            for label, predictor in predictors.items()
        }

    def _draw(self, size: int, *key: int) -> Sequences:
        # A stream of its own for each split and step: batches do not depend on what was drawn
        # before.
        seeds = np.random.SeedSequence([self.data_seed, *key])
        return self.sampler.draw(np.random.Generator(np.random.Philox(seeds)), size)

    def _uniform(self, sequences: Sequences) -> Tensor:
        size = self.sampler.table.vocabulary
        return torch.full((*sequences.inputs.shape, size), 1 / size).log()

    def _global(self, sequences: Sequences) -> Tensor:
        """π_b(· | z_t) everywhere: what a model knows that does not look back."""
        # log 0 = −∞ after triggers, where π_b is no answer: that loss is not finite, and left out.
        return torch.from_numpy(self.sampler.table.of_next).log()[sequences.inputs]

    def _oracle(self, sequences: Sequences) -> Tensor:
        """The best prediction of all for whoever is told which tokens are triggers."""
        occurrences = sequences.occurrences()
        rows = np.where(
            (occurrences > 0)[..., None],
            self.sampler.of_output[sequences.inputs],
            self.sampler.table.of_next[sequences.inputs],
        )
        # From the second occurrence on the output is known; at the first it is a draw of its kind.
        one_hot = np.eye(self.sampler.table.vocabulary)[sequences.targets]
        return torch.from_numpy(np.where((occurrences >= 2)[..., None], one_hot, rows)).log()


def _of_model(model: nn.Module, device: torch.device | str) -> Predictor:
    def predict(sequences: Sequences) -> Tensor:
        inputs = torch.from_numpy(np.ascontiguousarray(sequences.inputs)).to(device)
        return functional.log_softmax(model(inputs).float(), dim=-1)

    return predict
