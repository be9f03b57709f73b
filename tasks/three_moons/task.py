"""The three-moons task.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), section 5, figures 4, 5 and
10, appendix A. Three moons on circular orbits are observed as three complex numbers. Who matches
all moons at once with an earlier record must wait for the least common multiple of their periods;
who matches each moon on its own, for the longest period only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, get_args

import torch
from torch import Tensor, nn

from models.specification import SequenceSpecification
from tasks.interface import Batch, Evaluation, Metric, Split, Task
from tasks.three_moons.rollouts import (
    CHUNK,
    ROLLOUT_RULES,
    Rollout,
    deviation,
    model_rollout,
    oracle,
    repeat_last,
    table_of_all_moons,
    table_per_moon,
)
from tasks.three_moons.scores import MARGIN, disentanglement, finite, finite_curve, score_curve
from tasks.three_moons.systems import Grid, Periods, Phases, full_period, label

# The authors keep the 9 of 35 triples with the shortest full period, and five tie for the last
# three places: what their sort kept is unknown. These eight are pinned.
TRAINING_SYSTEMS: Sequence[Sequence[float]] = [
    [0.5, 1, 2],
    [0.5, 1, 1.5],
    [0.5, 1, 3],
    [0.5, 1.5, 3],
    [1, 1.5, 3],
    [0.5, 1, 2.5],
    [0.5, 1.5, 2],
    [1, 1.5, 2],
]
VALIDATION_SYSTEMS: Sequence[Sequence[float]] = [[1, 2, 3]]
TEST_SYSTEMS: Sequence[Sequence[float]] = [[1.5, 2, 3], [0.5, 2, 3]]
DISPLAY_SYSTEMS: Sequence[Sequence[float]] = [[0.5, 1, 2.5], [1, 2, 3]]

TRAINING, VALIDATION, TEST = range(3)


class ThreeMoons(Task):
    """Continue the orbits of three moons whose joint configuration was never seen.

    The headline is the rollout error between the longest period and the full period: the window in
    which a table of all moons is still blind and a table for each moon already exact. It is a mean
    over the held-out systems of the split. "validation" has ``validation_systems``; "test" has
    ``test_systems``, and shows ``display_systems`` beside them without counting these in ``loss``
    or the headline; its sequences are its own.

    Metrics of one system are named ``<score>/<periods>``, such as ``half_error_context/1,2,3``
    (``scores.score_curve`` lists them); the curve ``error/<periods>`` has the mean absolute
    deviation of the rollout against the context length in samples, and the array
    ``periods/<periods>`` the periods and the full period in samples. Models with
    ``extractor_moduli()`` get ``disentanglement`` and their moduli as well. A number that is not
    finite is left out, never replaced.

    Example: the first three samples of a training sequence (``length=100``, seed 0), sine and
    cosine of each moon; the target is the sample after, and the loss counts everywhere:

        input   .72  .69   -.99  .11    .55 -.84     target   .93 -.35   -.65  .76    .20 -.98
                .93 -.35   -.65  .76    .20 -.98              .08 -1.0    .05  1.0   -.17 -.98
                .08 -1.0    .05  1.0   -.17 -.98             -.87 -.49    .72  .69   -.52 -.85

    A model must find the last record of each moon by itself and continue from there: between the
    longest period and the full one that gives an error of 0.01, a table of all moons at once or
    the last sample repeated, which needs no memory, 0.55.

    Args:
        length: samples in a sequence; three full periods of the longest training system fit in it.
        systems: period sets trained on, in units of time.
        validation_systems: held-out sets of the validation split.
        test_systems: held-out sets of the test split.
        display_systems: further sets, seen in training or in validation, whose curves the test
            split shows.
        phases: "common" (0.3 for all moons, as the authors) or "independent".
        error_clip: the loss squares errors clipped to ±error_clip; null for the plain square.
        rollout: what memory units store while they generate: "frozen", "write_back" or "official".
            Other models always take their predictions in.
        rollout_steps: predictions fed back after each context.
        contexts_every: step of the context lengths, in samples.
        sequences: sequences of each system in an evaluation.
        data_seed: seed of all data; the run's seed is mixed into the training batches.

    Raises:
        ValueError: a held-out system that is trained on or needs more samples than ``length``
            gives, a system that is not three periods, an unknown option, or a number out of range.
    """

    headline: ClassVar[Metric] = Metric("error_after_max_period", "minimise")

    def __init__(
        self,
        *,
        length: int = 800,
        systems: Sequence[Sequence[float]] = TRAINING_SYSTEMS,
        validation_systems: Sequence[Sequence[float]] = VALIDATION_SYSTEMS,
        test_systems: Sequence[Sequence[float]] = TEST_SYSTEMS,
        display_systems: Sequence[Sequence[float]] = DISPLAY_SYSTEMS,
        phases: Phases = "common",
        error_clip: float | None = 0.5,
        rollout: str = "frozen",
        rollout_steps: int = 25,
        contexts_every: int = 1,
        sequences: int = 512,
        data_seed: int = 0,
    ) -> None:
        self.systems = _systems(systems)
        self.held_out: dict[Split, list[Periods]] = {
            "validation": _systems(validation_systems),
            "test": _systems(test_systems),
        }
        self.display_systems = _systems(display_systems)
        if phases not in get_args(Phases):
            raise ValueError(f"phases must be common or independent, got {phases!r}")
        if rollout not in ROLLOUT_RULES:
            raise ValueError(f"rollout must be one of {', '.join(ROLLOUT_RULES)}, got {rollout!r}")
        for name, value, minimum in (
            ("contexts_every", contexts_every, 1),
            ("sequences", sequences, 1),
            ("data_seed", data_seed, 0),
        ):
            if value < minimum:
                raise ValueError(f"{name} must be at least {minimum}, got {value}")
        if not 1 <= rollout_steps < length - 1:
            raise ValueError(
                f"rollout_steps must be between 1 and length - 2 = {length - 2}, got "
                f"{rollout_steps}: a rollout needs a context before it and samples to compare with"
            )
        # The sampling rate follows from it: all systems share one grid.
        longest = max(map(full_period, self.systems))
        _check_held_out(self.held_out, self.systems, longest)
        self.grid = Grid.fitting(length, longest, phases)
        self.length = length
        self.error_clip = error_clip
        self.rule = rollout
        self.rollout_steps = rollout_steps
        # Enough samples remain behind the longest context to compare a whole rollout with.
        self.contexts = torch.arange(1, length - rollout_steps, contexts_every)
        self.sequences = sequences
        self.data_seed = data_seed

    def specification(self) -> SequenceSpecification:
        """Six real channels: sine and cosine of three moons."""
        # Predictions that are fed back stand behind the sequence.
        return SequenceSpecification(
            maximum_length=self.length + self.rollout_steps, input_channels=6, output_channels=6
        )

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of both held-out splits and, as training never ends, of its first 64 sequences
        under seed 0."""
        training = self._training_sequences(seed=0, step=0, size=64)
        return {
            "train": _sha256([training]),
            "validation": _sha256(self._evaluation_sequences("validation").values()),
            "test": _sha256(self._evaluation_sequences("test").values()),
        }

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """Sequences of systems drawn anew for each; targets are the next samples."""
        sequences = self._training_sequences(seed, step, size)
        return Batch(sequences[:, :-1], sequences[:, 1:], tokens=size * self.length)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean square of the clipped error over batch, time and channels (appendix A)."""
        return self._square(outputs, batch.targets).mean()

    def validation_loss(self, model: nn.Module, device: torch.device | str) -> float:
        """The loss on the validation sequences, without any rollout."""
        return self._mean_loss(model, self._evaluation_sequences("validation").values(), device)

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """Loss, rollout curves and scores, and the moduli of memory units."""
        groups = self._evaluation_sequences(split)
        held_out = [groups[periods] for periods in self.held_out[split]]
        loss = self._mean_loss(model, held_out, device)
        evaluation = self._measure(groups, split, model_rollout(model, self.rule), loss, device)
        if hasattr(model, "extractor_moduli"):
            moduli = model.extractor_moduli()  # type: ignore[operator]
            evaluation.metrics.update(disentanglement(moduli))
            evaluation.arrays.update({name: value.tolist() for name, value in moduli.items()})
        return evaluation

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Repeating the last sample, the two astronomers' tables, and the true continuation."""
        # In the order of what they know: nothing, all moons at once, each moon, the future.
        predictors: dict[str, Rollout] = {
            "repeat_last": repeat_last,
            "table_of_all_moons": table_of_all_moons,
            "table_per_moon": table_per_moon,
            "oracle": oracle,
        }
        return {
            name: partial(self._evaluate_rollout, rollout) for name, rollout in predictors.items()
        }

    def _evaluate_rollout(self, rollout: Rollout, split: Split) -> Evaluation:
        groups = self._evaluation_sequences(split)
        sequences = torch.cat([groups[periods] for periods in self.held_out[split]])
        contexts = torch.arange(1, self.length + 1)
        # One step ahead at every position: as the loss of a model.
        predictions = rollout(sequences, contexts, 1)[:, :, 0]
        loss = float(self._square(predictions, sequences[:, 1:]).mean())
        return self._measure(groups, split, rollout, loss, "cpu")

    def _measure(
        self,
        groups: dict[Periods, Tensor],
        split: Split,
        rollout: Rollout,
        loss: float,
        device: torch.device | str,
    ) -> Evaluation:
        evaluation = Evaluation(metrics=finite({"loss": loss}))
        contexts = self.contexts.to(device)
        # One rollout for all systems: models that read the prefix step by step read it once.
        sequences = torch.cat(list(groups.values())).to(device)
        predictions = rollout(sequences, contexts, self.rollout_steps)
        errors = deviation(predictions, sequences, contexts).cpu()
        headline: list[Tensor] = []
        # The rows of one system lie together, in the order of ``groups``.
        for periods, error in zip(groups, errors.split(self.sequences), strict=True):
            name = label(periods)
            samples = [period * self.grid.rate for period in periods]
            full = full_period(periods) * self.grid.rate
            scores = score_curve(error.mean(dim=0), self.contexts, samples, full)
            evaluation.metrics.update({f"{key}/{name}": scores[key] for key in scores})
            evaluation.curves[f"error/{name}"] = finite_curve(self.contexts, error.mean(dim=(0, 2)))
            evaluation.arrays[f"periods/{name}"] = [*samples, full]
            if periods in self.held_out[split]:
                window = (self.contexts >= max(samples) + MARGIN) & (self.contexts <= full)
                headline.append(error[:, window].mean(dim=(1, 2)))
        per_sequence = torch.cat(headline)
        evaluation.metrics.update(finite({self.headline.name: float(per_sequence.mean())}))
        if bool(per_sequence.isfinite().all()):
            evaluation.per_sequence[self.headline.name] = per_sequence.tolist()
        return evaluation

    def _training_sequences(self, seed: int, step: int, size: int) -> Tensor:
        return self.grid.sequences(self.systems, [self.data_seed, TRAINING, seed, step], size)

    def _evaluation_sequences(self, split: Split) -> dict[Periods, Tensor]:
        """float32 (sequences, length + 1, channels) of every system shown in the split."""
        stream = VALIDATION if split == "validation" else TEST
        systems = [*self.held_out[split], *(self.display_systems if split == "test" else [])]
        return {
            periods: self.grid.sequences([periods], [self.data_seed, stream, index], self.sequences)
            for index, periods in enumerate(systems)
        }

    def _square(self, outputs: Tensor, targets: Tensor) -> Tensor:
        error = outputs - targets
        if self.error_clip is not None:
            # No gradient beyond the clip: one of two tricks to which the authors owe convergence.
            error = error.clamp(-self.error_clip, self.error_clip)
        return error.square()

    def _mean_loss(
        self, model: nn.Module, groups: Iterable[Tensor], device: torch.device | str
    ) -> float:
        total, count = 0.0, 0
        for part in torch.cat(list(groups)).split(CHUNK):
            sequences = part.to(device)
            # Summed in float64: millions of small squares.
            total += float(self._square(model(sequences[:, :-1]), sequences[:, 1:]).double().sum())
            count += sequences[:, 1:].numel()
        return total / count


def _check_held_out(
    held_out: Mapping[Split, Sequence[Periods]], trained: Sequence[Periods], longest: float
) -> None:
    for split, systems in held_out.items():
        for periods in systems:
            # In any order of the moons: a permuted system is the same one.
            if sorted(periods) in map(sorted, trained):
                raise ValueError(
                    f"the {split} system {label(periods)} is among the training systems: hold out "
                    "another one"
                )
            if full_period(periods) > longest:
                raise ValueError(
                    f"the {split} system {label(periods)} repeats after {full_period(periods):g} "
                    f"units, later than the longest training system ({longest:g}): three full "
                    "periods would not fit in a sequence"
                )


def _systems(systems: Sequence[Sequence[float]]) -> list[Periods]:
    chosen = [tuple(float(period) for period in periods) for periods in systems]
    if not chosen or any(len(periods) != 3 or min(periods) <= 0 for periods in chosen):
        raise ValueError(
            f"a system of moons is three positive periods such as [1, 2, 3], got {systems}"
        )
    return chosen


def _sha256(groups: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for sequences in groups:
        digest.update(sequences.numpy().tobytes())
    return digest.hexdigest()
