"""Classes of other packages, named by their place: ``package.module.Class``."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ground.errors import UserError, place_of
from ground.files import ROOT, working_directory
from ground.places import shown
from settings.groups import card, choices, model_groups

OURS = ("models", "tasks")  # packages


def use_external_model(tree: dict[str, Any], target: str) -> None:
    """Take the defaults of a model that has no YAML here from its constructor's signature."""
    model = tree.setdefault("models", {"card": {}})
    if model.get("_target_") == target:
        return
    _check_name(target)
    for parameter in _hyperparameters(target):
        default = None if parameter.default is parameter.empty else parameter.default
        if default is None or kind_of(default):  # a class or function cannot be set by a word
            model.setdefault(parameter.name, default)
    model["_target_"] = target


def refuse_what_is_missing(given: Mapping[str, Any], target: str, sizes: int) -> None:
    """Refuse a model whose constructor wants an argument that nobody gave.

    Args:
        given: arguments by name.
        sizes: how many the engine gives before them, by place.

    Raises:
        UserError: which is missing, and how it is given.
    """
    known = _hyperparameters(target)[sizes - 1 :]
    if given.keys() - {parameter.name for parameter in known}:
        return  # what it does not take at all comes first, in Python's words
    for parameter in known:
        if parameter.default is parameter.empty and given.get(parameter.name) is None:
            name = parameter.name
            raise UserError(
                f"the constructor of '{target}' has no default for {name}: add models.{name}=VALUE"
            )


def _check_name(target: str) -> None:
    """Refuse a class that results would show under the name of a model of this project.

    Raises:
        UserError: its name is taken.
    """
    package, name = target.partition(".")[0], target.rpartition(".")[2]
    cards = {
        (own, card(group, own).get("label", own))
        for group in model_groups()
        for own in choices(group)
    }
    taken = {text.casefold() for texts in cards for text in texts}
    if package not in OURS and name.casefold() in taken:
        raise UserError(
            f"results of '{target}' could not be told from those of the model {name} of this "
            "project: give the class a name of its own"
        )


def _hyperparameters(target: str) -> list[inspect.Parameter]:
    """What a model's constructor takes after the specification."""
    try:
        parameters = list(inspect.signature(load_class(target)).parameters.values())
    except ValueError:  # a class that is written in C may have none
        raise UserError(
            f"'{target}' does not say what its constructor takes: a model is a torch.nn.Module "
            "that is built as Model(specification, **hyperparameters)"
        ) from None
    return [p for p in parameters[1:] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def load_class(target: str) -> type:
    """Import ``package.module.Class``. For a class of somebody else the working directory is
    searched too, but last: a file there stands in for no library and no installed package.

    Raises:
        UserError: no such module or class.
    """
    module_name, _, class_name = target.rpartition(".")
    if not module_name or not all(map(str.isidentifier, target.split("."))):
        raise UserError(f"'{target}' is no place of a class: give package.module.Class")
    is_ours = module_name.partition(".")[0] in OURS
    here = str(working_directory())
    if not is_ours and here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module does while it is imported
        raise UserError(_collision(target) or _not_imported(target, error)) from None
    loaded = getattr(module, class_name, None)
    if loaded is None and (collision := _collision(target)):
        raise UserError(collision)
    if loaded is None:
        # Only of its own package: what it imported from elsewhere is no model of the user's.
        package = module_name.partition(".")[0]
        own = [
            name
            for name, value in vars(module).items()
            if inspect.isclass(value) and value.__module__.partition(".")[0] == package
        ]
        close = get_close_matches(class_name, own, n=1, cutoff=0)  # the nearest, however far
        hint = f"the nearest is '{close[0]}'" if close else "it defines none"
        raise UserError(f"module '{module_name}' has no class '{class_name}': {hint}")
    if not inspect.isclass(loaded):
        raise UserError(f"'{target}' is not a class: a model or task is a class")
    return loaded


def _collision(target: str) -> str:
    """Why a class is not found that lies where the user stands, below a name of ours; "" if none
    lies there."""
    name, here = target.partition(".")[0], working_directory()
    if here.resolve() == ROOT or not ((ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()):
        return ""
    places = [here / name, here / f"{name}.py"]
    place = next((path for path in places if path.exists()), None)
    if place is None:
        return ""
    return (
        f"cannot import '{target}': this project has a package '{name}' itself, so yours, "
        f"{shown(place)}, is not looked into: give it another name, such as my_{name}, and say "
        f"my_{target}"
    )


def _not_imported(target: str, error: Exception) -> str:
    """Why a class cannot be had: there is no such module, or there is one that stops."""
    module = target.rpartition(".")[0]
    missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
    place = place_of(error)
    if missing or not place:
        return (
            f"cannot import '{target}' ({error or type(error).__name__}): give "
            "package.module.Class of a package that is installed, in the working directory, or on "
            "PYTHONPATH"
        )
    said = getattr(error, "msg", None) or error  # of a SyntaxError without its place again
    return (
        f"cannot import '{target}': {place}, stops with {type(error).__name__} ({said}): mend that "
        "file, or install what it lacks"
    )


def kind_of(value: Any) -> str | None:
    """What a setting is, in words of the command line; None for nothing or a class."""
    if isinstance(value, bool):
        return "true or false value"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "word"
    if isinstance(value, list):
        return "list"
    return "group of keys" if isinstance(value, dict) else None
