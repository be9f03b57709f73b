"""Proof that older code gives the same bytes: which short runs say so, and what they said."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records.equivalence import (
    Code,
    Config,
    Equivalence,
    add_entry,
    flat,
    form,
    todays_name,
)
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED
from bench.runs.comparing import Pair, Trees, full_name
from bench.settings.config import choices, group_file, models_of
from ground.errors import UserError
from ground.progress import Report
from ground.words import word

# A training of a few steps, with its validation; the learning rate is the preset's.
SHORT = {"steps": 12, "epochs": None, "warmup_steps": 2, "validate_every": 5}
BASELINES = "predictors without training"

Outcome = Equivalence | str | None  # a new entry of the table; a refusal; the code is the same


@dataclass(frozen=True)
class Wanted:
    """A run of which both sides are to make a short one; ``model`` may be ``BASELINES``."""

    model: str
    preset: str
    config: Config
    code: Code | None = None  # that the commit must hold; None: whatever it holds


@dataclass
class Batch:
    """Runs that one sweep makes.

    Attributes:
        settings: that its models share: "tasks.key", "models.key" or "training.key" -> value.
        models: what to compare; ``BASELINES`` is always compared.
    """

    preset: str
    settings: dict[str, Any]
    models: list[str]

    def is_of(self, preset: str, settings: Mapping[str, Any]) -> bool:
        """Whether these are its preset and its settings of the task."""
        both = [
            {k: v for k, v in some.items() if k.startswith("tasks.")}
            for some in (self.settings, settings)
        ]
        return preset == self.preset and both[0] == both[1]

    def takes(self, model: str, settings: Mapping[str, Any]) -> bool:
        """Add a model, if it is not here yet and no setting of it contradicts those here."""
        differs = any(self.settings.get(key, value) != value for key, value in settings.items())
        if differs or model in self.models:
            return False
        self.models.append(model)
        self.settings |= settings
        return True


def batches(task: str, runs: Iterable[Wanted]) -> list[Batch]:
    """As few sweeps as hold every setting of ``runs`` once, shortened.

    A measurement has no training to cut short: each of its models is measured at preset smoke.
    """
    found: list[Batch] = []
    placed: list[tuple[str, str, dict[str, Any]]] = []
    for run in sorted(runs, key=lambda run: run.model == BASELINES):
        trains = models_of(task) == "models"
        asked = (run.preset, _shortened(run.config)) if trains else ("smoke", {})
        if (run.model, *asked) in placed:
            continue
        placed.append((run.model, *asked))
        here = [batch for batch in found if batch.is_of(*asked)]
        if run.model == BASELINES and not here:  # every sweep makes those of its task
            found.append(Batch(*asked, _models(task)[:1]))
        elif run.model != BASELINES and not any(b.takes(run.model, asked[1]) for b in here):
            found.append(Batch(*asked, [run.model]))
    return found


def _models(task: str) -> list[str]:
    """Those that the task lists, or all that it takes."""
    listed: list[str] = group_file("tasks", task).get("sweep", {}).get("models")
    return listed or choices(models_of(task))


def _shortened(config: Config) -> dict[str, Any]:
    training = config.get("training", {})
    short = {**training, **SHORT, "restarts": min(2, training.get("restarts", 1))}
    settings = flat({**config, "training": short})
    left_out = ("tasks._target_", "models._target_", "training.lr")
    return {key: value for key, value in settings.items() if key not in left_out}


def words_of(task: str, batch: Batch, known: Iterable[str], extra: Mapping[str, Any]) -> list[str]:
    """The command line of a batch, with the settings that are known to both sides."""
    given = {**batch.settings, **extra}
    return [
        f"tasks={task}",
        f"models=[{','.join(batch.models)}]",
        f"preset={batch.preset}",
        "sweep.search_space={}",
        "sweep.sampler=grid",
        "n_trials=1",
        "seeds=1",
        "device=cpu",
        *(word(key, given[key]) for key in sorted(set(given) & set(known))),
    ]


def prove(
    task: str, commit: str, runs: Sequence[Wanted], extra: Mapping[str, Any], report: Report
) -> dict[str, Outcome]:
    """Make and compare the short runs of one task, and write what they prove to the table.

    Args:
        extra: settings for every run of a task that has them.

    Returns:
        What came of each model of the task, and of its predictors.

    Raises:
        UserError: the commit is not there.
    """
    commit = full_name(commit)
    pairs: dict[str, list[Pair]] = defaultdict(list)
    refusals: dict[str, str] = {}
    sweeps = batches(task, runs)
    with tempfile.TemporaryDirectory(prefix="equivalence-") as folder:
        trees = Trees.of(commit, Path(folder))
        for number, batch in enumerate(sweeps):
            report(f"{task} by {trees.older.name} and by this checkout", number, len(sweeps))
            try:
                known = trees.settings(task, batch.models)
                for pair in trees.make(task, words_of(task, batch, known, extra), number):
                    record = pair.new.record
                    pairs[BASELINES if record.role == "baseline" else record.model].append(pair)
            except UserError as error:
                refusals = {**dict.fromkeys((*batch.models, BASELINES), str(error)), **refusals}
        report(f"{task}: both sides are made", len(sweeps), len(sweeps))
    outcomes: dict[str, Outcome] = {}
    for model in dict.fromkeys(run.model for run in runs):
        made_by = {run.code for run in runs if run.model == model and run.code is not None}
        refusal = refusals.get(model) or _refusal(pairs[model], made_by)
        outcomes[model] = refusal or _entry(task, model, commit, pairs[model])
    return outcomes


def _refusal(pairs: Sequence[Pair], made_by: set[Code]) -> str | None:
    """Why the pairs prove nothing."""
    if found := next(filter(None, (pair.first_difference() for pair in pairs)), None):
        return found
    codes = {pair.codes() for pair in pairs}
    if len(codes) > 1 or not all(new.is_current() for _, new in codes):
        return "the code of this checkout changed while it was compared"
    if codes and made_by - {old for old, _ in codes}:
        return "the commit does not hold the code that the records were made by"
    if any(pair.added() != pairs[0].added() for pair in pairs):
        return "the settings that are new have different values at different presets"
    return None


def _entry(task: str, model: str, commit: str, pairs: Sequence[Pair]) -> Equivalence | None:
    """The entry that is written to the table; None where the code is the same anyway."""
    old, new = pairs[0].codes() if pairs else (None, None)  # a task may have no predictors
    if old is None or new is None or old == new:
        return None
    entry = Equivalence(
        task=task,
        model=model,
        commit=commit,
        old=old,
        new=new,
        added=pairs[0].added(),
        compared=tuple(pair.compared() for pair in pairs),
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


def of_task(task: str, models: Sequence[str] | None, preset: str | None) -> list[Wanted]:
    """The settings of a task's committed records, or its presets where there are none."""
    found = []
    for record in read_records([COMMITTED / task]):
        today = todays_name(record.config, record.provenance)
        wanted = _wanted(record, today.config if today else record.config, None)
        chosen = models is None or wanted.model in (*models, BASELINES)
        if chosen and preset in (None, record.preset):
            found.append(wanted)
    known = {run.model for run in found}
    others = models or ([] if known - {BASELINES} else _models(task))
    lacking = [model for model in (*others, BASELINES) if model not in known]
    return [*found, *(Wanted(model, preset or "smoke", {}) for model in lacking)]


def _wanted(record: RunRecord, config: Config, code: Code | None) -> Wanted:
    model = BASELINES if record.role == "baseline" else record.model
    return Wanted(model, record.preset, config, code)
