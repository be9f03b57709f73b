"""Tasks of other packages and files: ``tasks=package.Task``, ``tasks=./task.py:Task``.

What the YAML file of one of our tasks says is found in the class: the settings in the signature of
its constructor, and ``card``, ``presets`` and ``sweep`` in attributes of these names. A YAML file
beside it, called like the class or like its file, says the same and wins. All of that may be left
out. Results are called by the name of the class.
"""

from __future__ import annotations

import copy
import inspect
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from yaml import YAMLError

from bench.config.card_attributes import card_of_class
from bench.config.external import kind_of, load_class
from bench.config.groups import PRESETS, add_task_from_outside, card, choices, task_from_outside
from bench.config.source_files import class_name, use_named
from bench.config.yaml_files import fault_of_yaml, read_yaml
from core.arguments import described as in_words
from core.errors import UserError, nearest
from core.files import write_atomically
from core.reading import Kind

# Keys of a YAML file that a task from outside may have beside its settings, and as attributes.
DESCRIBED = ("card", "presets", "protocols", "sweep", "needs", "locations")
TASKS = "tasks"  # folder of a store: the cards of tasks from outside, one file each
LONGEST_LABEL = 80
DIRECTIONS = ("maximise", "minimise")  # of a headline
NumberKind = Literal["share", "loss", "error", "count", "change", "real"]  # of core.statistics

# What a preset means for a task that says nothing of it: the sizes of the smaller tasks here.
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "models": {"width": 32, "layers": 2, "heads": 2},
        "training": {"steps": 200, "batch_size": 32, "lr": 3.0e-3},
    },
    "laptop": {
        "models": {"width": 64, "layers": 2, "heads": 2},
        "training": {"steps": 2000, "batch_size": 32, "lr": 3.0e-3},
    },
    "gpu": {
        "models": {"width": 256, "layers": 4, "heads": 4},
        "training": {"steps": 20000, "batch_size": 64, "lr": 1.0e-3},
    },
    "paper": {
        "models": {"width": 512, "layers": 8, "heads": 8},
        "training": {"steps": 50000, "batch_size": 64, "lr": 1.0e-3},
    },
}
VALIDATIONS = 20  # of a training beyond smoke whose preset says nothing of validate_every
GENERATED = "tasks.generated"  # the module of the base class that draws data and has a loss
# Beyond smoke a row may get a rank: the best of three rates may lie inside, and where it lies on an
# edge the grid grows.
SWEEP: dict[str, Any] = {
    "models": ["memory_mosaic", "gpt2", "lstm"],
    "search_space": {"training.lr": [1.0e-3, 3.0e-3, 1.0e-2]},
    "sampler": "grid",
    "n_trials": 3,
    "extend": 2,
}
SWEEP_AT_SMOKE: dict[str, Any] = {
    "search_space": {"training.lr": [1.0e-3, 3.0e-3]},
    "n_trials": 2,
    "extend": 0,
}


def use_task_from_outside(place: str) -> str:
    """Import the class at a place, and make its settings known under the name of the class.

    Args:
        place: ``package.module.Task`` or ``FILE.py:Task``.

    Raises:
        UserError: there is no such class, results could not be told from those of a task of ours,
            or what it or the file beside it says cannot be used.
    """
    if place.endswith(".py"):
        raise UserError(f"'{place}' names a file, and no class in it: give {place}:CLASS")
    target = use_named(place)
    loaded = load_class(target)
    name = class_name(target)
    _check_name(name, place)
    # Others have it of their constructor, and are asked for it when they are made.
    headline = inspect.getattr_static(loaded, "headline", None)
    stated = headline is not None and not hasattr(headline, "__get__")
    if stated and (fault := fault_of_headline(headline)):
        raise UserError(f"tasks ({target}): {fault}")
    settings = _settings(loaded, place)
    described = _attributes(loaded)
    files = dict.fromkeys(DESCRIBED, target)
    yaml_file = _file_beside(loaded)
    if yaml_file is not None:
        written = _read_yaml(yaml_file)
        for key in written.keys() - {*settings, *DESCRIBED}:
            hint = nearest(key, [*settings, *DESCRIBED])
            raise UserError(f"{yaml_file} has the key '{key}', which {name} does not take: {hint}")
        settings |= {key: value for key, value in written.items() if key in settings}
        described |= {key: value for key, value in written.items() if key in DESCRIBED}
        files |= dict.fromkeys(written, str(yaml_file))
    own_sweep = _mapping(described, "sweep", files)
    presets = _presets(_mapping(described, "presets", files), own_sweep)
    if unknown := sorted(presets.keys() - PRESETS):
        hint = nearest(unknown[0], PRESETS)
        raise UserError(f"{files['presets']} has the preset '{unknown[0]}': {hint}")
    first_line = (inspect.getdoc(loaded) or "").partition("\n")[0]
    label = card_of_class(loaded, target).get("label", name)
    usual = {"label": label, "note": first_line, "source": f"{target}, not of this project"}
    content = {
        **described,
        "_target_": target,
        "card": _with_range_of_loss({**usual, **_mapping(described, "card", files)}, loaded),
        "presets": presets,
        "sweep": {**SWEEP, **_with_whole_grid(own_sweep, SWEEP["sampler"])},
        **settings,
    }
    add_task_from_outside(name, content, files)
    return name


def _presets(own: Mapping[str, Any], own_sweep: Mapping[str, Any]) -> dict[str, Any]:
    """The default presets, and over them those of a task, each in the place of the whole default
    one, but for how often it is validated and the short sweep of smoke. That gives way to what the
    task's own sweep says, which holds at all presets."""
    at_smoke = {key: value for key, value in SWEEP_AT_SMOKE.items() if key not in own_sweep}
    if own_sweep.keys() & {"search_space", "n_trials"}:  # these belong together
        at_smoke = {key: at_smoke[key] for key in at_smoke.keys() & {"extend"}}
    presets: dict[str, Any] = copy.deepcopy({**SIZES, **own})
    sampler = own_sweep.get("sampler", SWEEP["sampler"])
    for preset, block in presets.items():
        if not isinstance(block, dict):  # what is wrong with it is said where it is used
            continue
        if preset == "smoke":
            block.setdefault("sweep", at_smoke)
        training, sweep = block.get("training"), block.get("sweep")
        if preset != "smoke" and isinstance(training, dict):
            steps = training.get("steps")
            if isinstance(steps, int):
                training.setdefault("validate_every", max(1, steps // VALIDATIONS))
        if isinstance(sweep, dict):
            block["sweep"] = _with_whole_grid(sweep, sampler)
    return presets


def _with_whole_grid(sweep: dict[str, Any], sampler: Any) -> dict[str, Any]:
    """A sweep's settings with all of its own grid as the number of trials, where it says none."""
    space = sweep.get("search_space")
    if "n_trials" in sweep or not isinstance(space, dict):
        return sweep
    if sweep.get("sampler", sampler) != "grid" or not all(
        isinstance(values, list | tuple) and values for values in space.values()
    ):
        return sweep
    return {**sweep, "n_trials": math.prod(map(len, space.values()))}


def _with_range_of_loss(content: dict[str, Any], loaded: type) -> dict[str, Any]:
    """The card of a class, which says of `loss` that it is none below 0 where the class has that of
    ``tasks.generated``, a cross-entropy or a mean square, and its own card says nothing of it."""
    definer = next((part for part in loaded.__mro__ if "loss" in vars(part)), None)
    numbers = content.get("numbers", {})
    if definer is None or definer.__module__ != GENERATED or not isinstance(numbers, dict):
        return content
    lists = [patterns for patterns in numbers.values() if isinstance(patterns, list)]
    if len(lists) < len(numbers) or any("loss" in patterns for patterns in lists):
        return content
    # First, since the first pattern that matches decides, and "*" is one.
    losses = ["loss", *numbers.get("loss", [])]
    return {**content, "numbers": {"loss": losses} | numbers | {"loss": losses}}


def _check_name(name: str, place: str) -> None:
    taken = {text.casefold() for task in choices("tasks") for text in (task, _label(task))}
    if name.casefold() in taken:
        raise UserError(
            f"results of '{place}' could not be told from those of the task {name} of this "
            "project: give the class a name of its own"
        )


def _label(task: str) -> str:
    return str(card("tasks", task).get("label", task))


def _attributes(loaded: type) -> dict[str, Any]:
    """What attributes of a class say in the place of a YAML file; of a mapping, keys of a base
    class that the class itself does not have are taken over."""
    described: dict[str, Any] = {}
    for part in reversed(loaded.__mro__):
        for key in DESCRIBED:
            value = vars(part).get(key)
            if isinstance(value, dict):
                described[key] = {**described.get(key, {}), **copy.deepcopy(value)}
            elif isinstance(value, list | tuple):
                described[key] = list(value)
    return described


def _settings(loaded: type, place: str) -> dict[str, Any]:
    """What the constructor takes, with its defaults."""
    try:
        parameters = inspect.signature(loaded).parameters.values()
    except ValueError:  # a class that is written in C may have none
        raise UserError(f"'{place}' does not say what its constructor takes") from None
    settings: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = None if parameter.default is parameter.empty else parameter.default
        plain = list(default) if isinstance(default, tuple) else default
        if plain is None or kind_of(plain):  # a class or function cannot be set by a word
            settings[parameter.name] = plain
    return settings


def fault_of_headline(headline: object) -> str | None:
    """What keeps a headline from being the one number of a table, in a sentence; None if nothing
    does.

    Args:
        headline: that of a class, or of a task that was made; None where there is none.
    """
    example = 'Metric("accuracy", "maximise") or Metric("loss", "minimise") of tasks.interface'
    if headline is None:
        return f"it has no headline, the metric that a table is ranked by: add headline = {example}"
    kinds = {(part.__module__, part.__name__) for part in type(headline).__mro__}
    if ("tasks.interface", "Metric") not in kinds:
        return f"its headline is {in_words(headline)}, and no Metric: give {example}"
    values = vars(headline)
    if unknown := sorted(values.keys() - {"name", "direction", "unit"}):
        return f"its headline has {unknown[0]}, which no table shows: give {example}"
    for key in ("name", "unit"):
        if not isinstance(values[key], str) or (key == "name" and not values[key]):
            return f"the {key} of its headline is {in_words(values[key])}: give {example}"
    if values["direction"] not in DIRECTIONS:
        return (
            f"the direction of its headline is {in_words(values['direction'])}: a table is ranked "
            f"by a metric to maximise or to minimise, so give {example}"
        )
    return None


def refuse_missing_settings(arguments: Mapping[str, Any], target: str) -> None:
    """Refuse a task whose constructor wants an argument that nobody gave.

    Raises:
        UserError: which is missing, and how it is given.
    """
    for name, parameter in inspect.signature(load_class(target)).parameters.items():
        takes_any = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not takes_any and arguments.get(name) is None:
            raise UserError(
                f"{class_name(target)} has no default for {name}: add tasks.{name}=VALUE"
            )


def _file_beside(loaded: type) -> Path | None:
    """The YAML file of a class: of its name, or of that of its file."""
    source = getattr(sys.modules.get(loaded.__module__), "__file__", None)
    if source is None:
        return None
    path = Path(source)
    candidates = (path.with_name(f"{loaded.__name__}.yaml"), path.with_suffix(".yaml"))
    return next((place for place in candidates if place.is_file()), None)


def _read_yaml(place: Path) -> dict[str, Any]:
    try:
        content = read_yaml(place, resolve=False)
    except (YAMLError, UnicodeDecodeError) as error:
        raise UserError(fault_of_yaml(error, str(place))) from None
    if not isinstance(content, dict):
        raise UserError(f"{place} should hold keys with values, as KEY: VALUE")
    content.pop("_target_", None)  # the class is the one that was named
    return {str(key): value for key, value in content.items()}


def _mapping(described: Mapping[str, Any], key: str, files: Mapping[str, str]) -> dict[str, Any]:
    value = described.get(key, {})
    if not isinstance(value, dict):
        raise UserError(f"{key} of {files[key]} is {value!r:.60}, and should hold keys with values")
    return value


class _Headline(BaseModel):
    name: str
    direction: Literal["maximise", "minimise"]
    unit: str = ""


class StoredCard(BaseModel):
    """What a board reads of a task from outside; other keys of a card are for our own tasks."""

    model_config = ConfigDict(extra="ignore")

    label: str = Field(min_length=1, max_length=LONGEST_LABEL)
    note: str = ""
    source: str = ""
    headline: _Headline | None = None
    predictors: list[str] | None = None
    numbers: dict[NumberKind, list[str]] | None = None


CARD = Kind(
    "card of a task",
    StoredCard,
    how="delete it, and give the command of one of the task's runs again to have it anew",
    most=2**16,
)


def keep_card(name: str, store: Path) -> None:
    """Write the card of a task from outside into a store, where its board finds it; nothing for a
    task of ours.

    Raises:
        UserError: the card holds something else than a card may.
    """
    content = task_from_outside(name)
    if content is None or name in choices("tasks"):
        return
    try:
        card_to_keep = StoredCard.model_validate(content["card"])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, ("card", *first["loc"])))
        raise UserError(f"{place} of the task {name} cannot be used: {first['msg']}") from None
    text = card_to_keep.model_dump_json(indent=1, exclude_none=True)
    path = store / TASKS / f"{name}.json"
    if not path.is_file() or path.read_text("utf-8") != text:
        write_atomically(path, text.encode())


def use_cards_of(store: Path) -> list[UserError]:
    """Make known which tasks from outside a store has records of, and how they are called. Nothing
    is imported.

    Returns:
        What is wrong with each card that cannot be read.
    """
    refused = []
    for path in sorted((store / TASKS).glob("*.json")):
        if path.stem in choices("tasks") or task_from_outside(path.stem):
            continue
        try:
            stored = CARD.read_json(path)
        except UserError as error:
            refused.append(error)
            continue
        add_task_from_outside(path.stem, {"card": stored.model_dump(exclude_none=True)})
    return refused
