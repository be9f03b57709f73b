"""From command-line words to a checked configuration, with Hydra's groups and strictness.

``tasks`` and ``models`` are config groups because the folders of that name hold one YAML file
beside each task and each model: dropping a file in is the whole registration.
"""

from __future__ import annotations

import pickle
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bench.config.automatic import settle
from bench.config.external import kind_of, use_external_model
from bench.config.groups import (
    DESCRIPTIVE,
    GROUPS,
    GUEST,
    ONE_OF_YOUR_OWN,
    check_class,
    choices,
    entrants,
    model_groups,
    own_file,
    task_from_outside,
)
from bench.config.hints import hint
from bench.config.limits import check_counts, check_sizes
from bench.config.outside_tasks import use_task_from_outside
from bench.config.problems import first_problem_in_a_sentence
from bench.config.settings import Configuration
from bench.config.source_files import class_name, places_of, quoted, use_named
from core import words as grammar
from core.errors import UserError, nearest
from core.files import ROOT

SINGULAR = {"tasks": "task", "models": "model", "preset": "preset"}


@lru_cache(maxsize=256)  # asked for every run that is composed
def models_of(task: str) -> str:
    """The group that a task's models come from: "models", or what its YAML file ``takes``."""
    return str(group_file("tasks", task).get("takes", "models"))


def group_file(group: str, name: str) -> dict[str, Any]:
    """The whole file of a task or model, with what it takes over from another by ``defaults``."""
    return dict(load_groups({group: name})[group])


def compose(words: Sequence[str]) -> Configuration:
    """The configuration that command-line words such as ``tasks=regbench seed=1`` ask for.

    Raises:
        UserError: a word that cannot be parsed, an unknown task, model, preset or key, or a value
            of the wrong kind.
    """
    given = _given(words)
    values = {key: value for key, value in given.items() if key not in GROUPS}
    chosen = _chosen(given, values)
    external = values.get("models._target_")
    tree = _tree(chosen, values, external)
    task, model = tree["tasks"], tree["models"]
    settle(task)
    for key, why in void_settings(values, task).items():
        raise UserError(f"{key}={values[key]} has no effect {why}")
    check_counts(_constructor_arguments(task), "tasks")
    if external is None:  # a class from elsewhere may mean something else by these names
        check_sizes(model)
        check_counts(_constructor_arguments(model), "models")
    configuration = _configuration(tree, chosen)
    if configuration.store.exists() and not configuration.store.is_dir():
        raise UserError(f"store={configuration.store} is a file: the store is a folder")
    return configuration


def _given(words: Sequence[str]) -> dict[str, Any]:
    """What the words set, key by key, with the class of ``models=package.Class`` by its key; of
    ``models=./net.py:Class`` the file is noted, and its path left out."""
    given: dict[str, Any] = {one.key_or_group: one.value() for one in parse(words)}
    model = str(given.get("models"))
    if model.startswith(GUEST):
        raise UserError(
            f"models={model} adds a model to the contenders of a sweep or a figure, and "
            f"one is run here: models={model[1:]}"
        )
    if "." in model:
        given["models._target_"] = given.pop("models")
    if isinstance(target := given.get("models._target_"), str):
        given["models._target_"] = use_named(target)
    if isinstance(task := given.get("tasks"), str) and "." in task:
        given["tasks"] = use_task_from_outside(task)
    return given


def _chosen(given: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """The file of each group; of the models none where a class from elsewhere is named."""
    groups = {k: v for k, v in given.items() if k in GROUPS and k != "models"}
    chosen = {key: _checked_choice(key, value) for key, value in groups.items()}
    for plural, singular in SINGULAR.items():
        if singular in values and singular != plural:
            raise UserError(f"'{singular}=' is written {plural}={values[singular]}")
    if "tasks" not in chosen:
        raise UserError(f"choose a task with tasks=NAME; tasks: {', '.join(choices('tasks'))}")
    group = models_of(chosen["tasks"])
    if "models" in given:
        chosen["models"] = _checked_model(given["models"], group, chosen["tasks"])
    elif "models._target_" not in values:
        raise UserError(f"choose a model with models=NAME; {group}: {', '.join(choices(group))}")
    return chosen


def _tree(chosen: dict[str, str], values: Mapping[str, Any], external: Any) -> dict[str, Any]:
    """All settings: of the files, over them the preset's, the protocol's, and those given."""
    group = models_of(chosen["tasks"])
    tree = load_groups(chosen, group)
    if external is not None:
        use_external_model(tree, str(external))
    task, preset = tree["tasks"], tree["preset"]["name"]
    blocks = task.get("presets", {})
    if preset not in blocks:
        raise UserError(
            f"task '{chosen['tasks']}' has no preset '{preset}'; it has: {', '.join(blocks)}"
        )
    _merge(tree, tree["preset"].get("sweep", {}), "sweep")
    _merge(tree, task.get("sweep", {}), "sweep")
    _merge_block(tree, blocks[preset])
    protocol = values.get("tasks.protocol", task.get("protocol"))
    _merge_block(tree, task.get("protocols", {}).get(str(protocol), {}))
    if values.get("training.epochs") is not None and "training.steps" not in values:
        tree["training"]["steps"] = None  # the preset's steps would win over the epochs asked for
    for key, value in values.items():
        if group != "models" and key.startswith("training.") and key != "training.threads":
            raise UserError(
                f"'{key}' is about trainings by the engine, and {chosen['tasks']} measures what "
                "it builds itself: its own settings are called tasks.KEY and models.KEY"
            )
        _assign(tree, key, value)
    if not tree["sweep"]["models"] and group == "models":
        tree["sweep"]["models"] = entrants(chosen["tasks"], preset)
    return tree


def _configuration(tree: Mapping[str, Any], chosen: Mapping[str, str]) -> Configuration:
    task, model = tree["tasks"], tree["models"]
    name = class_name(model["_target_"])
    with first_problem_in_a_sentence():
        return Configuration(
            task=chosen["tasks"],
            model=chosen.get("models", name),
            label=model.get("card", {}).get("label", name),
            preset=tree["preset"]["name"],
            tasks=_constructor_arguments(task),
            models=_constructor_arguments(model),
            takes=task.get("takes"),
            trained_on=task.get("trained_on"),
            needs=task.get("needs", ()),
            locations=task.get("locations", ()),
            source_files=places_of(task["_target_"], model["_target_"]),
            **{k: tree[k] for k in ("seed", "device", "store", "tracking", "committed")},
            training=tree["training"],
            sweep=tree["sweep"],
        )


def void_settings(given: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, str]:
    """Settings that another one makes void, and why: nothing reads them.

    ``card.only_with`` of a task's YAML file says for a key which values of others it is read with.

    Args:
        given: dotted keys and their values.
        task: the task's YAML file, with its values.
    """
    found = {}
    for one, other in (("steps", "epochs"), ("warmup_steps", "warmup_fraction")):
        first, second = (given.get(f"training.{name}") for name in (one, other))
        if first is not None and second is not None:
            found[f"training.{other}"] = f"beside training.{one}={first}: give one of them"
    for key, conditions in task.get("card", {}).get("only_with", {}).items():
        for other, allowed in conditions.items():
            if given.get(f"tasks.{key}") is not None and task[other] not in allowed:
                wanted = f"it is read with tasks.{other}={' or '.join(allowed)}"
                found[f"tasks.{key}"] = f"with tasks.{other}={task[other]}: {wanted}"
    return found


def training_configuration(configuration: Configuration) -> Configuration:
    """The configuration whose training a task evaluates: its own, or that of another task.

    A task with ``trained_on: NAME`` in its YAML file builds on the file of NAME (``defaults:
    [NAME, _self_]``) and has all its arguments, so that the training is the same run.
    """
    name = configuration.trained_on
    if name is None:
        return configuration
    theirs = load_groups({"tasks": name})["tasks"]
    arguments = {k: configuration.tasks[k] for k in _constructor_arguments(theirs)}
    return configuration.model_copy(
        update={
            "task": name,
            "trained_on": None,
            "needs": tuple(theirs.get("needs", ())),
            "tasks": {**arguments, "_target_": theirs["_target_"]},
            "locations": tuple(theirs.get("locations", ())),
        }
    )


def parse(words: Sequence[str]) -> list[Override]:
    """Parse ``key=value`` words by Hydra's grammar; sweeps, ``+key``, ``~key`` and ``${...}`` are
    refused."""
    parsed = []
    for word in map(quoted, words):
        try:
            override = _parsed(grammar.with_home_quoted(word))
        except (HydraException, RecursionError, ValueError):  # nested or long beyond Python's own
            raise UserError(f"cannot read '{_shortened(word)}': {_how_to_write(word)}") from None
        if override.is_add() or override.is_delete() or override.is_sweep_override():
            raise UserError(
                f"'{word}' adds, deletes or lists values: here one value is set for one known "
                "key, written key=value; several settings are tried by bench.sweep. "
                f"If that is one value, {_how_to_write(word)}"
            )
        if "${" in word:
            raise UserError(
                f"'{word}' refers to another value by ${{…}}, which is not looked up here: write "
                "the value itself, or let the shell put it in"
            )
        parsed.append(override)
    return parsed


@lru_cache(maxsize=4096)  # a search composes hundreds of times, mostly of the same words
def _parsed(word: str) -> Override:
    return OverridesParser.create().parse_override(word)


def _shortened(word: str) -> str:
    return word if len(word) <= 100 else f"{word[:100]}…"


def _how_to_write(word: str) -> str:
    """What the word would be as a setting whose value is plain text."""
    key, equals, value = word.partition("=")
    if not equals or not key.replace(".", "").replace("_", "").isalnum():
        return "settings are written key=value, for example seed=1"
    ends = {"[": "]", "{": "}"}.get(value[:1], "")
    closing = "" if value.endswith(ends) else f"a list or mapping ends in {ends}; elsewhere "
    quoted = shlex.quote(_shortened(grammar.word(key, value)))
    return f"{closing}quotes keep characters such as ( [ {{ , : ' in it as they are: {quoted}"


def load_groups(
    chosen: Mapping[str, str], group: str = "models", root: Path = ROOT
) -> dict[str, Any]:
    """The main file of the checkout ``root`` with the chosen file of each group under its name;
    models are of ``group``."""
    loaded = dict(_load(root))
    for name, file in chosen.items():
        place = group if name == "models" else name
        # Hydra puts defaults together; a file without them is read as it lies, in a tenth of the
        # time, which a plan of all figures feels.
        own = own_file(place, file) if root == ROOT else {"defaults": []}
        below = f"{group}/" if place != name else ""
        loaded[name] = own if "defaults" not in own else _load(root, name, below + file)[name]
        check_class(place, file, loaded[name])
    return pickle.loads(pickle.dumps(loaded))  # a deep copy, ten times as fast as copy's


# A file that is edited meanwhile must not split one sweep in two. Files know nothing of each other,
# so each is read once, however many tasks and models a process puts together.
@lru_cache(maxsize=256)
def _load(root: Path, group: str | None = None, name: str | None = None) -> dict[str, Any]:
    """``bench/config/config.yaml``, with one file of a group."""
    add = "" if group == "preset" else "+"  # the primary configuration has a preset of its own
    words = [f"{add}{group}={name}"] if group else []
    search_path = f"hydra.searchpath=[file://{root}]"
    # An older checkout, whose results are compared with today's, has the file in its engine.
    places = (root / "bench" / "config", root / "settings", root / "bench")
    folder = next(place for place in places if (place / "config.yaml").is_file())
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(folder)):
            loaded = hydra_compose("config", overrides=[*words, search_path])
        tree = OmegaConf.to_container(loaded, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        first = str(error).splitlines()[0]
        raise UserError(f"a configuration file cannot be read: {first}") from None
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}


def _checked_choice(group: str, name: Any) -> str:
    valid = choices(group)
    if name in valid or (group == "tasks" and task_from_outside(str(name))):
        return str(name)
    kind = SINGULAR.get(group, "model")
    if isinstance(name, list):
        raise UserError(f"{group}={name} is a list, but one {kind} is run here; see bench.sweep")
    hint = nearest(str(name), valid)
    own = "" if kind == "preset" else ONE_OF_YOUR_OWN
    more = own if hint.startswith("valid") else " python -m bench lists them all"
    raise UserError(f"there is no {kind} '{name}': {hint}{more}")


def _checked_model(name: Any, group: str, task: str) -> str:
    """A model that the task takes; of the wrong kind is another mistake than unknown."""
    if name == "all":
        raise UserError("one model is run here; bench.sweep without models= runs a task's own list")
    if name in choices(group):
        return str(name)
    elsewhere = [other for other in model_groups() if other != group and name in choices(other)]
    if elsewhere:
        lies = {own: "models/" if own == "models" else f"models/{own}/" for own in model_groups()}
        raise UserError(
            f"models={name} lies in {lies[elsewhere[0]]}, and {task} takes those of {lies[group]}: "
            f"{', '.join(choices(group))}"
        )
    return _checked_choice(group, name)


def _merge_block(tree: dict[str, Any], block: Mapping[str, Any]) -> None:
    for section, values in block.items():
        if section == "models":  # one block serves all models: each takes the keys it has
            model = tree["models"]
            model.update({key: value for key, value in values.items() if key in model})
        else:
            _merge(tree, values, section)


def _merge(tree: dict[str, Any], values: Mapping[str, Any], section: str) -> None:
    for key, value in values.items():
        if key not in tree[section]:
            raise UserError(
                f"the task's configuration file sets the unknown key '{section}.{key}': "
                + nearest(key, tree[section])
            )
        tree[section][key] = value


def _assign(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set one dotted key that must exist, keeping the kind of its value."""
    *path, last = key.split(".")
    node: Any = tree
    for depth, part in enumerate(path):
        open_keys = _settable(node, top=not depth) if isinstance(node, dict) else []
        node = node[part] if part in open_keys else None
    if not isinstance(node, dict) or last not in _settable(node, top=not path):
        raise UserError(f"there is no setting '{key}': {hint(key, _all_keys(tree))}")
    old = node[last]
    if isinstance(old, dict) and not path:
        example = f"{key}.{_settable(old)[0]}"
        raise UserError(f"'{key}' is a group of settings: set one of them, such as {example}=…")
    expected = kind_of(old)
    if expected and (value is not None or last == "_target_") and kind_of(value) != expected:
        raise UserError(f"{key}={value!r} is not a {expected}, as its default {old!r} is")
    if isinstance(old, int) and isinstance(value, float):
        raise UserError(f"{key}={value!r} is not a whole number, as its default {old!r} is")
    node[last] = float(value) if isinstance(old, float) and kind_of(value) == "number" else value


def _settable(node: Mapping[str, Any], top: bool = False) -> list[str]:
    hidden = ("preset", *(name for name in DESCRIPTIVE if name != "sweep"))
    return [key for key in node if key not in (*hidden, *(() if top else ("sweep",)))]


def _all_keys(tree: Mapping[str, Any]) -> Iterator[str]:
    for section in _settable(tree, top=True):
        if isinstance(tree[section], dict):
            yield from (f"{section}.{key}" for key in _settable(tree[section]))
        else:
            yield section
    yield from GROUPS


def _constructor_arguments(node: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in DESCRIPTIVE}
