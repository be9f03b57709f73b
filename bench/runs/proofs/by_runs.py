"""Proof that older code gives the same bytes: short runs by it and by this checkout, made in
processes of their own and compared byte by byte."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bench.config.files import group_file, main_file, models_of
from bench.config.tree import void_settings
from bench.records.equivalence import Code, Compared, Config, Equivalence, flat
from bench.records.provenance import SECONDS_FOR_GIT, sha256_of
from bench.records.schema import Role, RunRecord, read_records
from bench.records.store import Store
from bench.runs.proofs import wanted
from bench.runs.proofs.wanted import BASELINES, RunToCompare, model_of, models_to_compare
from bench.runs.proofs.writing import add_entries
from core.children import run_to_end
from core.errors import VERIFICATION_FAILED, UserError
from core.files import ROOT
from core.privacy import public_word
from core.processes import module_command
from core.progress import Report
from core.words import word, words_of

# A training of a few steps, with its validation; the learning rate is the preset's.
SHORT = {"steps": 12, "epochs": None, "warmup_steps": 2, "validate_every": 5}
# What task and model decide of a run's cost; FLOPs and seconds are counted by the engine.
COSTS = ("parameters", "state_bytes", "state_length", "training_tokens", "training_steps")
# What a run gave beside its data, weights and costs, in the order in which a difference is told.
RESULTS = ("metrics", "per_sequence", "curves", "arrays", "outcome", "cause", "headline")

Outcome = Equivalence | str | None  # a new entry of the table; a refusal; the code is the same


@dataclass
class ShortSweep:
    """Runs that one sweep makes.

    Attributes:
        settings: that its models share: "tasks.key", "models.key" or "training.key" -> value.
        models: what to compare; ``BASELINES`` is always compared.
        optional: left out where the older code has no such run.
    """

    preset: str
    settings: dict[str, Any]
    models: list[str]
    optional: bool = False

    def takes(self, model: str, settings: Mapping[str, Any]) -> bool:
        """Add a model, if it is not here yet and no setting of it contradicts those here."""
        differs = any(self.settings.get(key, value) != value for key, value in settings.items())
        if differs or model in self.models or self.optional:
            return False
        self.models.append(model)
        self.settings |= settings
        return True


def short_sweeps(
    task: str, runs: Iterable[RunToCompare], extra: Mapping[str, Any]
) -> list[ShortSweep]:
    """As few sweeps as hold every setting of ``runs`` once, shortened.

    A measurement has no training to cut short: each of its models is measured at preset smoke.

    Args:
        extra: settings for every run, with which several of them may be the same.
    """
    by_task_settings: dict[str, list[ShortSweep]] = defaultdict(list)  # and by preset
    placed = set()
    trains = models_of(task) == "models"
    for run in sorted(runs, key=lambda run: run.model == BASELINES):
        preset, settings = (run.preset, _shortened(run.config)) if trains else ("smoke", {})
        settings = {**settings, **extra}
        task_settings = {key: value for key, value in settings.items() if key.startswith("tasks.")}
        alike = by_task_settings[sha256_of([preset, task_settings])]
        whole_run = sha256_of([run.model, preset, settings])
        if run.model == BASELINES and not alike:  # every sweep makes those of its task
            alike.append(ShortSweep(preset, settings, models_to_compare(task)[:1]))
        elif run.model != BASELINES and whole_run not in placed:
            placed.add(whole_run)
            if run.optional or not any(sweep.takes(run.model, settings) for sweep in alike):
                alike.append(ShortSweep(preset, settings, [run.model], run.optional))
    return [*chain(*by_task_settings.values())]


def _shortened(config: Config) -> dict[str, Any]:
    training = config.get("training", {})
    short = {**training, **SHORT, "restarts": min(2, training.get("restarts", 1))}
    short.pop("lr", None)
    return flat({**config, "training": short})


def settings_of(
    task: str, sweep: ShortSweep, keys: Iterable[str], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The sweep of a sweep, with the settings that are known to both sides."""
    values = {**sweep.settings, **extra}
    task_settings = {key[6:]: value for key, value in values.items() if key.startswith("tasks.")}
    void = void_settings(values, {**group_file("tasks", task), **task_settings})
    return {
        "tasks": task,
        "models": list(sweep.models),
        "preset": sweep.preset,
        "sweep.search_space": {},
        "sweep.sampler": "grid",
        "n_trials": 1,
        "seeds": 1,
        "device": "cpu",
        **{key: values[key] for key in sorted(set(values) & set(keys) - void.keys())},
    }


@dataclass(frozen=True)
class ShortRun:
    """A run, with the SHA-256 of the bytes of its trained weights; None where it keeps none."""

    record: RunRecord
    weights: str | None

    def facts(self) -> dict[str, Any]:
        """All that the run gave but its weights."""
        content = self.record.model_dump(mode="json")
        facts = {"data": self.record.provenance.data, **{name: content[name] for name in RESULTS}}
        return {**facts, "cost": {name: content["cost"][name] for name in COSTS}}

    @property
    def code(self) -> Code:
        """What it was made by."""
        return Code.of(self.record.config, self.record.provenance)


@dataclass(frozen=True)
class RunPair:
    """The same run by both."""

    old: ShortRun
    new: ShortRun
    words: str

    def first_difference(self) -> str | None:
        """What differs first; None if every byte is the same, and every older setting is there."""
        sides = ({"data": {}, "weights": m.weights, **m.facts()} for m in (self.old, self.new))
        if difference := next(_differences("", *sides), None):
            return difference
        return changed_setting(self.old.record.config, self.new.record.config)

    def added(self) -> dict[str, Any]:
        """Settings that the newer run has and the older lacks, with their values."""
        return added_settings(self.old.record.config, self.new.record.config)

    def compared(self) -> Compared:
        """What the table says of it."""
        run, results = self.new, sha256_of(self.new.facts())
        data = run.record.provenance.data
        return Compared(words=self.words, data=data, weights=run.weights, results=results)


def changed_setting(old_config: Config, new_config: Config) -> str | None:
    """The first setting of the older code that is gone or another one here, in a clause."""
    old, new = flat(old_config), flat(new_config)
    for key in old:
        if key in new and new[key] == old[key]:
            continue
        now = f"is {new[key]!r} here" if key in new else "is gone here"
        return (
            f"the setting {key} is {old[key]!r} in the older code and {now}: a setting that "
            "went cannot be equal"
        )
    return None


def added_settings(old_config: Config, new_config: Config) -> dict[str, Any]:
    """Settings that the newer run has and the older lacks, with their values."""
    old, new = flat(old_config), flat(new_config)
    return {key: value for key, value in new.items() if key not in old}


# Settings whose values are names, which need no quotes.
NAMES = ("tasks", "models", "preset", "sweep.sampler", "device")
SECONDS_FOR_A_SIDE = 24 * 3600.0  # for all short runs of a sweep: a model may never end


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    """All that differs, in words, first to last."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(k for k in new if k not in old)]:
            inner = f"{place}/{key}" if place else str(key)
            yield from _differences(inner, old.get(key, "missing"), new.get(key, "missing"))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{place}[{i}]", *pair)
    elif old != new:
        yield f"{place} differs: {old!s:.70} there, {new!s:.70} here"


@dataclass(frozen=True)
class Tree:
    """A checkout: this one, or that of an older commit; what it makes goes to ``work``."""

    root: Path
    work: Path
    name: str

    def settings(self, task: str, models: Iterable[str]) -> set[str]:
        """The settings that the tree's YAML files have for a task and some of its models."""
        group = models_of(task)
        keys: set[str] = set()
        for model in models:
            try:
                groups = {
                    "tasks": group_file("tasks", task, self.root),
                    "models": group_file(group, model, self.root),
                    "training": main_file(self.root)["training"],
                }
            except UserError:
                raise UserError(
                    f"{self.name} has no task '{task}' with a model '{model}' to compare with",
                    VERIFICATION_FAILED,
                ) from None
            keys |= flat(groups).keys()
        return keys

    def make(
        self, settings: Mapping[str, Any], number: int
    ) -> dict[tuple[Role, str, int], ShortRun]:
        """What a sweep by this tree's own code makes in processes of its own: by role, model and
        seed.

        Raises:
            UserError: it made nothing.
        """
        store = Store(self.work / f"store-{number}")
        environment = {
            "PYTHONPATH": str(self.root),
            "MEMORY_BENCH_PREPARED": str(self.work / "prepared"),
        }
        words = words_of({**settings, "store": str(store.root)})
        command = module_command("bench.sweep", words, self.root)
        ended = run_to_end(command, SECONDS_FOR_A_SIDE, self.root, environment)
        runs = {}
        for record in read_records([store.records]):
            path = store.weights(record.run_id)
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
            runs[record.role, record.model, record.seed] = ShortRun(record, sha256)
        if not runs:
            command_shown = f"bench.sweep {shown_sweep(settings)}"
            raise UserError(
                f"{self.name} makes no such run: {ended.sentence} ({command_shown})",
                VERIFICATION_FAILED,
            )
        return runs


def trees_of(commit: str, folder: Path) -> tuple[Tree, Tree]:
    """An older commit, unpacked into a folder, and this checkout; the repository is only read."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as archive:
        archive.extractall(folder / "older", filter="data")
    older = Tree(folder / "older", folder / "made-there", commit[:8])
    return older, Tree(ROOT, folder / "made-here", "this checkout")


def full_name(commit: str) -> str:
    """The hash of a commit in the history of what is checked out.

    Raises:
        UserError: there is none of that name.
    """
    try:
        name = git("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        full = name.decode().strip()
        git("merge-base", "--is-ancestor", full, "HEAD")
    except (OSError, subprocess.SubprocessError):
        raise UserError(
            f"the commit {commit} is not in the history of this checkout: give commit=… as git log "
            "shows it; a shallow clone gets the rest by git fetch --unshallow"
        ) from None
    return full


def git(*arguments: str) -> bytes:
    """What git writes to its output about this checkout."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, check=True, timeout=SECONDS_FOR_GIT).stdout


def _make_both(
    trees: tuple[Tree, Tree], task: str, sweep: ShortSweep, extra: Mapping[str, Any], number: int
) -> list[RunPair]:
    """What both make of the same sweep, at the same time."""
    older, newer = trees
    keys = older.settings(task, sweep.models) & newer.settings(task, sweep.models)
    settings = settings_of(task, sweep, keys, extra)
    with ThreadPoolExecutor(2) as pool:
        made_by_older = pool.submit(older.make, settings, number)
        made_by_newer = pool.submit(newer.make, settings, number)
    old, new = made_by_older.result(), made_by_newer.result()
    for key in sorted({*old} ^ {*new}):
        role, model, _ = key
        where = f"by {older.name} alone" if key in old else "here alone"
        raise UserError(f"{model} ({role}) is made {where}", VERIFICATION_FAILED)
    words = shown_sweep(settings)
    return [RunPair(old[key], new[key], words) for key in sorted(old)]


def shown_sweep(settings: Mapping[str, Any]) -> str:
    """The words of a sweep as the table of equalities has them, without places of this machine."""
    words = []
    for key, value in settings.items():
        if key not in NAMES:
            words.append(public_word(word(key, value)))
            continue
        listed = f"[{','.join(value)}]" if isinstance(value, list) else value
        words.append(public_word(f"{key}={listed}"))
    return " ".join(words)


def prove(
    task: str, commit: str, runs: Sequence[RunToCompare], extra: Mapping[str, Any], report: Report
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
    pairs: dict[str, list[RunPair]] = defaultdict(list)
    refusals: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="equivalence-") as folder:
        trees = trees_of(commit, Path(folder))
        sweeps = short_sweeps(task, wanted.to_make(task, runs, trees[0].root), extra)
        making = f"{task} by {commit[:8]} and by this checkout"
        for number, sweep in enumerate(sweeps):
            report(making, number, len(sweeps))
            try:
                for pair in _make_both(trees, task, sweep, extra, number):
                    if not sweep.optional or pair.old.record.outcome == "ok":
                        pairs[model_of(pair.new.record)].append(pair)
            except UserError as error:
                if sweep.optional:
                    continue
                refusals = {**dict.fromkeys((*sweep.models, BASELINES), str(error)), **refusals}
        report(making, len(sweeps), len(sweeps))
    outcomes: dict[str, Outcome] = {}
    for model in dict.fromkeys(run.model for run in runs):
        made_by = {run.code for run in runs if run.model == model and run.code is not None}
        refusal = refusals.get(model) or _refusal(pairs[model], made_by)
        outcomes[model] = refusal or _entry(task, model, commit, pairs[model])
    return outcomes


def _refusal(pairs: Sequence[RunPair], made_by: set[Code]) -> str | None:
    """Why the pairs prove nothing."""
    for pair in pairs:
        if difference := pair.first_difference():
            return difference
    old, new = {pair.old.code for pair in pairs}, {pair.new.code for pair in pairs}
    if len(old) > 1 or len(new) > 1 or not all(code.is_current() for code in new):
        return "the code of this checkout changed while it was compared"
    if pairs and made_by - old:
        return "the commit does not hold the code that the records were made by"
    if any(pair.added() != pairs[0].added() for pair in pairs):
        return "the settings that are new have different values at different presets"
    return None


def _entry(task: str, model: str, commit: str, pairs: Sequence[RunPair]) -> Equivalence | None:
    """The entry that is written to the table; None where the code is the same anyway."""
    if not pairs or pairs[0].old.code == pairs[0].new.code:  # a task may have no predictors
        return None
    entry = Equivalence(
        task=task,
        model=model,
        commit=commit,
        old=pairs[0].old.code,
        new=pairs[0].new.code,
        added=pairs[0].added(),
        compared=tuple(pair.compared() for pair in pairs),
    )
    add_entries([entry])
    return entry
