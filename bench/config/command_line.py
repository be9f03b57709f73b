"""The words of a command line, ``key=value``, as values: read once, where a command begins.

Hydra's grammar says what a word means: quotes, numbers, lists and mappings. Everything behind the
door takes what is read here, a mapping from dotted keys to plain values.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.config.source_files import quoted
from core import words as grammar
from core.errors import UserError

Settings = dict[str, Any]  # dotted key -> value
STRUCTURED = ("sweep.", "training.", "models")  # keys whose brackets are no plain text
PAIRS = {"[": "]", "{": "}"}
MOST_MENDED = 1000  # characters of a mapping for which a better form is looked for


def read(words: Sequence[str]) -> Settings:
    """The settings of a command line; of a key that is given twice the last value counts.

    Example: ``read(["tasks=regbench", "training.lr=1e-3"])`` is
    ``{"tasks": "regbench", "training.lr": 0.001}``.

    Raises:
        UserError: a word that is no ``key=value``, or one of Hydra's sweeps, additions (``+key``),
            deletions (``~key``) or references (``${...}``).
    """
    return dict(read_each(words))


def read_each(words: Sequence[str]) -> list[tuple[str, Any]]:
    """Key and value of every word, for the few commands in which a key may stand several times.

    Raises:
        UserError: as :func:`read`.
    """
    settings = []
    for word in map(quoted, words):
        if (plain := _PLAIN.fullmatch(word)) and plain["key"].lower() not in _SPECIAL:
            text = plain["text"] or ""
            number = plain["whole"] or plain["number"]
            if text.lower() not in _SPECIAL:
                value = text or (int(number) if plain["whole"] else float(number))
                settings.append((plain["key"], value))
                continue
            if text.lower() in _CONSTANTS:
                settings.append((plain["key"], _CONSTANTS[text.lower()]))
                continue
        # It takes a tenth of a second to import, which most command lines do without.
        from hydra.errors import HydraException

        try:
            override = _parsed(grammar.with_home_quoted(word))
        except (HydraException, RecursionError, ValueError):  # nested or long beyond Python's own
            advice = _closed(word) or _in_brackets(word) or _how_to_write(word)
            raise UserError(f"cannot read '{_shortened(word)}': {advice}") from None
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
        settings.append((override.key_or_group, override.value()))
    return settings


# Most words: Hydra's grammar, too, reads a name or a path as a text, and digits as a number.
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PATH = rf"/?{_NAME}([/.-][A-Za-z0-9_]+)*"
_WHOLE = r"0|[1-9][0-9]{0,15}"
_NUMBER = rf"({_WHOLE})(\.[0-9]{{1,15}})?(e-?[0-9]{{1,2}})?"
_PLAIN = re.compile(
    rf"(?P<key>{_NAME}(\.{_NAME})*)=((?P<text>{_PATH})|(?P<whole>{_WHOLE})|(?P<number>{_NUMBER}))"
)
_CONSTANTS = {"true": True, "false": False, "null": None}  # in any letters
_SPECIAL = frozenset((*_CONSTANTS, "inf", "nan"))


def _parsed(word: str) -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_override(word)


# Of "{training.lr:1e-3,3e-4,models.layers:[2,4]}" the key and the values that lack brackets.
_BARE_LIST = re.compile(r"([\w.]+)[:=]([^\[\]{}:=,]+(?:,[^\[\]{}:=,]+)*)(?=,[\w.]+[:=]|})")


def _in_brackets(word: str) -> str | None:
    """How a mapping is written whose lists lack their brackets; None where that is not the fault,
    or mends nothing."""
    from hydra.errors import HydraException

    key, _, value = word.partition("=")
    if not value.startswith("{") or len(value) > MOST_MENDED:
        return None
    with_brackets = _BARE_LIST.sub(r"\1:[\2]", value)
    mended = f"{key}={with_brackets}"
    try:
        _parsed(mended)
    except (HydraException, RecursionError, ValueError):
        return None
    return f"the values of a key are a list in brackets, with commas between: {shlex.quote(mended)}"


def _closed(word: str) -> str | None:
    """That brackets of a list or mapping are not closed; None where they are, or where the key may
    take plain text."""
    key, _, value = word.partition("=")
    if not key.startswith(STRUCTURED) or value[:1] not in ("[", "{"):
        return None
    ends: list[str] = []
    for character in re.sub(r"'[^']*'|\"[^\"]*\"", "", value):
        if character in PAIRS:
            ends.append(PAIRS[character])
        elif ends and character == ends[-1]:
            ends.pop()
    if not ends:
        return None
    missing = "".join(reversed(ends))
    what = "a bracket is" if len(missing) == 1 else "brackets are"
    closed = shlex.quote(_shortened(f"{word}{missing}"))
    return (
        f"{what} not closed, {missing} at the end: {closed}; quotes go around the whole word where "
        "it has spaces"
    )


def read_with_lists(words: Sequence[str]) -> Settings:
    """As :func:`read`, with ``models=a,b`` as the list that it means: brackets need quotes in some
    shells. A file whose path has a comma is one model."""
    listed = []
    for word in words:
        key, _, value = word.partition("=")
        if key == "models" and "," in value and not value.startswith("["):
            is_file = Path(value.removeprefix("+").rpartition(":")[0]).is_file()
            word = grammar.word(key, value) if is_file else f"models=[{value}]"
        listed.append(word)
    return read(listed)


def shown(key: str, value: Any) -> str:
    """A setting as a sentence names it; :func:`core.words.word` writes it for a shell."""
    return f"{key}={value if isinstance(value, str) else _shown(value)}"


def _shown(value: Any) -> str:
    """As somebody would type it, without quotes around names."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_shown(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_shown, value))}]"
    is_bare = isinstance(value, str) and re.fullmatch(r"[\w.]+", value)
    return str(value) if is_bare else json.dumps(value)


def _how_to_write(word: str) -> str:
    """What the word would be as a setting whose value is plain text."""
    key, equals, value = word.partition("=")
    if not equals or not key.replace(".", "").replace("_", "").isalnum():
        return "settings are written key=value, for example seed=1"
    ends = {"[": "]", "{": "}"}.get(value[:1], "")
    closing = "" if value.endswith(ends) else f"a list or mapping ends in {ends}; elsewhere "
    in_quotes = shlex.quote(_shortened(grammar.word(key, value)))
    return f"{closing}quotes keep characters such as ( [ {{ , : ' in it as they are: {in_quotes}"


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}…"
