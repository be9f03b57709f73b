"""Commands in processes of their own, whatever their code prints, forks or changes.

A command that imports a stranger's model may print anything, leave processes behind, or never end.
So what it answers comes by a file, its standard output goes nowhere, of its standard error the last
lines are kept, it has a time limit, and whatever it started ends with it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType

import psutil

from core.errors import ERROR_FILE
from core.processes import StopIsCtrlC, describe_end

MARK = "MEMORY_BENCH_CHILD"  # environment variable that all descendants of a child have
LARGEST_TAIL = 2**16  # bytes of standard error that are kept
SECONDS_TO_STOP = 30.0  # for a child to end its step and keep a checkpoint
SECONDS_TO_DIE = 5.0  # after SIGKILL
LOOK_EVERY = 0.05  # seconds


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Attributes:
        code: exit code; negative: the signal that killed it.
        sentence: what went wrong: its error, else the last line that it wrote to standard error.
        outlived_by: processes that it left behind, which were ended: "python (4711)".
        over_limit: whether it was ended because its time was over.
    """

    code: int
    sentence: str
    outlived_by: tuple[str, ...] = ()
    over_limit: bool = False


class Child:
    """A command while it runs; leaving the block ends it and all that it started.

    Args:
        command: its words.
        cwd: where it stands; None is where this process does.
        environment: what it has beside, or in place of, the variables of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._mark = secrets.token_hex(16)
        self._answers = tempfile.TemporaryDirectory(prefix="child-")
        self._error_file = Path(self._answers.name) / "error"
        marks = f"{os.environ.get(MARK, '')} {self._mark}".strip()
        of_child = {MARK: marks, ERROR_FILE: str(self._error_file)}
        self._tail = b""
        self._stop = StopIsCtrlC()
        # Ctrl-C on the terminal is for this process, which tells its child once. A thread hears
        # nothing of it, so that its child stays where the terminal reaches it.
        self._own_group = threading.current_thread() is threading.main_thread()
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {}), **of_child},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0 if self._own_group else None,
        )
        # A pipe that nobody reads would stop the child, and one that a grandchild keeps open has no
        # end: so it is read beside, and never waited for.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stream = self.process.stderr
        assert stream is not None
        with suppress(OSError, ValueError):
            while part := os.read(stream.fileno(), LARGEST_TAIL):
                self._tail = (self._tail + part)[-LARGEST_TAIL:]

    def wait(self, limit: float | None = None) -> Ended:
        """Wait for its end, at most so many seconds, and end what it leaves behind."""
        over_limit = False
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            over_limit = True
            self._end(signal.SIGTERM)
        outlived_by = self._end_descendants()
        self._reader.join(LOOK_EVERY if outlived_by else SECONDS_TO_DIE)
        return Ended(self.process.returncode, self.sentence(), outlived_by, over_limit)

    def sentence(self) -> str:
        """The child's error in one sentence; "it said nothing" where there is none."""
        with suppress(OSError):
            return self._error_file.read_text(encoding="utf-8")
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return (lines or ["it said nothing"])[-1].removeprefix("error: ")

    def _end(self, gently: signal.Signals) -> None:
        self.process.send_signal(gently)
        try:
            self.process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _end_descendants(self) -> tuple[str, ...]:
        """Kill every process that it started, in its group or with its mark; their names."""
        return end_processes(self.process.pid if self._own_group else None, self._mark)

    def __enter__(self) -> Child:
        self._stop.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.end()  # a second signal does not wait
        try:
            if self.process.poll() is None:
                self._end(signal.SIGINT)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._end_descendants()
            self._answers.cleanup()


def run_to_end(
    command: Sequence[str],
    limit: float | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command to its end, at most ``limit`` seconds, after which it has some more to save."""
    with Child(command, cwd, environment) as child:
        return child.wait(limit)


def end_processes(group: int | None, mark: str | None = None) -> tuple[str, ...]:
    """Kill the processes of a group, and those with a mark in their environment; their names.

    Args:
        group: the id of a process that leads a group, and is gone or ends with it.
    """
    left = [process for process in psutil.process_iter() if _belongs(process, group, mark)]
    names = []
    for process in left:
        with suppress(psutil.Error):
            names.append(f"{process.name()} ({process.pid})")
            process.kill()
    psutil.wait_procs(left, SECONDS_TO_DIE)
    return tuple(names)


def _belongs(process: psutil.Process, group: int | None, mark: str | None) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if os.getpgid(process.pid) == group:
            return True
        return mark is not None and mark in process.environ().get(MARK, "").split()
    except (psutil.Error, OSError):  # of another user, or gone
        return False


def describe(ended: Ended) -> str:
    """How a child ended and what it left behind, in words that follow "it ended"."""
    words = "since its time was over" if ended.over_limit else describe_end(ended.code)
    if ended.outlived_by:
        words += f"; processes that it left behind were ended: {', '.join(ended.outlived_by)}"
    return words


def wait_for_end(process: BaseProcess, seconds: float) -> bool:
    """Whether a process of ``multiprocessing`` ends within so many seconds. Asked of the system:
    ``join`` waits for a pipe that a grandchild may keep open."""
    deadline = time.monotonic() + seconds
    while process.is_alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY)
    return True
