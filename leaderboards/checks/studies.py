"""What a search leaves in the record of a run whose setting it chose."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.config.budgets import BUDGETS, TOLERANCE
from bench.config.samplers import choice_of, key_of, tried_by
from bench.records.identity import run_ids_of
from bench.records.numbers import kind_of
from bench.records.schema import RunRecord, Study, Trial
from leaderboards.checks.numbers import is_in_range


def _study(record: RunRecord) -> str | None:
    """The setting of a final run is the best one of its study, if that was made beside it; a run
    whose setting was chosen on another machine tells of no study."""
    study = record.study
    if study is None:
        return None
    if record.role != "final":
        return f"its role is {record.role}, and it has a study"
    if reason := _search(record, study):
        return f"its study {reason}"
    if all(trial.score is None for trial in study.trials):
        return None if record.outcome != "ok" else "its study has no trial with a value"
    if not _best_trials(record):
        return "its config is not the best one of its study's trials"
    # A search may have gone on after the code had changed and was proven equal.
    if record.seed == 0 and run_ids_of(record).isdisjoint(trial.run_id for trial in study.trials):
        return "it has the seed of its study's trials, and is none of them"
    return None


def _best_trials(record: RunRecord) -> list[Trial]:
    """The trials of a record's study that have its setting, and that no other is better than."""
    trials = record.study.trials if record.study else []
    best = _best_score(record, trials)
    return [t for t in trials if t.score is not None and t.score == best and _has(record, t)]


def _best_score(record: RunRecord, trials: Sequence[Trial]) -> float | None:
    scores = [trial.score for trial in trials if trial.score is not None]
    choose = max if record.headline.direction == "maximise" else min
    return choose(scores, default=None)


def not_as_chosen(record: RunRecord) -> str:
    """How a run with a seed of its study came to another number than the one that it was chosen by,
    in a clause; "" if it did not. Seeds that were added later had no part in the choice.

    The number of the same run on another processor may be any that a run of its setting has, so
    this refutes nothing.
    """
    chosen = _best_trials(record)
    if not chosen:
        return ""
    trial = chosen[0]
    # All trials of a study have one seed, with which their run ids end.
    first_seed = int((trial.run_id or "-s0").rpartition("-s")[2])
    if trial.over_seeds and record.seed - first_seed >= len(trial.over_seeds):
        return ""
    name = record.headline.name
    measured = record.metrics.get("validation", {}).get(name)
    chosen_by = trial.over_seeds or ([trial.value] if record.seed == 0 else [])
    chosen_values = [value for value in chosen_by if value is not None]
    if measured is None or not chosen_values:
        return ""
    if any(math.isclose(measured, value, rel_tol=1e-3) for value in chosen_values):
        return ""
    seen = " or ".join(f"{value:.4g}" for value in chosen_values)
    return f"seed {record.seed} has {name} {measured:.4g} on validation, and its search saw {seen}"


def _search(record: RunRecord, study: Study) -> str | None:
    """What is wrong with a study by itself: its name, its rule, and each of its trials."""
    over_seeds = any(trial.over_seeds for trial in study.trials)
    headline = record.headline
    if study.selected_by != choice_of(headline.name, headline.direction, over_seeds):
        return f"is selected by {study.selected_by!a:.80}, and searches choose otherwise"
    name_pattern = f"{record.task}-{record.model}-{record.preset}-[0-9a-f]{{12}}"
    run_pattern = rf"{name_pattern}-s\d+"
    if not re.fullmatch(name_pattern, study.name):
        return f"is called {study.name!a:.80}, and not by task, model and preset"
    space, kind = study.search_space, kind_of(record.task, record.headline.name)
    values_by_key = {}
    for key, values in space.items():
        values_by_key[key] = set(map(json.dumps, values))
        if len(values_by_key[key]) != len(values):
            return f"has a value twice in its search_space, of {key:.80}"
    numbers = [trial.number for trial in study.trials]
    if len(numbers) != len(set(numbers)):
        return "has two trials of one number"
    for trial in study.trials:
        if not _is_inside(trial.parameters, values_by_key):
            return f"has trial {trial.number} outside its search_space"
        if trial.run_id is not None and not re.fullmatch(run_pattern, trial.run_id):
            return f"has trial {trial.number} of the run {trial.run_id!a:.80}, which is none of its"
        if trial.value is None and trial.outcome == "ok":
            return f"has trial {trial.number} without a value, and it ended ok"
        if trial.value is None:
            continue
        if trial.outcome != "ok" or not is_in_range(trial.value, kind):
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
        if any(value is not None and not is_in_range(value, kind) for value in values):
            return f"has trial {trial.number} over seeds with what is no {kind.name}"
    best = _best_score(record, study.trials)
    if best is not None and any(trial.score == best for trial in over_seeds):
        return None
    return "chose a setting that it had not trained with all seeds"


def _not_tried(study: Study) -> str | None:
    """Whether some search of that sampler tries these settings, and no others."""
    settings = sorted(key_of(trial.parameters) for trial in study.trials)
    if len(settings) != len(set(settings)):
        return "has two trials of one setting"
    try:
        tried = tried_by(study.sampler, study.search_space, len(settings))
    except ValueError as error:
        return f"cannot be, since {error}"
    if tried is None or settings in (sorted(map(key_of, possible)) for possible in tried):
        return None
    return f"has other settings than the first {len(settings)} of its sampler"


def _has(record: RunRecord, trial: Trial) -> bool:
    """Whether a run has the values of a trial, and the size that a budget asks for."""
    for key, value in trial.parameters.items():
        section, _, name = key.partition(".")
        if key in BUDGETS:
            size = getattr(record.cost, name)
            if size and abs(size - value) > TOLERANCE * value:  # of a run that failed none is known
                return False
        elif record.config.get(section, {}).get(name) != value:
            return False
    return True


RULES = (_study,)


def _is_inside(parameters: Mapping[str, Any], values_by_key: Mapping[str, set[str]]) -> bool:
    """Whether a trial has one of the values, as JSON, of each key of a space, and no other key."""
    if parameters.keys() != values_by_key.keys():
        return False
    return all(json.dumps(parameters[key]) in values for key, values in values_by_key.items())
