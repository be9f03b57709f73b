"""Jobs in this process, or in a pool of worker processes that stay alive."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from bench.executors.interface import ATTEMPTS, SECONDS_TO_STOP, Done, Work, answer, throttled
from core.children import end_processes, wait_for_end
from core.errors import INTERRUPTED
from core.files import ROOT
from core.processes import STOPS, StopIsCtrlC, describe_end, end_with_parent, start_with_blocked
from core.progress import Report, silent


class InProcess:
    """One job at a time, here."""

    slots = 1

    def __init__(self, work: Work, report: Report = silent) -> None:
        self._work, self._report = work, report
        self._waiting: deque[tuple[int, Any]] = deque()

    def submit(self, ticket: int, job: Any) -> None:
        self._waiting.append((ticket, job))

    def wait(self) -> Done:
        ticket, job = self._waiting.popleft()
        return Done(ticket, self._work(job, self._report))

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()


STARTING = "workers: starting"
SECONDS_BETWEEN_LOOKS = 0.5  # for workers that died while their pipe stayed open


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    place: int
    ticket: int | None = None


# What a run imports: seconds of each worker's time, if it were not forked from a process that has.
# Lightning comes with the first: imported by itself, it brings libraries that no run needs.
IMPORTED_ONCE = ("bench.training.trainer", "bench.runs.fresh", "bench.search.jobs")


class Pool:
    """Worker processes, started when first needed and replaced when they die. They are forked from
    a server that has imported what runs need: not from this process, whose threads and GPU would
    not survive it.

    Args:
        environments: one for each worker: what is set in ``os.environ`` before ``work`` is called
            for the first time, such as the GPU it may see.
        imported: modules that the server imports, the first time that this process opens a pool.
    """

    def __init__(
        self,
        work: Work,
        environments: Sequence[Mapping[str, str]],
        report: Report = silent,
        imported: Sequence[str] = IMPORTED_ONCE,
    ) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(imported))
        self.slots = len(environments)
        self._work, self._environments, self._report = work, environments, report
        self._workers: list[_Worker] = []
        self._jobs: dict[int, Any] = {}
        self._deaths: dict[int, list[str]] = {}
        self._stop = StopIsCtrlC()
        self._is_heard = False  # since a worker has said something

    def submit(self, ticket: int, job: Any) -> None:
        self._jobs[ticket] = job
        self._deaths[ticket] = []
        self._assign(ticket)

    def _assign(self, ticket: int) -> None:
        idle = [worker for worker in self._workers if worker.ticket is None]
        worker = idle[0] if idle else self._start()
        worker.ticket = ticket
        try:
            worker.connection.send(self._jobs[ticket])
        except OSError:  # it died while it was idle
            self._remove(worker)
            self._assign(ticket)

    def _start(self) -> _Worker:
        taken = {worker.place for worker in self._workers}
        place = next(i for i in range(self.slots) if i not in taken)
        ours, theirs = self._context.Pipe()
        environment = dict(self._environments[place])
        arguments = (theirs, self._work, environment, dict(os.environ))
        process = self._context.Process(target=_serve, args=arguments, daemon=True)
        with _for_the_server(self._environments[place]):
            # A worker has no Ctrl-C until it is able to handle it. The server, which comes with the
            # first start, never has any of these: what ends a whole group, as `timeout` does, would
            # end it, and with it its workers, before they have kept a checkpoint.
            start_with_blocked(process, signal.SIGINT, *STOPS)
        theirs.close()  # or the end of the child would not close the pipe
        worker = _Worker(process, ours, place)
        self._workers.append(worker)
        if not self._is_heard:
            self._report(STARTING, 0, 1)
        return worker

    def _remove(self, worker: _Worker) -> str:
        """Forget a worker that ends, and end what its jobs have left behind; how it ended."""
        worker.connection.close()
        if not wait_for_end(worker.process, SECONDS_TO_STOP):
            worker.process.kill()
            wait_for_end(worker.process, SECONDS_TO_STOP)
        end = describe_end(worker.process.exitcode)
        _end_what_is_left(worker)
        self._workers.remove(worker)
        return end

    def wait(self) -> Done:
        while True:
            ready = wait([worker.connection for worker in self._workers], SECONDS_BETWEEN_LOOKS)
            for worker in list(self._workers):
                if worker.connection in ready:
                    done = self._read(worker)
                elif worker.process.is_alive() or worker.connection.poll():
                    continue
                else:  # the pipe has no end where a process that its job forked keeps it open
                    done = self._replace(worker)
                if done is not None:
                    return done

    def _read(self, worker: _Worker) -> Done | None:
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            return self._replace(worker)
        if not self._is_heard:
            self._is_heard = True
            self._report(STARTING, 1, 1)
        if kind == "progress":
            self._report(*content)
            return None
        ticket = worker.ticket
        assert ticket is not None
        worker.ticket = None
        self._forget(ticket)
        if kind == "raised":
            raise content
        return Done(ticket, content)

    def _replace(self, worker: _Worker) -> Done | None:
        ticket = worker.ticket
        end = self._remove(worker)
        if ticket is None:
            return None
        self._deaths[ticket].append(end)
        if len(self._deaths[ticket]) < ATTEMPTS:
            self._assign(ticket)
            return None
        self._forget(ticket)
        return Done(ticket, death=f"its worker died {ATTEMPTS} times, at last {end}")

    def _forget(self, ticket: int) -> None:
        del self._jobs[ticket], self._deaths[ticket]

    def __enter__(self) -> Pool:
        """Start: from here on SIGTERM, SIGHUP and SIGUSR1 are as Ctrl-C, and each worker ends its
        step and keeps a checkpoint."""
        self._stop.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.end()
        for worker in self._workers:
            if worker.ticket is None:
                worker.connection.close()
            elif worker.process.pid is not None:
                os.kill(worker.process.pid, signal.SIGINT)  # not reaped yet, so the id is its own
        deadline = time.monotonic() + SECONDS_TO_STOP
        for worker in self._workers:
            if not wait_for_end(worker.process, max(0.0, deadline - time.monotonic())):
                worker.process.kill()
                wait_for_end(worker.process, SECONDS_TO_STOP)
            worker.connection.close()
            _end_what_is_left(worker)
        self._workers.clear()


def _end_what_is_left(worker: _Worker) -> None:
    """End the processes that jobs of a worker have started and not waited for, and name them; the
    worker itself, where it still ends, is none of these."""
    own = worker.process.pid
    assert own is not None
    if names := [name for name in end_processes(own) if not name.endswith(f" ({own})")]:
        print(
            f"note: processes that a run had left behind were ended: {', '.join(names)}",
            file=sys.stderr,
        )


@contextmanager
def _for_the_server(environment: Mapping[str, str]) -> Iterator[None]:
    """What the server is started with, if this start is the first: it imports this checkout and
    nothing from the working directory, and has the threads that a worker on a CPU has."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    changes = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}
    if "OMP_NUM_THREADS" in environment:
        changes["OMP_NUM_THREADS"] = environment["OMP_NUM_THREADS"]
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(
    connection: Connection, work: Work, environment: dict[str, str], names: dict[str, str]
) -> None:
    """Life of a worker: jobs until the pipe closes, Ctrl-C is passed on, or the parent is gone.

    Args:
        environment: what is set here alone.
        names: the environment of the process that opened the pool.
    """
    os.setpgrp()  # Ctrl-C on the terminal is for the parent, which tells each worker once
    os.environ.clear()  # the server may be older than a change of it
    os.environ.update({**names, **environment})
    end_with_parent()
    report = throttled(lambda *words: connection.send(("progress", words)))
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *STOPS})
        while True:
            connection.send(answer(work, connection.recv(), report))
    except (EOFError, BrokenPipeError):
        return
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
