"""Runs that do not depend on each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from bench.records.store import Store
from bench.records.tracking import create_store
from bench.search.jobs import Job, describe_loss
from bench.search.placement import open_executor
from bench.search.remaining.left import beginning_of_runs
from core.errors import RUN_FAILED, UserError
from core.progress import Report


def make_all(
    configurations: Sequence[Configuration],
    report: Report,
    controls: Sequence[Configuration] = (),
    tell: Callable[[str], None] | None = None,
) -> list[RunRecord]:
    """One run for each configuration, and for each of the controls of claims, in as many worker
    processes as the settings say.

    Args:
        tell: takes a sentence for the beginning, once the first run has to be made.

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

    def begin() -> None:
        if tell is not None:
            tell(beginning_of_runs(configurations, controls))
        report(*(("runs", 0, totals["runs"]) if configurations else ("controls", 0, total)))

    with open_executor([*configurations, *controls], report, total, before_first=begin) as executor:
        while waiting or running:
            while waiting and running < executor.slots:
                executor.submit(*waiting.popleft())
                running += 1
            done = executor.wait()
            running -= 1
            kind = "controls" if jobs[done.ticket].role == "control" else "runs"
            if done.served:  # took no time, so that it says nothing of the others
                totals[kind] -= 1
            else:
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
