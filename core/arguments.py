"""What a public function was called with, for those who call from Python: a value of another kind
is a sentence, and no exception from deep inside."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from core.errors import UserError, nearest

LONGEST = 60  # characters of a value that a sentence shows
MOST = 30  # names that a sentence lists


def described(value: object) -> str:
    """A value as a sentence names it: "the class GPT2", "a GPT2", "'regbench'", "None"."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, os.PathLike):
        return f"the path {os.fspath(value)!s}"
    if value is None or isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def as_name(argument: str, value: object, examples: str) -> str:
    """A name, also where it was written as a path, such as ``Path("net.py:GRU")``.

    Args:
        argument: what it is called, such as "task".
        examples: what it may be, for the sentence.

    Raises:
        UserError: it is no text.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise UserError(f"{argument} is a name, {examples}, and not {described(value)}")
    return value


def refuse_unknown(argument: str, name: str, known: Set[str], there: Set[str]) -> None:
    """Refuse a name that is none.

    Args:
        known: names that there may be, though nothing here has them.
        there: names of what there is.

    Raises:
        UserError: which name is near.
    """
    valid = known | there
    if name in valid:
        return
    hint = nearest(name, valid)
    with_it = sorted(other for other in valid if name and name.lower() in other.lower())
    if hint.startswith("valid") and with_it:
        hint = f"those with it are {_first_names(with_it)}"
    elif hint.startswith("valid") and len(valid) > MOST:
        hint = f"those there are {_first_names(sorted(valid))}"
    raise UserError(f"there is no {argument} '{name}': {hint}")


def _first_names(names: Sequence[str]) -> str:
    """The first names of many, in quotes since they may have commas."""
    listed = ", ".join(f"'{name}'" for name in names[:3])
    return f"{listed} and {len(names) - 3} more" if len(names) > 3 else listed


def as_folder(argument: str, value: object) -> Path:
    """The path of a folder.

    Raises:
        UserError: it is neither text nor a path.
    """
    if not isinstance(value, str | os.PathLike):
        given = described(value)
        raise UserError(f"{argument} is the path of a folder, such as 'runs', and not {given}")
    return Path(value)


def as_settings(value: object) -> dict[str, Any]:
    """Settings by dotted keys; scalars of NumPy and PyTorch as plain numbers, paths as text.

    Raises:
        UserError: it is no mapping with text as keys.
    """
    example = 'settings is a dictionary such as {"training.lr": 1e-3, "models.width": 64}'
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"{example}, and not {described(value)}")
    settings = {}
    for key, setting in value.items():
        if not isinstance(key, str):
            raise UserError(f"{example}: a key is a text, and not {described(key)}")
        settings[key] = as_plain(setting)
    return settings


def as_plain(value: Any) -> Any:
    """A scalar of NumPy or PyTorch as a plain number, a path as text; all else as it is."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    is_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return value.item() if is_scalar else value
