"""The tasks, models and presets that there are, and who contends where: their YAML files, read
without a configuration.

Example: ``contenders("regbench", "laptop")`` lists the models whose cards name RegBench. A guest,
``models=+NAME``, ``models=+package.Class`` or ``models=+./net.py:Class`` on a command line, takes
part beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from yaml import YAMLError

from bench.config.source_files import class_name, refuse_files_of_one_name, use_named
from bench.config.yaml_files import fault_of_yaml, read_yaml
from core.errors import UserError, nearest
from core.files import ROOT, when_changed

GROUPS = {
    "tasks": ROOT / "tasks",
    "models": ROOT / "models",
    "preset": ROOT / "bench" / "config" / "preset",
}
PRESETS = ("smoke", "laptop", "gpu", "paper")  # the smallest first
# Keys of a task's or model's YAML that describe it; the rest are constructor arguments.
DESCRIPTIVE = (
    "card",
    "presets",
    "protocols",
    "sweep",
    "takes",
    "trained_on",
    "needs",
    "locations",
    "defaults",
)
# Keys of a model's card; those of the last line are read by the tests of models and memories alone.
MODEL_CARD = (
    *("label", "source", "note", "contends", "keeps_2048", "colour", "line", "marker"),
    *("vmap", "unused_parameters", "state", "order", "calls", "gradients"),
)


def folder_of(group: str) -> Path:
    """Where the YAML files of a group lie; a folder below models/ is a group of its own."""
    return GROUPS.get(group) or GROUPS["models"] / group


def choices(group: str) -> list[str]:
    """The names that can be chosen in a group: the YAML files of its folder."""
    folder = folder_of(group)
    return list(_names(folder, when_changed(folder)))


def model_groups() -> list[str]:
    """ "models", and the folders below it with models that only some tasks take."""
    folder = GROUPS["models"]
    return ["models", *(name for name in _folders(folder, when_changed(folder)) if choices(name))]


# A plan of thousands of runs asks for the names at each. ``changed``, the time at which the folder
# was, makes what is remembered of an older state of it another entry.
@lru_cache(maxsize=64)
def _names(folder: Path, changed: int) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


@lru_cache(maxsize=16)
def _folders(folder: Path, changed: int) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))


def card(group: str, name: str) -> dict[str, Any]:
    """The card of a task, model or preset: its label, source and note, or description.

    Raises:
        UserError: the file is damaged, or its card is not a list of keys and values, or of a model
            has a key that nobody reads.
    """
    plain = own_file(group, name)
    content = _mapping(plain.get("card", plain), group, name, "card")
    if group not in ("tasks", "preset") and "card" in plain:
        for key in content.keys() - MODEL_CARD:
            hint = nearest(key, MODEL_CARD)
            raise UserError(f"the card of {group}/{name}.yaml has the unknown key '{key}': {hint}")
    return content


def check_class(group: str, name: str, content: dict[str, Any]) -> None:
    """Refuse a task's or a model's file, with what it takes over, that names no class.

    Raises:
        UserError: it has no ``_target_``.
    """
    if group != "preset" and not isinstance(content.get("_target_"), str):
        raise UserError(
            f"{group}/{name}.yaml names no class: give it a line _target_: package.module.Class"
        )


_tasks_from_outside: dict[str, dict[str, Any]] = {}
_files_from_outside: dict[str, dict[str, str]] = {}  # of each task: key -> where it is written


def add_task_from_outside(
    name: str, content: Mapping[str, Any], files: Mapping[str, str] = MappingProxyType({})
) -> None:
    """A task that has no file in tasks/ is known by this name from now on.

    Args:
        content: what such a file would hold.
        files: key -> where it is written, as a sentence names it.
    """
    _files_from_outside[name] = dict(files)
    if _tasks_from_outside.get(name) != content:
        _tasks_from_outside[name] = dict(content)
        own_file.cache_clear()


def task_from_outside(name: str) -> dict[str, Any] | None:
    """What is known of a task that was added; None for those of this project, and for others."""
    return _tasks_from_outside.get(name)


def file_of_task(name: str, key: str) -> str:
    """Where a key of a task's settings is written, as a sentence names it."""
    return _files_from_outside.get(name, {}).get(key, f"tasks/{name}.yaml")


def task_card(name: str) -> dict[str, Any]:
    """The card of a task of this project, or of one that was added; empty for one not known."""
    is_known = name in choices("tasks") or name in _tasks_from_outside
    return card("tasks", name) if is_known else {}


@lru_cache(maxsize=256)
def own_file(group: str, name: str) -> dict[str, Any]:
    """The file of a task, model or preset as it lies, without what it takes over from another; of a
    task that was added what is known of it.

    Raises:
        UserError: the file is damaged.
    """
    outside = _tasks_from_outside.get(name) if group == "tasks" else None
    if outside is not None:
        return outside
    try:
        plain = read_yaml(folder_of(group) / f"{name}.yaml")
    except (YAMLError, UnicodeDecodeError) as error:
        raise UserError(fault_of_yaml(error, f"{group}/{name}.yaml")) from None
    return _mapping(plain, group, name)


def _mapping(content: Any, group: str, name: str, key: str = "") -> dict[str, Any]:
    if not isinstance(content, dict):
        place = f"the {key} of {group}/{name}.yaml" if key else f"{group}/{name}.yaml"
        raise UserError(
            f"{place} is {content!r:.60}, and should hold keys with values, as KEY: VALUE"
        )
    return {str(part): value for part, value in content.items()}


GUEST = "+"  # before a model that takes part beside the contenders
# Where no name is near.
MOST_LISTED = 12  # names in a sentence
THE_LIST = "python -m bench lists them all"
ONE_OF_YOUR_OWN = "; one of your own is package.Class, or ./FILE.py:Class"
NOT_COMMITTED = "not committed"  # how a guest is marked wherever it is shown
CALLED_OTHERWISE = {"transformer": "gpt2", "attention": "gpt2", "softmax_attention": "gpt2"}
_guests: ContextVar[tuple[str, ...]] = ContextVar("guests", default=())


def nearest_choice(name: str, valid: Sequence[str], of_your_own: bool = True) -> str:
    """A clause that names the model, task or preset nearest to a name that is none, and says where
    the others are listed; of few it lists all.

    Args:
        of_your_own: whether a class of the user's own may stand in its place.
    """
    hint = nearest(name, valid)
    if (other := CALLED_OTHERWISE.get(name.lower())) in valid:
        hint = f"did you mean '{other}'?"
    if not hint.startswith("valid"):
        return f"{hint} {THE_LIST}" if of_your_own else hint
    if len(valid) > MOST_LISTED:
        (closest,) = get_close_matches(name.lower(), valid, n=1, cutoff=0) or [valid[0]]
        hint = f"the nearest is '{closest}', and {THE_LIST}"
    elif close := get_close_matches(name.lower(), valid, n=1, cutoff=0.4):
        hint = f"did you mean '{close[0]}'? {hint}"
    return hint + (ONE_OF_YOUR_OWN if of_your_own else "")


def listed_choices(group: str) -> str:
    """The names of a group in a sentence, or the first of many."""
    names = choices(group)
    if len(names) <= MOST_LISTED:
        return f"{group}: {', '.join(names)}"
    return f"{group}: {', '.join(names[:3])} and {len(names) - 3} more, {THE_LIST}"


@contextmanager
def with_guests(models: Iterable[str]) -> Iterator[None]:
    """Guests, by name, as package.Class or as ./net.py:Class, until the block ends; no others.

    Raises:
        UserError: there is no such model, or its class cannot be told from another model.
    """
    named = tuple(models)
    refuse_files_of_one_name(named)
    outside_models = tuple(use_named(model) for model in named)
    for model in outside_models:
        if "." not in model and model not in choices("models"):
            hint = nearest_choice(model, choices("models"))
            raise UserError(f"models={GUEST}{model}: there is no model '{model}': {hint}")
    names = [record_name(model) for model in outside_models]
    taken = choices("models")
    for model, name in zip(outside_models, names, strict=True):
        if names.count(name) > 1 or (name != model and name in taken):
            raise UserError(
                f"models={GUEST}{model}: results of '{name}' could not be told from those of "
                "another model of that name: give the class a name of its own"
            )
    token = _guests.set(outside_models)
    try:
        yield
    finally:
        _guests.reset(token)


def guests() -> tuple[str, ...]:
    """The guests, as records call them."""
    return tuple(map(record_name, _guests.get()))


def record_name(model: str) -> str:
    """What records call a model of a command line: of package.Class the class."""
    return class_name(model)


_labels: dict[str, str] = {}  # of classes that say what they are called, by their names


def note_label(name: str, label: str) -> None:
    """What a guest is called beside its rivals, as its class says."""
    _labels[name] = label


def label_of_guest(name: str) -> str:
    """What a model of another package is called: its class, unless that says otherwise."""
    return _labels.get(name, name)


def contenders(task: str, preset: str) -> tuple[str, ...]:
    """The models that take part in a task, as records call them: those whose cards say so, and
    guests. A card says from which preset on: ``contends: {regbench: laptop}`` leaves out smoke. For
    a part of a task a card may say another: "regbench.table3" has the models of regbench, but for
    those whose cards have a word of their own for it, as ``contends: {regbench.table3: gpu}``.

    Raises:
        UserError: a card is damaged, or names a task or a preset that there is not.
    """
    return (*_by_cards(task, preset), *guests())


def default_models(task: str, preset: str) -> list[str]:
    """The contenders as a command line names them: ``["gpt2", "+package.Class"]``.

    Raises:
        UserError: a guest contends by its card.
    """
    by_cards = _by_cards(task, preset)
    for model in _guests.get():
        if model in by_cards:
            raise UserError(
                f"{model} takes part in {task} at preset {preset} already: leave "
                f"models={GUEST}{model} out"
            )
    return [*by_cards, *(f"{GUEST}{model}" for model in _guests.get())]


@lru_cache(maxsize=256)
def _by_cards(task: str, preset: str) -> tuple[str, ...]:
    whole = task.partition(".")[0]
    presets = PRESETS[: PRESETS.index(preset) + 1]
    names = []
    for name in choices("models"):
        smallest_preset = _contends(name)
        if smallest_preset.get(task, smallest_preset.get(whole)) in presets:
            names.append(name)
    return tuple(names)


@lru_cache(maxsize=256)
def _contends(name: str) -> dict[str, str]:
    """The tasks, or parts of them, that a model contends in, and the smallest preset of each."""
    entry = card("models", name).get("contends", {})
    preset_by_task = _mapping(entry, "models", name, "key 'contends' in the card")
    for task, preset in preset_by_task.items():
        whole, _, part = task.partition(".")
        if whole not in choices("tasks"):
            hint = nearest(task, choices("tasks"))
            raise UserError(f"models/{name}.yaml contends in '{task}', which is no task: {hint}")
        parts = card("tasks", whole).get("parts", []) if part else []
        if part and part not in parts:
            hint = nearest(task, [whole, *(f"{whole}.{inner}" for inner in parts)])
            raise UserError(f"models/{name}.yaml contends in '{task}', no part of a task: {hint}")
        if preset not in PRESETS:
            raise UserError(
                f"models/{name}.yaml contends in {task} from the preset {preset!r} on, which is "
                f"none of {', '.join(PRESETS)}"
            )
    return preset_by_task
