"""Whether a model answers here as it does in processes that were asked for nothing else."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.examination.comparisons import Comparisons
from bench.examination.fresh_process import ModelRecipe, answer_elsewhere
from bench.examination.reader import ModelReader
from bench.examination.rounding import OutputDifference, largest_difference, sizes_of, sum_lengths
from bench.examination.sequences import CutSequences
from bench.training.unfit import UnfitModel

# What one process has otherwise than another.
OF_A_PROCESS = (
    "the order of a set, the hash of a string, an address, the time, the process or its machine, "
    "or a draw that no seed reaches"
)


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
            raise UnfitModel(self._cause(sequences, others, difference, training))

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

    def _cause(
        self, sequences: CutSequences, others: Tensor, difference: OutputDifference, training: bool
    ) -> str:
        """What is wrong, by what two more processes answer for the sequences as they are.

        Raises:
            UnfitModel: this process shows it, too; says what.
        """
        here = self.reader.read(self.model, sequences.inputs, training)
        changed = self.reader.read(self.model, sequences.changed, training)
        self.comparisons.compare_changed(sequences, here, changed, training)
        mode = " in training mode" if training else ""
        state = self.comparisons.state
        first, second = (self._answer(self.model, sequences.inputs, training) for _ in range(2))
        terms = sum_lengths(self.model, sequences.length)
        repeated = largest_difference(first, second, sizes_of(first), terms)
        if repeated.ratio > 1:
            built = state or " from one seed"
            outputs = "its outputs in training" if training else "its outputs"
            return (
                f"the model is not the same when two processes build it{built} ({outputs} differ "
                f"{repeated}); possible causes: it depends on {OF_A_PROCESS}"
            )
        seen = largest_difference(*self._before(sequences, first, others), terms)
        if seen.ratio > 1:
            return (
                f"the model sees the future{mode}{state}: among processes that were asked for "
                f"nothing else, other inputs from position {sequences.cuts[seen.row]} on change "
                f"its output at position {seen.position} ({seen}), and it keeps something between "
                "calls, so that no single process shows that; outputs at t may depend on inputs at "
                "positions <= t only"
            )
        return (
            f"an output of the model{mode}{state}, at position {difference.position}, is another "
            "one here than in a process that has the same weights and was asked for nothing else "
            f"({difference}); possible causes: it keeps something between calls, or depends on "
            f"{OF_A_PROCESS}, or on who asks"
        )
