"""Proof that older code gives the same bytes: which short runs say so, and what they said."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.records.equivalence import Code, Config, Equivalence, add_entry, form, todays_name
from bench.records.provenance import sha256_of
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED
from bench.runs.comparing import Pair, Trees
from bench.settings.config import choices, group_file, models_of
from ground.errors import UserError
from ground.progress import Report
from ground.words import word

# A training of a few steps, with its validation; the learning rate is the preset's.
SHORT = {"steps": 12, "epochs": None, "warmup_steps": 2, "validate_every": 5}
BASELINES = "predictors without training"


@dataclass
class Batch:
    """Runs that one sweep makes: settings that its models share.

    Attributes:
        models: what to compare; ``BASELINES`` is always compared.
        settings: "tasks.key", "models.key" or "training.key" -> value.
    """

    task: str
    preset: str
    models: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def same_task(self, settings: Mapping[str, Any]) -> bool:
        """Whether these are its settings of the task."""
        return _of_the_task(self.settings) == _of_the_task(settings)

    def takes(self, model: str, settings: Mapping[str, Any]) -> bool:
        """Add a model, if it is not here yet and no setting of it contradicts those here."""
        differs = any(self.settings.get(key, value) != value for key, value in settings.items())
        if differs or model in self.models or not self.same_task(settings):
            return False
        self.models.append(model)
        self.settings |= settings
        return True


def _of_the_task(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key.startswith("tasks.")}


@dataclass(frozen=True)
class Wanted:
    """A run of which both sides are to make a short one; ``model`` may be ``BASELINES``."""

    task: str
    model: str
    preset: str
    config: Config
    code: Code | None = None  # that the commit must hold; None: whatever it holds


def batches(runs: Iterable[Wanted]) -> list[Batch]:
    """As few sweeps as hold every setting of ``runs`` once, shortened.

    A measurement has no training to cut short: each of its models is measured at preset smoke.
    """
    found: list[Batch] = []
    seen: set[str] = set()
    for run in sorted(runs, key=lambda run: run.model == BASELINES):
        measurement = models_of(run.task) != "models"
        preset = "smoke" if measurement else run.preset
        settings = {} if measurement else _settings(run.config)
        key = sha256_of([run.task, run.model, preset, settings])
        if key not in seen:
            seen.add(key)
            _place(run, preset, settings, found)
    return found


def _place(run: Wanted, preset: str, settings: dict[str, Any], found: list[Batch]) -> None:
    """Into a batch that has a place for it, else into one of its own."""
    here = [batch for batch in found if batch.task == run.task and batch.preset == preset]
    if run.model == BASELINES:  # every sweep makes those of its task
        if not any(batch.same_task(settings) for batch in here):
            model = (group_file("tasks", run.task).get("sweep", {}).get("models") or [None])[0]
            model = model or choices(models_of(run.task))[0]
            found.append(Batch(run.task, preset, [model], settings))
    elif not any(batch.takes(run.model, settings) for batch in here):
        found.append(Batch(run.task, preset, [run.model], settings))


def _settings(config: Config) -> dict[str, Any]:
    short = {**config.get("training", {}), **SHORT}
    short["restarts"] = min(2, config.get("training", {}).get("restarts", 1))
    short.pop("lr", None)
    sections = {**config, "training": short}
    return {
        f"{section}.{key}": value
        for section, values in sections.items()
        for key, value in values.items()
        if key != "_target_"
    }


def words_of(batch: Batch, known: Iterable[str], extra: Mapping[str, Any]) -> list[str]:
    """The command line of a batch, with the settings that are known to both sides."""
    given = {**batch.settings, **extra}
    return [
        f"tasks={batch.task}",
        f"models=[{','.join(batch.models)}]",
        f"preset={batch.preset}",
        "sweep.search_space={}",
        "sweep.sampler=grid",
        "n_trials=1",
        "seeds=1",
        "device=cpu",
        *(word(key, given[key]) for key in sorted(set(given) & set(known))),
    ]


@dataclass(frozen=True)
class Outcome:
    """What came of one model of a task, or of the task's predictors: an entry of the table, a
    refusal in one sentence, or neither where the code is the same anyway."""

    task: str
    model: str
    entry: Equivalence | None = None
    refusal: str | None = None


def prove(
    commit: str, runs: Sequence[Wanted], extra: Mapping[str, Any], report: Report
) -> list[Outcome]:
    """Make and compare the short runs of one task, and write what they prove to the table.

    Args:
        extra: settings for every run of a task that has them.

    Raises:
        UserError: the commit is not there.
    """
    pairs: dict[str, list[Pair]] = defaultdict(list)
    refusals: dict[str, str] = {}
    sweeps = batches(runs)
    with tempfile.TemporaryDirectory(prefix="equivalence-") as folder:
        trees = Trees.of(commit, Path(folder))
        for number, batch in enumerate(sweeps):
            report(f"{batch.task} by {trees.older.name} and by this checkout", number, len(sweeps))
            try:
                known = trees.settings(batch.task, batch.models)
                for pair in trees.make(batch.task, words_of(batch, known, extra), number):
                    pairs[BASELINES if pair.new.role == "baseline" else pair.new.model].append(pair)
            except UserError as error:
                for model in (*batch.models, BASELINES):
                    refusals.setdefault(model, str(error))
        report(f"{runs[0].task}: both sides are made", len(sweeps), len(sweeps))
    outcomes = []
    for model in dict.fromkeys(run.model for run in runs):
        try:
            if model in refusals:
                raise UserError(refusals[model])
            made_by = {run.code for run in runs if run.model == model and run.code is not None}
            entry = _judged(runs[0].task, model, commit, pairs[model], made_by)
            outcomes.append(Outcome(runs[0].task, model, entry))
        except UserError as error:
            outcomes.append(Outcome(runs[0].task, model, refusal=str(error)))
    return outcomes


def _judged(
    task: str, model: str, commit: str, pairs: Sequence[Pair], made_by: set[Code]
) -> Equivalence | None:
    """The entry that is written to the table; None where the code is the same anyway.

    Raises:
        UserError: the first difference.
    """
    for pair in pairs:
        if found := pair.first_difference():
            raise UserError(found)
    codes = {pair.codes() for pair in pairs}
    if not codes:  # a task without predictors
        return None
    old, new = next(iter(codes))
    if len(codes) > 1 or not new.is_current():
        raise UserError("the code of this checkout changed while it was compared")
    if made_by - {old}:
        raise UserError("the commit does not hold the code that the records were made by")
    added = {sha256_of(pair.added()): pair.added() for pair in pairs}
    if len(added) > 1:
        raise UserError("the settings that are new have different values at different presets")
    if old == new:
        return None
    compared = tuple(pair.compared() for pair in pairs)
    entry = Equivalence(
        task=task,
        model=model,
        commit=commit,
        old=old,
        new=new,
        added=next(iter(added.values())),
        compared=compared,
    )
    add_entry(entry)
    return entry


def of_records(task: str | None, preset: str | None) -> dict[tuple[str, str], list[Wanted]]:
    """(commit, task) -> committed records of an earlier form."""
    found: dict[tuple[str, str], list[Wanted]] = defaultdict(list)
    for record in read_records([COMMITTED]):
        earlier = form(record.config, record.provenance) == "of an earlier form"
        if earlier and task in (None, record.task) and preset in (None, record.preset):
            code = Code.of(record.config, record.provenance)
            key = (record.provenance.commit or "an unknown commit", record.task)
            found[key].append(_wanted(record, record.config, code))
    return found


def of_task(
    task: str, models: Sequence[str] | None, preset: str | None, commit: str
) -> dict[tuple[str, str], list[Wanted]]:
    """The settings of a task's committed records, or its presets where there are none."""
    found = []
    folder = COMMITTED / task
    for record in read_records([folder] if folder.is_dir() else []):
        today = todays_name(record.config, record.provenance)
        wanted = _wanted(record, today.config if today else record.config, None)
        chosen = models is None or wanted.model in (*models, BASELINES)
        if chosen and preset in (None, record.preset):
            found.append(wanted)
    known = {run.model for run in found}
    listed = group_file("tasks", task).get("sweep", {}).get("models") or choices(models_of(task))
    for model in models or ([] if known - {BASELINES} else listed):
        if model not in known:
            found.append(Wanted(task, model, preset or "smoke", {}))
    if BASELINES not in known:
        found.append(Wanted(task, BASELINES, preset or "smoke", {}))
    return {(commit, task): found}


def _wanted(record: RunRecord, config: Config, code: Code | None) -> Wanted:
    model = BASELINES if record.role == "baseline" else record.model
    return Wanted(record.task, model, record.preset, config, code)
