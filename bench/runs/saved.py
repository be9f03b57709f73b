"""A saved run, ready for use: its record found, its task and its trained model built again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.config.files import main_file
from bench.config.groups import task_from_outside
from bench.config.limits import check_counts, check_sizes
from bench.config.outside_tasks import use_task_from_outside
from bench.config.problems import first_problem_in_a_sentence
from bench.config.settings import Configuration
from bench.config.source_files import places_of, use_trusted
from bench.records.code import code_hash
from bench.records.equivalence import current_name
from bench.records.record_files import is_record, records_below
from bench.records.registry import file_of, known_model, why_misshapen, why_unknown
from bench.records.schema import RunRecord, initial_seed, read_record
from bench.records.segments import SUFFIX
from bench.records.store import COMMITTED, Store
from bench.runs.serving import LOCATIONS
from bench.training.building import build_task, build_to_train, prepare_data, resolve_device
from bench.training.numerics import set_numerics
from bench.training.storage import load_weights, read_weights
from core.amounts import amount
from core.errors import UserError, nearest
from core.files import open_regular
from core.progress import Report, silent
from tasks.interface import Task


@dataclass(frozen=True)
class SavedRun:
    """A record with what it tells of: the model has its trained weights, is on ``device`` and
    in eval mode."""

    record: RunRecord
    configuration: Configuration
    task: Task
    model: nn.Module
    device: torch.device


def find_record(run: str, root: Path) -> tuple[RunRecord, Path]:
    """The record of a run, and the store that it lies in.

    Args:
        run: a run id, a part of one that no other has, or the path of a record file.
        root: the store that ids are looked up in.

    Raises:
        UserError: there is no such run, or there are several.
    """
    if run.endswith((".json", SUFFIX)):
        path = Path(run)
        if not is_record(path):
            raise UserError(f"there is no file {run}: give a run id, or the path of a record")
        in_store = path.parent.name in ("records", "trials")
        return read_record(path), path.resolve().parent.parent if in_store else root
    folder = Store(root).records
    if root.is_file():
        raise UserError(f"store={root} is a file: give the folder of the runs by store=FOLDER")
    if not folder.is_dir():
        raise UserError(f"there is no store at {root}: give the folder of the runs by store=FOLDER")
    ids = [path.stem for path in sorted(folder.glob("*.json"))]
    matching = [run] if run in ids else [run_id for run_id in ids if run in run_id]
    if len(matching) == 1 and run:
        return read_record(folder / f"{matching[0]}.json"), root
    if matching:
        first = ", ".join(matching[:3])
        raise UserError(
            f"{len(matching)} runs have '{run}' in their id ({first}, …): give more of it"
        )
    close = get_close_matches(run, ids, n=3, cutoff=0.4)
    hint = f"; the nearest: {', '.join(close)}" if close else ""
    if run and any(path.stem == run for path in records_below(COMMITTED)):
        raise UserError(
            f"{run} is a committed record, whose weights are not here: python -m "
            f"leaderboards.verify {run} makes the run again and compares"
        )
    names = f"ids are the names of its {amount(len(ids), 'file')}" if ids else "it holds no record"
    raise UserError(
        f"no run in {folder} has '{run}' in its id: {names}"
        f"{hint}; a run that is missing is made by bench.train"
    )


def load_run(
    run: str,
    root: Path,
    device: str | None = None,
    locations: Mapping[str, Any] | None = None,
    report: Report = silent,
    trust: str | None = None,
) -> SavedRun:
    """A run by its id, as :func:`find_record` takes it, with PyTorch set to the run's threads.

    Args:
        run: see there.
        root: the store, which holds the weights too.
        device: None is the kind of device that made the record.
        locations: where the task's data lies; no record is asked.
        trust: the package, or the file, that a model of somebody else may be imported from.

    Raises:
        UserError: no such run, or its weights are missing or not those of the record.
    """
    record, root = find_record(run, root)
    if record.role != "baseline" and record.weights_sha256 is None:
        raise UserError(
            f"{record.run_id} is a run of {record.task}, which builds its models anew each time "
            "and keeps no weights: choose a model that bench.train has trained"
            if record.outcome == "ok"
            else f"{record.run_id} ended as '{record.outcome}' and has no weights: choose a run "
            "that is ok, or train again"
        )
    place = device or ("cpu" if record.provenance.device_class == "cpu" else "cuda")
    if place not in ("auto", "cpu", "cuda"):
        raise UserError(f"device={place} is unknown: {nearest(place, ('auto', 'cpu', 'cuda'))}")
    configuration = recorded_configuration(record, root, place, locations or {}, trust)
    path = Store(root).weights(record.run_id)
    weights = read_weights(path, record.weights_sha256)
    set_numerics(configuration.training.threads)
    prepare_data(configuration, report)
    task = build_task(configuration)
    seed = initial_seed(record.restarts, record.seed)
    model = build_to_train(configuration, task, seed, copies=1)
    target = str(record.config["models"].get("_target_"))
    same_code = code_hash(target) == record.provenance.model_code
    edited = not same_code and current_name(record.config, record.provenance) is None
    load_weights(model, weights, path, edited=edited)
    resolved = resolve_device(place)
    return SavedRun(record, configuration, task, model.to(resolved).eval(), resolved)


def recorded_configuration(
    record: RunRecord,
    store: Path,
    device: str,
    locations: Mapping[str, Any],
    trust: str | None = None,
) -> Configuration:
    """The configuration that made a record, for another look at its weights.

    A record chooses values of settings, and nothing else: classes and places are those of this
    checkout, or named on the command line.

    Args:
        locations: where data lies on this machine; without it, the defaults.
        trust: the package or the file that a model or a task of somebody else may be imported
            from; several with commas between them.

    Raises:
        UserError: the record names something that this checkout does not have, a package that is
            not trusted, or settings that do not exist any more.
    """
    if record.role == "baseline":
        raise UserError(f"{record.run_id} is a predictor without weights: choose a trained model")
    trust = use_trusted(trust)
    problem, config = why_misshapen(record), record.config
    if problem is None:
        today = current_name(record.config, record.provenance)
        config = today.config if today else record.config
        problem = why_unknown(record, config, {"tasks": trust, "models": trust})
    if problem is not None:
        hint = (
            "; trust=PACKAGE or trust=PATH/FILE.py (of leaderboards.verify: package=) imports "
            "classes of a package, or of a file, that you trust; several are a list, "
            "trust=[./net.py,./task.py]"
        )
        way_on = hint if "_target_" in problem else ""
        raise UserError(f"{record.run_id} cannot be run again because {problem}{way_on}")
    check_counts(config["tasks"], "tasks")
    if known_model(record) is not None:
        check_sizes(config["models"])
        check_counts(config["models"], "models")
    if file_of("tasks", record.task) is None:  # of a package or a file that is trusted
        use_task_from_outside(str(config["tasks"]["_target_"]))
    task = file_of("tasks", record.task) or task_from_outside(record.task) or {}
    names = tuple(task.get("locations", ()))
    for name in locations:
        if name not in names:
            places = [f"tasks.{location}" for location in names]
            raise UserError(
                f"tasks.{name} is part of the record: {nearest(f'tasks.{name}', places)}"
            )
    data_places = {name: task[name] for name in names} | dict(locations)
    _ask_for_places(record, store, data_places)
    default = main_file()
    with first_problem_in_a_sentence(f"{record.run_id} has settings of another version: "):
        return Configuration.model_validate(
            {
                "task": record.task,
                "model": record.model,
                "label": record.label,
                "preset": record.preset,
                "seed": record.seed,
                "device": device,
                "store": store,
                "tracking": "none",
                "tasks": {**config["tasks"], **data_places},
                "models": config["models"],
                "training": {
                    **(default["training"] if task.get("takes") else {}),
                    **config["training"],
                    "checkpoint_every": 1,
                },
                "sweep": default["sweep"],
                "takes": task.get("takes"),
                "trained_on": task.get("trained_on"),
                "needs": task.get("needs", ()),
                "locations": names,
                "source_files": places_of(*(str(c.get("_target_")) for c in config.values())),
            }
        )


def _ask_for_places(record: RunRecord, root: Path, data_places: Mapping[str, Any]) -> None:
    """Refuse to guess where data lie: the note beside the weights may be a stranger's too, so it
    only says what to give.

    Raises:
        UserError: a place was noted, and none is given.
    """
    path = Store(root).work(record.run_id) / LOCATIONS
    try:
        with open_regular(path) as file:
            noted = dict(json.loads(file.read()))
    except FileNotFoundError:
        return
    except (ValueError, TypeError, RecursionError):
        raise UserError(
            f"{path} is truncated or edited: delete it, and say where the data lie by tasks.KEY=…"
        ) from None
    missing = [key for key, place in data_places.items() if place is None and noted.get(key)]
    if missing:
        words = []
        for key in missing:
            place = str(noted[key])
            can_be_shown = place[0] == "/" and place.isprintable()
            words.append(f"tasks.{key}={place if can_be_shown else '…'}")
        raise UserError(
            f"where the data of {record.run_id} lie is for you to say, because a store may be a "
            f"stranger's: give {shlex.join(words)}, as its store noted, or where they lie now"
        )
