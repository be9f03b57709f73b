"""Runs that do not depend on each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from bench.records.schema import RunRecord
from bench.records.store import Store
from bench.search.jobs import Job
from bench.search.placement import open_executor
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
    if first.tracking == "mlflow":
        from bench.records.tracking import create_store

        create_store(Store(first.store))
    records: list[RunRecord] = []
    deaths = []
    waiting, running = deque(enumerate(jobs)), 0
    with open_executor([*configurations, *controls], report, total) as executor:
        while waiting or running:
            report("runs", total - len(waiting) - running, total)
            while waiting and running < executor.slots:
                executor.submit(*waiting.popleft())
                running += 1
            done = executor.wait()
            running -= 1
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
