"""The process that speaks with a Ray cluster for the driver.

Ray ends a process that loses its cluster, with words of its own; here that is one broken pipe to
the driver, which says it in a sentence. And the driver imports no Ray.
"""

from __future__ import annotations

import os
import pickle
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bench.config.settings import RaySettings
from bench.executors import ray_worker
from bench.executors.interface import (
    ATTEMPTS,
    SECONDS_TO_STOP,
    Payload,
    Submission,
    Work,
    cluster_is_unreachable,
)
from core.errors import RUN_FAILED, UserError, first_line
from core.files import ROOT

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_NEWS = 1.0
SECONDS_TO_ANSWER = 10.0  # for the head
# What a node needs of the checkout; the rest is megabytes of records, pages and tests.
HOUSES = ("core", "models", "tasks", "bench", "leaderboards")
TABLE = "equivalences"  # all that it needs of leaderboards/


class RayClient:
    """The driver's side of a cluster, in a process of its own."""

    def __init__(
        self,
        connection: Connection,
        settings: RaySettings,
        work: Work,
        payload: Payload,
        code: list[str],
    ) -> None:
        self._connection, self._settings = connection, settings
        self._work, self._payload = work, payload
        _join(settings.address, code)
        this_node = NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        actor = ray.remote(ray_worker.CheckpointActor).options(
            num_cpus=0, scheduling_strategy=this_node
        )
        self._actor: Any = actor.remote()
        self._run = ray.remote(ray_worker.run).options(
            num_cpus=settings.num_cpus,
            num_gpus=settings.num_gpus,
            max_retries=ATTEMPTS - 1,
            scheduling_strategy="SPREAD",
        )
        self._flying: dict[Any, int] = {}  # what Ray will give -> ticket
        self._data: dict[str, Any] = {}

    def run(self) -> None:
        inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()
        self._connection.send(("ready", self._room(), self._device_class()))
        told_at = time.monotonic()
        while True:
            for message in _drain(inbox):
                if message is None:
                    self._stop()
                    return
                self._submit(message)
            self._collect(SECONDS_BETWEEN_LOOKS)
            if time.monotonic() - told_at > SECONDS_BETWEEN_NEWS:
                self._tell_news()
                told_at = time.monotonic()

    def _listen(self, inbox: queue.SimpleQueue[Any]) -> None:
        try:
            while True:
                inbox.put(self._connection.recv())
        except (EOFError, OSError):
            inbox.put(None)

    def _room(self) -> int:
        """How many jobs the cluster holds at once.

        Raises:
            UserError: none of its nodes has what one job asks for.
        """
        wanted = {"CPU": self._settings.num_cpus, "GPU": self._settings.num_gpus}
        room, most = 0, dict.fromkeys(wanted, 0.0)
        for node in ray.nodes():
            if not node["Alive"]:
                continue
            jobs = []
            for resource, number in wanted.items():
                of_node = node["Resources"].get(resource, 0)
                most[resource] = max(most[resource], of_node)
                if number:
                    jobs.append(int(of_node / number + 1e-9))
            room += min(jobs)
        if not room:
            raise UserError(
                f"a run asks for ray.num_cpus={wanted['CPU']:g} and "
                f"ray.num_gpus={wanted['GPU']:g}, and no node of this cluster has that: the "
                f"largest has {most['CPU']:g} CPUs and {most['GPU']:g} GPUs"
            )
        return room

    def _device_class(self) -> str:
        """What a node computes on, asked where there may be more than a processor."""
        if not self._settings.num_gpus:
            return "cpu"
        resources = {"num_cpus": self._settings.num_cpus, "num_gpus": self._settings.num_gpus}
        return str(ray.get(ray.remote(ray_worker.device_class).options(**resources).remote()))

    def _submit(self, submission: Submission) -> None:
        for path, digest in submission.data.items():
            if digest not in self._data:
                self._data[digest] = ray.put(ray_worker.as_tar(Path(path)))
        task = ray_worker.Assignment(
            submission.ticket,
            pickle.dumps((self._work, submission.job, self._payload)),
            submission.files,
            {path: (digest, self._data[digest]) for path, digest in submission.data.items()},
            self._settings.checkpoint_every,
            min(self._settings.num_gpus or 1.0, 1.0),
        )
        self._flying[self._run.remote(task, self._actor)] = submission.ticket

    def _collect(self, seconds: float) -> None:
        """Pass on what has ended, after at most so many seconds."""
        if not self._flying:
            time.sleep(seconds)
            return
        ready, _ = ray.wait(list(self._flying), num_returns=1, timeout=seconds)
        for reference in ready:
            ticket = self._flying.pop(reference)
            try:
                kind, value, files, present = ray.get(reference)
            except ray.exceptions.TaskCancelledError:
                continue
            except ray.exceptions.RayError as error:
                self._connection.send(_message_of(ticket, error))
            else:
                self._tell_news()  # what the job sent before its end comes first
                self._connection.send((kind, ticket, value, files, present))
            self._actor.forget.remote(ticket)

    def _tell_news(self) -> None:
        reports, files = ray.get(self._actor.news.remote())
        for report in reports:
            self._connection.send(("progress", report))
        for ticket, changed in files.items():
            self._connection.send(("files", ticket, changed))

    def _stop(self) -> None:
        """Let what runs make its step and save."""
        for reference in self._flying:
            ray.cancel(reference)
        deadline = time.monotonic() + SECONDS_TO_STOP
        while self._flying and time.monotonic() < deadline:
            self._collect(SECONDS_BETWEEN_LOOKS)
        with suppress(OSError):
            self._tell_news()
        ray.shutdown()


def _join(address: str | None, code: list[str]) -> None:
    place = address or os.environ.get("RAY_ADDRESS")
    rest = [p for p in ROOT.iterdir() if p.name not in HOUSES]
    rest += [p for p in (ROOT / "leaderboards").iterdir() if p.name != TABLE]
    excluded = [f"/{path.relative_to(ROOT)}" for path in rest]
    environment: dict[str, Any] = {"working_dir": str(ROOT), "excludes": excluded}
    if code:
        environment["py_modules"] = code
    try:
        if place:
            _check_reachable(place)
        ray.init(
            address=place or "local",
            include_dashboard=None if place else False,
            runtime_env=environment,
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:  # of any kind: Ray raises plain ones too
        raise cluster_is_unreachable(place, f"{first_line(error):.200}") from None


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody answers, at which Ray would try for many minutes.

    Raises:
        OSError: nobody does; ValueError: it is none.
    """
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:  # else a word of Ray's, such as auto
        socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()


def _message_of(ticket: int, error: Any) -> tuple[Any, ...]:
    """What the driver hears of a job that Ray has given up."""
    cause, line = getattr(error, "cause", None), f"{first_line(error):.200}"
    if isinstance(error, ray.exceptions.RuntimeEnvSetupError):
        sentence = f"a node of the cluster could not take the code over ({line})"
        return "raised", ticket, UserError(sentence, RUN_FAILED), {}, None
    if isinstance(cause, Exception):
        return "raised", ticket, cause, {}, None
    return "died", ticket, f"its worker died {ATTEMPTS} times, at last: {line}"


def _drain(inbox: queue.SimpleQueue[Any]) -> Iterator[Any]:
    with suppress(queue.Empty):
        while True:
            yield inbox.get_nowait()
