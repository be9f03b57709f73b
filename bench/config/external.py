"""Classes from elsewhere, named by their place: ``package.module.Class`` or ``./net.py:Class``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.config.card_attributes import card_of_class
from bench.config.groups import card, choices, model_groups, note_label
from bench.config.source_files import (
    class_name,
    is_of_this_project,
    load_module,
    names_file,
    source_name,
)
from core.errors import UserError, place_of
from core.files import ROOT, working_directory
from core.seeding import derive_seed

OURS = ("models", "tasks")  # packages
SPECIFICATION = "specification"  # the first argument, as it should be called
LONGEST, LONGEST_DEFAULT = 160, 20  # characters of a signature, and of a default, that are shown
PAGE = "docs/guests.md"  # shows classes that fit, also around those of public packages


def use_external_model(tree: dict[str, Any], target: str) -> None:
    """Take the defaults of a model that has no YAML here from its constructor's signature."""
    model = tree.setdefault("models", {"card": {}})
    if model.get("_target_") == target:
        return
    _check_name(target)
    attributes = attributes_of(target)
    if "label" in attributes:
        _check_label(target, attributes["label"])
        note_label(class_name(target), attributes["label"])
    for name, default in defaults_of(target).items():
        model.setdefault(name, default)
    model["_target_"] = target
    model["card"] = {**model.get("card", {}), **attributes}


def defaults_of(target: str) -> dict[str, Any]:
    """The settings of a class from elsewhere, as its constructor and its attribute say."""
    defaults: dict[str, Any] = {}
    for parameter in _hyperparameters(target):
        default = None if parameter.default is parameter.empty else parameter.default
        if default is None or kind_of(default):  # a class or function cannot be set by a word
            defaults[parameter.name] = default
    return {**defaults, **attributes_of(target).get("defaults", {})}


def without_default(target: str) -> set[str]:
    """The settings of a class from elsewhere that somebody has to give."""
    stated = attributes_of(target).get("defaults", {})
    named = {p.name for p in _hyperparameters(target) if p.default is p.empty}
    return named - {*stated}


def refuse_what_is_missing(arguments: Mapping[str, Any], target: str, sizes: int) -> None:
    """Refuse a model whose constructor wants an argument that nobody gave.

    Args:
        arguments: by name, those that were given.
        sizes: how many the engine gives before them, by place.

    Raises:
        UserError: which is missing, and how it is given.
    """
    parameters = _hyperparameters(target)[sizes - 1 :]
    if arguments.keys() - {parameter.name for parameter in parameters}:
        return  # what it does not take at all comes first, in Python's words
    how = f"; {how_models_are_built(load_class(target))}" if sizes == 1 else ""
    if sizes == 1 and SPECIFICATION in {parameter.name for parameter in parameters}:
        raise UserError(
            f"the constructor of '{target}' takes {SPECIFICATION} after another argument: put it "
            f"first{how}"
        )
    for parameter in parameters:
        if parameter.default is parameter.empty and arguments.get(parameter.name) is None:
            raise UserError(
                f"the constructor of '{target}' has no default for {parameter.name}: "
                f"{_remedy(target, parameter.name)}{how}"
            )


def _remedy(target: str, name: str) -> str:
    """What mends that an argument has no default. A value for it is of no use to a constructor that
    takes something else than the specification first."""
    add, loaded = f"add models.{name}=VALUE", load_class(target)
    if source_name(target) in OURS or takes_specification(loaded):
        return add
    first = next(iter(inspect.signature(loaded).parameters.values()))
    if first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        return "put the class into one of your own, since it takes no argument by its place"
    if first.kind is first.VAR_POSITIONAL:
        return add
    return (
        f"{add} if its first argument, {first.name}, is meant for the {SPECIFICATION}, and put the "
        "class into one of your own if not"
    )


def attributes_of(target: str) -> dict[str, Any]:
    """What a class of somebody else says of itself (``card_attributes.py``); nothing for one of
    this project, which has a card in YAML.

    Raises:
        UserError: there is no such class, or an attribute is of another kind than it should be.
    """
    return {} if source_name(target) in OURS else card_of_class(load_class(target), target)


def refuse_other_sequences(target: str, *sizes: Any) -> None:
    """Refuse a model whose class says that it takes other sequences than the task has.

    Args:
        sizes: what the engine gives to the constructor; a task of sequences gives one
            specification, and of memories their widths, of which nothing is said here.

    Raises:
        UserError: which it takes.
    """
    specification: Any = sizes[0] if len(sizes) == 1 else None
    taken = attributes_of(target).get("sequences")
    if taken is None or not hasattr(specification, "vocabulary"):
        return
    kind = "channels" if specification.vocabulary is None else "tokens"
    if kind not in taken:
        of_task = "real vectors (channels)" if kind == "channels" else "tokens"
        raise UserError(
            f"'{target}' takes {' and '.join(taken)}, as its attribute sequences says, and this "
            f"task has {of_task}: choose another task, or another model"
        )


def _check_name(target: str) -> None:
    """Refuse a class that results would show under the name of a model of this project.

    Raises:
        UserError: its name is taken.
    """
    name = class_name(target)
    owner = _names_of_models().get(name.casefold())
    if owner is not None and source_name(target) not in OURS:
        raise UserError(
            f"results of '{target}' could not be told from those of the model {owner} of this "
            f"project: give the class a name of its own, such as My{name}"
        )


def _check_label(target: str, label: str) -> None:
    """Refuse a class that calls itself as a model of this project is called.

    Raises:
        UserError: its label is taken.
    """
    owner = _names_of_models().get(label.casefold())
    if owner is not None:
        raise UserError(
            f"the attribute label of '{target}' is {label!r}, which is what the model {owner} of "
            "this project is called: give it another"
        )


def _names_of_models() -> dict[str, str]:
    """The names and labels of this project's models, in small letters, with the model of each."""
    owners: dict[str, str] = {}
    for group in model_groups():
        for model in choices(group):
            for text in (model, str(card(group, model).get("label", model))):
                owners[text.casefold()] = model
    return owners


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
    """Import ``package.module.Class`` or ``net.py:Class``. For a class of somebody else's package
    the working directory is searched too, but last: a file there stands in for no library and no
    installed package.

    Raises:
        UserError: no such module or class.
    """
    module = _import(target)
    name = class_name(target)
    loaded = getattr(module, name, None)
    if loaded is None:
        # Only of its own package: what it imported from elsewhere is no model of the user's.
        package = module.__name__.partition(".")[0]
        defined = []
        for key, value in vars(module).items():
            if inspect.isclass(value) and value.__module__.partition(".")[0] == package:
                defined.append(key)
        close = get_close_matches(name, defined, n=1, cutoff=0)  # the nearest, however far
        hint = f"the nearest is '{close[0]}'" if close else "it defines none"
        where = source_name(target) if names_file(target) else f"module '{module.__name__}'"
        raise UserError(f"{where} has no class '{name}': {hint}{_hidden_here(target)}")
    if not inspect.isclass(loaded):
        raise UserError(f"'{target}' is not a class: a model or task is a class")
    return loaded


def _import(target: str) -> ModuleType:
    """The module that has a class.

    Raises:
        UserError: it cannot be imported.
    """
    if names_file(target):
        try:
            with _as_in_a_new_process():
                return load_module(target)
        except UserError:
            raise
        except Exception as error:  # whatever the file does while it is imported
            raise UserError(_stopped(target, error, place_of(error))) from None
    if target.endswith(".py"):
        raise UserError(f"'{target}' names a file, and no class in it: give {target}:CLASS")
    module_name, _, _ = target.rpartition(".")
    if not module_name or not all(map(str.isidentifier, target.split("."))):
        raise UserError(
            f"'{target}' is no place of a class: give package.module.Class, or FILE.py:Class"
        )
    is_ours = source_name(target) in OURS
    folder = str(working_directory())
    if not is_ours and folder not in sys.path:
        sys.path.append(folder)
    try:
        if is_ours or module_name in sys.modules:
            return importlib.import_module(module_name)
        with _as_in_a_new_process(source_name(target)):
            return importlib.import_module(module_name)
    except Exception as error:  # whatever the module does while it is imported
        raise UserError(_not_imported(target, error)) from None


@contextmanager
def _as_in_a_new_process(top: str | None = None) -> Iterator[None]:
    """A module may draw as it is imported: always the same, whatever was drawn before. Settings of
    PyTorch for the whole process, which it may change, are put back.

    Args:
        top: the package to be imported; if there is none, PyTorch is not imported for it.
    """
    if top is not None and importlib.util.find_spec(top) is None:
        yield
        return
    # By its name, as a model is: who reads configurations needs no PyTorch otherwise.
    numerics = importlib.import_module("bench.training.numerics")
    seeding = importlib.import_module("bench.training.seeding")
    with seeding.kept_python_generators(), numerics.kept_settings():
        seeding.seed_python_generators(derive_seed(0, "import"))
        yield


def _not_imported(target: str, error: Exception) -> str:
    """Why a class cannot be had: there is no such module, or there is one that stops."""
    module = target.rpartition(".")[0]
    missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
    place = place_of(error)
    if missing or not place:
        if hidden := _hidden_here(target):
            return f"cannot import '{target}'{hidden}"
        return (
            f"cannot import '{target}' ({error or type(error).__name__}): give "
            "package.module.Class of a package that is installed, in the working directory, or on "
            "PYTHONPATH, or a file by its path, ./FILE.py:Class"
        )
    return _stopped(target, error, place)


def _stopped(target: str, error: Exception, place: str) -> str:
    message = getattr(error, "msg", None) or error  # of a SyntaxError without its place again
    where = f"{place}, stops with " if place else ""
    return (
        f"cannot import '{target}': {where}{type(error).__name__} ({message}): mend that "
        "file, or install what it lacks"
    )


def _hidden_here(target: str) -> str:
    """A clause about a module of the user's that one of this project hides; "" if none is."""
    top, *rest = target.split(".")[:-1] if not names_file(target) else [""]
    folder = working_directory()
    if not is_of_this_project(top) or folder.resolve() == ROOT:
        return ""
    file = folder.joinpath(top, *rest).with_suffix(".py")
    if not file.is_file() and not (folder / top).is_dir():
        return ""
    name = class_name(target)
    relative = file.relative_to(folder) if file.is_file() else Path(top, "FILE.py")
    return (
        f", since '{top}' is the name of a package of this project, which is found before "
        f"{folder / top}: name the file, models=./{relative}:{name}, or give yours another name"
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


def constructor_of(loaded: type) -> str:
    """The call that builds a class, such as ``GRU(specification, width=64)``; its annotations are
    left out."""
    try:
        signature = inspect.signature(loaded)
    except ValueError:  # a class that is written in C may have none
        return f"{loaded.__name__}(…)"
    parameters = []
    for parameter in signature.parameters.values():
        plain = parameter.replace(annotation=parameter.empty)
        if len(repr(parameter.default)) > LONGEST_DEFAULT and parameter.default is not plain.empty:
            plain = plain.replace(default=...)  # a function or an object, which says no more
        parameters.append(plain)
    shown = str(inspect.Signature(parameters)).replace("=Ellipsis", "=…")
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…)"
    return f"{loaded.__name__}{shown}"


def how_models_are_built(loaded: type) -> str:
    """A clause that says what comes first, with the constructor that was found."""
    return (
        f"its constructor is {constructor_of(loaded)}, and the engine builds "
        f"{loaded.__name__}(specification, **settings): the specification of the task comes first, "
        f"and {PAGE} shows such classes"
    )


def takes_specification(loaded: type) -> bool:
    """Whether the first argument of a class is called ``specification``. One that is called
    otherwise may be meant for it, which only building the class can tell."""
    try:
        parameters = list(inspect.signature(loaded).parameters.values())
    except ValueError:
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        bool(parameters)
        and parameters[0].name == SPECIFICATION
        and (parameters[0].kind in by_place)
    )
