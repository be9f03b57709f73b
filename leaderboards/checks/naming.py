"""Who a record says that it is: names, settings, identity and provenance, worked out again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from pydantic_core import PydanticSerializationError

from bench.config.groups import DESCRIPTIVE, model_groups, task_card, task_from_outside
from bench.config.source_files import class_name, source_name
from bench.records.code import is_own
from bench.records.equivalence import Code, Name, current_name
from bench.records.identity import identity_of
from bench.records.provenance import COMPUTING_LIBRARIES, KERNELS, PROTOCOL_VERSION, sha256_of
from bench.records.registry import file_of, known_model, names, why_misshapen, why_unknown
from bench.records.schema import RunRecord
from core.errors import RUN_FAILED, UserError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
FIRST_RECORD = datetime(2024, 1, 1, tzinfo=UTC)  # older than this program
SHA256 = re.compile(r"[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}")
MAXIMUM_LABEL = 80
MAXIMUM_TEXT = 10_000


def check_name(name: str, kind: str) -> str:
    """A name that can stand in a path.

    Raises:
        UserError: it has other characters than letters, digits, ``_ . -``, or begins with a dot.
    """
    if not NAME.fullmatch(name) or ".." in name:
        raise UserError(
            f"the {kind} {name[:80]!a} cannot be a file name: letters, digits, '_', '.' and '-' "
            "are allowed, 200 at most, not beginning with '.' or '-' and without '..'",
            RUN_FAILED,
        )
    return name


def _text(record: RunRecord) -> str | None:
    if not record.label.isprintable() or not 0 < len(record.label) <= MAXIMUM_LABEL:
        return f"its label is not 1 to {MAXIMUM_LABEL} printable characters"
    try:
        record.model_dump_json()
    except PydanticSerializationError:
        return "it holds text that is not valid Unicode"
    made_by = record.provenance
    texts = {
        f"provenance.{name}": getattr(made_by, name)
        for name in ("device", "device_class", "platform", "python", "command")
    }
    texts |= {"provenance.libraries": "".join(made_by.libraries.values())}
    if record.cause is not None:
        texts |= {"cause": record.cause}
    for section in ("curves", "arrays", "per_sequence"):
        texts |= {f"name in {section}": name for name in getattr(record, section)}
    for place, text in texts.items():
        if not text.isprintable() or not 0 < len(text) <= MAXIMUM_TEXT:
            return f"its {place} is not 1 to {MAXIMUM_TEXT} printable characters"
    return None


def _names(record: RunRecord) -> str | None:
    """Task, preset, model and settings are those of this checkout. Settings of code that is neither
    here nor proven equal cannot be looked up: of these the packages alone are."""
    outside = record.task not in names("tasks") and task_from_outside(record.task) is not None
    if record.task not in names("tasks") and not outside:
        return f"its task {record.task!a} is unknown here"
    if record.preset not in names("preset"):
        return f"its preset {record.preset!a} is unknown here"
    if reason := why_misshapen(record):
        return reason
    today = current_name(record.config, record.provenance)
    code = Code.of(record.config, record.provenance)
    external = record.role != "baseline" and known_model(record) is None
    if today:
        # What a class from outside takes is not known here: nothing of it is imported.
        trusted = {"models": source_name(code.model)} if external else {}
        trusted |= {"tasks": source_name(code.task)} if outside else {}
        return why_unknown(record, today.config, trusted) or _incomplete(record, today.config)
    classes = {} if outside else {"tasks": (code.task, record.task)}
    if outside and is_own(code.task):
        return f"its config.tasks._target_ is {code.task[:200]!a}, a class of this project"
    if record.role != "baseline" and not external:
        classes["models"] = (code.model, record.model)
    for section, (target, name) in classes.items():
        file = known_model(record) if section == "models" else file_of("tasks", record.task)
        usual = target == (file or {}).get("_target_")  # else every file has to be read
        if not is_own(target) or not (usual or name in _owners().get(target, (name,))):
            return f"its config.{section}._target_ is {target[:200]!a}, which is not '{name}'"
    return None


def _incomplete(record: RunRecord, config: Mapping[str, Any]) -> str | None:
    """A record holds every setting: one that is left out would be another run of the same name."""
    files = {"tasks": file_of("tasks", record.task), "models": known_model(record)}
    for section, file in files.items():
        left_out = (*DESCRIPTIVE, *(file or {}).get("locations", ()))
        for key in file or ():
            if key not in left_out and key not in config[section]:
                return f"its config has no {section}.{key}"
    return None


@cache
def _owners() -> dict[str, set[str]]:
    """Class -> the names of the tasks and models of this checkout that it is of."""
    names_by_class: dict[str, set[str]] = {}
    for group in ("tasks", *model_groups()):
        for name in names(group):
            target = str((file_of(group, name) or {}).get("_target_"))
            names_by_class.setdefault(target, set()).add(name)
    return names_by_class


def _label(record: RunRecord) -> str | None:
    """A model is called what its card says, a model of another package what its class says, and
    neither that nor a predictor like a model of ours."""
    model = known_model(record)
    if model is not None:
        label = model.get("card", {}).get("label", model["_target_"].rpartition(".")[2])
        return None if record.label == label else f"its label is {record.label!a}, not {label!a}"
    if not record.label.isascii():
        return f"its label {record.label!a} has letters that look like others"
    if record.role == "baseline" and record.label in card_of(record.task).get("predictors", ()):
        return _called(record)
    if record.label.casefold() in _labels() or record.model.casefold() in _labels():
        return f"its label {record.label!a} is that of a model of this project"
    if record.role == "baseline" and "headline" in card_of(record.task):
        return f"its label {record.label!a} is none of card.predictors of its task"
    return _called(record)


def _called(record: RunRecord) -> str | None:
    """A predictor is known by its label, a model of another package by its class."""
    if record.role == "baseline":
        called = "".join(c if c.isalnum() else "_" for c in record.label.lower())
    else:
        called = class_name(str(record.config["models"].get("_target_")))
    return None if record.model == called else f"its model is {record.model!a}, not {called!a}"


@cache
def card_of(task: str) -> Mapping[str, Any]:
    """The card of a task, which does not change while a process checks records."""
    return task_card(task)


@cache
def _labels() -> frozenset[str]:
    """Names and labels of the models of this checkout, in small letters."""
    labels: set[str] = set()
    for group in model_groups():
        for name in names(group):
            label = (file_of(group, name) or {}).get("card", {}).get("label")
            labels |= {name.casefold(), str(label).casefold()}
    return frozenset(labels)


def _identity(record: RunRecord) -> str | None:
    made_by = record.provenance
    if made_by.library_lock != sha256_of(made_by.libraries):
        return "its provenance.library_lock is not the hash of its libraries"
    kernels = set(KERNELS) if made_by.device_class != "cpu" else set()  # where they are installed
    if set(made_by.libraries) - kernels != {*COMPUTING_LIBRARIES, "python"}:
        return "its provenance.libraries are not those that compute"
    baseline = record.label if record.role == "baseline" else None
    name = Name(Code.of(record.config, made_by), record.config)
    if record.identity != identity_of(name, record.preset, made_by, baseline):
        return "its identity is not what its config, preset and provenance give"
    return None


def _provenance(record: RunRecord) -> str | None:
    made_by = record.provenance
    hashes = {"model_code": made_by.model_code, "task_code": made_by.task_code}
    hashes |= {f"data.{split}": value for split, value in made_by.data.items()}
    for name, value in hashes.items():
        if not SHA256.fullmatch(value):
            return f"its provenance.{name:.80} is no SHA-256"
    if missing := {"validation", "test"} - set(made_by.data):
        return f"its provenance.data has no hash of the split {min(missing)}"
    if not 1 <= made_by.protocol_version <= PROTOCOL_VERSION:
        return f"its provenance.protocol_version is {made_by.protocol_version:.0f}, unknown here"
    if made_by.precision not in ("float32", "bfloat16"):
        return f"its provenance.precision is {made_by.precision!a:.80}, unknown here"
    if made_by.device_class not in ("cpu", made_by.device):
        return f"its provenance.device is {made_by.device!a:.80}, and not its device_class"
    if made_by.commit is not None and not COMMIT.fullmatch(made_by.commit):
        return "its provenance.commit is no commit"
    if not f"{made_by.python}.".startswith(f"{made_by.libraries['python']}."):
        return "its provenance.python is not that of its libraries"
    try:
        started = datetime.fromisoformat(made_by.started_at)
    except ValueError:
        return "its provenance.started_at is no time"
    if started.utcoffset() != timedelta(0):
        return "its provenance.started_at is no time in UTC"
    if not FIRST_RECORD <= started <= datetime.now(UTC) + timedelta(days=1):
        return "its provenance.started_at is before this program or to come"
    return None


RULES = (_text, _names, _label, _identity, _provenance)
