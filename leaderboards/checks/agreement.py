"""What several records say of the same thing, where they cannot both be right.

Only what is impossible is compared here. What may be a coincidence, or comes from another machine,
is no contradiction: two settings of which one has no effect train the same weights, and two
processors of one name may round otherwise. Such things are written beside the row
(``coincidences.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.records.code import is_own
from bench.records.counted import data_are_rounded, same_length
from bench.records.identity import canonical_record
from bench.records.provenance import sha256_of
from bench.records.registry import file_of
from bench.records.schema import RunRecord

SPEED = "cost.training_flops for each token"
LENGTH = "cost.training_tokens"  # by what batches are padded with, too
SCORE = "headline, of a predictor of these data,"  # which needs no training, nor luck
NEAR = (SPEED, LENGTH, SCORE)
ROUNDED = 1e-3  # of a number of size 1, on another processor
# Batches of other lengths have more padding and longer attention: a model whose work is all
# attention does twice as much for each token of batches twice as long.
SAME_SPEED = 4.0


@dataclass
class SharedStatements:
    """What records say of the same thing: those that were taken in first decide, and whoever comes
    later must agree."""

    statements: dict[tuple[str, str], tuple[Any, str]] = field(default_factory=dict)

    def take(self, record: RunRecord) -> set[str]:
        """Take in a record that was checked; what of it other records confirm.

        Raises:
            ValueError: another record contradicts it, in a clause.
        """
        confirmed = set()
        for subject, identity, value in shared(record):
            other, run_id = self.statements.setdefault((subject, identity), (value, record.run_id))
            if not agree(subject, value, other):
                raise ValueError(not_as_in(subject, run_id))
            if run_id != record.run_id:
                confirmed.add(subject)
        return confirmed


def not_as_in(subject: str, run_id: str) -> str:
    """That two records contradict each other, as a clause."""
    verb = "are" if subject.startswith("names") else "is"
    return f"its {subject} {verb} not as in {run_id}, with which it must agree"


def agree(subject: str, value: Any, other: Any) -> bool:
    """Whether two records say the same of one thing, or nearly so where that is enough."""
    if subject == SCORE:
        return bool(abs(value - other) <= ROUNDED * max(1.0, abs(other)))
    if subject == SPEED:
        return bool(max(value, other) <= SAME_SPEED * min(value, other))
    if subject == LENGTH:
        (tokens, factor), (other_tokens, _) = value, other
        return bool(max(tokens, other_tokens) <= factor * min(tokens, other_tokens))
    return bool(value == other)


def shared(record: RunRecord) -> Iterator[tuple[str, str, Any]]:
    """What is said, of which thing, and how, which must be the same in all records.

    Settings and code are compared under the one name that all equal code gives them, so that a run
    that was made by two states of equal code says one thing.
    """
    yield "run_id", sha256_of([record.identity, record.seed]), record.run_id
    of_equal_weights = canonical_record(record, bitwise=True).identity
    record = canonical_record(record)
    yield from _of_the_task(record)
    if record.weights_sha256 is not None:
        yield from _of_the_size(record)
        yield from _of_the_weights(record, of_equal_weights)


def _of_the_task(record: RunRecord) -> Iterator[tuple[str, str, Any]]:
    """What the task makes of its settings, whichever model it is given."""
    task = sha256_of([record.task, record.provenance.task_code, record.config["tasks"]])
    text_of_a_user = (file_of("tasks", record.task) or {}).get("locations")
    # A task of somebody else may draw what every machine draws otherwise.
    ours = is_own(str(record.config["tasks"].get("_target_")))
    if ours and not text_of_a_user and not data_are_rounded(record):
        yield "provenance.data", task, record.provenance.data
    drawn = sha256_of([task, record.provenance.data])
    for name, values in record.per_sequence.items():
        yield f"number of items in per_sequence.{name:.80}", drawn, len(values)
    if record.outcome != "ok":
        return
    if record.role != "trial":
        model = _model(record)
        yield "names in per_sequence", model, sorted(record.per_sequence)
        yield "names in curves", model, sorted(record.curves)
    if record.role == "baseline":
        yield SCORE, sha256_of([drawn, record.label]), record.headline.value


def _model(record: RunRecord) -> str:
    """What decides the size of a model: data of another seed ask for one of the same size."""
    settings = record.label if record.role == "baseline" else record.config["models"]
    of_any_data = {k: v for k, v in record.config["tasks"].items() if k != "data_seed"}
    codes = record.provenance.task_code, record.provenance.model_code
    return sha256_of([record.task, *codes, of_any_data, settings])


def _is_ours(record: RunRecord) -> bool:
    """Whether a record's model is one of this project, whose code is all hashed. A class of
    somebody else may lean on a library of another version, of which its hash knows nothing."""
    return is_own(str(record.config["models"].get("_target_")))


def _of_the_size(record: RunRecord) -> Iterator[tuple[str, str, Any]]:
    """Sizes of a trained model, and how much it was trained on."""
    model, cost = _model(record), record.cost
    training: Mapping[str, Any] = record.config.get("training") or {}
    batch_size = int(training.get("batch_size") or 1)
    if _is_ours(record):
        for name in ("parameters", "position_parameters", "state_bytes", "state_length"):
            yield f"cost.{name}", model, getattr(cost, name)
    if _is_ours(record) and cost.training_flops and cost.training_tokens:
        # A control may take one batch, whose sequences are as long, and padded with each other, as
        # its seed has them: it agrees with those that take the same.
        batches = [record.provenance.data, record.seed] if record.role == "control" else []
        padding = [batch_size, training.get("pad_to_multiple_of")]
        alike = sha256_of([model, *padding, *batches])
        yield SPEED, alike, cost.training_flops / cost.training_tokens
    if record.role != "control":
        factor = same_length(cost.training_steps * batch_size)
        alike = sha256_of([model, training, cost.training_steps])
        yield LENGTH, alike, [cost.training_tokens, factor]


def _of_the_weights(record: RunRecord, identity: str) -> Iterator[tuple[str, str, Any]]:
    """Which training alone can have given these weights, this curve and these metrics.

    Args:
        identity: by all code that gives the same bytes; by code that is equal up to rounding the
            same run has other weights.
    """
    weights, ours = record.weights_sha256 or "", _is_ours(record)
    if record.provenance.device_class == "cpu":  # where equal code gives equal weights
        run_and_device = sha256_of([identity, record.seed, record.provenance.device])
        yield "weights_sha256 by equal code", run_and_device, weights
    if record.role == "control":
        # Untrained controls keep the weights that their seed begins with: controls that differ in
        # dropout or positions share them with each other, and never with a run that was trained.
        yield "seed with its weights_sha256", weights, (record.seed, "control")
        return
    losses = record.curves["training_loss"].y if "training_loss" in record.curves else []
    if len(set(losses)) < 2:  # a training that moved nothing ends where any other does
        return
    training, steps = record.config.get("training") or {}, record.cost.training_steps
    # Of several lengths the best validation may be that of one step.
    length = steps if training.get("select") == "last" else None
    rule = [*(training.get(key) for key in ("lr", "batch_size", "precision")), length]
    yield "training settings with its weights_sha256", weights, rule
    if not ours:  # it may draw nothing, and have nothing that decays
        return
    yield "seed with its weights_sha256", weights, (record.seed, "trained")
    yield "cost.parameters with its weights_sha256", weights, record.cost.parameters
    decay = [training.get("weight_decay"), training.get("betas") if steps > 1 else None]
    yield "weight decay or betas with its weights_sha256", weights, decay
    # Another seed has other batches, and these another loss.
    yield "seed with its curve 'training_loss'", sha256_of([record.identity, losses]), record.seed
    if record.metrics.get("test", {}).get("loss"):  # several may be right without any doubt
        metrics = sha256_of([record.identity, record.metrics])
        yield "seed with its metrics", metrics, record.seed
