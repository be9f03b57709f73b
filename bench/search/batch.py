"""Runs that do not depend on each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from bench.records.store import Store
from bench.records.tracking import create_store
from bench.search.jobs import Job, describe_loss
from bench.search.placement import open_executor
from core.errors import RUN_FAILED, UserError
from core.progress import Report


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
        create_store(Store(first.store))
    records: list[RunRecord] = []
    deaths = []
    waiting, running = deque(enumerate(jobs)), 0
    # A control takes a moment where a run takes minutes: together they would have no time left.
    totals = {"runs": len(configurations), "controls": len(controls)}
    ended = dict.fromkeys(totals, 0)
    with open_executor([*configurations, *controls], report, total) as executor:
        report(*(("runs", 0, totals["runs"]) if configurations else ("controls", 0, total)))
        while waiting or running:
            while waiting and running < executor.slots:
                executor.submit(*waiting.popleft())
                running += 1
            done = executor.wait()
            running -= 1
            kind = "runs" if done.ticket < totals["runs"] else "controls"
            ended[kind] += 1
            report(kind, ended[kind], totals[kind])
            if isinstance(done.value, UserError):
                raise done.value
            if done.death is not None:
                deaths.append(describe_loss(jobs[done.ticket].name, done.death))
            else:
                records.append(done.value)
    if deaths:
        raise UserError("; ".join(deaths), RUN_FAILED)
    return records
