"""What a class of somebody else says about itself, by attributes: a card without a YAML file.

Example::

    class GRU(nn.Module):
        label = "GRU, two layers"
        sequences = ("tokens",)
        vmap = False
        defaults = {"width": 64}
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from core.errors import UserError

LONGEST_LABEL = 80
SEQUENCES = ("tokens", "channels")


def card_of_class(loaded: type, target: str) -> dict[str, Any]:
    """The attributes of a class that this project reads, checked; ``docs/guests.md`` lists them.

    A method or a property of such a name is the class's own affair, and is left alone.

    Raises:
        UserError: an attribute is of another kind than it should be.
    """
    card: dict[str, Any] = {}
    for name, (kind, is_right) in _KINDS.items():
        value = inspect.getattr_static(loaded, name, None)
        if value is None or callable(value) or hasattr(type(value), "__get__"):
            continue
        if not is_right(value):
            raise UserError(
                f"the attribute {name} of '{target}' is {value!r:.80}, and should be {kind}: mend "
                "it, or call it something else if it is not meant for this project"
            )
        card[name] = list(value) if isinstance(value, tuple) else value
    if isinstance(card.get("sequences"), str):
        card["sequences"] = [card["sequences"]]
    return card


def _is_label(value: Any) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_LABEL:
        return False
    return value.isascii() and value.isprintable() and value.strip() == value


def _are_sequences(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, tuple | list) and bool(names) and all(n in SEQUENCES for n in names)


def _are_defaults(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    for key in value:
        if not isinstance(key, str) or not key.isidentifier():
            return False
    try:
        settings = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return False
    for setting in settings.values():
        if setting is not None and not isinstance(setting, str | int | float | list):
            return False
    return True


def _are_patterns(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(part, str) for part in value)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "label": (f"a text of 1 to {LONGEST_LABEL} printable ASCII characters", _is_label),
    "sequences": ("'tokens', 'channels', or both in a tuple", _are_sequences),
    "defaults": (
        "a dictionary of settings: numbers, words, true or false, None, or lists of these",
        _are_defaults,
    ),
    "vmap": ("True or False", lambda value: isinstance(value, bool)),
    "unused_parameters": ("a tuple of patterns of names of parameters", _are_patterns),
}
