"""What a search leaves in the record of a run whose setting it chose."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from bench.records.identity import run_ids_of
from bench.records.numbers import kind_of
from bench.records.schema import RunRecord, Study, Trial
from settings.budgets import TOLERANCE, is_budget
from settings.samplers import choice_of, key_of, tried_by


def _study(record: RunRecord) -> str | None:
    """The setting of a final run is the best one of its study, and with a seed of the study it has
    the number that it was chosen by. Seeds that were added later had no part in the choice."""
    study = record.study
    if (record.role == "final") != (study is not None):
        return f"its role is {record.role}, and it has {'a' if study else 'no'} study"
    if study is None:
        return None
    if why := _search(record, study):
        return f"its study {why}"
    sign = -1 if record.headline.direction == "maximise" else 1
    tried = [(sign * t.score, t) for t in study.trials if t.score is not None]
    if not tried:
        return None if record.outcome != "ok" else "its study has no trial with a value"
    best = min(score for score, _ in tried)
    own = [t for score, t in tried if score == best and _has(record, t.parameters)]
    if not own:
        return "its config is not the best one of its study's trials"
    # A search may have gone on after the code had changed and was proven equal.
    if record.seed == 0 and run_ids_of(record).isdisjoint(trial.run_id for trial in study.trials):
        return "it has the seed of its study's trials, and is none of them"
    found = record.metrics.get("validation", {}).get(record.headline.name)
    chosen_by = own[0].over_seeds or ([own[0].value] if record.seed == 0 else [])
    known = [value for value in chosen_by if value is not None]
    if own[0].over_seeds and record.seed - _first_seed(own[0]) >= len(own[0].over_seeds):
        return None
    if found is not None and known and not any(_as_good(found, value) for value in known):
        return f"its metrics.validation.{record.headline.name} is not that of its study"
    return None


def _first_seed(trial: Trial) -> int:
    """The seed that all trials of a study have: the end of their run ids."""
    return int((trial.run_id or "-s0").rpartition("-s")[2])


def _as_good(found: float, value: float) -> bool:
    return math.isclose(found, value, rel_tol=1e-3)


def _search(record: RunRecord, study: Study) -> str | None:
    """What is wrong with a study by itself: its name, its rule, and each of its trials."""
    over_seeds = any(trial.over_seeds for trial in study.trials)
    headline = record.headline
    if study.selected_by != choice_of(headline.name, headline.direction, over_seeds):
        return f"is selected by {study.selected_by!a:.80}, and searches choose otherwise"
    own = f"{record.task}-{record.model}-{record.preset}-[0-9a-f]{{12}}"
    made = rf"{own}-s\d+"
    if not re.fullmatch(own, study.name):
        return f"is called {study.name!a:.80}, and not by task, model and preset"
    space, kind = study.search_space, kind_of(record.task, record.headline.name)
    known = {key: [json.dumps(value) for value in values] for key, values in space.items()}
    if twice := [key for key, values in known.items() if len(values) != len(set(values))]:
        return f"has a value twice in its search_space, of {twice[0]:.80}"
    numbers = [trial.number for trial in study.trials]
    if len(numbers) != len(set(numbers)):
        return "has two trials of one number"
    for trial in study.trials:
        found = trial.parameters
        if set(found) != set(space) or any(
            json.dumps(found[key]) not in known[key] for key in space
        ):
            return f"has trial {trial.number} outside its search_space"
        if trial.run_id is not None and not re.fullmatch(made, trial.run_id):
            return f"has trial {trial.number} of the run {trial.run_id!a:.80}, which is none of its"
        if trial.value is None and trial.outcome == "ok":
            return f"has trial {trial.number} without a value, and it ended ok"
        if trial.value is None:
            continue
        if trial.outcome != "ok" or not kind.low <= trial.value <= kind.high:
            value = f"the value {trial.value:g}, {trial.outcome}"
            return f"has trial {trial.number} with {value}, and no {kind.name} of a run that is ok"
    return _not_over_seeds(record, study) or _not_tried(study)


def _not_over_seeds(record: RunRecord, study: Study) -> str | None:
    """Whether the numbers over seeds are those of a search that chose by them: the best setting has
    them, as many as every other that does, the first of them its trial's."""
    over_seeds = [trial for trial in study.trials if trial.over_seeds]
    if not over_seeds:
        return None
    kind = kind_of(record.task, record.headline.name)
    for trial in over_seeds:
        values = trial.over_seeds
        if values[:1] != [trial.value] or len(values) != len(over_seeds[0].over_seeds):
            return f"has trial {trial.number} over other seeds than its own and its rivals'"
        if any(value is not None and not kind.low <= value <= kind.high for value in values):
            return f"has trial {trial.number} over seeds with what is no {kind.name}"
    sign = -1 if record.headline.direction == "maximise" else 1
    best = min(sign * t.score if t.score is not None else math.inf for t in study.trials)
    chosen = [t for t in over_seeds if t.score is not None and sign * t.score == best]
    return None if chosen else "chose a setting that it had not trained with all seeds"


def _not_tried(study: Study) -> str | None:
    """Whether some search of that sampler tries these settings, and no others."""
    settings = sorted(key_of(trial.parameters) for trial in study.trials)
    if len(settings) != len(set(settings)):
        return "has two trials of one setting"
    try:
        tried = tried_by(study.sampler, study.search_space, len(settings))
    except ValueError as error:
        return f"cannot be, since {error}"
    if tried is not None and not any(settings == sorted(map(key_of, one)) for one in tried):
        return f"has other settings than the first {len(settings)} of its sampler"
    return None


def _has(record: RunRecord, parameters: Mapping[str, Any]) -> bool:
    """Whether a run has these values of "section.key", and the size that a budget asks for."""
    for key, value in parameters.items():
        section, _, name = key.partition(".")
        if is_budget(key):
            size = getattr(record.cost, name)
            if size and abs(size - value) > TOLERANCE * value:  # of a run that failed none is known
                return False
        elif record.config.get(section, {}).get(name) != value:
            return False
    return True


RULES = (_study,)
