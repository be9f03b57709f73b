"""Two answers of a model that should be equal, and the sentence that says what is wrong if not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from bench.examination.reader import ModelReader
from bench.examination.rounding import (
    MARGIN,
    MOST_ROUNDING,
    OutputDifference,
    Pair,
    is_rounding,
    largest_difference,
    share,
    sizes_of,
    sum_lengths,
)
from bench.examination.sequences import UNCHANGED, CutSequences
from bench.examination.untouched import UntouchedCopy
from bench.training.unfit import UnfitModel, unfit

# Layers that take (time, batch, width) unless they are told otherwise.
TIME_FIRST = (nn.RNNBase, nn.MultiheadAttention)
ASKED_AGAIN = 5  # times that the same is asked, each time at another place of memory


def _layers_with_time_first(model: nn.Module) -> str:
    """What layers of PyTorch without ``batch_first=True`` may have to do with sequences of a batch
    that depend on each other, as a part of a sentence; "" where there are none."""
    names = []
    for name, module in model.named_modules():
        if getattr(module, "batch_first", True) is False and isinstance(module, TIME_FIRST):
            names.append(f"{name or 'the model'} ({type(module).__name__})")
    if not names:
        return ""
    lacks = f" and {len(names) - 1} more lack" if len(names) > 1 else " lacks"
    return (
        f"; a possible cause: {names[0]}{lacks} batch_first=True, without which the first axis of "
        "its inputs is time"
    )


class Comparisons:
    """What an examination compares.

    Attributes:
        state: which weights are asked, at the end of the sentences.
        untouched: the model before its first call; an examination sets it, a comparison alone has
            none.
    """

    untouched: UntouchedCopy

    def __init__(self, model: nn.Module, reader: ModelReader, trained: bool) -> None:
        self.model, self.reader = model, reader
        self.state = " with its trained weights" if trained else ""
        self._terms: dict[int, int] = {}  # length -> additions up to an output

    def same_twice(
        self, sequences: CutSequences, outputs: Tensor, repeated: Tensor, training: bool = False
    ) -> None:
        """The same inputs give the same after a call with others."""

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            first = self.reader.read(model, sequences.inputs, training)
            self.reader.read(model, sequences.changed, training)
            return first, self.reader.read(model, sequences.inputs, training), sizes_of(first)

        values = outputs, repeated, sizes_of(outputs)
        difference = self.differ(pair, sequences.length, values, by_calls=training)
        if difference is not None:
            raise self._varying(difference, training)

    def unfit(self, cause: str, training: bool = False, **values: object) -> UnfitModel:
        """The refusal of the model in one mode, as it is now; see :func:`unfit`."""
        mode = " in training mode" if training else ""
        values["time_first"] = _layers_with_time_first(self.model)
        return unfit(cause, mode=mode, state=self.state, **values)

    def _varying(self, difference: OutputDifference, training: bool) -> UnfitModel:
        others = "draws from a generator of its own, " if training else ""
        return self.unfit("others at each call", training, difference=difference, others=others)

    def same_without_history(
        self, history: Tensor, inputs: Tensor, outputs: Tensor, training: bool = False
    ) -> None:
        """A copy that was asked nothing before answers the same. In training mode it was asked once
        for something else: what depends on the number of calls alone is for ``repeatability.py``,
        which knows whether a checkpoint keeps it.

        Args:
            history: inputs that the model was asked for before.
        """
        other_history = history.flip(1) if training else None
        ask = partial(self.untouched.read, reader=self.reader, inputs=inputs, training=training)

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            self.reader.read(model, history, training)
            now = self.reader.read(model, inputs, training)
            answer = ask(model, history=other_history)
            return now if answer is None else answer, now, sizes_of(now)

        answer = ask(self.model, history=other_history)
        mode = "in training mode " if training else ""
        asked = None if training else inputs
        self._refuse_history(pair, answer, outputs, f"{mode}after other sequences", asked)

    def same_after_other_weights(self, inputs: Tensor) -> None:
        """A copy that was asked for the same with its first weights answers as one that was not."""
        ask = partial(self.untouched.read, reader=self.reader, inputs=inputs)

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            now, later = ask(model), ask(model, history=inputs, of_first_weights=True)
            now = self.reader.read(model, inputs) if now is None else now
            return now, now if later is None else later, sizes_of(now)

        outputs = ask(self.model)
        answer = ask(self.model, history=inputs, of_first_weights=True)
        if outputs is not None:
            after = "after a call with other weights"
            self._refuse_history(pair, answer, outputs, after, inputs)

    def _refuse_history(
        self,
        pair: Pair,
        answer: Tensor | None,
        outputs: Tensor,
        after: str,
        inputs: Tensor | None,
    ) -> None:
        """Refuse what was asked for other things before and gives another answer for that.

        Args:
            inputs: what was asked in eval mode; None in training mode, where the number of calls
                may make the difference.
        """
        if answer is None or torch.equal(answer, outputs):
            return
        values = answer, outputs, sizes_of(outputs)
        difference = self.differ(pair, outputs.shape[1], values, by_calls=inputs is None)
        if difference is not None and self.untouched.is_faithful(self.reader):
            if inputs is not None:
                self.refuse_varying(inputs, difference)
            raise self.unfit("others by history", after=after, difference=difference)

    def compare_changed(
        self, sequences: CutSequences, outputs: Tensor, others: Tensor, training: bool = False
    ) -> None:
        """Nothing before a cut may have changed."""
        before_cut = sequences.before_the_cut().unsqueeze(2)

        def within(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return first, torch.where(before_cut, second, first), sizes_of(first)

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            first = self.reader.read(model, sequences.inputs, training)
            return within(first, self.reader.read(model, sequences.changed, training))

        if training and self._each_call_differs(sequences, within(outputs, others)):
            return
        difference = self.differ(pair, sequences.length, within(outputs, others))
        if difference is None:
            return
        if not training:
            self.refuse_varying(sequences.inputs, difference)
        if self._row_alone_changes(sequences, difference.row, training):
            cut = sequences.cuts[difference.row]
            raise self.unfit("future", training, cut=cut, difference=difference)
        raise self.unfit("other sequences", training, difference=difference)

    def refuse_varying(self, inputs: Tensor, found: OutputDifference) -> None:
        """Refuse a model whose outputs in eval mode differ for the same inputs about as much as
        in what was found: that is then no matter of other inputs, of a length or of a batch.

        Raises:
            UnfitModel: they do.
        """
        for difference in self._asked_again(inputs, training=False):
            if difference.ratio > 1 and found.ratio <= MARGIN * difference.ratio:
                raise self._varying(difference, training=False)

    def _asked_again(self, inputs: Tensor, training: bool) -> Iterator[OutputDifference]:
        """What differs between one call and the next, all with the same inputs."""
        first = self.reader.read(self.model, inputs, training)
        terms, held = sum_lengths(self.model, inputs.shape[1]), []
        for _ in range(ASKED_AGAIN):
            # These take the places that the last call has left, so that the next one gets others.
            held += [inputs.clone(), first.clone(), object()]
            again = self.reader.read(self.model, inputs, training)
            yield largest_difference(first, again, sizes_of(first), terms)
            first = again

    def _each_call_differs(
        self, sequences: CutSequences, computed: tuple[Tensor, Tensor, Tensor]
    ) -> bool:
        """Whether the same inputs differ as much from call to call, as by a count of calls in
        training mode; ``repeatability.py`` knows whether a checkpoint keeps that."""
        terms = sum_lengths(self.model, sequences.length)
        ratio = largest_difference(*computed, terms).ratio
        if ratio <= 1:
            return False
        between_calls = (d.ratio for d in self._asked_again(sequences.inputs, training=True))
        return any(other > 1 and ratio <= MARGIN * other for other in between_calls)

    def _row_alone_changes(self, sequences: CutSequences, row: int, training: bool) -> bool:
        """Whether it is the future of a row, and not the rows beside it, that changes its past."""
        cut, this_row = sequences.cuts[row], slice(row, row + 1)
        if cut in (0, sequences.length):
            return False
        changed = sequences.inputs.clone()  # some models take no batch of one in training mode
        changed[this_row] = sequences.changed[this_row]

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            first = self.reader.read(model, sequences.inputs, training)
            second = self.reader.read(model, changed, training)
            return first[this_row, :cut], second[this_row, :cut], sizes_of(first)[this_row, :cut]

        return self.differ(pair, sequences.length) is not None

    def differs_alone(self, sequences: CutSequences) -> bool:
        """Whether a whole sequence gives other outputs in a batch of one."""
        row = slice(UNCHANGED, UNCHANGED + 1)

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            together = self.reader.read(model, sequences.inputs)
            alone = self.reader.read(model, sequences.inputs[row])
            return alone, together[row], sizes_of(together)[row]

        return self.differ(pair, sequences.length) is not None

    def differ(
        self,
        pair: Pair,
        length: int,
        computed: tuple[Tensor, Tensor, Tensor] | None = None,
        by_calls: bool = False,
    ) -> OutputDifference | None:
        """The largest difference of two outputs, or None where it is rounding.

        Args:
            computed: what ``pair`` gives by the model, if it was computed already.
            by_calls: whether it may be the number of calls in training mode that makes them differ,
                which is for ``repeatability.py``: it knows whether a checkpoint keeps that.
        """
        if length not in self._terms:
            self._terms[length] = sum_lengths(self.model, length)
        terms = self._terms[length]
        computed = computed or pair(self.model)
        difference = largest_difference(*computed, terms)
        if difference.ratio <= 1:
            return None
        # As it was found: a second look may not show it.
        is_small = by_calls or share(*computed) <= MOST_ROUNDING
        if is_small and is_rounding(self.model, pair, difference, terms, directed=not by_calls):
            return None
        return difference
