"""Configurations of many runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from bench.config.config import compose
from bench.config.groups import guests
from bench.config.settings import Configuration
from bench.config.source_files import known_places
from core.errors import UserError

SEED = "seed="
# Settings of a training that a search varies, each a number that nothing else depends on: it is
# above zero, but for those of MAY_BE_ZERO.
VARIED = {"training.lr=": "lr", "training.weight_decay=": "weight_decay"}
MAY_BE_ZERO = ("weight_decay",)
NUMBER = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?(e[+-]?[0-9]+)?")


def compose_seeded(words: Sequence[str]) -> Configuration:
    """As :func:`compose`, for many command lines of which most differ in their seed, learning rate
    and weight decay alone.

    Raises:
        UserError: as there.
    """
    seed = _last(words, SEED)
    given = {name: _last(words, beginning) for beginning, name in VARIED.items()}
    numbers = {name: _number(name, text) for name, text in given.items() if text is not None}
    plain = [word for word in words if not word.startswith(SEED)]
    found = _base(tuple(word for word in plain if not word.startswith(tuple(VARIED))))
    if found is None or (numbers and not _free(found, numbers)):
        found = _composed(tuple(plain))
    elif numbers:
        training = found.training.model_copy(update=numbers)
        found = found.model_copy(update={"training": training})
    return found if seed is None else found.model_copy(update={"seed": int(seed)})


def _base(words: tuple[str, ...]) -> Configuration | None:
    """Without the numbers; None where the rest cannot do without them, or is a mistake."""
    try:
        return _composed(words)
    except UserError:
        return None


def _free(configuration: Configuration, numbers: Mapping[str, float | None]) -> bool:
    """Whether a training may have the numbers; composing explains why it may not."""
    decays = configuration.training.bias_correction or "weight_decay" not in numbers
    return configuration.takes is None and decays and None not in numbers.values()


def _last(words: Iterable[str], beginning: str) -> str | None:
    """What the last word that begins so says; the last one counts."""
    given = [word for word in words if word.startswith(beginning)]
    return given[-1].removeprefix(beginning) if given else None


def _number(name: str, text: str) -> float | None:
    """The number that a word holds, if it is one as JSON writes it that the setting may have."""
    number = float(text) if NUMBER.fullmatch(text) else -1.0
    may_be = number > 0 or (number == 0 and name in MAY_BE_ZERO)
    return number if may_be and number < math.inf else None


def _composed(words: tuple[str, ...]) -> Configuration:
    return _beside(words, guests(), known_places(words))


# Who takes part by default is part of a configuration, and so is where files of classes lie.
@lru_cache(maxsize=4096)
def _beside(
    words: tuple[str, ...], others: tuple[str, ...], places: tuple[str, ...]
) -> Configuration:
    return compose(words)


def forget_configurations() -> None:
    """Compose anew, for a process in which the file of a class was edited."""
    _beside.cache_clear()
