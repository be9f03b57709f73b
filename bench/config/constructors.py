"""How the engine builds a model, beside the constructor that a class has: for whoever is told that
the two do not fit."""

from __future__ import annotations

import inspect

SPECIFICATION = "specification"  # the first argument, as it should be called
LONGEST, LONGEST_DEFAULT = 160, 20  # characters of a signature, and of a default, that are shown
PAGE = "docs/guests.md"  # shows classes that fit, also around those of public packages


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
