"""All settings of a run as a tree: of the files, over them the preset's, the protocol's, and those
that somebody gave. The tree still has what describes a task or a model beside its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.config.automatic import settle
from bench.config.external import kind_of, use_external_model
from bench.config.files import copied, main_file, models_of, shared_file
from bench.config.groups import (
    DESCRIPTIVE,
    GROUPS,
    GUEST,
    PRESETS,
    choices,
    default_models,
    file_of_task,
    listed_choices,
    model_groups,
    nearest_choice,
    task_from_outside,
)
from bench.config.limits import check_counts, check_sizes
from bench.config.outside_tasks import use_task_from_outside
from bench.config.problems import hint
from bench.config.source_files import use_named
from core.errors import UserError, nearest

Tree = dict[str, Any]
SINGULAR = {"tasks": "task", "models": "model", "preset": "preset"}
TARGET = "models._target_"
SECTIONS = ("tasks", "models", "training", "sweep")  # of a preset in a task's file


def classes_noted(settings: Mapping[str, Any]) -> Tree:
    """The settings, with the class of ``models=package.Class`` by its key; of ``./net.py:Class``
    the place of the file is noted, and left out."""
    noted = {key: copied(value) for key, value in settings.items()}
    model = str(noted.get("models"))
    if model.startswith(GUEST):
        raise UserError(
            f"models={model} adds a model to the contenders of a sweep or a figure, and "
            f"one is run here: models={model[1:]}"
        )
    if "." in model:
        noted[TARGET] = noted.pop("models")
    if isinstance(target := noted.get(TARGET), str):
        noted[TARGET] = use_named(target)
    if isinstance(task := noted.get("tasks"), str) and "." in task:
        noted["tasks"] = use_task_from_outside(task)
    return noted


def tree_of(settings: Mapping[str, Any]) -> tuple[Tree, dict[str, str]]:
    """The checked tree, and the file that was chosen of each group: of the models none where a
    class from elsewhere is named.

    Raises:
        UserError: an unknown task, model, preset or key, or a value that cannot be used.
    """
    values = {key: value for key, value in settings.items() if key not in GROUPS}
    chosen = _files_chosen(settings, values)
    external = values.get(TARGET)
    tree = _tree(chosen, values, external)
    task, model = tree["tasks"], tree["models"]
    settle(task)
    for key, reason in void_settings(values, task).items():
        raise UserError(f"{key}={values[key]} has no effect {reason}")
    check_counts(_arguments(task), "tasks")
    if external is None:  # a class from elsewhere may mean something else by these names
        check_sizes(model)
        check_counts(_arguments(model), "models")
    return tree, chosen


def constructor_arguments(node: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a task's or a model's file that its constructor takes, with the class."""
    return {key: copied(value) for key, value in _arguments(node).items()}


def _arguments(node: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in DESCRIPTIVE}


def _files_chosen(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """The file of each group; of the models none where a class from elsewhere is named."""
    groups = {k: v for k, v in settings.items() if k in GROUPS and k != "models"}
    chosen = {key: _checked_choice(key, value) for key, value in groups.items()}
    for plural, singular in SINGULAR.items():
        if singular in values and singular != plural:
            raise UserError(f"'{singular}=' is written {plural}={values[singular]}")
    if "tasks" not in chosen:
        raise UserError(f"choose a task with tasks=NAME; {listed_choices('tasks')}")
    group = models_of(chosen["tasks"])
    if "models" in settings:
        chosen["models"] = _checked_model(settings["models"], group, chosen["tasks"])
    elif TARGET not in values:
        raise UserError(f"choose a model with models=NAME; {listed_choices(group)}")
    return chosen


def _tree(chosen: dict[str, str], values: Mapping[str, Any], external: Any) -> dict[str, Any]:
    """All settings: of the files, over them the preset's, the protocol's, and those given."""
    group = models_of(chosen["tasks"])
    tree = main_file()
    tree["preset"] = shared_file("preset", chosen.get("preset", PRESETS[0]))
    tree["tasks"] = dict(shared_file("tasks", chosen["tasks"]))
    if "models" in chosen:
        tree["models"] = dict(shared_file(group, chosen["models"]))
    if external is not None:
        use_external_model(tree, str(external))
    task, preset = tree["tasks"], tree["preset"]["name"]
    blocks = task.get("presets", {})
    if preset not in blocks:
        raise UserError(
            f"task '{chosen['tasks']}' has no preset '{preset}'; it has: {', '.join(blocks)}"
        )
    name = chosen["tasks"]
    place = file_of_task(name, "presets")
    in_preset = f"the preset '{preset}' in {place}"
    _merge(tree, tree["preset"].get("sweep", {}), "sweep", f"preset/{preset}.yaml")
    _merge(tree, task.get("sweep", {}), "sweep", file_of_task(name, "sweep"))
    _merge_block(tree, blocks[preset], in_preset)
    protocol = str(values.get("tasks.protocol", task.get("protocol")))
    protocols = task.get("protocols", {})
    in_protocol = f"the protocol '{protocol}' in {file_of_task(name, 'protocols')}"
    _merge_block(tree, protocols.get(protocol, {}), in_protocol)
    if values.get("training.epochs") is not None and "training.steps" not in values:
        tree["training"]["steps"] = None  # the preset's steps would win over the epochs asked for
    for key, value in values.items():
        if group != "models" and key.startswith("training.") and key != "training.threads":
            raise UserError(
                f"'{key}' is about trainings by the engine, and {chosen['tasks']} measures what "
                "it builds itself: its own settings are called tasks.KEY and models.KEY"
            )
        _assign(tree, key, value)
    training = tree["training"]
    if task_from_outside(name) and training["steps"] is None and training["epochs"] is None:
        raise UserError(
            f"{in_preset} has no training.steps: a preset that is given has nothing of the default "
            "one of its name; add steps to its training, or training.steps=N"
        )
    if not tree["sweep"]["models"] and group == "models":
        tree["sweep"]["models"] = default_models(chosen["tasks"], preset)
    return tree


def void_settings(settings: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, str]:
    """Settings that another one makes void, and why: nothing reads them.

    ``card.only_with`` of a task's YAML file says for a key which values of others it is read with.

    Args:
        settings: dotted keys and their values.
        task: the task's YAML file, with its values.
    """
    reasons = {}
    for first_name, other in (("steps", "epochs"), ("warmup_steps", "warmup_fraction")):
        first, second = (settings.get(f"training.{name}") for name in (first_name, other))
        if first is not None and second is not None:
            reasons[f"training.{other}"] = f"beside training.{first_name}={first}: give one of them"
    for key, conditions in task.get("card", {}).get("only_with", {}).items():
        for other, allowed in conditions.items():
            if settings.get(f"tasks.{key}") is not None and task[other] not in allowed:
                wanted = f"it is read with tasks.{other}={' or '.join(allowed)}"
                reasons[f"tasks.{key}"] = f"with tasks.{other}={task[other]}: {wanted}"
    return reasons


def _checked_choice(group: str, name: Any) -> str:
    valid = choices(group)
    if name in valid or (group == "tasks" and task_from_outside(str(name))):
        return str(name)
    kind = SINGULAR.get(group, "model")
    if isinstance(name, list):
        raise UserError(f"{group}={name} is a list, but one {kind} is run here; see bench.sweep")
    for other, singular in SINGULAR.items():
        if name in choices(other):
            raise UserError(f"there is no {kind} '{name}': that is a {singular}, {other}={name}")
    hint = nearest_choice(str(name), valid, of_your_own=kind != "preset")
    raise UserError(f"there is no {kind} '{name}': {hint}")


def _checked_model(name: Any, group: str, task: str) -> str:
    """A model that the task takes; of the wrong kind is another mistake than unknown."""
    if name == "all":
        raise UserError("one model is run here; bench.sweep without models= runs a task's own list")
    if name in choices(group):
        return str(name)
    other_groups = [other for other in model_groups() if other != group and name in choices(other)]
    if other_groups:
        folder_by_kind = {
            kind: "models/" if kind == "models" else f"models/{kind}/" for kind in model_groups()
        }
        raise UserError(
            f"models={name} lies in {folder_by_kind[other_groups[0]]}, and {task} takes those of "
            f"{folder_by_kind[group]}: {', '.join(choices(group))}"
        )
    return _checked_choice(group, name)


def _merge_block(tree: dict[str, Any], block: Any, place: str) -> None:
    """Put a block's values over those of the tree.

    Args:
        place: what the block is and where it is written, as a sentence names it.

    Raises:
        UserError: the block holds something else than known sections and keys with values.
    """
    for section, values in _keys_with_values(block, place).items():
        if section not in SECTIONS:
            raise UserError(
                f"{place} has the unknown key '{section}': {nearest(section, SECTIONS)}"
            )
        if section == "models":  # one block serves all models: each takes the keys it has
            model = tree["models"]
            values = _keys_with_values(values, f"models of {place}")
            model.update({key: value for key, value in values.items() if key in model})
        else:
            _merge(tree, values, section, place)


def _keys_with_values(block: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(block, Mapping):
        raise UserError(
            f"{place} is {block!r:.60}, and should hold keys with values, as KEY: VALUE"
        )
    return {str(key): value for key, value in block.items()}


def _merge(tree: dict[str, Any], values: Any, section: str, place: str) -> None:
    for key, value in _keys_with_values(values, f"{section} of {place}").items():
        if key not in tree[section]:
            raise UserError(
                f"{place} sets the unknown key '{section}.{key}': {nearest(key, tree[section])}"
            )
        tree[section][key] = value


def _assign(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set one dotted key that must exist, keeping the kind of its value."""
    *path, last = key.split(".")
    node: Any = tree
    for depth, part in enumerate(path):
        if isinstance(node, dict) and _is_settable(node, part, top=not depth):
            if isinstance(node[part], dict) and depth:
                node[part] = dict(node[part])  # a file's own mapping stays as it is
            node = node[part]
        else:
            node = None
    if not isinstance(node, dict) or not _is_settable(node, last, top=not path):
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


def _is_settable(node: Mapping[str, Any], key: str, top: bool = False) -> bool:
    return key in node and key != "preset" and (key not in DESCRIPTIVE or (top and key == "sweep"))


def _settable(node: Mapping[str, Any], top: bool = False) -> list[str]:
    return [key for key in node if _is_settable(node, key, top)]


def _all_keys(tree: Mapping[str, Any]) -> Iterator[str]:
    for section in _settable(tree, top=True):
        if isinstance(tree[section], dict):
            yield from (f"{section}.{key}" for key in _settable(tree[section]))
        else:
            yield section
    yield from GROUPS
