"""The runs of a sweep, with those that are there already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.config.samplers import tried
from bench.config.settings import Configuration
from bench.records.schema import Role, RunRecord
from bench.runs.catalog import RecordCatalog, training_key
from bench.search.plan import Entry
from bench.search.published import covers


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One run of a plan, of a sweep or a figure.

    Attributes:
        configuration: as it is run; of a final run whose setting no search has chosen yet, that
            before the search.
        key: equal for the same run, whichever figure asks for it.
        training: equal for runs that share one training, which is paid once.
        identities: what its record may be called.
        served: its record, if there is one.
    """

    configuration: Configuration
    role: Role
    key: str
    training: str
    identities: tuple[str, ...] = ()
    served: RunRecord | None = None


def without_record(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """Those that have no record."""
    return [run for run in runs if run.served is None]


def single_run(
    configuration: Configuration, catalog: RecordCatalog, role: Role = "single"
) -> PlannedRun:
    """A run of its own, by whichever of its names it has a record."""
    key = f"{configuration.seed} {configuration.setting}"
    trained = configuration.of_training()
    training = key
    if trained is not configuration:
        training = f"{configuration.seed} {trained.setting}"
    names = catalog.identities(configuration)
    return PlannedRun(
        configuration,
        role,
        f"{configuration.task} {configuration.preset} {'trial ' if role == 'trial' else ''}{key}",
        training,
        names,
        catalog.find(names, configuration.seed, trial=role == "trial"),
    )


def predictors_run(configuration: Configuration, catalog: RecordCatalog) -> PlannedRun:
    """One for all of them: they cost seconds, and their labels are the task's to know."""
    of = configuration.model_copy(update={"models": {}, "seed": 0})
    key = f"predictors {training_key({'tasks': of.resolved()['tasks']}, 0)}"
    records = catalog.predictors(of)
    names = tuple(record.identity for record in records)
    return PlannedRun(of, "baseline", key, key, names, records[0] if records else None)


def searched_runs(
    entry: Entry, catalog: RecordCatalog, *, with_trials: bool = False
) -> Iterator[PlannedRun]:
    """A model of a sweep: the final runs of the setting that a search chose, else trials first.

    Args:
        with_trials: trials of a search that has chosen are listed too, as served by its record, so
            that a sweep counts as many runs before and after them.
    """
    configuration = entry.configuration
    search = _search_on_record(entry, catalog)
    if search is not None:
        record, chosen = search
        for number in range(_budget(entry) if with_trials else 0):
            key = f"trial {number} of {record.run_id} {configuration.overrides}"
            yield PlannedRun(configuration, "trial", key, key, served=record)
        for final in chosen.final_runs():
            yield single_run(final, catalog, "final")
        return
    sweep, seed = configuration.sweep, configuration.seed
    settings = tried(entry.space, sweep.sampler, sweep.n_trials, seed)
    trials = [single_run(entry.at(setting), catalog, "trial") for setting in settings]
    yield from trials
    for final in configuration.final_runs():
        # The first final run has the weights of a trial.
        key = f"final {final.seed} of {configuration.overrides} {dict(entry.space)}"
        training = trials[0].training if final.seed == configuration.seed else key
        yield PlannedRun(final, "final", key, training)


def _budget(entry: Entry) -> int:
    """How many trials a search makes, before its space grows."""
    return min(entry.configuration.sweep.n_trials, entry.settings)


def _search_on_record(
    entry: Entry, catalog: RecordCatalog
) -> tuple[RunRecord, Configuration] | None:
    """A finished final run of a search over this space, and the setting that it came to."""
    budget = _budget(entry)
    for record in catalog.finals(entry.configuration):
        study = record.study
        if study is None or not covers(study.search_space, entry.space):
            continue
        extended = study.search_space != dict(entry.space)
        if len(study.trials) == budget or (extended and len(study.trials) > budget):
            setting = {key: _value(record, key) for key in study.search_space}
            chosen = entry.at(setting)
            if record.identity in catalog.identities(chosen):
                return record, chosen
    return None


def _value(record: RunRecord, key: str) -> Any:
    section, _, name = key.partition(".")
    return record.config[section].get(name)
