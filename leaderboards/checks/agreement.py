"""What several records say of the same thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.records.code import is_own
from bench.records.counted import SAME_WORK, data_are_rounded
from bench.records.identity import settled
from bench.records.provenance import sha256_of
from bench.records.registry import known
from bench.records.schema import Curve, RunRecord
from settings.samplers import key_of

SPEED = "cost.training_flops for each token"
LENGTH = "cost.training_tokens"  # by what batches are padded with, too
SCORE = "headline, of a predictor of these data,"  # which needs no training, nor luck
NEAR = (SPEED, LENGTH, SCORE)
ROUNDED = 1e-3  # of a number of size 1, on another processor
TELLING = ("lr", "batch_size", "weight_decay", "betas", "precision")  # change weights, surely


@dataclass
class Together:
    """What records say of the same thing: those that were taken in first decide, and whoever comes
    later must agree."""

    said: dict[tuple[str, str], tuple[Any, str]] = field(default_factory=dict)

    def take(self, record: RunRecord) -> set[str]:
        """Take in a record that was checked; what of it other records confirm.

        Raises:
            ValueError: another record contradicts it, in a clause.
        """
        confirmed = set()
        for what, of, value in shared(record):
            other, run_id = self.said.setdefault((what, of), (value, record.run_id))
            if not agree(what, value, other):
                raise ValueError(not_as_in(what, run_id))
            if run_id != record.run_id:
                confirmed.add(what)
        return confirmed


def not_as_in(what: str, run_id: str) -> str:
    """That two records contradict each other, as a clause."""
    verb = "are" if what.startswith("names") else "is"
    return f"its {what} {verb} not as in {run_id}, with which it must agree"


def agree(what: str, one: Any, other: Any) -> bool:
    """Whether two records say the same of one thing, or nearly so where that is enough."""
    if what == SCORE:
        return bool(abs(one - other) <= ROUNDED * max(1.0, abs(other)))
    near = what in NEAR
    return bool(max(one, other) <= SAME_WORK * min(one, other) if near else one == other)


def _searched(record: RunRecord) -> Iterator[tuple[str, str, Any]]:
    """A search that came to the same best value on such a processor is the same one, whatever it
    chose and however far a record saw it go: each of its trials came to the same end. A search that
    was made again elsewhere is rounded otherwise, and on an accelerator even there."""
    study = record.study
    if study is None or record.provenance.device_class != "cpu":
        return
    values = [trial.value for trial in study.trials if trial.value is not None]
    best = min(values, default=None), max(values, default=None)
    end = best[record.headline.direction == "maximise"]
    search = [study.name, record.provenance.device, end]
    # The same trials may have been chosen from by the first seed, and again by all.
    yield "study", sha256_of([*search, study.selected_by]), study.sampler
    for trial in study.trials:
        of = sha256_of([*search, key_of(trial.parameters)])
        yield "study in one of its trials", of, (trial.value, trial.outcome, trial.run_id)
        if trial.over_seeds:
            count = len(trial.over_seeds)
            yield f"study in a trial over {count} seeds", of, trial.over_seeds


def shared(record: RunRecord) -> Iterator[tuple[str, str, Any]]:
    """What is said, of which thing, and how, which must be the same in all records."""
    data, cost = record.provenance.data, record.cost
    task = sha256_of([record.task, record.provenance.task_code, record.config["tasks"]])
    text_of_a_user = (known("tasks", record.task) or {}).get("locations")
    if not text_of_a_user and not data_are_rounded(record):
        yield "provenance.data", task, data
    drawn = sha256_of([task, data])
    for name, values in record.per_sequence.items():
        yield f"number of items in per_sequence.{name:.80}", drawn, len(values)
    yield from _searched(record)
    settings = record.label if record.role == "baseline" else record.config["models"]
    # Data of another seed ask for a model of the same size.
    of_any_data = {k: v for k, v in record.config["tasks"].items() if k != "data_seed"}
    codes = record.provenance.task_code, record.provenance.model_code
    model = sha256_of([record.task, *codes, of_any_data, settings])
    if record.outcome == "ok" and record.role != "trial":
        yield "names in per_sequence", model, sorted(record.per_sequence)
        yield "names in curves", model, sorted(record.curves)
    if record.outcome == "ok" and record.role == "baseline":
        yield SCORE, sha256_of([drawn, record.label]), record.headline.value
    if record.weights_sha256 is None:
        return
    for name in ("parameters", "position_parameters", "state_bytes", "state_length"):
        yield f"cost.{name}", model, getattr(cost, name)
    # A control may take one batch, whose sequences are as long, and padded with each other, as its
    # seed has them: it agrees with those that take the same.
    alike = sha256_of([model, data, record.seed]) if record.role == "control" else model
    if cost.training_flops and cost.training_tokens:
        yield SPEED, alike, cost.training_flops / cost.training_tokens
    if record.role != "control":
        training = record.config.get("training"), cost.training_steps
        yield LENGTH, sha256_of([model, *training]), cost.training_tokens
    weights = record.weights_sha256
    if record.provenance.device_class == "cpu":  # where equal code gives equal weights
        twin = sha256_of([settled(record).identity, record.seed, record.provenance.device])
        yield "weights_sha256 by equal code", twin, weights
    # Untrained controls keep the weights that their seed begins with: controls that differ in
    # dropout or positions share them with each other, and never with a run that was trained.
    rule = record.config.get("training", {})
    told = [*(rule.get(key) for key in TELLING), record.cost.training_steps]
    # A class of somebody's package has the same weights under its next name; one of ours has not.
    ours = is_own(str(record.config["models"].get("_target_")))
    named = record.model if ours else "a guest"
    settings = {k: v for k, v in record.config["models"].items() if ours or k != "_target_"}
    own = None if record.role == "control" else (settings, told)
    yield "seed or settings with its weights_sha256", weights, (record.seed, named, own)
    # Another seed has other weights, and other weights another loss.
    curve = sha256_of([record.identity, record.curves.get("training_loss", Curve(x=[], y=[])).y])
    yield "weights_sha256 with its curve 'training_loss'", curve, weights
    if record.metrics.get("test", {}).get("loss"):  # several may be right without any doubt
        yield (
            "weights_sha256 with its metrics",
            sha256_of([record.identity, record.metrics]),
            weights,
        )
