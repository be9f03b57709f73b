"""Jobs on a Ray cluster: Ray places them, and gives them to another worker when one dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.config.settings import RaySettings
from bench.executors.interface import (
    SECONDS_TO_STOP,
    Done,
    Files,
    Payload,
    Submission,
    Work,
    cluster_is_gone,
    cluster_is_unreachable,
    portable,
)
from core.errors import UserError
from core.processes import STOPS, StopIsCtrlC, end_with_parent, start_with_blocked
from core.progress import Report, silent

SECONDS_TO_JOIN = 180.0  # Ray would try for a quarter of an hour where a stranger answers
SECONDS_TO_LEAVE = 15.0  # for Ray, after the jobs have ended
INSTALL = "python -m pip install -c constraints.txt -e '.[cluster]'"


class Cluster:
    """As many jobs at a time as a cluster has room for.

    Args:
        payload: what travels with a job, since nothing is shared.
        workers: jobs at a time; 0 is as many as there is room for when the cluster is joined.
        code: folders of packages that jobs import beside the project's own.
    """

    def __init__(
        self,
        work: Work,
        payload: Payload,
        settings: RaySettings,
        workers: int = 0,
        report: Report = silent,
        code: Sequence[str] = (),
    ) -> None:
        self._work, self._payload, self._settings = work, payload, settings
        self._code, self._report = list(code), report
        self.slots, self.device_class = workers, "cpu"
        self._stop = StopIsCtrlC()
        self._jobs: dict[int, Any] = {}
        self._ended: deque[Done] = deque()

    def __enter__(self) -> Cluster:
        if find_spec("ray") is None:
            raise UserError(f"executor=ray needs Ray, which is not installed: {INSTALL}")
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self._settings, self._work, self._payload, self._code)
        self._client = context.Process(target=_serve, args=arguments)
        start_with_blocked(self._client, signal.SIGINT)
        theirs.close()
        self._stop.begin()
        try:
            where = self._settings.address or "the local cluster, or that of RAY_ADDRESS"
            self._report(f"waiting for Ray ({where})", 0, 1)
            if not self._connection.poll(SECONDS_TO_JOIN):
                self._client.kill()  # it hangs in Ray, which hears nothing
                raise cluster_is_unreachable(where, f"no answer within {SECONDS_TO_JOIN:.0f} s")
            _, room, self.device_class = self._receive()
            self._report(f"waiting for Ray ({where})", 1, 1)
        except BaseException:
            self._leave()
            raise
        self.slots = self.slots or room
        return self

    def submit(self, ticket: int, job: Any) -> None:
        value = self._payload.found(job)
        if value is not None:
            self._ended.append(Done(ticket, value))
            return
        self._jobs[ticket] = job
        submission = Submission(ticket, job, self._payload.pack(job), self._payload.data(job))
        try:
            self._connection.send(submission)
        except OSError:
            raise cluster_is_gone() from None

    def wait(self) -> Done:
        while not self._ended:
            self._hear(self._receive())
        return self._ended.popleft()

    def _receive(self) -> Any:
        try:
            message = self._connection.recv()
        except (EOFError, OSError):
            raise cluster_is_gone() from None
        if message[0] == "lost":
            raise message[1]
        return message

    def _hear(self, message: Any) -> None:
        kind, *content = message
        if kind == "progress":
            self._report(*content[0])
        elif kind == "files":
            self._keep(*content)
        elif kind == "died":
            ticket, death = content
            del self._jobs[ticket]
            self._ended.append(Done(ticket, death=death))
        else:
            ticket, value, files, present = content
            self._keep(ticket, files, present)
            del self._jobs[ticket]
            if kind == "raised":
                raise value
            self._ended.append(Done(ticket, value))

    def _keep(self, ticket: int, files: Files, present: frozenset[str] | None = None) -> None:
        if ticket in self._jobs:
            self._payload.keep(self._jobs[ticket], files, present)

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        """Let what runs save, take its checkpoints in, and leave the cluster."""
        self._stop.end()
        deadline = time.monotonic() + SECONDS_TO_STOP + SECONDS_TO_LEAVE
        try:
            self._connection.send(None)
            while self._connection.poll(max(0.0, deadline - time.monotonic())):
                kind, *content = self._connection.recv()
                if kind in ("files", "done"):
                    self._keep(content[0], content[-1 if kind == "files" else 2])
        except (EOFError, OSError):
            pass
        finally:
            self._connection.close()
            self._client.join(max(1.0, deadline - time.monotonic()))
            self._client.kill()
            self._client.join()


def _serve(
    connection: Connection, settings: RaySettings, work: Work, payload: Payload, code: list[str]
) -> None:
    """Life of the process that speaks with Ray: from the driver's pipe to the cluster and back,
    until it is closed."""
    os.setpgrp()  # Ctrl-C on the terminal is for the driver
    end_with_parent()
    with Path(os.devnull).open("w") as nowhere:  # Ray's own words
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    try:
        from bench.executors.ray_client import RayClient  # the driver has no Ray to import

        client = RayClient(connection, settings, work, payload, code)
        # To a whole job, as a scheduler does; the driver says when to leave. Ray took it at first.
        for number in STOPS:
            signal.signal(number, lambda *_: None)
        client.run()
    except Exception as error:
        of_ray = type(error).__module__.startswith("ray.")
        cause = cluster_is_gone(type(error).__name__) if of_ray else portable(error)
        with suppress(OSError):
            connection.send(("lost", cause))
