"""Whether a model is the causal map from sequences to sequences that it claims to be.

The conformance tests, the engine before a training and again with the trained weights, before test
data are scored, the command ``bench.examine`` and so ``leaderboards.verify`` all ask this one
function. Outputs are compared up to rounding (``rounding.py``) on sequences of the task itself
(``sequences.py``), each row of a batch with a cut of its own:

* other values after a cut leave the outputs before it alone, in eval mode at the longest length of
  the task, and in training mode at that of its batches, where dropout is drawn from one seed;
* the outputs before a cut have no gradient at the inputs after it;
* a sequence up to a cut alone, in a batch of one, gives what it gives inside the whole batch;
* a row that stays as it is gives the same while all others change, after another call, and in a
  batch as large as those of the training;
* a copy that was asked for nothing else before gives the same, so that nothing is kept of earlier
  sequences, by their first tokens or otherwise, and nothing of earlier weights;
* a call seeds no generator and leaves PyTorch's settings of the process as they were;
* outputs have the shape of the task and are numbers; inputs are left as they are, or the model gets
  copies of them from then on;
* ``hidden`` times ``output_matrix``, by which tasks of text compute their losses, is ``forward``.

Branches often start at zero, so a fresh model is asked once more with its parameters moved from
where they start. A model that leaks later is found with its trained weights, and one that leaks in
large batches alone on the largest one of its evaluation (``scored.py``), which also looks at what a
stranger's model generates there (``generation.py``). A copy shares with its
model whatever lies outside of both; so a run of somebody else's class also asks new processes
(``elsewhere.py``), before its training and about the outputs that are scored. Nothing is left
behind: parameters, buffers, modes and random states are what they were.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bench.examination.examined import Examined
from bench.examination.examiner import Examiner
from bench.examination.reader import ModelReader, offers_hidden
from bench.examination.rounding import MARGIN, largest_difference, sizes_of, sum_lengths
from bench.training.saved_tensors import SavedTensors
from bench.training.seeding import kept_random_state
from bench.training.unfit import unfit
from models.specification import SequenceSpecification

SHARE = 0.02  # of the work of a training, for both examinations of it
PASSES = 25  # forward passes of an examination, more or less; a training step is three
FEWEST_POSITIONS, MOST_POSITIONS = 2**10, 2**15  # of a pass


def positions_of_a_pass(trained_on: int) -> int:
    """How many positions an examination may have in each pass.

    Args:
        trained_on: positions of all batches of the training, padding included.
    """
    affordable = int(SHARE * 3 * trained_on / (2 * PASSES))
    return max(FEWEST_POSITIONS, min(MOST_POSITIONS, affordable))


def examine(
    model: nn.Module,
    specification: SequenceSpecification,
    inputs: Tensor,
    *,
    seed: int = 0,
    positions: int = FEWEST_POSITIONS,
    trained: bool = False,
    scored: Tensor | None = None,
) -> Examined:
    """Examine a model on sequences like those of a batch.

    Args:
        inputs: of a training batch, int64 (batch, time) or real (batch, time, channels), on the
            device of the model.
        seed: of the cuts and of what is drawn.
        positions: how many a pass may have, padding included; a batch has four rows at least.
        trained: whether the weights are those that will be scored.
        scored: positions whose outputs the task scores, bool (batch, time), if it is not all: the
            input after one of them is where a leak pays.

    Raises:
        UnfitModel: what the model fails first, in a sentence.
    """
    with left_as_it_was(model, inputs.device):
        return Examiner(model, specification, inputs, seed, positions, trained, scored).examined()


@contextmanager
def left_as_it_was(model: nn.Module, device: torch.device) -> Iterator[None]:
    """After this block modes, parameters, buffers and random states are as before it."""
    modes = [(module, module.training) for module in model.modules()]
    saved = SavedTensors(model)
    try:
        with kept_random_state(device):
            yield
    finally:
        saved.restore()
        for module, mode in modes:
            module.training = mode


class RepeatedAnswers:
    """What a model answers now, to see later whether it still does.

    Args:
        inputs: few sequences, on the device of the model.
    """

    def __init__(self, model: nn.Module, inputs: Tensor, seed: int) -> None:
        self.model, self.inputs, self.seed = model, inputs, seed
        self.exact = self._in_float64()  # first, so that both answer from one state
        self.outputs = self._of(model)

    def refuse_others(self) -> None:
        """Refuse answers that are others now, beyond rounding.

        Raises:
            UnfitModel: they are.
        """
        now = self._of(self.model)
        terms = sum_lengths(self.model, self.inputs.shape[1])
        difference = largest_difference(now, self.outputs, sizes_of(self.outputs), terms)
        if difference.ratio > 1 and not self._is_rounding(now, difference.ratio, terms):
            raise unfit("others after the evaluation", difference=difference)

    def _of(self, model: nn.Module) -> Tensor:
        by_hidden = offers_hidden(model)  # fewer numbers, of the same positions
        with left_as_it_was(model, self.inputs.device):
            return ModelReader(self.seed, by_hidden).read(model, self.inputs)

    def _in_float64(self) -> Tensor | None:
        """Answers of a copy as it is now, and so with what the model keeps; None where it cannot
        be copied or computed so."""
        try:
            outputs = self._of(copy.deepcopy(self.model).double())
        except Exception:  # a stranger's model may refuse either, in any way
            return None
        return outputs if outputs.dtype == torch.float64 else None

    def _is_rounding(self, now: Tensor, ratio: float, terms: int) -> bool:
        """Whether a difference beyond the tolerance is rounding nevertheless: it is gone in
        float64, and what the model answers now is about as exact as what it answered before. What
        a model keeps where no copy of it looks is no part of the answers in float64."""
        exact_now = None if self.exact is None else self._in_float64()
        if self.exact is None or exact_now is None:
            return False
        sizes, exact = sizes_of(self.outputs), self.exact.to(now.dtype)
        left = largest_difference(exact_now, self.exact, sizes_of(self.exact), terms).ratio
        error_before = largest_difference(self.outputs, exact, sizes, terms).ratio
        error_now = largest_difference(now, exact, sizes, terms).ratio
        return left <= MARGIN * ratio and error_now <= MARGIN * error_before
