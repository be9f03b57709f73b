"""Searches that the project has committed the outcome of: a setting, chosen from so many trials."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from bench.records.schema import Study, read_record
from bench.records.store import COMMITTED
from settings.samplers import Setting
from settings.settings import Configuration


@dataclass(frozen=True)
class Chosen:
    """What a committed search found."""

    study: Study
    setting: Setting

    @property
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
    c = configuration
    folder, found = COMMITTED / c.task / c.preset, None
    for path in sorted(folder.glob(f"{c.task}-{c.model}-{c.preset}-*.json")):
        record = read_record(path)
        study = record.study
        if record.role != "final" or record.outcome != "ok" or study is None:
            continue
        size = math.prod(map(len, study.search_space.values()))
        if study.name in names and len(study.trials) == (budget or size):
            sections = (key.partition(".") for key in study.search_space)
            setting = {f"{one}.{key}": record.config[one][key] for one, _, key in sections}
            found = Chosen(study, setting)
            if any(trial.over_seeds for trial in study.trials):
                break
    return found
