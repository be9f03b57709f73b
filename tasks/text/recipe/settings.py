"""The words of the command line, checked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tasks.text.recipe.errors import RecipeError

WRITERS = ("endpoint", "transformers", "grammar")
TOKENIZERS = ("gpt2", "grammar")
# Keys that mean nothing to the other writers.
ONLY_FOR = {
    "address": ("endpoint",),
    "key_variable": ("endpoint",),
    "retries": ("endpoint",),
    "timeout": ("endpoint",),
    "model": ("endpoint", "transformers"),
}
LOWEST = {"stories": 1, "workers": 1, "seed": 0, "retries": 0, "timeout": 1}


@dataclass(frozen=True)
class RecipeSettings:
    """One collection of stories; ``tasks/text/recipe/__main__.py`` says what each key means."""

    writer: str
    stories: int
    out: Path
    address: str = ""
    model: str = ""
    key_variable: str = "OPENAI_API_KEY"
    workers: int = 4
    retries: int = 5
    timeout: int = 120
    seed: int = 0
    names: Path | None = None
    openings: Path | None = None
    words: Path | None = None
    tokenizer: str = ""


def parse(words: Sequence[str]) -> RecipeSettings:
    """``key=value`` words, each key at most once.

    Raises:
        RecipeError: an unknown, repeated or missing key, or a value that does not fit.
    """
    text_by_key: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        _check_key(key)
        if not equals or not value:
            raise RecipeError(f"'{key}' has no value; write {key}=…")
        if key in text_by_key:
            raise RecipeError(f"'{key}' is given twice; give it once")
        text_by_key[key] = value
    for key in ("writer", "stories", "out"):
        if key not in text_by_key:
            raise RecipeError(f"{key}= is missing; `python -m tasks.text.recipe --help` says what")
    _one_of("writer", text_by_key["writer"], WRITERS)
    writer = text_by_key["writer"]
    _check_belonging(writer, text_by_key)
    # Table 1 of the paper counts GPT-2 tokens; the grammar's own tokenizer needs no download.
    text_by_key.setdefault("tokenizer", "grammar" if writer == "grammar" else "gpt2")
    _one_of("tokenizer", text_by_key["tokenizer"], TOKENIZERS)
    return RecipeSettings(**{key: _value(key, value) for key, value in text_by_key.items()})


def _check_key(key: str) -> None:
    valid = [field.name for field in fields(RecipeSettings)]
    if key in valid:
        return
    close = difflib.get_close_matches(key, valid, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"keys: {', '.join(valid)}"
    raise RecipeError(f"there is no key '{key}'; {hint}")


def _one_of(key: str, value: str, valid: Sequence[str]) -> None:
    if value not in valid:
        raise RecipeError(f"{key}={value} is unknown; choose one of {', '.join(valid)}")


def _check_belonging(writer: str, given: dict[str, str]) -> None:
    for key, writers in ONLY_FOR.items():
        if key in given and writer not in writers:
            raise RecipeError(
                f"{key}= means nothing with writer={writer}; leave it out, "
                f"or choose writer={' or '.join(writers)}"
            )
    needed = {"endpoint": ("address", "model"), "transformers": ("model",)}.get(writer, ())
    for key in needed:
        if key not in given:
            raise RecipeError(f"writer={writer} needs {key}=")
    # Whoever writes the key itself here by mistake must not see it repeated in a message.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given.get("key_variable", "X")):
        raise RecipeError("key_variable= takes the name of an environment variable, not the key")


def _value(key: str, text: str) -> Any:
    if key in ("out", "names", "openings", "words"):
        try:
            return Path(text).expanduser().absolute()  # `~` too, which the shell leaves as it is
        except RuntimeError:
            raise RecipeError(f"{key}={text}: there is no such home folder here") from None
    if key not in LOWEST:
        return text
    if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) < LOWEST[key]:
        raise RecipeError(
            f"{key}={text:.40} is no whole number of at least {LOWEST[key]} and 15 digits at most"
        )
    return int(text)
