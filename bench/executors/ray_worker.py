"""A job on a node of a Ray cluster: its files, and the news of it, while it runs.

A node shares nothing with the driver. Files of the job come with it and lie in a folder of its own;
what the job writes there goes to a Ray actor beside the driver, every so many seconds and
at the end. When the node dies, Ray gives the job to another, which asks the actor for them.
"""

from __future__ import annotations

import fcntl
import io
import os
import pickle
import platform
import tarfile
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.config.limits import GPU_SHARE
from bench.executors.interface import Files, answer
from bench.records.layout import LAYOUT_FILE
from core.errors import RUN_FAILED, UserError
from core.progress import Report, now_and_then

DATA = Path("data")  # in Ray's working directory on the node, so it is made once for each node
SECONDS_BETWEEN_NEWS = 2.0


@dataclass(frozen=True)
class Assignment:
    """What a node is told of a job.

    Attributes:
        pickled: work, job and payload. They are unpickled here, so that a node which cannot import
            them says so.
        files: those that the driver had when the job was submitted.
        data: file or folder of the driver's that the job reads -> hash, reference to it packed.
        interval: seconds after which the actor has what changed in the job's folder.
        gpu_share: part of the memory of one GPU that the job may take, in (0, 1].
    """

    ticket: int
    pickled: bytes
    files: Files
    data: Mapping[str, tuple[str, Any]]
    interval: float
    gpu_share: float = 1.0


class CheckpointActor:
    """Keeps, beside the driver, the latest files of jobs under way and how far they are."""

    def __init__(self) -> None:
        self._files: dict[int, dict[str, bytes]] = {}
        self._changed: dict[int, set[str]] = {}
        self._reports: dict[int, tuple[str, int, int]] = {}

    def keep(self, ticket: int, files: Files) -> None:
        """Take files that changed."""
        self._files.setdefault(ticket, {}).update(files)
        self._changed.setdefault(ticket, set()).update(files)

    def hear(self, ticket: int, *report: Any) -> None:
        """Take a line about how far a job is."""
        self._reports[ticket] = report

    def latest(self, ticket: int) -> Files:
        """All that an attempt at this job has sent."""
        return self._files.get(ticket, {})

    def news(self) -> tuple[list[tuple[str, int, int]], dict[int, Files]]:
        """Reports and files that came since this was asked last."""
        reports, changed = list(self._reports.values()), self._changed
        self._reports, self._changed = {}, {}
        files: dict[int, Files] = {}
        for ticket, names in changed.items():
            files[ticket] = {name: self._files[ticket][name] for name in names}
        return reports, files

    def forget(self, ticket: int) -> None:
        """The driver has all of this job."""
        for by_ticket in (self._files, self._changed, self._reports):
            by_ticket.pop(ticket, None)


class WatchedFolder:
    """A folder of which changed files are told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def fill(self, files: Files) -> None:
        """Write files, which are then no news."""
        for name, content in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(content)
        self.changed()

    def names(self) -> dict[str, Path]:
        """Every file but locks, those that are being written, which begin with a dot, and what the
        driver's store states of itself."""
        files = {str(p.relative_to(self.path)): p for p in self.path.rglob("*") if p.is_file()}
        left_out = ("lock", LAYOUT_FILE)
        return {n: p for n, p in files.items() if p.name not in left_out and p.name[0] != "."}

    def changed(self) -> dict[str, bytes]:
        """What was written since this was asked last; every file here is written atomically."""
        contents = {}
        with self._lock:
            for name, path in self.names().items():
                try:
                    status = path.stat()
                    stamp = (status.st_mtime_ns, status.st_ino)
                    if self._seen.get(name) != stamp:
                        contents[name], self._seen[name] = path.read_bytes(), stamp
                except FileNotFoundError:  # a checkpoint that the weights have replaced
                    continue
        return contents


def run(task: Assignment, actor: Any) -> tuple[str, Any, Files, frozenset[str] | None]:
    """Run a job in a folder of its own: how it ended, what changed, and the names of all its files.

    Raises:
        KeyboardInterrupt: Ray was told to cancel it; the actor has its last checkpoint.
    """
    import ray

    try:
        work, job, payload = pickle.loads(task.pickled)
    except ImportError as error:
        return "raised", _missing_package(error), {}, None
    os.environ[GPU_SHARE] = repr(task.gpu_share)
    places = {}
    for path, (digest, reference) in task.data.items():
        places[path] = _place_of_data(path, digest, partial(ray.get, reference))
    with tempfile.TemporaryDirectory(prefix="job-", dir=Path.cwd()) as name:
        folder, ended = WatchedFolder(Path(name)), threading.Event()
        folder.fill({**task.files, **ray.get(actor.latest.remote(task.ticket))})

        def send() -> None:
            files = folder.changed()
            if files:
                ray.get(actor.keep.remote(task.ticket, files))

        def send_now_and_then() -> None:
            while not ended.wait(task.interval):
                send()

        def unpack_and_work(job: Any, report: Report) -> Any:
            try:
                return work(payload.unpack(job, Path(name), places), report)
            except ImportError as error:
                raise _missing_package(error) from error

        sending = threading.Thread(target=send_now_and_then, daemon=True)
        sending.start()
        try:
            kind, value = answer(unpack_and_work, job, _reporter(task.ticket, actor))
        except KeyboardInterrupt:
            send()
            raise
        finally:
            ended.set()
            sending.join()  # what it has taken is with the actor before the job has ended
        return kind, value, folder.changed(), frozenset(folder.names())


def _missing_package(error: ImportError) -> UserError:
    return UserError(
        f"the node {platform.node()} of the cluster cannot run this ({error}): install the same "
        "environment on every node, as on this machine",
        RUN_FAILED,
    )


def _reporter(ticket: int, actor: Any) -> Report:
    latest: tuple[str, int, int] = ("", 0, 0)
    tell = now_and_then(lambda: actor.hear.remote(ticket, *latest), SECONDS_BETWEEN_NEWS)

    def report(part: str, done: int, total: int) -> None:
        nonlocal latest
        latest = (part, done, total)
        tell()

    return report


def as_tar(path: Path) -> bytes:
    """A file or a folder, to be unpacked by a node."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(path.resolve(), arcname=path.name)
    return content.getvalue()


def _place_of_data(path: str, digest: str, fetch: Callable[[], bytes]) -> Path:
    """Where on this node a file or folder lies that a job reads; the first job brings it."""
    folder = DATA / digest
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            with tarfile.open(fileobj=io.BytesIO(fetch())) as archive:
                archive.extractall(folder, filter="data")
            (folder / ".complete").touch()
    return (folder / Path(path).name).resolve()


def device_class() -> str:
    """What a job computes on here."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
