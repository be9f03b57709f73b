"""The project from Python: what ``from bench import …`` gives (``docs/python.md``).

Every function here does what a command does, with the same settings and to the same records. A
mistake of the user is a :class:`core.errors.UserError` with one sentence.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

from torch import nn

from bench.config.groups import choices
from bench.config.network import with_available_text
from bench.config.settings import Configuration
from bench.config.source_files import forget_edited, trusted_names
from bench.examination.examination import examine
from bench.records.code import forget_code, named_class
from bench.records.schema import RunRecord
from bench.records.schema import read_records as records_below
from bench.records.store import COMMITTED, Store
from bench.runs.get_or_run import get_or_run
from bench.runs.saved import SavedRun
from bench.runs.saved import load_run as load_saved
from bench.search.driver import records_of
from bench.search.plan import plan_sweep, some_model
from bench.training.building import build_model, build_task, prepare_data
from bench.training.mistakes import check_calls
from bench.training.storage import device_of
from bench.training.unfit import RefusedModel, UnfitModel
from core.arguments import as_folder, as_name, as_plain, as_settings, described, refuse_unknown
from core.errors import RUN_FAILED, UserError, describe_os_error, first_line, nearest
from core.progress import Report, progress, silent
from tasks.interface import Task

Device = Literal["auto", "cpu", "cuda"]
Settings = Mapping[str, Any]  # dotted keys as on a command line: {"training.lr": 1e-3}
TASKS = "such as 'regbench', or './task.py:Task' for one of your own"
PRESETS = f"one of {', '.join(choices('preset'))}"
MODELS = "such as 'memory_mosaic', or './net.py:GRU' for one of your own"

_configurations: WeakKeyDictionary[Task, Configuration] = WeakKeyDictionary()


def load_preset(
    task: str,
    model: str,
    preset: str = "smoke",
    *,
    seed: int = 0,
    device: Device = "auto",
    store: Path | str = "runs",
    settings: Settings | None = None,
) -> Configuration:
    """All settings of one run, checked: those of the files, of the preset, and given ones.

    Args:
        task: a name, ``package.Task`` or ``./task.py:Task``.
        model: a name, ``package.Model`` or ``./net.py:Model``.
        settings: by dotted keys, ``{"training.lr": 1e-3, "models.width": 64, "tasks.length": 32}``.

    Returns:
        Frozen; ``tasks`` and ``models`` hold what their constructors take, ``training`` how it is
        trained, and ``model_dump()`` gives all as plain values.

    Raises:
        UserError: a name, key or value that cannot be used.

    Example::

        load_preset("regbench", "memory_mosaic", "laptop").training.lr
    """
    _notice_edits()
    return Configuration.of(
        _all_settings(task, preset, _of_run(model, seed, device, store), settings)
    )


def load_task(task: str, preset: str = "smoke", **settings: Any) -> Task:
    """A task with its data, at the sizes of a preset. Data that lie on disk are made first.

    Args:
        task: a name, ``package.Task`` or ``./task.py:Task``.
        settings: arguments of its constructor, in place of those of the preset.

    Returns:
        ``training_batch(seed, step, size)``, ``loss(outputs, batch)`` and ``evaluate(model, split,
        device)`` are all that a loop of one's own needs; :mod:`tasks.interface` has the rest.
        ``evaluate`` measures a model that is on ``device``, on the split "validation" or "test",
        without gradients and in eval mode; its mode is the same afterwards.

    Raises:
        UserError: a name, key or value that cannot be used, or data that cannot be had.

    Example::

        task = load_task("regbench", "smoke")
        batch = task.training_batch(seed=0, step=0, size=32)  # inputs: int64 (32, time)
    """
    _notice_edits()
    overrides = _all_settings(task, preset, _of_class("tasks", "load_task", settings))
    configuration = Configuration.of({**overrides, "models": some_model(overrides)})
    prepare_data(configuration, silent)
    # Equal settings share one object with its data, and presets may differ in the models alone.
    loaded = copy.copy(build_task(configuration))
    check_calls(loaded)
    _configurations[loaded] = configuration
    return loaded


def load_model(model: str, task: Task, *, seed: int = 0, **settings: Any) -> nn.Module:
    """A model with fresh weights, of the shapes of a task and the sizes of its preset.

    Args:
        model: a name, ``package.Model`` or ``./net.py:Model``.
        task: from :func:`load_task`.
        seed: of the initial weights; the same as a run of this seed has.
        settings: arguments of its constructor, in place of those of the preset.

    Returns:
        A module on the CPU, in training mode: int64 (batch, time) or float32 (batch, time,
        channels) -> float32 (batch, time, classes or channels).

    Raises:
        UnfitModel: it cannot be trained as it is built; a UserError as well.
        UserError: a name, key or value that cannot be used, or a task that was made otherwise.

    Example::

        model = load_model("memory_mosaic", task, width=64)
    """
    if isinstance(model, Task):
        raise UserError('the model comes before the task: load_model("gpt2", task)')
    of_task = _configurations.get(task) if isinstance(task, Task) else None
    if of_task is None:
        raise UserError(
            f"load_model takes a task from load_task, and this is {described(task)}: load it by "
            'its name, load_model("gpt2", load_task("regbench")), or build the class of the model '
            "with task.specification()"
        )
    overrides = _of_class("models", "load_model", settings)
    overrides |= {"models": as_name("model", model, MODELS), "seed": as_plain(seed)}
    configuration = of_task.with_(overrides)
    try:
        return build_model(configuration, task, configuration.seed)
    except UnfitModel as error:
        raise RefusedModel(str(error)) from error


def examine_model(model: nn.Module, task: Task, *, seed: int = 0) -> None:
    """Refuse a model that is not the causal map that it claims to be, as the engine does before it
    trains one.

    Args:
        model: on the device where its inputs shall be.
        task: any; sequences are those of its training.

    Raises:
        UnfitModel: what is wrong, in one sentence; it is a UserError as well.
        UserError: what is given is no model, or no task, or no whole number as a seed.
    """
    for value, kind, maker in ((model, nn.Module, "load_model"), (task, Task, "load_task")):
        if not isinstance(value, kind):
            raise UserError(
                "examine_model takes a model, a torch.nn.Module that was built, and a task from "
                f"load_task, and this is {described(value)}: {maker} gives one by its name"
            )
    seed = as_plain(seed)
    if not isinstance(seed, int) or seed < 0:
        raise UserError(f"seed is a whole number from 0 on, and not {described(seed)}")
    inputs = task.training_batch(seed, 0, 4).inputs.to(device_of(model))
    try:
        examine(model, task.specification(), inputs, seed=seed)
    except UnfitModel as error:
        raise RefusedModel(str(error)) from error
    except Exception as error:  # whatever a model raises
        sequences = f"{str(inputs.dtype).removeprefix('torch.')} {tuple(inputs.shape)}"
        raise RefusedModel(
            f"{type(model).__name__} stops at sequences of {type(task).__name__}, inputs "
            f"{sequences}: {type(error).__name__}: {first_line(error)}"
        ) from error


def run(
    task: str,
    model: str,
    preset: str = "smoke",
    *,
    seed: int = 0,
    device: Device = "auto",
    store: Path | str = "runs",
    settings: Settings | None = None,
    quiet: bool = False,
) -> RunRecord:
    """Train one model on one task and evaluate it, as ``python -m bench.train`` does. A run whose
    record is in the store is not made again.

    Args:
        task, model, settings: as for :func:`load_preset`.
        quiet: show no progress.

    Returns:
        The record: ``headline.value``, ``metrics["test"]["accuracy"]``, ``cost.parameters``,
        ``outcome`` ("ok", "diverged", "failed" …) and ``cause``. A run that fails is a record too.

    Raises:
        UserError: a name, key or value that cannot be used.
        KeyboardInterrupt: it was stopped; the same call goes on from its checkpoint.

    Example::

        record = run("regbench", "gpt2", settings={"training.steps": 100})
    """
    _notice_edits()
    overrides = _all_settings(task, preset, _of_run(model, seed, device, store), settings)
    configuration = Configuration.of(with_available_text(overrides))
    with _progress(quiet) as report:
        return get_or_run(configuration, report=report)


def run_sweep(
    task: str,
    models: Iterable[str] | str | None = None,
    preset: str = "smoke",
    *,
    n_trials: int | None = None,
    seeds: int | None = None,
    device: Device = "auto",
    store: Path | str = "runs",
    settings: Settings | None = None,
    quiet: bool = False,
) -> list[RunRecord]:
    """Search settings for each model, train the best over seeds, as ``python -m bench.sweep`` does.

    Runs are made in several processes where ``python -m bench.sweep`` would, and each of these
    imports the program that calls this. So they are made one at a time, in this process, where the
    call of a file does not stand below ``if __name__ == "__main__":``.

    Args:
        task, settings: as for :func:`load_preset`; ``settings`` also takes those of sweeps, such
            as ``{"workers": 2, "sweep.search_space": {"training.lr": [1e-3, 3e-3]}}``.
        models: names, or one name; None is those that contend in the task.
        n_trials: settings tried for each model; None is what the task's preset says, or all of a
            grid in ``settings``.
        seeds: final runs for each model; None is what the task's preset says.
        quiet: show no progress.

    Returns:
        The final records of every model, then those of the task's predictors without training.

    Raises:
        UserError: a name, key or value that cannot be used, workers that would run the call
            again, or a run that no worker survived.
        KeyboardInterrupt: it was stopped; the same call goes on from there.

    Example::

        if __name__ == "__main__":  # of a file; in a notebook the line may be left out
            rivals = ["memory_mosaic", "gpt2"]
            records = run_sweep("regbench", rivals, seeds=3, settings={"extend": 2})
    """
    _notice_edits()
    arguments: dict[str, Any] = {"device": device, "store": str(as_folder("store", store))}
    arguments |= {"n_trials": as_plain(n_trials), "seeds": as_plain(seeds)}
    arguments |= {"models": None if models is None else _names_of(models)}
    of_call = {key: value for key, value in arguments.items() if value is not None}
    plan = plan_sweep(with_available_text(_all_settings(task, preset, of_call, settings)))
    if plan.dry_run:
        raise UserError("dry_run=true is for python -m bench.sweep, which prints the estimate")
    with _progress(quiet) as report:
        return records_of(plan, report)


def load_run(
    run_id: RunRecord | Path | str,
    store: Path | str = "runs",
    *,
    device: Device | None = None,
    trust: Iterable[str] | str | None = None,
) -> SavedRun:
    """A run of a store with its trained weights.

    Args:
        run_id: of its record, or a part of it that no other has; or the record, or its file.
        device: None is the kind that made the record.
        trust: the package or file, or a list of them, that a class of somebody else (its model, its
            task) may be imported from: ``"my_package"``, ``["./net.py", "./task.py"]``.

    Returns:
        ``record``, ``configuration``, ``task``, and ``model`` in eval mode on ``device``.

    Raises:
        UserError: there is no such run, or its weights are missing or not those of the record.
    """
    _notice_edits()
    if isinstance(run_id, RunRecord):
        run_id = run_id.run_id
    name = as_name("run_id", run_id, "that of a record, such as record.run_id")
    trusted = [trust] if isinstance(trust, str | os.PathLike) else trust
    if trusted is not None:
        if not isinstance(trusted, Iterable):
            raise UserError(f"trust is a name or a list of names, and not {described(trust)}")
        trusted = [as_name("each of trust", source, "such as './net.py'") for source in trusted]
    return load_saved(name, as_folder("store", store), device, trust=trusted_names(trusted))


def read_records(
    store: Path | str | None = "runs", *, task: str | None = None, preset: str | None = None
) -> list[RunRecord]:
    """The records of a store, sorted by run id; no trials of searches.

    Args:
        store: None is the project's own, committed records (thousands: name a task).
        task, preset: only these; none of a known task that nobody ran here is no mistake. A task of
            a file may be named by its place, ``./task.py:Task``; the name of the class counts.

    Raises:
        UserError: there is no such store, task or preset, or a record was damaged or edited.

    Example::

        read_records(None, task="regbench", preset="laptop")
    """
    folder = COMMITTED if store is None else Store(as_folder("store", store)).records
    if not folder.is_dir():
        raise UserError(f"there is no store at {store}: give the folder of the runs")
    task = None if task is None else named_class(as_name("task", task, TASKS))
    preset = None if preset is None else as_name("preset", preset, PRESETS)
    if store is None and task is not None:
        folder /= task
        if not folder.is_dir():
            tasks = [path.name for path in COMMITTED.iterdir() if path.is_dir()]
            raise UserError(f"there are no committed records of '{task}': {nearest(task, tasks)}")
        if preset is not None and (folder / preset).is_dir():
            folder /= preset
    records = list(records_below([folder]))
    if task is not None:
        refuse_unknown("task", task, {*choices("tasks")}, {record.task for record in records})
    if preset is not None:
        refuse_unknown("preset", preset, {*choices("preset")}, {r.preset for r in records})
    return [r for r in records if task in (None, r.task) and preset in (None, r.preset)]


@contextmanager
def _progress(quiet: bool) -> Iterator[Report]:
    try:
        with nullcontext(silent) if quiet else progress() as report:
            yield report
    except OSError as error:  # a full disk, or a store that cannot be written
        raise UserError(describe_os_error(error), RUN_FAILED) from error


def _all_settings(
    task: str, preset: str, of_call: Settings, settings: Settings | None = None
) -> dict[str, Any]:
    """All settings of a call, of which those that were given as such win."""
    names = {"tasks": as_name("task", task, TASKS), "preset": as_name("preset", preset, PRESETS)}
    return {**names, **of_call, **as_settings(settings)}


def _of_run(model: str, seed: int, device: Device, store: Path | str) -> dict[str, Any]:
    """The arguments that runs of one model share, as settings."""
    place = str(as_folder("store", store))
    name = as_name("model", model, MODELS)
    return {"models": name, "seed": as_plain(seed), "device": device, "store": place}


def _of_class(group: str, function: str, settings: Settings) -> dict[str, Any]:
    """Settings of one class, which are given without the beginning of their keys.

    Raises:
        UserError: they are given as other functions take them.
    """
    if isinstance(settings.get("settings"), Mapping):
        names = ", ".join(str(key).rpartition(".")[2] + "=…" for key in settings["settings"])
        raise UserError(f"{function} takes settings one by one, by their own names: {names}")
    return {f"{group}.{key}": value for key, value in as_settings(settings).items()}


def _names_of(models: object) -> str | list[str]:
    """The models of a sweep: one name, or names between commas as on a command line, or several."""
    if isinstance(models, str):
        return models.split(",") if "," in models else models
    if not isinstance(models, Iterable) or isinstance(models, nn.Module):
        raise UserError(f"models is a list of names, {MODELS}, and not {described(models)}")
    return [as_name("each of models", model, MODELS) for model in models]


def _notice_edits() -> None:
    """A file of the user's that was edited since it was imported is imported anew; a class of a
    package is not, as nowhere in Python."""
    if forget_edited():
        forget_code()
