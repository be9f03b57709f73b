"""What an examination asks of a model, one question after another."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench.config.questions import RECORDED
from bench.examination.answers import refuse_no_numbers, refuse_other_shape, without_numbers
from bench.examination.comparisons import Comparisons
from bench.examination.examined import Examined
from bench.examination.gradients import gradients_of, without_gradient
from bench.examination.reader import LARGEST_OUTPUT, ModelReader, offers_hidden, refuse_own_seeds
from bench.examination.rounding import parameters_moved, sizes_of
from bench.examination.sequences import (
    FEWEST_ROWS,
    UNCHANGED,
    CutSequences,
    SequenceSource,
    cut_between,
)
from bench.examination.untouched import UntouchedCopy
from bench.training.saved_tensors import SavedTensors
from bench.training.unfit import UnfitModel
from core.seeding import derive_seed
from models.specification import SequenceSpecification

MOST_ROWS = 16
FEWEST_POSITIONS_OF_LOGITS = 64  # of a model that is asked for hidden vectors otherwise
SHORT = 2**11  # positions of a batch of the longest sequences that are looked at in any case
SMALL_BATCH = 2**13  # positions of a training batch that is looked at as a whole in any case
MANY_ROWS, FEW_POSITIONS = 521, 8  # a batch of more rows than an evaluation has; short, to be cheap
MOVE = 0.1  # of a parameter, and in place of a zero
MOVED = ", once its parameters are moved from their initial values, as by training"


class Examiner(Comparisons):
    """One examination on its way; see :func:`bench.examination.examination.examine`."""

    def __init__(
        self,
        model: nn.Module,
        specification: SequenceSpecification,
        inputs: Tensor,
        seed: int,
        positions: int,
        trained: bool,
        scored: Tensor | None,
    ) -> None:
        most = LARGEST_OUTPUT // (specification.output_size * FEWEST_ROWS)
        by_hidden = inputs.shape[1] > most and offers_hidden(model)
        if by_hidden:  # large vocabularies; the tasks do not ask for all logits either
            most = LARGEST_OUTPUT
        super().__init__(model, ModelReader(seed, by_hidden), trained)
        self.untouched = UntouchedCopy(model)
        self.specification, self.trained = specification, trained
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "examination"))
        self.source = SequenceSource(inputs, specification, self.generator, scored)
        self.result = Examined()
        self.random = False  # whether outputs in eval mode depend on random numbers
        self.length = max(1, min(inputs.shape[1], most))
        self.positions, self.most = positions, most
        self.rows = self._rows_of(self.length)

    def _rows_of(self, length: int) -> int:
        rows = min(MOST_ROWS, self.positions // length)
        if not self.reader.by_hidden:
            rows = min(rows, LARGEST_OUTPUT // (length * self.specification.output_size))
        return max(FEWEST_ROWS, rows)

    def examined(self) -> Examined:
        """Everything in turn; what costs least, and what others rely on, comes first."""
        sequences = self.source.draw(self.rows, self.length)
        self._shape(sequences)
        outputs, long = None, self._longest()
        if long is not None:
            outputs = self._values(long)
        if long is not None and outputs is not None:
            self._pass("longest sequence")
            self._prefix(long, outputs, self.length)
        else:
            long, outputs = sequences, self._values(sequences)
            assert outputs is not None
            self._prefix(long, outputs, long.length - 1)
            if long.length >= self.specification.maximum_length:
                self._pass("longest sequence")
        self._prefix(long, outputs, self._cut_inside(long.length))
        self._whole_batch(sequences)
        self._hidden(sequences)
        self._training_mode(sequences)
        if self.result.unused and long.length > self.length:  # some are for long sequences alone
            by_parameters = self._gradients(self.model, long)[2]
            self.result.unused = without_gradient(self.model, by_parameters)
        if self.trained:
            self._many_rows()
        else:
            self._moved(sequences)
        if not self.reader.wrote:  # it gets copies then, see ``answers.give_copies``
            self._pass("inputs unchanged")
        self.result.changes = self.reader.changed
        self.result.passed.sort(key=RECORDED.index)
        return self.result

    def _pass(self, *names: str) -> None:
        self.result.passed += [name for name in names if name not in self.result.passed]

    def _longest(self) -> CutSequences | None:
        """Sequences as long as any that the task has, if that is longer than its batches are and
        not too long to be looked at."""
        limit = getattr(self.model, "context_limit", None)
        length = min(self.specification.maximum_length, self.most)
        length = min(length, limit) if isinstance(limit, int) else length
        affordable = length * FEWEST_ROWS <= max(self.positions, SHORT)
        if length <= self.length or not affordable:
            return None
        return self.source.draw(self._rows_of(length), length)

    def _cut_inside(self, length: int) -> int:
        return cut_between(length // 4, length - 1, self.generator)

    def _shape(self, sequences: CutSequences) -> None:
        """Two sequences, which also tell whether the model draws random numbers."""
        length = (
            min(sequences.length, FEWEST_POSITIONS_OF_LOGITS) if self.reader.by_hidden else None
        )
        inputs = sequences.inputs[:2, :length]
        with torch.no_grad():
            outputs = self.reader.call(self.model.eval(), inputs, hidden=False)
        refuse_other_shape(outputs, inputs, self.specification.output_size)
        self._pass("shape")
        self.untouched.first = inputs, outputs
        if self.reader.drew:
            other = self.reader.of_another_seed(by_hidden=False)
            with torch.no_grad():
                self.random = not torch.equal(outputs, other.call(self.model, inputs))
            refuse_own_seeds(self.reader, other)

    def _outputs(self, inputs: Tensor, required: bool = False) -> Tensor | None:
        """Outputs in eval mode, or None: not every model takes every length, and the task may not
        ask for it."""
        try:
            return self.reader.read(self.model, inputs)
        except UnfitModel:
            raise
        except Exception:
            if required:
                raise
            return None

    def _values(self, sequences: CutSequences) -> Tensor | None:
        """Change values after each cut, in eval mode.

        Returns:
            The outputs; None where the model does not take sequences longer than its batches.
        """
        inputs, changed = sequences.inputs, sequences.changed
        outputs = self._outputs(inputs, required=sequences.length <= self.length)
        if outputs is None:
            return None
        # What training can still change is judged when it has.
        judged = outputs if self.trained else outputs[:, : self.length]
        state = f",{self.state}" if self.state else ""
        refuse_no_numbers(judged, "hidden" if self.reader.by_hidden else "forward", state)
        others = self.reader.read(self.model, changed)
        repeated = self.reader.read(self.model, inputs)
        self.same_twice(sequences, outputs, repeated)
        self.same_without_history(inputs, changed, others)
        self.compare_changed(sequences, outputs, others)
        self._pass("numbers", "same outputs twice", "independent of the batch", "causal by values")
        return outputs

    def _prefix(self, sequences: CutSequences, outputs: Tensor, cut: int) -> None:
        """The first positions of one sequence alone, in eval mode; of all, where the model does not
        take one alone."""
        if not 0 < cut < sequences.length or self.random:
            return
        for row in (slice(UNCHANGED, UNCHANGED + 1), slice(None)):
            start = sequences.inputs[row, :cut]
            alone = self._outputs(start)
            if alone is not None:
                break
        else:
            return
        sizes = sizes_of(outputs)[row, :cut]

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            whole = self.reader.read(model, sequences.inputs)
            return self.reader.read(model, start), whole[row, :cut], sizes_of(whole)[row, :cut]

        difference = self.differ(pair, sequences.length, (alone, outputs[row, :cut], sizes))
        if difference is None:
            self._pass("causal by prefixes")
            return
        self.refuse_varying(sequences.inputs, difference)
        if len(start) == 1 and self.differs_alone(sequences):
            raise self.unfit("alone", difference=difference)
        raise self.unfit("length", cut=cut, length=sequences.length, difference=difference)

    def _whole_batch(self, sequences: CutSequences) -> None:
        """Refuse a model that answers a sequence otherwise in a batch as large as in training."""
        length, rows = sequences.length, slice(len(sequences.inputs))
        most = max(SMALL_BATCH, self.positions)
        most = min(most, LARGEST_OUTPUT // self.specification.output_size)
        batch = self.source.real[: most // length, :length]
        if self.random or len(batch) <= len(sequences.inputs):
            return

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            outputs = self.reader.read(model, sequences.inputs)
            return self.reader.read(model, batch)[rows], outputs, sizes_of(outputs)

        difference = self.differ(pair, length)
        if difference is not None:
            self.refuse_varying(sequences.inputs, difference)
            large, small = len(batch), len(sequences.inputs)
            raise self.unfit("size of the batch", large=large, small=small, difference=difference)

    def _many_rows(self) -> None:
        """Evaluations have larger batches than trainings: other values in one of those as well."""
        length = min(FEW_POSITIONS, self.length)
        rows = MANY_ROWS
        if not self.reader.by_hidden:
            rows = min(rows, LARGEST_OUTPUT // (length * self.specification.output_size))
        if rows <= self.rows:
            return
        sequences = self.source.draw(rows, length)
        outputs = self._outputs(sequences.inputs)
        if outputs is None:
            return
        others = self.reader.read(self.model, sequences.changed)
        self.compare_changed(sequences, outputs, others)

    def _hidden(self, sequences: CutSequences) -> None:
        """Outputs by ``hidden`` are those of ``forward``."""
        if not offers_hidden(self.model):
            return
        longest = max(1, LARGEST_OUTPUT // (FEWEST_ROWS * self.specification.output_size))
        rows = [sequences.inputs[0], sequences.changed[0]]
        inputs = torch.stack(rows)[:, : min(longest, sequences.length)]

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            evaluated: Any = model.eval()
            with torch.no_grad():
                outputs = self.reader.call(evaluated, inputs, hidden=False)
                vectors = self.reader.call(evaluated, inputs, hidden=True)
                return vectors @ evaluated.output_matrix.T, outputs, sizes_of(outputs)

        difference = self.differ(pair, inputs.shape[1])
        if difference is not None:
            self.refuse_varying(inputs, difference)
            raise self.unfit("hidden", difference=difference)
        self._pass("hidden vectors")

    def _training_mode(self, sequences: CutSequences) -> None:
        """The same values and the gradients, with dropout and whatever else training has."""
        outputs = self.reader.read(self.model, sequences.inputs, True)
        others = self.reader.read(self.model, sequences.changed, True)
        repeated, by_inputs, by_parameters = self._gradients(self.model, sequences)
        self.same_twice(sequences, outputs, repeated, True)
        self.same_without_history(sequences.inputs, sequences.changed, others, True)
        if self.reader.drew:
            few, readers = sequences.inputs[:2], (self.reader, self.reader.of_another_seed())
            for reader in readers:
                reader.read(self.model, few, True)
            refuse_own_seeds(*readers)
        self.compare_changed(sequences, outputs, others, True)
        self._pass("causal in training")
        if self.trained:
            self.result.unused = without_gradient(self.model, by_parameters)
        if by_inputs and all(bool(g.isfinite().all()) for g in by_inputs):
            self._compare_gradients(sequences, by_inputs)

    def _gradients(
        self, model: nn.Module, sequences: CutSequences
    ) -> tuple[Tensor, list[Tensor], list[Tensor | None]]:
        """Outputs in training mode, and the gradients of those before each cut."""
        before_cut = sequences.before_the_cut().unsqueeze(2)

        def weights(outputs: Tensor) -> Tensor:
            places = torch.arange(outputs.numel(), device=outputs.device).view(outputs.shape)
            return places.cos().to(outputs.dtype) * before_cut

        parameters = [p for p in model.parameters() if p.requires_grad]
        call = partial(self.reader.call, model.train())
        saved = SavedTensors(model)
        try:
            return gradients_of(call, sequences.inputs, weights, parameters)
        finally:
            saved.restore()

    def _compare_gradients(self, sequences: CutSequences, by_inputs: list[Tensor]) -> None:
        """Outputs before a cut have no gradient at the inputs after it."""
        before_cut = sequences.before_the_cut().unsqueeze(2)

        def within(gradients: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
            together = torch.cat(gradients, 2)
            sizes = torch.cat([g.abs().max().expand_as(g) for g in gradients], 2)
            return torch.where(before_cut, 0.0, together), torch.zeros_like(together), sizes

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            return within(self._gradients(model, sequences)[1])

        difference = self.differ(pair, 2 * sequences.length, within(by_inputs))
        if difference is None:
            self._pass("causal by gradients")
            return
        cut = sequences.cuts[difference.row]
        if cut == 0:
            raise self.unfit("other sequences by gradients")
        raise self.unfit("future by gradients", cut=cut, difference=difference)

    def _moved(self, sequences: CutSequences) -> None:
        """What a branch that starts at zero hides."""
        self.state = MOVED
        sequences = self.source.draw(self.rows, sequences.length)
        with parameters_moved(self.model, MOVE, self.generator):
            outputs = self.reader.read(self.model, sequences.inputs, True)
            if bool(without_numbers(outputs).any()):  # the move, and no training, has broken it
                return
            others = self.reader.read(self.model, sequences.changed, True)
            self.compare_changed(sequences, outputs, others, True)
            outputs = self.reader.read(self.model, sequences.inputs)
            self.same_after_other_weights(sequences.inputs)
            self._prefix(sequences, outputs, self._cut_inside(sequences.length))
            self._hidden(sequences)
        self._pass("moved parameters")
