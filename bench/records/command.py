"""The command that makes a record's run again, for anybody: it names settings, and no place."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from bench.config.command_line import shown
from bench.config.settings import Configuration
from bench.config.source_files import source_name
from bench.config.tree import TARGET
from bench.records.code import is_own
from bench.records.equivalence import current_name, flat
from bench.records.registry import file_of, known_model, model_group, names, why_unknown
from bench.records.schema import RunRecord
from core.errors import RUN_FAILED, UserError
from core.words import word

PLACE = "PATH"  # in a command that is shown, for whoever runs it to fill in
NAMES = ("tasks", "models", "preset", "device")
ROUNDS = 4  # settings that bring others with them, such as a protocol


def command_of(record: RunRecord) -> str:
    """The command line of one record, to be shown; ``PATH`` stands where a place is needed.

    Example: ``python -m bench.train tasks=capacity models=kernel preset=smoke seed=0 device=cpu``.

    Raises:
        UserError: as :func:`settings_of`.
    """
    places = [f"{key}={PLACE}" for key in places_of(record)]
    return shlex.join(["python", "-m", "bench.train", *words_of(record), *places])


def words_of(record: RunRecord) -> list[str]:
    """The words of ``bench.train`` that ask for exactly the run of a record.

    Raises:
        UserError: as :func:`settings_of`.
    """
    settings = settings_of(record)
    # Names need no quotes, and are read more easily without.
    plain = {key for key in NAMES if "." not in str(settings.get(key))}
    return [shown(k, v) if k in plain else word(k, v) for k, v in settings.items()]


def settings_of(record: RunRecord) -> dict[str, Any]:
    """The settings, by dotted keys, of exactly the run of a record. No model is imported, so that a
    record of somebody else's package can be asked too.

    Raises:
        UserError: its code is neither here nor proven equal, or its settings cannot be asked for.
    """
    today = current_name(record.config, record.provenance)
    if today is None:
        raise UserError(
            f"{record.run_id} was made by other code than is here, so no command of this checkout "
            "makes it again: check out the commit that it names",
            RUN_FAILED,
        )
    if file_of("tasks", record.task) is None and not is_own(today.code.task):
        return _of_a_task_from_outside(record, today.config)
    source = source_name(str(today.config.get("models", {}).get("_target_")))
    if reason := why_unknown(record, today.config, {"models": source}):  # it is not imported here
        raise UserError(f"{record.run_id} cannot be run again because {reason}", RUN_FAILED)
    is_model_known = known_model(record) is not None
    # Where the model is none of this checkout, any that the task takes stands for it: the settings
    # of task and training do not depend on it.
    model = record.model if is_model_known else names(model_group(record.task))[0]
    run = {"preset": record.preset, "seed": record.seed}
    sections = {s: part for s, part in today.config.items() if is_model_known or s != "models"}
    settings = _automatic(record, today.config)
    for _ in range(ROUNDS):
        resolved = Configuration.of(
            {"tasks": record.task, "models": model, **run, **settings}
        ).resolved()
        missing = {}
        for section, part in sections.items():
            for key, value in part.items():
                if key != "_target_" and resolved[section].get(key, _NONE) != value:
                    missing[f"{section}.{key}"] = value
        if not missing:
            break
        settings |= missing
    else:
        raise UserError(f"{record.run_id} has settings that no command asks for", RUN_FAILED)
    choice = _choice_of_model(record, today.config)
    if record.role != "baseline" and not is_model_known:
        items = today.config["models"].items()
        settings |= {f"models.{key}": value for key, value in items if key != "_target_"}
    return {"tasks": record.task, **choice, **run, "device": _device(record), **settings}


def _of_a_task_from_outside(
    record: RunRecord, config: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Every setting is named, since what is usual in such a task is not known without its class. Of
    a class in a file the record does not say where the file lies: it is asked for from where the
    command is given."""
    settings = flat(config)
    choice = _choice_of_model(record, config)
    run = {"preset": record.preset, "seed": record.seed, "device": _device(record)}
    return {"tasks": config["tasks"]["_target_"], **choice, **run, **settings}


def _choice_of_model(record: RunRecord, config: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The setting that chooses a record's model, or predictors in its place."""
    if record.role == "baseline":
        return {"predictors": True}
    if known_model(record) is not None:
        return {"models": record.model}
    return {TARGET: config["models"]["_target_"]}


def _device(record: RunRecord) -> str:
    return "cpu" if record.provenance.device_class == "cpu" else "cuda"


_NONE = object()


def _automatic(record: RunRecord, config: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Settings that another machine would choose otherwise, such as text of the network."""
    return {
        f"tasks.{key}": config["tasks"][key]
        for key in _card(record).get("automatic", {})
        if key in config["tasks"]
    }


def places_of(record: RunRecord) -> list[str]:
    """The settings by which whoever runs it again has to say where its data lie, as ``card.places``
    of the task's YAML file has them."""
    task_settings = record.config.get("tasks", {})
    places = []
    for place, conditions in _card(record).get("places", {}).items():
        if all(task_settings.get(key) in values for key, values in conditions.items()):
            places.append(f"tasks.{place}")
    return places


def _card(record: RunRecord) -> Mapping[str, Any]:
    card: Mapping[str, Any] = (file_of("tasks", record.task) or {}).get("card", {})
    return card
