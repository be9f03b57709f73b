"""Searches that the project has committed the outcome of: a setting, chosen from so many trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bench.config.samplers import Setting
from bench.config.search_space import Space
from bench.config.settings import Configuration
from bench.records.record_files import records_in
from bench.records.schema import RunRecord, Study, read_record
from bench.records.store import COMMITTED
from core.files import when_changed


@dataclass(frozen=True)
class Chosen:
    """What a committed search found.

    Attributes:
        record: a final run of it. Nobody reads it here: while it is held, ``read_record``, which
            is most often asked for it next, need not read the file again.
    """

    study: Study
    setting: Setting
    record: RunRecord | None = None

    def failures(self) -> list[str]:
        """How those of its trials ended that gave no number."""
        return [trial.outcome for trial in self.study.trials if trial.value is None]


def committed_search(
    configuration: Configuration, names: Collection[str], budget: int | None
) -> Chosen | None:
    """The committed outcome of one of the searches ``names`` over ``budget`` settings, or over all
    of a space however far it grew, if that is None.

    A search that chose by all seeds comes before one that chose by the first.

    A search's name hashes all that it holds fixed, the space that it starts from and how far that
    may grow, its sampler and its seed, so that equal names and as many trials are the same search.
    """
    outcome = None
    for chosen in _committed(configuration):
        study = chosen.study
        if study.name in names and len(study.trials) == (budget or _size(study.search_space)):
            outcome = chosen
            if any(trial.over_seeds for trial in study.trials):
                break
    return outcome


def wider_search(
    configuration: Configuration, space: Space, names_of: Callable[[Space], Collection[str]]
) -> Chosen | None:
    """The committed outcome of a search over a whole grid that has every value of ``space`` and
    more: whoever asks for a part of a grid is served what all of it came to.

    Args:
        names_of: what a search over a space is called that did not grow, whether it might have or
            not.
    """
    tried: dict[str, bool] = {}
    for chosen in _committed(configuration):
        study = chosen.study
        whole = len(study.trials) == _size(study.search_space)
        if not whole or not covers(study.search_space, space):
            continue
        if study.name not in tried:
            tried[study.name] = study.name in names_of(study.search_space)
        if tried[study.name]:
            return chosen
    return None


def covers(searched: Space, space: Space) -> bool:
    """Whether a search had all the values asked for; a wider or extended one had more."""
    if searched.keys() != space.keys():
        return False
    return all(value in searched[key] for key, values in space.items() for value in values)


def _committed(configuration: Configuration) -> list[Chosen]:
    """What the committed searches for a model on a task chose."""
    c = configuration
    folder = COMMITTED / c.task / c.preset
    return _chosen_settings(folder, f"{c.task}-{c.model}-{c.preset}-*.json", when_changed(folder))


@lru_cache(maxsize=64)  # every size of a figure asks for the same model
def _chosen_settings(folder: Path, pattern: str, _changed: int) -> list[Chosen]:
    outcomes = []
    for path in records_in(folder, pattern):
        record = read_record(path)
        study = record.study
        if record.role == "final" and record.outcome == "ok" and study is not None:
            setting = {}
            for key in study.search_space:
                section, _, name = key.partition(".")
                setting[key] = record.config[section][name]
            outcomes.append(Chosen(study, setting, record))
    return outcomes


def _size(space: Space) -> int:
    return math.prod(map(len, space.values()))
