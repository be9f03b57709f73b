"""What a worker is given, runs of a search or one by itself, and how it does it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.config.settings import Configuration
from bench.config.source_files import use_places
from bench.records.schema import Role, RunRecord, Study, write_record
from bench.records.store import Store
from bench.runs.get_or_run import computing, get_or_run
from bench.runs.serving import serve
from core.errors import UserError
from core.progress import Report


@dataclass(frozen=True)
class Job:
    """One run, on its way to a worker.

    A trial, and a final run of a search of this store, are made here whatever is committed: the
    numbers of another machine would be told as those by which this search chose.

    Attributes:
        study: the search of this store that chose the run's setting; None for a run that no search
            chose, or one elsewhere.
    """

    name: str
    configuration: Configuration
    role: Role
    study: Study | None = None

    def __post_init__(self) -> None:
        if self.role == "trial" or self.study is not None:
            uncommitted = self.configuration.model_copy(update={"committed": False})
            object.__setattr__(self, "configuration", uncommitted)


@dataclass(frozen=True)
class JobStack:
    """Runs of equal shapes, whose trainings a worker computes as one."""

    jobs: tuple[Job, ...]


def describe_loss(run: str, death: str) -> str:
    """What is said of a run that no worker survived: a fault of the machine, not of its setting."""
    return (
        f"{run} was lost ({death}): the same command tries it again, and fewer workers at a time "
        "help where memory ran out"
    )


Answer = RunRecord | UserError


def execute(job: Job | JobStack, report: Report) -> Answer | list[Answer]:
    """What a worker does with a job; of a stack the answers in order."""
    if isinstance(job, Job):
        return _execute(job, report)
    use_places(job.jobs[0].configuration.source_files)
    computing().train_together([(member.configuration, member.role) for member in job.jobs], report)
    return [_execute(member, report) for member in job.jobs]


def described(description: str, job: Job) -> str:
    """What a run reports, with what the job is; the seed, which many jobs are named by, once. A
    phase comes last: "LSTM seed 0, trial 3: examining the model"."""
    run, separator, phase_of_run = description.partition(": ")
    parts = [run]
    for part in job.name.split(", "):
        if not re.search(rf"\b{re.escape(part)}\b", run):
            parts.append(part)
    return f"{', '.join(parts)}{separator}{phase_of_run}"


def _execute(job: Job, report: Report) -> Answer:
    """Obtain a job's record; a setting that the model refuses is an answer, not an exception."""

    def report_job(description: str, done: int, total: int) -> None:
        report(described(description, job), done, total)

    configuration = job.configuration
    use_places(configuration.source_files)
    try:
        record = get_or_run(configuration, role=job.role, study=job.study, report=report_job)
    except UserError:
        refusal = computing().refusal_of(configuration)
        if refusal is None:
            raise
        return refusal
    return _of_search(job, record)


def served(job: Job | JobStack) -> RunRecord | None:
    """The record of a job that is there, by what is known without its data; None of a stack."""
    if isinstance(job, JobStack):
        return None
    use_places(job.configuration.source_files)
    record = serve(job.configuration, job.role)
    return None if record is None else _of_search(job, record)


def _of_search(job: Job, record: RunRecord) -> RunRecord:
    """A record with the search that a job is of, in the store too: the same run may have been
    there, of another role or of a search with fewer trials."""
    if job.study is None or (record.role == job.role and record.study == job.study):
        return record
    cost = record.cost.model_copy(update={"tuning_trials": len(job.study.trials)})
    record = record.model_copy(update={"role": job.role, "study": job.study, "cost": cost})
    write_record(record, Store(job.configuration.store).record_folder(job.role))
    return record
