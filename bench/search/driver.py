"""The driver of a sweep: it owns every study, hands out jobs and takes their records in."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from bench.config.search_space import Space, widened
from bench.executors.interface import Executor
from bench.records.schema import RunRecord
from bench.records.store import Store
from bench.records.tracking import create_store
from bench.runs.get_or_run import get_or_run_baselines, make_data
from bench.runs.serving import known_data
from bench.search.model_search import ModelResult, ModelSearch, Stage
from bench.search.placement import open_executor
from bench.search.plan import SweepPlan
from bench.search.remaining.left import Remaining
from bench.search.remaining.pace import Pace
from bench.search.sharing import SECONDS_BETWEEN_LOOKS, open_coordinator
from bench.search.storage import open_storage
from core.errors import RUN_FAILED, UserError
from core.files import lock
from core.progress import Report

Tell = Callable[[str], None]  # takes a sentence for a person


@dataclass
class SweepResult:
    """All models of a sweep and the task's predictors without training."""

    models: list[ModelResult]
    baselines: list[RunRecord]


def run_plan(
    plan: SweepPlan,
    report: Report,
    tell: Tell | None = None,
    title: str = "",
    settings_in_words: str = "",
) -> SweepResult:
    """Run what is missing of a plan and collect the whole of it.

    Args:
        tell: takes the sentences for the beginning, once the first run has to be made.
        title: what the sweep is called, where there are several.
        settings_in_words: what tells it from these, for the first sentence.

    Raises:
        UserError: a user's mistake, or another sweep at work in the same store.
        KeyboardInterrupt: stopped; the same plan goes on from there.
    """
    configuration = plan.entries[0].configuration
    store = Store(configuration.store)
    store.state_layout()
    with _only_driver(store):
        if configuration.tracking == "mlflow":
            create_store(store)
        if known_data(configuration) is None:
            make_data(configuration, report)
        storage = open_storage(plan.settings.storage, store.studies)
        configurations = [entry.configuration for entry in plan.entries]
        coordinator = open_coordinator(plan.settings.storage, store.root)
        pace = Pace(report, title)

        def begin() -> None:
            pace.makes_runs = True
            if tell is not None:
                remaining = Remaining.of(plan)
                pace.expect({e.name: len(remaining.missing_of(e)) for e in plan.entries})
                for sentence in remaining.beginning(title, settings_in_words):
                    tell(sentence)

        with open_executor(
            configurations, report, plan.runs, prepare=True, before_first=begin
        ) as executor:
            searches = [ModelSearch(entry, storage, store, coordinator) for entry in plan.entries]
            names = [search.study.name for search in searches]
            with coordinator.working_on(names) if coordinator else nullcontext():
                _drive(searches, executor, pace)
            for search in searches:
                search.finish(_is_blocked(search, searches))
            if coordinator:
                coordinator.write_missing(store.root)
        baselines: list[RunRecord] = []
        for run in configuration.of_each_data_seed():
            baselines += get_or_run_baselines(run, report)
    return SweepResult([search.result for search in searches], baselines)


def records_of(
    plan: SweepPlan,
    report: Report,
    tell: Tell | None = None,
    title: str = "",
    settings_in_words: str = "",
) -> list[RunRecord]:
    """The final records of every model and the baselines of a sweep.

    Args:
        tell, title, settings_in_words: as :func:`run_plan`.

    Raises:
        UserError: a user's mistake, another sweep at work in the same store, or a run that no
            worker survived (after all others were made).
        KeyboardInterrupt: stopped; the same sweep goes on from there.
    """
    result = run_plan(plan, report, tell, title, settings_in_words)
    records, lost = [], []
    for model in result.models:
        records += model.records
        lost += [f"{model.label}: {sentence}" for sentence in model.lost]
    if lost:
        raise UserError("; ".join(lost), RUN_FAILED)
    return [*records, *result.baselines]


@contextmanager
def _only_driver(store: Store) -> Iterator[None]:
    path = store.studies / "driver.lock"
    try:
        held = lock(path)
    except BlockingIOError:
        raise UserError(
            f"another sweep (process {path.read_text().strip()}) is at work in {store.root}: wait "
            "for its end, or give this one another store=FOLDER"
        ) from None
    with held:
        held.truncate(0)
        held.write(str(os.getpid()).encode())
        yield


def _drive(searches: Sequence[ModelSearch], executor: Executor, pace: Pace) -> None:
    # What is asked about comes first: its rivals may take hours.
    guests_first = sorted(searches, key=lambda search: not search.entry.guest)
    pace.begin(searches)
    running: dict[int, ModelSearch] = {}
    tickets = itertools.count()
    space, reach = _first_space(searches)
    # A guest has the settings of all others, and more where it needs them: theirs stay.
    spaces = {False: space, True: space}
    for search in searches:
        # Where no space can grow, no model waits for another one's trials.
        search.extend_space(space, Stage.TRIALS if reach else Stage.FINALS)
    try:
        while True:
            while len(running) < executor.slots:
                ticket = next(tickets)
                starting = next((c for c in guests_first if c.start(ticket, executor)), None)
                if starting is None:
                    break
                running[ticket] = starting
            pace.show()
            if not running:
                if any(search.waits() for search in searches):
                    pace.report("waiting for trials of other drivers", 0, 1)
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                    continue
                going = [search for search in searches if not _is_blocked(search, searches)]
                if all(search.stage == Stage.FINALS for search in going):
                    if all(search.is_over() for search in going):
                        return
                    continue
                before = dict(spaces)
                for guest in spaces:
                    best = [search.best() for search in searches if guest or not search.entry.guest]
                    spaces[guest] = widened(before[guest], reach, filter(None, best))
                for search in going:
                    guest = search.entry.guest
                    grown = spaces[guest] != before[guest]
                    next_stage = Stage(min(search.stage + 1, Stage.FINALS))
                    search.extend_space(spaces[guest], Stage.TRIALS if grown else next_stage)
                continue
            done = executor.wait()
            search = running.pop(done.ticket)
            search.take_result(done)
            pace.count(search, done)
    except BaseException:
        with suppress(UserError):  # a database that is gone: the next start finds them lost
            for search in searches:
                search.interrupt()
        raise


def _is_blocked(search: ModelSearch, searches: Sequence[ModelSearch]) -> bool:
    """Whether nobody knows yet how far a model's space grows, since a run was lost that decides."""
    deciding = (other for other in searches if search.entry.guest or not other.entry.guest)
    return search.stage < Stage.FINALS and any(other.is_stuck for other in deciding)


def _first_space(searches: Sequence[ModelSearch]) -> tuple[Space, Space]:
    """The space that all start from, and the reach of those of its keys that can grow: none where a
    search does not try its whole grid. A committed search may have grown already."""
    space: dict[str, Sequence[Any]] = {}
    reach: dict[str, Sequence[Any]] = {}
    for search in searches:
        reach |= search.study.reach
        for key, values in search.space.items():
            space[key] = max(space.get(key, ()), values, key=len)
    if any(search.entry.settings > search.configuration.sweep.n_trials for search in searches):
        return space, {}
    return space | {key: sorted(space[key]) for key in reach}, reach
