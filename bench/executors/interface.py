"""How jobs are run, whoever owns the processes: one interface, and what travels with a job.

Jobs are idempotent (a run goes on from its checkpoint), so a job whose worker or machine dies is
simply given to another. Importing PyTorch and Lightning costs seconds: workers pay it once.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from core.errors import RUN_FAILED, UserError
from core.progress import Report

# work(job, report) -> value. Where it runs in other processes it is a function of a module that is
# light to import; jobs and values can be pickled.
Work = Callable[[Any, Report], Any]
Files = Mapping[str, bytes]  # name below a folder -> content

ATTEMPTS = 3  # a job that kills its worker this often is given up
SECONDS_TO_STOP = 30.0  # for a worker to finish its step and write a checkpoint
SECONDS_BETWEEN_REPORTS = 0.2


@dataclass(frozen=True)
class Done:
    """A job's end: its value, or why no worker survived it.

    Attributes:
        served: whether the value was there, so that nothing was run.
    """

    ticket: int
    value: Any = None
    death: str | None = None
    served: bool = False


class Executor(Protocol):
    """Runs up to ``slots`` jobs at a time; used as a context manager, which stops what still runs.

    ``wait`` blocks until one job has ended. What a job raises is raised there.
    """

    @property
    def slots(self) -> int: ...

    def submit(self, ticket: int, job: Any) -> None: ...

    def wait(self) -> Done: ...

    def __enter__(self) -> Executor: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Payload(Protocol):
    """What travels with jobs to machines that share no file system. It can be pickled."""

    def found(self, job: Any) -> Any:
        """The value of a job that need not be run; None if it has to be."""

    def pack(self, job: Any) -> Files:
        """What the driver has of a job, so that it goes on from there."""

    def data(self, job: Any) -> Mapping[str, str]:
        """Files and folders of the driver's machine that the job reads -> hash of their content."""

    def unpack(self, job: Any, folder: Path, places: Mapping[str, Path]) -> Any:
        """On the node: the same job, with its files in ``folder``, and where it finds what it
        reads.

        Raises:
            UserError: this node cannot run it.
        """

    def keep(self, job: Any, files: Files, present: frozenset[str] | None) -> None:
        """On the driver's side again: what the job wrote since; ``present`` names all the files
        that it has when it has ended."""


@dataclass(frozen=True)
class Submission:
    """A job on its way to the cluster; ``data`` names what it reads on this machine, and the hash
    of that."""

    ticket: int
    job: Any
    files: Mapping[str, bytes]
    data: Mapping[str, str]


def cluster_is_unreachable(place: str | None, cause: str) -> UserError:
    """What a driver says that finds no cluster."""
    failure = f"no Ray cluster can be joined at {place}" if place else "Ray cannot start here"
    return UserError(
        f"{failure} ({cause}): start one with `ray start --head`, give its address by ray.address= "
        "or RAY_ADDRESS, or leave both out for a cluster on this machine; one that was started "
        "with a token is joined with the same one (RAY_AUTH_MODE=token, and the token in "
        "~/.ray/auth_token or RAY_AUTH_TOKEN)",
        RUN_FAILED,
    )


def cluster_is_gone(cause: str = "") -> UserError:
    """What a driver says whose cluster went away."""
    return UserError(
        f"the Ray cluster is gone{f' ({cause})' if cause else ''}: what has ended is recorded, and "
        "every run goes on from the last checkpoint that came back; start the cluster and give "
        "the same command again",
        RUN_FAILED,
    )


def answer(work: Work, job: Any, report: Report) -> tuple[str, Any]:
    """What came of a job, in a form that travels: "done" with its value, or "raised"."""
    try:
        return "done", work(job, report)
    except Exception as error:
        return "raised", portable(error)


def portable(error: Exception) -> Exception:
    """The same exception if it can travel, with the worker's traceback as a note."""
    story = "in a worker process:\n" + traceback.format_exc()
    error.add_note(story)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(story)
    return error


def throttled(send: Report) -> Report:
    """A report that is passed on not more often than a person can read, and where work begins."""
    last, latest = 0.0, ""

    def report(description: str, done: int, total: int) -> None:
        nonlocal last, latest
        now = time.monotonic()
        begins = done == 0 and description != latest
        if done >= total or begins or now - last >= SECONDS_BETWEEN_REPORTS:
            last, latest = now, description
            send(description, done, total)

    return report
