"""Runs that do not depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

from bench.records.schema import RunRecord
from bench.records.store import Store
from bench.search.executors import Executor, InProcess, Pool
from bench.search.jobs import Job, execute
from ground.errors import RUN_FAILED, UserError
from ground.progress import Report
from settings.settings import Configuration


def make_all(
    configurations: Sequence[Configuration],
    report: Report,
    controls: Sequence[Configuration] = (),
) -> list[RunRecord]:
    """One run for each configuration, and for each of the controls of claims, in as many worker
    processes as the settings say.

    Raises:
        UserError: a setting that the model refuses, or a run that no worker survived (after all
            others were made).
    """
    jobs = [Job(f"seed {c.seed}", c, "single") for c in configurations]
    jobs += [Job(f"control, seed {c.seed}", c, "control") for c in controls]
    first, total = jobs[0].configuration, len(jobs)
    workers = min(first.sweep.workers, total)
    if workers and first.tracking == "mlflow":
        from bench.records.tracking import create_store

        create_store(Store(first.store))
    executor: Executor = InProcess(execute, report)
    if workers:
        executor = Pool(execute, [{"OMP_NUM_THREADS": "1"}] * workers, report)
    records = []
    deaths = []
    with executor:
        for ticket in range(executor.slots):
            executor.submit(ticket, jobs[ticket])
        for ended in range(total):
            report("runs", ended, total)
            done = executor.wait()
            if ended + executor.slots < total:
                executor.submit(ended + executor.slots, jobs[ended + executor.slots])
            if isinstance(done.value, UserError):
                raise done.value
            if done.death is not None:
                deaths.append(f"{jobs[done.ticket].name}: {done.death}")
            else:
                records.append(done.value)
    report("runs", total, total)
    if deaths:
        raise UserError(f"{'; '.join(deaths)}: try again with fewer workers", RUN_FAILED)
    return records
