"""Tasks, models and devices from a configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.config import groups
from bench.config.external import OURS, load_class, refuse_other_sequences, refuse_what_is_missing
from bench.config.network import note_if_offline
from bench.config.outside_tasks import refuse_missing_settings
from bench.config.settings import Configuration
from bench.config.source_files import source_name
from bench.records.code import code_hash
from bench.training.compiled import with_padded_batches
from bench.training.memory import COPIES_IN_TRAINING, check_fits, checked_as_it_is_built
from bench.training.mistakes import data_in_sentences, way_on
from bench.training.numerics import kept_settings, refuse_own_seed, settings_of_others
from bench.training.seeding import kept_random_state, seed_generators
from bench.training.storage import make_whole
from bench.training.text_notes import print_notes_on_text
from core.errors import RUN_FAILED, UserError, describe_memory_error, is_out_of_memory
from core.files import NOT_REGULAR
from core.progress import Report
from core.seeding import derive_seed
from models.specification import SequenceSpecification
from tasks.interface import Task
from tasks.measurement import Build, Measurement, Refused

# Group -> what its classes are, and the classes that they derive from, with their public names.
KINDS: dict[str, tuple[str, tuple[type, ...], str]] = {
    "tasks": (
        "task",
        (Task, Measurement),
        "tasks.interface.Task, or from tasks.measurement.Measurement",
    ),
    "models": ("model", (nn.Module,), "torch.nn.Module"),
}


def resolve_device(name: str) -> torch.device:
    """``auto`` is the GPU where there is one.

    Raises:
        UserError: a GPU is asked for and there is none.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("device=cuda, but PyTorch finds no GPU here: use device=auto or device=cpu")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def device_class(name: str) -> str:
    """What records call the device of that name: "cpu", or the name of the GPU."""
    device = resolve_device(name)
    return "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device)


def build_task(configuration: Configuration) -> Task:
    """The task of a configuration; equal settings share one object and so its data.

    Raises:
        UserError: it refuses its settings, or is a measurement, which trains no model so.
    """
    task = task_or_measurement(configuration)
    if not isinstance(task, Task):
        raise UserError(
            f"{configuration.task} is a measurement: it has no model that the engine trains, and "
            "is made by bench.run or python -m bench.measure"
        )
    return task


def build_measurement(configuration: Configuration) -> Measurement:
    """The measurement of a configuration whose task ``takes`` a group of models.

    Raises:
        UserError: it refuses its settings, or its class is no measurement.
    """
    task = task_or_measurement(configuration)
    if not isinstance(task, Measurement):
        raise UserError(
            f"tasks ({configuration.tasks['_target_']}) is no tasks.measurement.Measurement: only "
            "those have 'takes' in their YAML file"
        )
    return task


def task_or_measurement(configuration: Configuration) -> Task | Measurement:
    """The task of a configuration, of either kind.

    Raises:
        UserError: it refuses its settings, or one of them leads to a pipe or a device, which would
            be waited for or read without end.
    """
    for name in configuration.locations:
        path = Path(str(configuration.tasks.get(name)))
        with suppress(OSError, ValueError):  # an address may be too long for a path
            if path.exists() and not path.is_file() and not path.is_dir():
                raise UserError(f"tasks.{name}={path} {NOT_REGULAR}, and no folder")
    return _with_padding(_build_task(*_cache_key(configuration)), configuration)


def new_task(configuration: Configuration) -> Task | Measurement:
    """The same, as an object of its own, which shares no data and no state with any other."""
    return _with_padding(task_of(configuration.tasks), configuration)


def _with_padding(task: Task | Measurement, configuration: Configuration) -> Task | Measurement:
    multiple = configuration.training.pad_to_multiple_of
    return with_padded_batches(task, multiple) if isinstance(task, Task) and multiple > 1 else task


def _cache_key(configuration: Configuration) -> tuple[str, str]:
    """What decides a task: its settings, and of a class of somebody else its code, since one
    process may meet two files of one name, or one that is edited."""
    target = configuration.tasks["_target_"]
    code = ""
    if source_name(target) not in OURS:
        load_subclass(target, "tasks")  # the hash of a large package takes minutes
        code = code_hash(target)
    return json.dumps(configuration.tasks, sort_keys=True), code


@lru_cache(maxsize=4)
def _build_task(text: str, code: str) -> Task | Measurement:
    return task_of(json.loads(text))


def task_of(settings: Mapping[str, Any]) -> Task | Measurement:
    """An object of its own, which shares no data and no state with any other.

    Args:
        settings: the class as ``_target_``, and its settings.
    """
    return _construct(settings, "tasks")


def prepare_data(configuration: Configuration, report: Report) -> None:
    """Make what the configured task keeps on disk, if it is not there.

    Raises:
        UserError: the data that the configuration names cannot be used.
    """
    note_if_offline(configuration)
    target = configuration.tasks["_target_"]
    with _mistakes_in_sentences(configuration.tasks, "tasks"), data_in_sentences(target):
        task = task_or_measurement(configuration)
        task.prepare(report)
        print_notes_on_text(task)


def data_hashes(configuration: Configuration) -> dict[str, str]:
    """SHA-256 of every split of the configured task.

    Raises:
        UserError: the data that the configuration names cannot be used.
    """
    target = configuration.tasks["_target_"]
    with _mistakes_in_sentences(configuration.tasks, "tasks"), data_in_sentences(target):
        return _data_hashes(*_cache_key(configuration))


@lru_cache(maxsize=4)
def _data_hashes(text: str, code: str) -> dict[str, str]:
    return _build_task(text, code).data_hashes()


def build_model(configuration: Configuration, task: Task, seed: int) -> nn.Module:
    """A model with the initial weights of ``seed``.

    Raises:
        UserError: the model refuses its settings, or lacks a method that the task needs.
    """
    device = resolve_device(configuration.device)
    try:
        model = initial_model(configuration.models, task.specification(), seed, device)
    except UserError as error:
        raise UserError(f"{error}{_set_by_preset(configuration, error)}") from error
    missing = [name for name in configuration.needs if not hasattr(model, name)]
    if missing:
        fit = [name for name in configuration.sweep.models if name != configuration.model]
        raise UserError(
            f"{configuration.label} has no {missing[0]}, which task '{configuration.task}' "
            f"measures: choose {' or '.join(fit) or 'a model that offers it'}"
        )
    return model


def initial_model(
    models: Mapping[str, Any], specification: SequenceSpecification, seed: int, device: torch.device
) -> nn.Module:
    """The model of a class, ``_target_``, and its settings, with the initial weights of ``seed``.

    Args:
        device: whose generator is seeded and left as it was, beside those of the CPU.

    Raises:
        UserError: the model refuses its settings.
    """
    with kept_random_state(device):
        model = _seeded(models, seed, device, specification)
    make_whole(model)
    return model


def _seeded(
    models: Mapping[str, Any], seed: int, device: torch.device, *positional: Any
) -> nn.Module:
    """A model made with all generators at the seed of initial weights that ``seed`` gives."""
    with kept_settings():
        load_subclass(models["_target_"], "models")  # a package may draw as it is imported
    # A seed of its own, so that weights do not draw the numbers of dropout or batches.
    seed_of_weights = derive_seed(seed, "initial weights")
    seed_generators(seed_of_weights, device)
    model: nn.Module = _construct(models, "models", *positional)
    refuse_own_seed(models["_target_"], seed_of_weights)
    return model


def build_to_train(
    configuration: Configuration, task: Task, seed: int, copies: int = COPIES_IN_TRAINING
) -> nn.Module:
    """The same of a model whose sizes anybody may have chosen.

    Args:
        copies: of its weights that are going to be held here.

    Raises:
        UserError: as for ``build_model``, or they are larger than this machine.
    """

    def build() -> nn.Module:
        model: nn.Module = _construct(configuration.models, "models", task.specification())
        return model

    device = resolve_device(configuration.device)
    if source_name(configuration.models["_target_"]) in OURS:
        check_fits(build, configuration.label, device, copies)
        return build_model(configuration, task, seed)
    with checked_as_it_is_built(configuration.label, device, copies):
        return build_model(configuration, task, seed)


def model_builder(configuration: Configuration, device: torch.device) -> Build:
    """What a measurement builds its models with."""

    def build(*sizes: Any, seed: int = 0) -> nn.Module:
        with kept_random_state(device):
            try:
                model = _seeded(configuration.models, seed, device, *sizes)
            except UserError as error:
                raise Refused(f"{error}{_how_it_is_built(configuration, error)}") from error
        return model.to(device)

    return build


def _set_by_preset(configuration: Configuration, error: UserError) -> str:
    """Which of the sizes that a model refuses are those that a preset sets for all models."""
    if configuration.task not in groups.choices("tasks"):
        return ""
    presets = groups.own_file("tasks", configuration.task).get("presets", {})
    sizes = presets.get(configuration.preset, {}).get("models", {})
    words = re.split(r"[\s,:;]+", str(error))
    of_preset = []
    for key, value in sizes.items():
        if f"{key}={value}" in words and configuration.models.get(key) == value:
            of_preset.append(f"models.{key}={value}")
    return f" ({' and '.join(of_preset)} is of preset {configuration.preset})" if of_preset else ""


def _how_it_is_built(configuration: Configuration, error: UserError) -> str:
    """What tells somebody who gives a sequence model to a task of memories that it takes others."""
    phrases = ("positional argument", "multiple values")
    if configuration.takes is None or not any(phrase in str(error) for phrase in phrases):
        return ""
    return f"; task '{configuration.task}' takes models like those of models/{configuration.takes}/"


def _construct(node: Mapping[str, Any], group: str, *positional: Any) -> Any:
    arguments = {key: value for key, value in node.items() if key != "_target_"}
    loaded = load_subclass(node["_target_"], group)
    if group == "tasks" and source_name(node["_target_"]) not in OURS:
        refuse_missing_settings(arguments, node["_target_"])
    if group == "models" and source_name(node["_target_"]) not in OURS:
        refuse_what_is_missing(arguments, node["_target_"], len(positional))
        refuse_other_sequences(node["_target_"], *positional)
    has_tokens = all(getattr(argument, "vocabulary", None) is not None for argument in positional)
    ours = source_name(node["_target_"]) in OURS
    with (
        nullcontext() if ours else settings_of_others(node["_target_"]),
        _mistakes_in_sentences(node, group, has_tokens),
    ):
        return loaded(*positional, **arguments)


def load_subclass(target: str, group: str) -> type:
    """The class of a task (group "tasks") or model ("models").

    Raises:
        UserError: there is no such class, or it is no task or no model.
    """
    loaded = load_class(target)
    kind, bases, name = KINDS[group]
    if not issubclass(loaded, bases):
        page = {"models": "docs/guests.md", "tasks": "docs/add_a_task.md"}[group]
        raise UserError(
            f"{group}._target_={target} is no {kind}: a {kind} derives from {name}, as {page} shows"
        )
    return loaded


@contextmanager
def _mistakes_in_sentences(
    node: Mapping[str, Any], group: str, has_tokens: bool = True
) -> Iterator[None]:
    """What a task or a model refuses is a sentence for the user."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{group} ({node['_target_']}): {error}") from error
    except OverflowError as error:
        raise UserError(
            f"{group} ({node['_target_']}): a number is too large to count with ({error}): give a "
            "smaller one"
        ) from error
    except (MemoryError, RuntimeError) as error:
        if group != "tasks" or not is_out_of_memory(error):  # of a model it is a row with its cause
            raise
        raise UserError(
            f"tasks ({node['_target_']}): {describe_memory_error(error)}", RUN_FAILED
        ) from error
    except TypeError as error:  # in Python's words
        raise UserError(
            f"{group} ({node['_target_']}): {way_on(error, group, node, has_tokens)}"
        ) from error
    except Exception as error:
        # A library may put the refusal of a value into an exception of its own.
        if not isinstance(error.__cause__, ValueError):
            raise
        given = ", ".join(f"{key}={value}" for key, value in node.items() if key != "_target_")
        refusal = str(error.__cause__).rstrip(".")
        raise UserError(
            f"{group} ({node['_target_']}): {refusal}; it was built with {given}"
        ) from error
