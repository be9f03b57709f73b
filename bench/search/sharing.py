"""Runs that several drivers share: each is made by one of them, and all have its record."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.executors.interface import Done, Executor
from bench.records.schema import FINISHED, RunRecord
from bench.records.store import Store, record_path
from bench.runs.get_or_run import make_data
from bench.runs.serving import identify
from bench.search.jobs import Job
from core.errors import UserError
from core.places import is_server
from core.progress import Report

if TYPE_CHECKING:
    from bench.search.coordinator import Coordinator

SECONDS_BETWEEN_LOOKS = 1.0


@cache
def open_coordinator(address: str, store: Path) -> Coordinator | None:
    """The coordinator of a store's driver; None where a database or journal has one driver
    alone."""
    if not is_server(address):
        return None
    from bench.search.coordinator import join_drivers  # SQLAlchemy takes a fifth of a second

    return join_drivers(address, store)


class SharedRuns:
    """An executor's jobs, but for those that another driver is at: these wait for its record.

    They take no slot, so that others are begun meanwhile.
    """

    def __init__(self, executor: Executor, coordinator: Coordinator, report: Report) -> None:
        self._executor, self._coordinator, self._report = executor, coordinator, report
        self._here: dict[int, tuple[str, Job]] = {}
        self._elsewhere: dict[int, Job] = {}

    @property
    def slots(self) -> int:
        """The executor's slots, and one for each job that waits."""
        return self._executor.slots + len(self._elsewhere)

    def submit(self, ticket: int, job: Job) -> None:
        """Begin a job, unless another driver has."""
        if not self._begin(ticket, job):
            self._elsewhere[ticket] = job

    def _begin(self, ticket: int, job: Job) -> bool:
        configuration = job.configuration
        make_data(configuration, self._report)
        run_id = identify(configuration).run_id(configuration.seed)
        run = place_of(job.role, run_id)
        study = job.study.name if job.study else ""
        near = place_of("trial", run_id) if study else ""
        lease = self._coordinator.lease(run, near, study)
        if lease.state == "held":
            return False
        if lease.state == "done" and not (configuration.store / run).exists():
            self._coordinator.write_record(configuration.store, run, lease.record)
        self._here[ticket] = run, job
        self._executor.submit(ticket, job)
        return True

    def wait(self) -> Done:
        """The end of a job, here or by its record from elsewhere."""
        while True:
            for ticket, job in list(self._elsewhere.items()):
                if len(self._here) < self._executor.slots and self._begin(ticket, job):
                    del self._elsewhere[ticket]
            if self._here:
                done = self._executor.wait()
                self._share(done)
                return done
            number = len(self._elsewhere)
            self._report("waiting for runs of other drivers", 0, number)
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _share(self, done: Done) -> None:
        run, job = self._here.pop(done.ticket)
        record = done.value
        if isinstance(record, RunRecord) and record.outcome in FINISHED:
            path = record_path(record, job.configuration.store)
            self._coordinator.publish(run, path.read_text())
        else:
            self._coordinator.release(run)

    def __enter__(self) -> SharedRuns:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(UserError):  # a server that is gone: what this driver has is soon another's
            for run, _job in self._here.values():
                self._coordinator.release(run)


def place_of(role: str, run_id: str) -> str:
    """The name of a run: where its record lies below a store."""
    return f"{Store(Path()).record_folder(role)}/{run_id}.json"
