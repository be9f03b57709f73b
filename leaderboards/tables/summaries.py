"""What sorting needs of a record: a page of it instead of its numbers, so that a board of any size
is sorted in little memory.

Example: ``summary_of(read_record(path))``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.records.identity import beside_data, canonical_name, canonical_record
from bench.records.numbers import data_seed
from bench.records.schema import RunRecord

OFF_THE_BOARD = ("trial", "control")  # roles
SIZE_PREFIX = "training_"
COMMITTED, SUBMITTED, YOURS = "committed", "submitted", "yours"  # where a record was found


class SettingFacts(NamedTuple):
    """What the records of one identity share.

    Attributes:
        task: the task's configuration as flat keys.
        setting: everything that can tell two settings of a model apart, the readable first.
    """

    task: Mapping[str, Any]
    setting: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """A record without its numbers, under the one name that all equal code gives its run.

    Attributes:
        own_identity: under the name that it was made by.
        group: hash of what has to be equal for a common ranking, besides the length of training.
        line_group: the same without the training size and what follows from it.
        beside_data: what makes a run the same run, without its data and their seed.
        searched: whether it tells of the search that chose its setting.
        steps: that it was to be trained for, 0 for what is not trained.
        content: hash of the whole record.
        numbers: hash of what it measured, and ``tested`` of its metrics on the test split.
        rounded: whether its code is equal up to rounding to that of the name, and not bit for bit.
    """

    run_id: str
    task: str
    preset: str
    model: str
    label: str
    role: str
    searched: bool
    outcome: str
    seed: int
    data_seed: int
    identity: str
    own_identity: str
    started_at: str
    steps: int
    group: str
    line_group: str
    beside_data: str
    task_code: str
    size: int | None
    size_name: str | None
    validation_loss: float | None
    metric: str
    direction: str
    value: float | None
    numbers: str
    tested: str
    weights: str | None
    machine: str
    content: str
    rounded: bool
    facts: SettingFacts = field(compare=False)
    origin: str = COMMITTED

    @property
    def is_reference(self) -> bool:
        """Whether it is of a predictor without training."""
        return self.role == "baseline"


def summary_of(record: RunRecord, origin: str = COMMITTED, content: str = "") -> RecordSummary:
    """The summary of a record as it was read.

    Args:
        content: its content hash, where that is known.
    """
    canonical = canonical_record(record)
    has_other_name = canonical.identity != record.identity
    made_by = canonical.provenance
    flat = dict(flatten(canonical.config.get("tasks", {})))
    size_name, size = _training_size(flat)
    return RecordSummary(
        run_id=canonical.run_id,
        task=canonical.task,
        preset=canonical.preset,
        model=canonical.model,
        label=canonical.label,
        role=canonical.role,
        searched=canonical.study is not None,
        outcome=canonical.outcome,
        seed=canonical.seed,
        data_seed=data_seed(canonical),
        identity=canonical.identity,
        own_identity=record.identity,
        started_at=made_by.started_at,
        steps=int((canonical.config.get("training") or {}).get("steps") or 0),
        group=_group(canonical, flat, made_by.data),
        line_group=_group(canonical, {k: v for k, v in flat.items() if k != size_name}, None),
        beside_data=beside_data(canonical),
        task_code=made_by.task_code,
        size=size,
        size_name=size_name,
        validation_loss=canonical.metrics.get("validation", {}).get("loss"),
        metric=canonical.headline.name,
        direction=canonical.headline.direction,
        value=canonical.headline.value,
        numbers=hash_of([canonical.outcome, canonical.headline.value, canonical.metrics]),
        tested=hash_of(canonical.metrics.get("test", {})),
        weights=canonical.weights_sha256,
        machine=", ".join(part for part in (made_by.device, made_by.platform) if part),
        content=content or record.content_hash(),
        rounded=has_other_name and not canonical_name(record.config, record.provenance).bitwise,
        facts=SettingFacts(flat, _setting(canonical)),
        origin=origin,
    )


def flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a tree of settings by their dotted names."""
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from flatten(value, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, tree


def _training_size(task: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Name and value of the training size: the task's integer setting called ``training_…``."""
    for key, value in sorted(task.items()):
        if key.startswith(SIZE_PREFIX) and isinstance(value, int) and not isinstance(value, bool):
            return key, value
    return None, None


def _setting(record: RunRecord) -> dict[str, Any]:
    config = {key: value for key, value in record.config.items() if key != "tasks"}
    made_by = record.provenance
    return {
        **dict(flatten(config)),
        "device": made_by.device_class,
        "precision": made_by.precision,
        "model code": made_by.model_code[:8],
        "libraries": made_by.library_lock[:8],
    }


def _group(record: RunRecord, task: Mapping[str, Any], data: Mapping[str, str] | None) -> str:
    content = {
        "task": record.task,
        "preset": record.preset,
        "settings": task,
        "task_code": record.provenance.task_code,  # a changed metric is another metric
        "protocol": record.provenance.protocol_version,
        "headline": [record.headline.name, record.headline.direction],
        "data": data,
    }
    return hash_of(content)[:16]


def hash_of(content: Any) -> str:
    """The hash of something that JSON can hold."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
