"""What this checkout knows of the names in a record. No task and no model is imported for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from bench.config.external import kind_of
from bench.config.groups import DESCRIPTIVE, choices, own_file
from bench.config.source_files import source_name
from bench.records.schema import RunRecord, make_run_id

Known = Mapping[str, Any]  # the YAML file of a task or model


@cache
def names(group: str) -> tuple[str, ...]:
    """The names of a group, which do not change while a process checks records."""
    return tuple(choices(group))


@cache
def file_of(group: str, name: str) -> Known | None:
    """The file of a task or model, with what it takes over from others; None where there is none.
    Hydra would read the same, in ten times the time."""
    if name not in names(group):
        return None
    content = own_file(group, name)
    others = [
        file_of(group, other) or {} for other in content.get("defaults", ()) if other != "_self_"
    ]
    return dict(OmegaConf.merge(*others, content)) if others else content


def model_group(task: str) -> str:
    """The group that a task's models come from; "models" for a task that is not known."""
    return str((file_of("tasks", task) or {}).get("takes", "models"))


def known_model(record: RunRecord) -> Known | None:
    """The file of a record's model; None for one of another package, and for a predictor."""
    if record.role == "baseline":
        return None
    return file_of(model_group(record.task), record.model)


def why_misshapen(record: RunRecord) -> str | None:
    """Why a record's own name or the sections of its configuration are none; None if they are."""
    name = make_run_id(record.task, record.model, record.preset, record.identity, record.seed)
    if record.run_id != name:
        return "its run_id is not what task, model, preset, identity and seed give"
    sections = ("tasks",) if record.role == "baseline" else ("models", "tasks", "training")
    parts = record.config.values()
    if set(record.config) != set(sections) or not all(isinstance(part, dict) for part in parts):
        return f"its config does not hold {', '.join(sections)}, and nothing else"
    return None


def why_unknown(
    record: RunRecord, config: Mapping[str, Any], trusted: Mapping[str, str | None]
) -> str | None:
    """Why the task, the model or a setting of a record of the right shape is not one of this
    checkout; None if all are.

    Args:
        config: the record's, as today's code calls it.
        trusted: "tasks" or "models" -> the package, or the file, whose classes are accepted there
            too; several with commas between them.
    """
    task = file_of("tasks", record.task)
    if task is not None and record.preset not in task.get("presets", {}):
        return f"its preset {record.preset!a} is none of the task '{record.task}'"
    called = {"tasks": record.task, "models": record.model}
    for section in ("tasks", "models") if "models" in config else ("tasks",):
        file = task if section == "tasks" else known_model(record)
        source = source_name(str(config[section].get("_target_")))
        if file is None or config[section].get("_target_") != file["_target_"]:
            if source in (trusted.get(section) or "").split(","):
                continue
            if file is None:
                kind = "file" if source.endswith(".py") else "package"
                return (
                    f"{section[:-1]} {called[section]!a} is unknown here (its "
                    f"config.{section}._target_ is of the {kind} {source!a})"
                )
        if problem := _wrong(section, file, config[section]):
            return problem
    return None


def _wrong(section: str, file: Known, settings: Mapping[str, Any]) -> str | None:
    """What a section of a configuration holds that a YAML file of this checkout does not."""
    if settings.get("_target_") != file["_target_"]:
        return (
            f"its config.{section}._target_ is {settings.get('_target_')!a}, not {file['_target_']}"
        )
    for key, value in settings.items():
        if key in file.get("locations", ()):
            return (
                f"its config names a place, {section}.{key}, which only the command line of "
                f"whoever runs may: {section}.{key}=…"
            )
        if key not in file or key in DESCRIPTIVE:
            return f"its config has a setting {section}.{key!a} that this checkout does not know"
        kind = kind_of(file[key])
        if kind and value is not None and kind_of(value) != kind:
            return f"its config.{section}.{key} is {value!a:.80}, and no {kind}"
        if _otherwise_written(value, file[key]):
            return f"its config.{section}.{key} is {value!a:.80}, which is not how it is written"
    return None


def _otherwise_written(value: Any, usual: Any) -> bool:
    """Whether a number, or all of a list, is not of the type that settings of this kind get: 64.0
    would be another run than 64, of the same numbers. Nor has zero a sign."""
    if isinstance(value, list) and isinstance(usual, list) and value and usual:
        types = {type(element) for element in usual}
        whole = all(type(element) is float and element.is_integer() for element in value)
        return types == {int} and whole
    if kind_of(usual) != "number" or value is None:
        return False
    return type(value) is not type(usual) or str(value) == "-0.0"
