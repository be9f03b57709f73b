"""In which order the memories of an induction head are learned.

Source: Bietti et al., "Birth of a Transformer: A Memory Viewpoint" (2023, arXiv 2306.00802),
section 4: the simplified model is trained by SGD on the outputs of the bigram task alone, and after
every few steps each trained matrix is asked for what it should hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tasks.bigram import Bigram
from tasks.bigram.sequences import Sequences, Triggers
from tasks.interface import IGNORED, Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement, Refused
from tasks.refusals import check_number, fitting_model
from tasks.three_gradient_steps.probes import output_recall, position_recall, token_recall

Asked = Literal["known", "all"]
HALF = 0.5
NOTHING_KNOWN = (
    "no trigger occurs twice in the sequences, so nothing is told by the past: raise tasks.length, "
    "tasks.batch or tasks.evaluated"
)
OFFERS = ("attend", "output_scores", "token_scores", "position_scores")
NOTHING_TO_ABLATE = "the model has no W_F to go without: set models.feed_forward=true"
CHOOSE = (
    "bigram_probes reads the three memories of an induction head: choose "
    "models=two_layer_attention or models=disentangled_attention"
)
EARLY = 64  # positions of the second probe of W_K¹, or half of them where there are fewer
IN_TURN = {"output_2": "output_recall", "key_2": "token_recall", "key_1": "early_position_recall"}


class BigramProbes(Measurement):
    """Train a two-layer model on the bigram task and read its memories as it learns.

    Curves against the steps taken: ``accuracy`` (in context, c_t >= 2), ``output_recall`` (W_O²,
    all tokens), ``token_recall`` (W_K², the fixed triggers, or all tokens where triggers are
    random), ``position_recall`` (W_K¹, all positions) and ``early_position_recall`` (the first 64,
    or half of fewer); ``first_layer_on_previous`` (at the position after a trigger, the first layer
    looks most at the trigger), ``second_layer_on_output`` (at a known trigger, the second layer
    looks most at a position that holds the output) and ``second_layer_after_trigger`` (at one that
    follows the same trigger); ``bigram_divergence`` of a model with W_F: the mean of KL(π_b(· | k)
    ‖ softmax(U W_F e_k)) over tokens that are no fixed trigger. Metrics are the last values,
    ``loss`` (of what is known, in nats), and ``steps_to_half_<probe>``: where a curve first reaches
    0.5, by straight lines between its points; left out where it never does.

    Example of a sequence (``length=16, number_of_triggers=2``; blanks are written _), with the
    targets of ``loss_on=known``, where a trigger occurs again:

        input   e o , _ x t _ x ' l l e o o _ x
        target  . . . . . . x . . . . o . . x .

    Layer 1 must look at the token before (W_K¹), layer 2 at what followed the same token (W_K²),
    and W_O² must write that token out; without them a guess is right at 1 in 65 of them.

    Args:
        source, text, triggers, number_of_triggers, length, data_seed: of the bigram task.
        evaluated: sequences on which accuracy and attention are measured.
        steps: SGD steps.
        batch: fresh sequences in each.
        lr, momentum, weight_decay: of SGD.
        loss_on: "known": the outputs with c_t >= 2, or "all" next tokens, which W_F needs.
        probe_every: steps between probes.
        in_turn: W_K² stays as it is drawn until W_O² is half learned, and W_K¹ until W_K² is: when
            a probe has come half the way from its start to 1. Otherwise all learn from the start.
        ablated: measure the trained model without its W_F as well, see :meth:`_ablation`.

    Raises:
        ValueError: a number out of range or an unknown choice.
    """

    headline: ClassVar[Metric] = Metric("accuracy", "maximise")

    def __init__(
        self,
        *,
        source: Any = "tiny_shakespeare",
        text: str | None = None,
        triggers: Triggers = "fixed",
        number_of_triggers: int = 5,
        length: int = 256,
        data_seed: int = 0,
        evaluated: int = 256,
        steps: int = 1000,
        batch: int = 512,
        lr: float = 0.2,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        loss_on: Asked = "known",
        probe_every: int = 10,
        in_turn: bool = False,
        ablated: bool = False,
    ) -> None:
        if min(steps, batch, probe_every) < 1 or not 0 <= momentum < 1:
            raise ValueError(
                f"steps={steps}, batch={batch} and probe_every={probe_every} are 1 or more, and "
                f"momentum={momentum} is from 0 to below 1"
            )
        check_number("lr", lr, 0)
        if weight_decay < 0:
            raise ValueError(f"weight_decay={weight_decay} is below 0: give 0 or more")
        if loss_on not in get_args(Asked):
            raise ValueError(f"loss_on={loss_on!r} is unknown: use known or all")
        self.bigram = Bigram(
            source=source,
            text=text,
            triggers=triggers,
            number_of_triggers=number_of_triggers,
            length=length,
            validation_size=evaluated,
            test_size=evaluated,
            data_seed=data_seed,
        )
        self.triggers, self.length, self.loss_on = triggers, length, loss_on
        self.steps, self.batch, self.probe_every = steps, batch, probe_every
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.in_turn, self.ablated = in_turn, ablated

    def data_hashes(self) -> dict[str, str]:
        """The hashes of the bigram task."""
        return self.bigram.data_hashes()

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """Train by SGD from the weights of ``seed``, with probes before the first step and after
        the last."""
        vocabulary = self.bigram.sampler.table.vocabulary
        model: Any = fitting_model(
            build, vocabulary, self.length, seed=seed, offers=OFFERS, choose=CHOOSE
        )
        optimiser = torch.optim.SGD(
            model.parameters(), self.lr, self.momentum, weight_decay=self.weight_decay
        )
        curves: dict[str, list[float]] = {}
        steps: list[int] = []
        sequences = self.bigram.splits[split]
        if not (sequences.occurrences() >= 2).any():
            raise Refused(NOTHING_KNOWN)
        if self.ablated and getattr(model, "feed_forward", None) is None:
            raise Refused(NOTHING_TO_ABLATE)
        for step in range(self.steps + 1):
            if step % self.probe_every == 0 or step == self.steps:
                steps.append(step)
                for name, value in self._probe(model, sequences, device).items():
                    curves.setdefault(name, []).append(value)
                if self.in_turn:
                    # Before the first step: a memory that waits for its turn must not move in it.
                    _let_learn(model, curves)
            if step < self.steps:
                self._train(model, optimiser, seed, step, device)
                report("SGD steps", step + 1, self.steps)
        metrics = {name: values[-1] for name, values in curves.items()}
        if self.ablated:
            metrics |= self._ablation(model, sequences, device)
        for name in ("accuracy", "output_recall", "token_recall", "early_position_recall"):
            # From the curve, not from single steps: probes are only taken every few of them.
            crossed = crossing(steps, curves[name])
            if crossed is not None:
                metrics[f"steps_to_half_{name}"] = crossed
        x = [float(step) for step in steps]
        return Evaluation(metrics, curves={name: {"x": x, "y": y} for name, y in curves.items()})

    def _train(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        seed: int,
        step: int,
        device: torch.device | str,
    ) -> None:
        sequences = self.bigram.training_sequences(seed, step, self.batch)
        targets = sequences.targets
        if self.loss_on == "known":
            # Nothing but the known outputs: a loss on all tokens would also train the first
            # occurrences, which nothing tells.
            targets = np.where(sequences.occurrences() >= 2, targets, IGNORED)
            if (targets == IGNORED).all():
                raise Refused(NOTHING_KNOWN)
        logits = model(_tensor(sequences.inputs, device))
        loss = functional.cross_entropy(logits.flatten(0, 1), _tensor(targets, device).flatten())
        if not torch.isfinite(loss):
            raise Diverged(f"the training loss was {loss.item()} at step {step + 1}")
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    @torch.no_grad()
    def _probe(
        self, model: Any, sequences: Sequences, device: torch.device | str
    ) -> dict[str, float]:
        inputs = _tensor(sequences.inputs, device)
        logits, first, second = model.attend(inputs)
        targets, occurrences = sequences.targets, sequences.occurrences()
        in_context = occurrences >= 2
        losses = functional.cross_entropy(
            logits.mT, _tensor(targets, device), reduction="none"
        ).cpu()
        right = logits.argmax(-1).cpu().numpy() == targets
        looks = first.argmax(-1).cpu().numpy()  # (time,) or (sequences, time)
        # (sequences, time − 1): whether position t + 1 looks at t.
        back = np.broadcast_to(looks, targets.shape)[:, 1:] == np.arange(targets.shape[1] - 1)
        place = second.argmax(-1).cpu().numpy()
        seen = np.take_along_axis(sequences.inputs, place, axis=1)
        # What stands before the place looked at; place 0 has nothing before it, and is left out.
        before = np.take_along_axis(sequences.inputs, np.maximum(place - 1, 0), axis=1)
        after_trigger = (before == sequences.inputs) & (place > 0)
        fixed = None
        if self.triggers == "fixed":
            fixed = _tensor(self.bigram.sampler.fixed, device)
        metrics = {
            "accuracy": float(right[in_context].mean()),
            "loss": float(losses.numpy()[in_context].mean()),
            "output_recall": output_recall(model),
            "token_recall": token_recall(model, fixed),
            "position_recall": position_recall(model),
            "early_position_recall": position_recall(model, min(EARLY, self.length // 2)),
            "first_layer_on_previous": float(back[occurrences[:, :-1] > 0].mean()),
            "second_layer_on_output": float((seen == targets)[in_context].mean()),
            "second_layer_after_trigger": float(after_trigger[in_context].mean()),
        }
        divergence = self._bigram_divergence(model)
        return metrics if divergence is None else {**metrics, "bigram_divergence": divergence}

    @torch.no_grad()
    def _ablation(
        self, model: nn.Module, sequences: Sequences, device: torch.device | str
    ) -> dict[str, float]:
        """What W_F decides, by metrics with it and, as ``…_without_w_f``, with zeros in its place.

        ``ordinary_loss``: nats after tokens that are no trigger. ``global_share`` and
        ``in_context_share``: how often the prediction is the most likely token of π_b(· | z_t), and
        how often one that followed z_t before in the sequence, both where z_t occurred before and
        that most likely token never followed it.
        """
        inputs = _tensor(sequences.inputs, device)
        likeliest = self.bigram.sampler.table.of_next.argmax(1)[sequences.inputs]
        followed = followers(sequences.inputs, self.bigram.sampler.table.vocabulary)
        # Where both answers exist and differ: only there the prediction says which one W_F decides.
        disagree = followed.any(-1) & ~_of_tokens(followed, likeliest)
        ordinary = sequences.occurrences() == 0
        targets = _tensor(sequences.targets, device)
        weights = model.get_parameter("feed_forward")
        metrics = {}
        for name, matrix in (("", weights), ("_without_w_f", torch.zeros_like(weights))):
            # The parameter is exchanged for this call alone; the model is not changed.
            logits = torch.func.functional_call(model, {"feed_forward": matrix}, (inputs,))
            losses = functional.cross_entropy(logits.mT, targets, reduction="none").cpu().numpy()
            answers = logits.argmax(-1).cpu().numpy()
            metrics[f"ordinary_loss{name}"] = float(losses[ordinary].mean())
            metrics[f"global_share{name}"] = float((answers == likeliest)[disagree].mean())
            repeated = _of_tokens(followed, answers)
            metrics[f"in_context_share{name}"] = float(repeated[disagree].mean())
        return metrics

    def _bigram_divergence(self, model: Any) -> float | None:
        logits = model.bigram_logits() if hasattr(model, "bigram_logits") else None
        if logits is None:
            return None
        wanted = torch.from_numpy(self.bigram.sampler.table.of_next).float()
        # π log π with 0 log 0 = 0.
        each = torch.special.xlogy(wanted, wanted) - wanted * logits.log_softmax(-1).cpu()
        counted = torch.ones(len(wanted), dtype=torch.bool)
        if self.triggers == "fixed":
            counted[self.bigram.sampler.fixed] = False
        return float(each.sum(1)[counted].mean())


def crossing(steps: Sequence[int], values: Sequence[float], level: float = HALF) -> float | None:
    """Where values at ``steps`` first reach ``level``, by straight lines; None if they never do."""
    for place, value in enumerate(values):
        if value >= level:
            if place == 0:
                return float(steps[0])
            # Linear between the two probes around the crossing.
            share = (level - values[place - 1]) / (value - values[place - 1])
            return steps[place - 1] + share * (steps[place] - steps[place - 1])
    return None


def followers(inputs: np.ndarray, vocabulary: int) -> np.ndarray:
    """Which tokens came right after an earlier occurrence of the one at each position of inputs
    (sequences, time): bool (sequences, time, vocabulary)."""
    rows = np.arange(len(inputs))
    seen = np.zeros((len(inputs), vocabulary, vocabulary), dtype=bool)
    followed = np.zeros((*inputs.shape, vocabulary), dtype=bool)
    for place in range(1, inputs.shape[1]):
        # At ``place`` only pairs that end there or before count: the token after it is not known
        # yet.
        seen[rows, inputs[:, place - 1], inputs[:, place]] = True
        followed[:, place] = seen[rows, inputs[:, place]]
    return followed


def _of_tokens(marks: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The mark (sequences, time, vocabulary) of one token at each position (sequences, time)."""
    return np.take_along_axis(marks, tokens[..., None], axis=-1)[..., 0]


def _let_learn(model: nn.Module, curves: Mapping[str, Sequence[float]]) -> None:
    """Train each memory that has its turn."""
    its_turn = True
    for name, probe in IN_TURN.items():
        model.get_parameter(name).requires_grad_(its_turn)
        # Half the way from its start to 1: the probe of few triggers does not start at 0.
        its_turn = its_turn and max(curves[probe]) >= (curves[probe][0] + 1) / 2


def _tensor(values: Any, device: torch.device | str) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)
