"""What a sweep has left to make, in words: which runs have a record, and how long the others take.

It is told before the first run is made. Nothing is measured for it: the seconds are those of the
runs on record, of equal task and preset, on whatever machine these were made.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from bench.config.command_line import shown
from bench.config.groups import GUEST, task_card
from bench.config.settings import Configuration
from bench.config.source_files import place_of_source
from bench.records.record_files import records_in
from bench.records.report import how_to_be_ranked
from bench.records.schema import json_of, read_record
from bench.records.store import COMMITTED, Store
from bench.runs.catalog import RecordCatalog
from bench.search.placement import workers_at_once
from bench.search.plan import Entry, SweepPlan
from bench.search.remaining.planned import (
    PlannedRun,
    predictors_run,
    searched_runs,
    single_run,
    without_record,
)
from core.amounts import amount
from core.errors import UserError
from core.places import readable as shown_place
from core.progress import duration

# What a run is called where runs are counted, by its role.
KINDS = {
    "single": "run",
    "trial": "trial",
    "final": "final run",
    "control": "control without training",
    "baseline": "predictors without training",
}
SETTINGS = ("tasks", "training")  # sections that a sweep's models share
UNSAID = ("tasks.data_seed", "training.validate_every")  # that make no other table
READ_FOR_SPEED = 3  # records of each model: their median is near enough for a forecast
MOST_LISTED = 2  # settings of committed rows in a sentence, the most frequent ones


def in_folder(place: Path) -> str:
    """Where records lie, as part of a sentence: "in runs/"."""
    return f"in {shown_place(place)}/"


def in_kinds(runs: Sequence[PlannedRun]) -> str:
    """How many runs there are of each kind: "4 × trial, 6 × final run"."""
    kinds = Counter(KINDS[run.role] for run in runs)
    return ", ".join(f"{number} × {kind}" for kind, number in kinds.items())


def _in_kinds_and_trainings(runs: Sequence[PlannedRun]) -> str:
    """As :func:`in_kinds`, with how many trainings these take, where a final run has the weights of
    a trial."""
    trainings = len({run.training for run in runs if run.role not in ("control", "baseline")})
    kinds = in_kinds(runs)
    return kinds if trainings == len(runs) else f"{kinds}; {amount(trainings, 'training')}"


@dataclass(frozen=True)
class Remaining:
    """The runs of a sweep, with the records of those that have one.

    Attributes:
        runs: of each entry, by its name.
        predictors: those of the task without training.
        may_serve_finals: a model whose trials are still to be made has final runs on record.
    """

    plan: SweepPlan
    runs: Mapping[str, Sequence[PlannedRun]]
    predictors: PlannedRun
    may_serve_finals: bool = False

    @classmethod
    def of(cls, plan: SweepPlan) -> Remaining:
        """What a store, and the committed records where they are served, leave to be made."""
        first = plan.entries[0].configuration
        committed = (COMMITTED / first.task / first.preset,) if first.committed else ()
        catalog = RecordCatalog(first.preset, Store(first.store), committed)
        runs = {}
        for entry in plan.entries:
            runs[entry.name] = list(searched_runs(entry, catalog, with_trials=True))
        may_serve_finals = False
        for entry in plan.entries:
            is_searched = any(run.role == "trial" for run in without_record(runs[entry.name]))
            if is_searched and any(True for _ in catalog.finals(entry.configuration)):
                may_serve_finals = True
        return cls(plan, runs, predictors_run(first, catalog), may_serve_finals)

    @property
    def first(self) -> Configuration:
        """What all entries share, beside their models."""
        return self.plan.entries[0].configuration

    @cached_property
    def missing(self) -> list[PlannedRun]:
        """Runs without a record, the predictors left out, which take seconds."""
        return [run for entry in self.plan.entries for run in self.missing_of(entry)]

    def missing_of(self, entry: Entry) -> list[PlannedRun]:
        """Runs of a model without a record."""
        return without_record(self.runs[entry.name])

    def without(self) -> str:
        """How many runs have no record, as a sentence."""
        every = [run for runs in self.runs.values() for run in runs]
        place = in_folder(self.first.store)
        where = f"of the project or {place}" if self.first.committed else place
        if not self.missing:
            return f"every run of this sweep has a record {where}: nothing would be trained"
        have = "has" if len(self.missing) == 1 else "have"
        return (
            f"{len(self.missing)} of the {len(every)} runs of this sweep {have} no record {where}: "
            + _in_kinds_and_trainings(self.missing)
        )

    def beginning(self, title: str = "", settings_in_words: str = "") -> list[str]:
        """Sentences for the beginning of a sweep that makes runs.

        Args:
            title: what the sweep is called, where there are several.
            settings_in_words: what tells it from these.
        """
        every = sum(len(runs) for runs in self.runs.values())
        models = amount(sum(1 for e in self.plan.entries if self.missing_of(e)), "model")
        of_all = amount(every, "run")
        count = of_all if len(self.missing) == every else f"{len(self.missing)} of {of_all}"
        words = settings_in_words or self.first.task
        name = ", ".join(filter(None, [title, words, f"preset {self.first.preset}"]))
        if not self.missing:  # what is asked for may be known by its data alone
            return [f"{name}: each of its {of_all} has a record, and nothing is trained"]
        sentences = [
            f"{name}: {count} of {models} to make "
            f"({_in_kinds_and_trainings(self.missing)}), {_duration(self._seconds(self.missing))}"
        ]
        if self.may_serve_finals:
            sentences[0] += (
                "; a final run that has a record, as a setting that was chosen before may have, is "
                "served and counted no more"
            )
        # A figure has several sweeps, and settings of its own.
        if title:
            return sentences
        note = how_to_be_ranked(self.first.preset)
        return [*self.beside_guests(), *sentences, *([note] if note else [])]

    def beside_guests(self) -> list[str]:
        """Why models are trained beside guests whose rivals were to be served, and the other ways;
        nothing where all of them are served, or none was to be."""
        entries = self.plan.entries
        guests = [entry for entry in entries if entry.guest]
        others = [entry for entry in entries if not entry.guest and self.missing_of(entry)]
        if not guests or not others or not self.first.committed:
            return []
        runs = [run for entry in others for run in self.missing_of(entry)]
        words = [_word_of(entry) for entry in guests]
        alone = f"models={','.join(words)}"
        sentence = (
            f"{self._why_not_served()}, so "
            f"{amount(len(others), 'other model')} {'is' if len(others) == 1 else 'are'} trained "
            f"here too, after yours, {_duration(self._seconds(runs))}; {alone} trains yours alone"
        )
        figure = task_card(self.first.task).get("comparison")
        if figure:
            beside = ",".join(f"{GUEST}{word}" for word in words)
            sentence += (
                f"; python -m reproduce {figure} preset={self.first.preset} models={beside} is "
                "the comparison with the committed rows"
            )
        return [sentence]

    def _why_not_served(self) -> str:
        """What the settings of committed rows are that these are not."""
        config = self.first.resolved()
        ours = {}
        for section in SETTINGS:
            for key, value in config[section].items():
                ours[f"{section}.{key}"] = value
        searched = {key for entry in self.plan.entries for key in entry.space}
        counts: Counter[str] = Counter()
        differing_by_words: dict[str, dict[str, Any]] = {}
        for settings in self._settings_on_record():
            differing = {}
            for key, value in settings.items():
                is_asked = key in ours and key not in searched and key not in UNSAID
                if is_asked and ours[key] != value:
                    differing[key] = value
            words = _in_words(differing)
            differing_by_words[words] = differing
            counts[words] += 1
        if not counts:
            return "no rows of this task are committed at this preset"
        if "" in counts:  # the search differs, or some models are not committed
            return "not every model has a committed row with these settings and this search space"
        listed = [words for words, _ in counts.most_common(MOST_LISTED)]
        keys = {key for words in listed for key in differing_by_words[words]}
        own = _in_words({key: ours[key] for key in keys})
        more = f" or {len(counts) - len(listed)} others" if len(counts) > len(listed) else ""
        theirs = " or ".join(listed)
        return (
            f"no committed row has these settings ({own}; the committed ones have {theirs}{more})"
        )

    def _settings_on_record(self) -> Iterator[dict[str, Any]]:
        """The task's and the training's settings of each committed final run, by dotted keys."""
        folder = COMMITTED / self.first.task / self.first.preset
        for path in records_in(folder):
            content = from_json(json_of(path))
            if content.get("role") == "final":
                settings = {}
                for section in SETTINGS:
                    for key, value in content["config"].get(section, {}).items():
                        settings[f"{section}.{key}"] = value
                yield settings

    def _seconds(self, runs: Sequence[PlannedRun]) -> float | None:
        return _seconds_of(runs, [entry.configuration for entry in self.plan.entries])


def beginning_of_runs(
    configurations: Sequence[Configuration], controls: Sequence[Configuration]
) -> str:
    """A sentence for the beginning of single runs, of which some are to be made.

    Args:
        configurations: of the runs.
        controls: those of the controls of claims.
    """
    first = [*configurations, *controls][0]
    committed = (COMMITTED / first.task / first.preset,) if first.committed else ()
    catalog = RecordCatalog(first.preset, Store(first.store), committed)
    runs = [single_run(configuration, catalog) for configuration in configurations]
    runs += [single_run(configuration, catalog, "control") for configuration in controls]
    left = without_record(runs)
    tasks = ", ".join(dict.fromkeys(run.configuration.task for run in left))
    count = amount(len(runs), "run")
    count = count if len(left) == len(runs) else f"{len(left)} of {count}"
    seconds = _seconds_of(left, list(configurations))
    return (
        f"{tasks}, preset {first.preset}: {count} to make ({in_kinds(left)}), {_duration(seconds)}"
    )


def seconds_on_record(configurations: Sequence[Configuration]) -> float | None:
    """How long all of some single runs take at the speed of those on record, if there are any."""
    store = Store(configurations[0].store)
    catalog = RecordCatalog(configurations[0].preset, store, ())
    runs = [single_run(configuration, catalog) for configuration in configurations]
    return _seconds_of(runs, configurations)


def _seconds_of(runs: Sequence[PlannedRun], models: Sequence[Configuration]) -> float | None:
    """How long runs take at the speed of those on record, with as many workers as they ask for;
    None where no record tells of any model. Controls are not trained, and cost a moment.

    Args:
        models: configurations of all models that may tell of their speed.
    """
    known: dict[tuple[str, str], float] = {}
    for configuration in models:
        name = (configuration.task, configuration.model)
        if name not in known and (speed := _seconds_of_a_step(configuration)) is not None:
            known[name] = speed
    if not known or not runs:
        return None
    usual = statistics.median(known.values())
    trained = {run.training: run.configuration for run in runs if run.role != "control"}
    seconds = 0.0
    for configuration in trained.values():
        speed = known.get((configuration.task, configuration.model), usual)
        seconds += speed * _steps_of(configuration)
    return seconds / max(1, workers_at_once(runs[0].configuration, len(runs)))


def _steps_of(configuration: Configuration) -> int:
    """Steps of all starts of a training, where they are known; 1 where a run is counted as one, as
    a measurement is."""
    training = configuration.training
    if configuration.takes is not None or training.steps is None:
        return 1
    return training.steps * training.restarts


def _in_words(settings: Mapping[str, Any]) -> str:
    return " ".join(shown(key, settings[key]) for key in sorted(settings))


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "how long is known after the first of them (dry_run=true estimates it)"
    return duration_in_words(seconds)


def duration_in_words(seconds: float) -> str:
    """Seconds that records tell, in words."""
    shown = duration(max(1.0, seconds))
    return f"about {shown} on an idle machine, at the speed of the runs on record"


def _word_of(entry: Entry) -> str:
    """The model as a person names it here; of a class in a file with the place of the file."""
    target = str(entry.configuration.overrides.get("models._target_", entry.configuration.model))
    path = place_of_source(target)
    if path is None:
        return target
    place = shown_place(path)  # relative below the working directory
    return f"{place if place == str(path) else f'./{place}'}:{target.rpartition(':')[2]}"


def _seconds_of_a_step(configuration: Configuration) -> float | None:
    """Seconds of a step of a model, on its task and at its preset: the median over some records of
    whole runs; of runs without counted steps the seconds of a run. None where there is no
    record."""
    c = configuration
    name = f"{c.task}-{c.model}-{c.preset}-*.json"
    speeds: list[float] = []
    for folder in (Store(c.store).records, COMMITTED / c.task / c.preset):
        for path in records_in(folder, name)[:READ_FOR_SPEED]:
            with suppress(UserError):  # a damaged record tells nothing of speed
                record = read_record(path)
                steps = record.cost.training_steps if _steps_of(c) > 1 else 1
                if record.outcome == "ok" and record.cost.wall_seconds and steps:
                    speeds.append(record.cost.wall_seconds / steps)
    return statistics.median(speeds) if speeds else None
