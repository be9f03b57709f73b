"""Configurations of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from settings.config import compose
from settings.settings import Configuration


def compose_seeded(words: Sequence[str]) -> Configuration:
    """As :func:`compose`, for many command lines of which most differ in their seed alone."""
    seeds = [word for word in words if word.startswith("seed=")]
    configuration = _composed(tuple(word for word in words if not word.startswith("seed=")))
    if not seeds:
        return configuration
    return configuration.model_copy(update={"seed": int(seeds[-1].removeprefix("seed="))})


@lru_cache(maxsize=4096)
def _composed(words: tuple[str, ...]) -> Configuration:
    return compose(words)
