"""Records sorted into model settings and groups: which runs are seeds of one setting, and which
settings may be ranked together."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bench.records.equivalence import Code, Name
from bench.records.identity import identity_of, one_of_each
from bench.records.numbers import data_seed
from bench.records.schema import RunRecord
from ground.errors import VERIFICATION_FAILED, UserError

# What makes a row fail, the gravest first.
SEVERITY = ("failed", "out_of_memory", "diverged", "interrupted", "ok")
SIZE_PREFIX = "training_"
OFF_THE_BOARD = ("trial", "control")  # roles
# A number on text says nothing without the text, even where there is no other to tell it from.
ALWAYS_NAMED = ("corpus",)


@dataclass(frozen=True)
class Setting:
    """The records of one identity, one for each seed, in the order of seeds; those of other data
    seeds follow."""

    records: tuple[RunRecord, ...]
    name: str  # what sets it apart from the label's other settings in its group
    variant: str
    group: str
    line_group: str  # the group without the training size

    @property
    def first(self) -> RunRecord:
        """Any of the records: what they share is read from it."""
        return self.records[0]

    @property
    def is_reference(self) -> bool:
        """A predictor without training: deterministic, shown beside the models, never ranked."""
        return self.first.role == "baseline"

    @property
    def ended_well(self) -> bool:
        """Whether every seed did."""
        return all(record.outcome == "ok" for record in self.records)

    @property
    def metrics(self) -> set[str]:
        """Names of what was measured on the test split."""
        return {name for r in self.records for name in measured(r)}

    def values(self, metric: str) -> list[float | None]:
        """One value for each seed, None for a seed that did not end well."""
        return [measured(r).get(metric) if r.outcome == "ok" else None for r in self.records]

    def outcome(self, metric: str) -> tuple[str, str | None]:
        """The gravest outcome over the seeds, and in how many of them and why."""
        total = len(self.records)
        counts = Counter(record.outcome for record in self.records)
        outcome = min(counts, key=SEVERITY.index)
        if outcome != "ok":
            why = next((r.cause for r in self.records if r.outcome == outcome and r.cause), "")
            how_often = f"{outcome.replace('_', ' ')} in {counts[outcome]} of {total} seeds"
            return outcome, f"{how_often}: {why}" if why else how_often
        missing = self.values(metric).count(None)
        if missing:
            return "failed", f"no finite {metric} in {missing} of {total} seeds"
        return "ok", None

    def validation_loss(self) -> float:
        """Mean over seeds of the validation loss, by which settings are chosen."""
        losses = [r.metrics.get("validation", {}).get("loss") for r in self.records]
        known = [loss for loss in losses if loss is not None]
        return sum(known) / len(known) if known else float("inf")


def measured(record: RunRecord) -> dict[str, float]:
    """What a record measured on the test split."""
    values = dict(record.metrics.get("test", {}))
    if record.headline.value is not None:
        values[record.headline.name] = record.headline.value
    return values


def task_settings(record: RunRecord) -> dict[str, Any]:
    """The task's configuration as flat keys."""
    return dict(_flatten(record.config.get("tasks", {})))


def training_size(record: RunRecord) -> tuple[str, int] | None:
    """Name and value of the training size: the task's integer setting called ``training_…``."""
    sizes = [
        (key, value)
        for key, value in sorted(task_settings(record).items())
        if key.startswith(SIZE_PREFIX) and isinstance(value, int) and not isinstance(value, bool)
    ]
    return sizes[0] if sizes else None


def collect(records: Iterable[RunRecord]) -> list[Setting]:
    """All settings, sorted; records of trials and of controls are left out.

    Raises:
        UserError: two records claim the same identity and seed, so that a seed would count twice.
    """
    kept = one_of_each(record for record in records if record.role not in OFF_THE_BOARD)
    rows = _rows_of(kept)
    lengths = _lengths(kept, rows)
    by_identity: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    line_groups: dict[str, str] = {}
    for record in kept:
        first = rows[record.identity]
        group, line_group = _group(first), _group(first, size=False)
        own = {training_steps(record)} if record.role != "baseline" else lengths[group] or {0}
        for length in sorted(own):
            mine = f"{group}-{length}" if len(lengths[group]) > 1 else group
            split = len(lengths[line_group]) > 1
            line_groups[mine] = f"{line_group}-{length}" if split else line_group
            by_identity[mine, first.identity].append(record)
    for same in by_identity.values():
        same.sort(key=lambda r: (data_seed(r), r.seed, r.run_id))
        for one, other in pairwise(same):
            if (one.identity, one.seed) == (other.identity, other.seed):
                raise UserError(
                    f"the records {one.run_id} and {other.run_id} have the same identity and seed, "
                    "so one run would count twice: delete one of them",
                    VERIFICATION_FAILED,
                )
    groups = {group: same[0] for (group, _), same in sorted(by_identity.items())}
    variants = _variants(groups)
    names = _setting_names(by_identity)
    settings = [
        Setting(tuple(same), names[key], variants[key[0]], key[0], line_groups[key[0]])
        for key, same in by_identity.items()
    ]
    return sorted(settings, key=_order)


def training_steps(record: RunRecord) -> int:
    """Steps that a model was to be trained for, 0 for what is not trained."""
    training = record.config.get("training") or {}
    return int(training.get("steps") or 0)


def _rows_of(records: Sequence[RunRecord]) -> dict[str, RunRecord]:
    """Identity -> the record whose row and group a run of it belongs to: its own, or that of the
    lowest data seed where runs differ in the data seed and in the hashes of the data alone. Of one
    data seed there may be one set of data only: text from two places has one data seed, too."""
    families: dict[str, dict[str, RunRecord]] = defaultdict(dict)
    for record in records:
        families[beside_data(record)].setdefault(record.identity, record)
    rows: dict[str, RunRecord] = {}
    for family in families.values():
        seeds = {data_seed(record) for record in family.values()}
        first = min(family.values(), key=data_seed)
        joined = len(seeds) == len(family)
        rows |= {identity: first if joined else own for identity, own in family.items()}
    return rows


def beside_data(record: RunRecord) -> str:
    """What makes a run the same run, without its data and their seed."""
    tasks = {**record.config.get("tasks", {}), "data_seed": None}
    name = Name(Code.of(record.config, record.provenance), {**record.config, "tasks": tasks})
    provenance = record.provenance.model_copy(update={"data": {}})
    baseline = record.label if record.role == "baseline" else None
    return f"{record.task} {record.model} {identity_of(name, record.preset, provenance, baseline)}"


def _lengths(records: Iterable[RunRecord], rows: Mapping[str, RunRecord]) -> dict[str, set[int]]:
    """How long the models of each group, and of each curve by training size, were trained. Those
    trained longer than others are not ranked with them, and what needs no training stands beside
    each."""
    lengths: dict[str, set[int]] = defaultdict(set)
    for record in records:
        if record.role != "baseline":
            first = rows[record.identity]
            for group in (_group(first), _group(first, size=False)):
                lengths[group].add(training_steps(record))
    return lengths


def _order(setting: Setting) -> tuple[Any, ...]:
    first = setting.first
    size = training_size(first)
    return (
        first.task,
        first.preset,
        size[1] if size else 0,
        setting.variant,
        first.label,
        first.model,
        setting.name,
        first.identity,
    )


def _group(record: RunRecord, size: bool = True) -> str:
    """Hash of what has to be equal for a common ranking, besides the length of training; without
    the training size and what follows from it, of what has to be equal along a curve by size."""
    task = task_settings(record)
    found = training_size(record)
    if not size and found:
        del task[found[0]]
    content = {
        "task": record.task,
        "preset": record.preset,
        "settings": task,
        "task_code": record.provenance.task_code,  # a changed metric is another metric
        "protocol": record.provenance.protocol_version,
        "headline": [record.headline.name, record.headline.direction],
        "data": record.provenance.data if size else None,
    }
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _variants(groups: Mapping[str, RunRecord]) -> dict[str, str]:
    """What sets each group apart from the others of its task and preset, in words."""
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for group, record in groups.items():
        families[record.task, record.preset].append(group)
    variants: dict[str, str] = {}
    for members in families.values():
        flat = [_with_length(group, task_settings(groups[group])) for group in members]
        found = [training_size(groups[group]) for group in members]
        names = [[size[0]] if size else [] for size in found]
        always = [key for key in ALWAYS_NAMED if any(key in settings for settings in flat)]
        others = [key for key in _differing(flat) if key not in always and [key] not in names]
        differing = always + others
        texts = [_describe(settings, differing) for settings in flat]
        codes = [f"task code {groups[group].provenance.task_code[:6]}" for group in members]
        texts = _where_shared(texts, codes)
        sizes = [_describe(settings, name) for settings, name in zip(flat, names, strict=True)]
        texts = [_join(size, text) for size, text in zip(sizes, texts, strict=True)]
        # Other data or protocol version: only the hash can tell.
        texts = _where_shared(texts, [f"data {group[:6]}" for group in members])
        variants |= dict(zip(members, texts, strict=True))
    return variants


def without_length(group: str) -> str:
    """What groups share that differ in the length of training alone."""
    return group.partition("-")[0]


def _with_length(group: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, and the steps of training where a group is of one length of several."""
    _, split, steps = group.partition("-")
    return {**settings, "training.steps": int(steps)} if split else settings


def _where_shared(texts: Sequence[str], additions: Sequence[str]) -> list[str]:
    """Equal texts with what tells them apart added, if it does."""
    together: dict[str, set[str]] = defaultdict(set)
    for text, addition in zip(texts, additions, strict=True):
        together[text].add(addition)
    return [
        _join(text, addition) if len(together[text]) > 1 else text
        for text, addition in zip(texts, additions, strict=True)
    ]


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _setting_names(
    by_identity: Mapping[tuple[str, str], Sequence[RunRecord]],
) -> dict[tuple[str, str], str]:
    families: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for key, records in by_identity.items():
        families[key[0], records[0].model, records[0].label].append(key)
    names = {}
    for members in families.values():
        flat = [_describing(by_identity[key][0]) for key in members]
        differing = _differing(flat)
        for key, settings in zip(members, flat, strict=True):
            names[key] = _describe(settings, differing)
    return names


def _describing(record: RunRecord) -> dict[str, Any]:
    """Everything that can tell two settings of a model apart, the readable first."""
    config = {k: v for k, v in record.config.items() if k != "tasks"}
    made_by = record.provenance
    return {
        **dict(_flatten(config)),
        "device": made_by.device_class,
        "precision": made_by.precision,
        "model code": made_by.model_code[:8],
        "libraries": made_by.library_lock[:8],
    }


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = dict.fromkeys(key for flat in settings for key in flat)
    return [key for key in keys if len({repr(flat.get(key)) for flat in settings}) > 1]


def _describe(settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(f"{k.rpartition('.')[2]}={settings[k]}" for k in keys if k in settings)


def _flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, tree
