"""Whether a model answers here as it does in processes that were asked for nothing else."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from bench.examination.comparisons import Comparisons
from bench.examination.fresh_process import ModelRecipe, answer_elsewhere
from bench.examination.reader import ModelReader
from bench.examination.rounding import OutputDifference, largest_difference, sizes_of, sum_lengths
from bench.examination.sequences import CutSequences
from bench.training.unfit import UnfitModel


class ComparedElsewhere:
    """Compares outputs of this process with those of new ones, which never see what comes after a
    cut: they get the same sequences up to it, and other values from there on.

    Args:
        recipe: what those processes build the model from; they get its weights.
        reader: how it is asked.
    """

    def __init__(
        self, recipe: ModelRecipe, model: nn.Module, reader: ModelReader, trained: bool
    ) -> None:
        self.recipe, self.model, self.reader = recipe, model, reader
        self.comparisons = Comparisons(model, reader, trained)

    def compare(
        self,
        sequences: CutSequences,
        outputs: Tensor,
        others: Tensor | None = None,
        training: bool = False,
    ) -> None:
        """Refuse outputs before the cuts that are others there, beyond rounding.

        Args:
            outputs: of this process, for the sequences as they are.
            others: of a new one, for the changed ones; None asks it.

        Raises:
            UnfitModel: they are others, or no other process can be asked; says why.
        """
        if others is None:
            others = self._answer(self.model, sequences.changed, training)

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            # First, since a call may note in a buffer what it was asked.
            other = self._answer(model, sequences.changed, training)
            first = self.reader.read(model, sequences.inputs, training)
            return self._before(sequences, first, other)

        computed = self._before(sequences, outputs, others)
        difference = self.comparisons.differ(pair, sequences.length, computed)
        if difference is not None:
            raise self._unfit(sequences, others, difference, training)

    def _answer(self, model: nn.Module, inputs: Tensor, training: bool) -> Tensor:
        return answer_elsewhere(self.recipe, self.reader, model, inputs, training)

    @staticmethod
    def _before(
        sequences: CutSequences, outputs: Tensor, others: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Two outputs that should be equal, since what comes after a cut is left out."""
        before_cut = sequences.before_the_cut().unsqueeze(2)
        others = torch.where(before_cut, others.to(outputs), outputs)
        return outputs, others, sizes_of(outputs)

    def _unfit(
        self, sequences: CutSequences, others: Tensor, difference: OutputDifference, training: bool
    ) -> UnfitModel:
        """What is wrong, by what two more processes answer for the sequences as they are.

        Raises:
            UnfitModel: this process shows it, too; says what.
        """
        here = self.reader.read(self.model, sequences.inputs, training)
        changed = self.reader.read(self.model, sequences.changed, training)
        self.comparisons.compare_changed(sequences, here, changed, training)
        unfit = partial(self.comparisons.unfit, training=training)
        first, second = (self._answer(self.model, sequences.inputs, training) for _ in range(2))
        terms = sum_lengths(self.model, sequences.length)
        repeated = largest_difference(first, second, sizes_of(first), terms)
        if repeated.ratio > 1:
            built = self.comparisons.state or " from one seed"
            outputs = "its outputs in training" if training else "its outputs"
            return unfit("two processes", built=built, outputs=outputs, difference=repeated)
        seen = largest_difference(*self._before(sequences, first, others), terms)
        if seen.ratio > 1:
            cut = sequences.cuts[seen.row]
            return unfit("future among processes", cut=cut, difference=seen)
        return unfit("others here", difference=difference)
