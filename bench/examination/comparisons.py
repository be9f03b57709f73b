"""Two answers of a model that should be equal, and the sentence that says what is wrong if not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.examination.reader import Reader
from bench.examination.rounding import (
    Difference,
    Pair,
    is_rounding,
    largest_difference,
    sizes_of,
    sum_lengths,
)
from bench.examination.sequences import UNCHANGED, Sequences
from bench.training.unfit import UnfitModel


class Comparisons:
    """What an examination compares.

    Attributes:
        state: which weights are asked, at the end of the sentences.
    """

    def __init__(self, model: nn.Module, reader: Reader, trained: bool) -> None:
        self.model, self.reader = model, reader
        self.state = " with its trained weights" if trained else ""

    def same_twice(
        self, sequences: Sequences, outputs: Tensor, again: Tensor, training: bool = False
    ) -> None:
        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            first = self.reader.read(model, sequences.inputs, training)
            self.reader.read(model, sequences.changed, training)
            return first, self.reader.read(model, sequences.inputs, training), sizes_of(first)

        difference = self.differ(pair, sequences.length, (outputs, again, sizes_of(outputs)))
        if difference is None:
            return
        mode = "in training mode " if training else ""
        also = ", or draws from a generator of its own" if training else ""
        raise UnfitModel(
            f"the model keeps something between calls{also}: {mode}the same inputs, with the same "
            f"seeds, give other outputs after another call ({difference}){self.state}; a sequence "
            "starts with its call to forward"
        )

    def compare_changed(
        self, sequences: Sequences, outputs: Tensor, others: Tensor, training: bool = False
    ) -> None:
        """Nothing before a cut may have changed."""
        kept = sequences.before_the_cut().unsqueeze(2)

        def within(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return first, torch.where(kept, second, first), sizes_of(first)

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            first = self.reader.read(model, sequences.inputs, training)
            return within(first, self.reader.read(model, sequences.changed, training))

        difference = self.differ(pair, sequences.length, within(outputs, others))
        if difference is None:
            return
        mode = " in training mode" if training else ""
        if self._row_alone_changes(sequences, difference.row, training):
            raise UnfitModel(
                f"the model sees the future{mode}{self.state}: other inputs from position "
                f"{sequences.cuts[difference.row]} on change its output at position "
                f"{difference.position} ({difference}); outputs at t may depend on inputs at "
                "positions <= t only"
            )
        raise UnfitModel(
            f"an output of the model depends on the other sequences of its batch{mode}"
            f"{self.state}: other values there change it at position {difference.position} "
            f"({difference})"
        )

    def _row_alone_changes(self, sequences: Sequences, row: int, training: bool) -> bool:
        """Whether it is the future of a row, and not the rows beside it, that changes its past."""
        cut, here = sequences.cuts[row], slice(row, row + 1)
        if cut in (0, sequences.length):
            return False
        changed = sequences.inputs.clone()  # some models take no batch of one in training mode
        changed[here] = sequences.changed[here]

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            first = self.reader.read(model, sequences.inputs, training)
            second = self.reader.read(model, changed, training)
            return first[here, :cut], second[here, :cut], sizes_of(first)[here, :cut]

        return self.differ(pair, sequences.length) is not None

    def differs_alone(self, sequences: Sequences) -> bool:
        row = slice(UNCHANGED, UNCHANGED + 1)

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            together = self.reader.read(model, sequences.inputs)
            alone = self.reader.read(model, sequences.inputs[row])
            return alone, together[row], sizes_of(together)[row]

        return self.differ(pair, sequences.length) is not None

    def differ(
        self, pair: Pair, length: int, known: tuple[Tensor, Tensor, Tensor] | None = None
    ) -> Difference | None:
        """The largest difference of two outputs, or None where it is rounding.

        Args:
            known: what ``pair`` gives by the model, if it was computed already.
        """
        terms = sum_lengths(self.model, length)
        difference = largest_difference(*(known or pair(self.model)), terms)
        if difference.ratio <= 1 or is_rounding(self.model, pair, difference, terms):
            return None
        return difference
