"""Compare older code with this checkout, up to rounding, and write what is proven to the table."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from bench.config.files import group_file, models_of
from bench.records.code import code_hash
from bench.records.equality.rounded_runs import RoundedRun
from bench.records.equivalence import Code, Equivalence, flat
from bench.records.provenance import sha256_of
from bench.records.schema import FrozenModel, read_records
from bench.records.store import COMMITTED, Store
from bench.runs.proofs.by_runs import (
    SECONDS_FOR_A_SIDE,
    Outcome,
    Tree,
    added_settings,
    changed_setting,
    full_name,
    git,
    shown_sweep,
)
from bench.runs.proofs.rounding import bounds
from bench.runs.proofs.rounding.settings import (
    OlderRun,
    runs_of,
    settings_of_run,
    settings_to_compare,
    shortened,
)
from bench.runs.proofs.rounding.side import STEPS, TrainingsRequest, TrainingVariant
from bench.runs.proofs.rounding.whole import CHANGED_MEANWHILE, made_whole, run_across_a_jump
from bench.runs.proofs.wanted import models_to_compare
from bench.runs.proofs.writing import add_entries
from core.children import run_to_end
from core.errors import VERIFICATION_FAILED, UserError
from core.files import ROOT, write_atomically
from core.processes import module_command
from core.progress import Report

OLDER_HOUSES = ("models", "tasks")  # whose code is part of a run's identity
ENGINE = ("bench", "core")  # which both sides have from this checkout
PERTURBATIONS = {"float64": 2, "float32": 3}  # trainings with other last bits
PLAIN = {
    "float64": TrainingVariant(dtype="float64", evaluate=True),
    "float32": TrainingVariant(dtype="float32"),
}


class _Compared(FrozenModel):
    """One setting of which both states of the code gave the same numbers, as the store keeps it."""

    run: RoundedRun
    added: dict[str, Any]


@dataclass(frozen=True)
class _Proof:
    """What is compared: one task, with older code and this checkout.

    Attributes:
        extra: settings for every run that has them, such as where data lie.
    """

    task: str
    commit: str
    older: Tree
    newer: Tree
    extra: Mapping[str, Any]
    store: Store
    report: Report

    def of(self, model: str, preset: str | None) -> Outcome:
        """What comes of one model."""
        old, new = (_code(self.task, model, tree.root) for tree in (self.older, self.newer))
        if old == new:
            return None
        runs, committed = runs_of(self.task, model, old, preset)
        if committed and not runs:
            return (
                "none of its committed records was made by the code of that commit, or by code "
                "that is proven equal to it"
            )
        wanted: list[OlderRun | None] = [*settings_to_compare(runs)] or [None]
        across = run_across_a_jump(runs)
        total = len(wanted) + (across is not None)
        known = [tree.settings(self.task, [model]) for tree in (self.older, self.newer)]
        results: list[_Compared] = []
        for number, run in enumerate(wanted):
            self.report(f"{self.task}, {model}: {STEPS} steps by both sides", number, total)
            settings = self._settings(model, preset or "smoke", run, known)
            result = self._compared(old, new, settings, f"{model}-{number}")
            if isinstance(result, str):
                return result
            results.append(result)
        if any(result.added != results[0].added for result in results):
            return "the settings that are new have different values at different presets"
        whole = []
        if across is not None:
            run_id = across.record.run_id
            self.report(f"{self.task}, {model}: {run_id} in full", len(wanted), total)
            values = {**flat(across.config), **self.extra}
            record = across.record
            settings = settings_of_run(self.task, model, record.preset, record.seed, values, known)
            own_store = Store(self.store.root / new.model_code[:12])
            made = made_whole(across, settings, new, own_store)
            if isinstance(made, str):
                return made
            whole.append(made)
        self.report(f"{self.task}, {model}: both sides are made", total, total)
        entry = Equivalence(
            task=self.task,
            model=model,
            commit=self.commit,
            old=old,
            new=new,
            added=results[0].added,
            by="rounding",
            rounded=tuple(result.run for result in results),
            whole=tuple(whole),
        )
        add_entries([entry])
        return entry

    def _settings(
        self, model: str, preset: str, run: OlderRun | None, known: Sequence[set[str]]
    ) -> dict[str, Any]:
        config = run.config if run else {}
        values = {**shortened(config, STEPS), **self.extra}
        seed = run.record.seed if run else 0
        preset_of_run = run.record.preset if run else preset
        return settings_of_run(self.task, model, preset_of_run, seed, values, known)

    def _compared(
        self, old: Code, new: Code, settings: Mapping[str, Any], folder: str
    ) -> _Compared | str:
        """Both sides of one setting, compared now or by an earlier call; a clause if they differ.

        Args:
            folder: name of the one that each side's answers lie in meanwhile.
        """
        states = [old.model_dump(), new.model_dump()]
        key = sha256_of([*states, settings, STEPS, bounds.FACTOR, PERTURBATIONS])
        kept = self.store.root / "compared" / f"{key}.json"
        if kept.exists():
            try:
                return _Compared.model_validate_json(kept.read_bytes())
            except ValidationError:  # cut, or of an earlier version: it is made again
                kept.unlink()
        plain = [*PLAIN.values()]
        changed: dict[str, list[TrainingVariant]] = {}
        for dtype, count in PERTURBATIONS.items():
            seeds = range(1, count + 1)
            changed[dtype] = [PLAIN[dtype].model_copy(update={"last_bits": k}) for k in seeds]
        asked_of_older = [*plain, *changed["float64"], *changed["float32"]]
        with ThreadPoolExecutor(2) as pool:
            by_older = pool.submit(_answers, self.older, settings, asked_of_older, folder)
            by_newer = pool.submit(_answers, self.newer, settings, plain, folder)
        older, newer = by_older.result(), by_newer.result()
        if newer.facts["codes"] != [new.task_code, new.model_code]:
            return CHANGED_MEANWHILE
        result = _compare(older, newer, changed, settings)
        for answers in (older, newer):  # of large models they are large
            shutil.rmtree(answers.folder)
        if isinstance(result, _Compared):
            write_atomically(kept, result.model_dump_json().encode())
        return result


@dataclass(frozen=True)
class _Answers:
    """What a side made: its facts, and of each variant what ``side`` returns."""

    facts: dict[str, Any]
    folder: Path

    def of(self, variant: TrainingVariant) -> dict[str, Any]:
        """The answer about one training, read anew each time: all of them at once may not fit into
        memory."""
        answer: dict[str, Any] = torch.load(self.folder / variant.name, weights_only=True)
        return answer


def prove_up_to_rounding(
    task: str,
    models: Sequence[str] | None,
    preset: str | None,
    commit: str,
    extra: Mapping[str, Any],
    store: Store,
    report: Report,
) -> dict[str, Outcome]:
    """Compare the trainings of one task by older code and by this checkout, and write what they
    prove to the table.

    Args:
        models: None is those with committed records, or those that the task lists.
        store: where whole runs are made, and what was compared is kept.

    Returns:
        What came of each model.

    Raises:
        UserError: the commit is not there, or the task trains no models.
    """
    if models_of(task) != "models":
        raise UserError(
            f"{task} is a measurement, whose models the engine does not train: leave rounding= out "
            "to prove it bit for bit, or make its records again"
        )
    commit = full_name(commit)
    recorded = {r.model for r in read_records([COMMITTED / task]) if r.role != "baseline"}
    asked_models = models or sorted(recorded) or models_to_compare(task)
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="rounding-") as folder:
        older = _older_tree(commit, Path(folder))
        newer = Tree(ROOT, Path(folder) / "made-here", "this checkout")
        proof = _Proof(task, commit, older, newer, extra, store, report)
        for model in asked_models:
            try:
                outcomes[model] = proof.of(model, preset)
            except UserError as error:
                outcomes[model] = str(error)
    return outcomes


def _older_tree(commit: str, folder: Path) -> Tree:
    """The models and tasks of an older commit below the engine of this checkout."""
    root = folder / "older"
    try:
        packed = git("archive", "--format=tar", commit, "--", *OLDER_HOUSES)
    except subprocess.CalledProcessError:
        raise UserError(f"{commit[:8]} has no folders {' and '.join(OLDER_HOUSES)}") from None
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(root, filter="data")
    for house in ENGINE:
        shutil.copytree(ROOT / house, root / house, ignore=shutil.ignore_patterns("__pycache__"))
    return Tree(root, folder / "made-there", commit[:8])


def _code(task: str, model: str, root: Path) -> Code:
    """The code of a checkout behind a task with a model.

    Raises:
        UserError: it has no such task or model.
    """
    try:
        task_class = str(group_file("tasks", task, root)["_target_"])
        model_class = str(group_file("models", model, root)["_target_"])
    except UserError:
        raise UserError(
            f"the commit has no task '{task}' with a model '{model}' to compare with",
            VERIFICATION_FAILED,
        ) from None
    return Code(
        task=task_class,
        task_code=code_hash(task_class, root),
        model=model_class,
        model_code=code_hash(model_class, root),
    )


def _answers(
    tree: Tree, settings: Mapping[str, Any], variants: Sequence[TrainingVariant], name: str
) -> _Answers:
    """The trainings of one side, made in a process of its own.

    Raises:
        UserError: it cannot make them.
    """
    folder = tree.work / name
    folder.mkdir(parents=True)
    request = TrainingsRequest(settings=dict(settings), variants=list(variants), output=folder)
    path = folder / "request.json"
    path.write_text(request.model_dump_json())
    environment = {
        "PYTHONPATH": str(tree.root),
        "MEMORY_BENCH_PREPARED": str(tree.work / "prepared"),
    }
    command = module_command("bench.runs.proofs.rounding.side", [str(path)], tree.root)
    ended = run_to_end(command, SECONDS_FOR_A_SIDE, tree.root, environment)
    facts = folder / "facts.json"
    if not facts.exists():
        raise UserError(
            f"{tree.name} makes no such run: {ended.sentence} ({shown_sweep(settings)})",
            VERIFICATION_FAILED,
        )
    return _Answers(json.loads(facts.read_bytes()), folder)


def _compare(
    older: _Answers,
    newer: _Answers,
    changed: Mapping[str, Sequence[TrainingVariant]],
    settings: Mapping[str, Any],
) -> _Compared | str:
    """What both sides made of one setting, held against each other; a clause if they differ."""
    run_name = shown_sweep(settings)
    data = older.facts["data"]
    if newer.facts["data"] != data:
        return f"the data are not the same ({run_name})"
    configs = older.facts["config"], newer.facts["config"]
    if changed_one := changed_setting(*configs):
        return changed_one
    differences = {}
    initial_weights, longest_sum = "", 0
    for dtype, variant in PLAIN.items():
        old, new = older.of(variant), newer.of(variant)
        if inexact := bounds.first_inexact(old["exact"], new["exact"]):
            return f"{inexact} ({run_name})"
        other_bits = [older.of(other)["numbers"] for other in changed[dtype]]
        initial_weights, longest_sum = old["exact"]["the initial weights"], old["longest_sum"]
        numbers = old["numbers"], new["numbers"]
        if dtype == "float64":
            difference = bounds.compare_in_float64(*numbers, other_bits, longest_sum)
        else:
            difference = bounds.compare_in_float32(*numbers, other_bits)
        if difference.refusal:
            return f"{difference.refusal} ({run_name})"
        differences[dtype] = {k: float(f"{v:.3g}") for k, v in difference.shares.items()}
    run = RoundedRun(
        words=run_name,
        data=data,
        initial_weights=initial_weights,
        steps=STEPS,
        longest_sum=longest_sum,
        float64=differences["float64"],
        float32=differences["float32"],
        factor=bounds.FACTOR,
        perturbations=min(PERTURBATIONS.values()),
    )
    return _Compared(run=run, added=added_settings(*configs))
