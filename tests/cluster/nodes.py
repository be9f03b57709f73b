"""A Ray cluster of several nodes on this machine, started by the commands of docs/clusters.md."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "clusters.md").read_text()
BY_HAND = re.search(r"## Several machines by hand.*?```\n(.*?)```", PAGE, re.DOTALL)
PORT = "6399"  # of the page
STARTED = "Ray runtime started"
TRIES = 3  # Ray gives a node's helpers 15 seconds, which a busy machine may not keep


def commands() -> list[str]:
    """The lines of the page that start and use three nodes."""
    assert BY_HAND is not None
    return BY_HAND[1].splitlines()


class Nodes:
    """The nodes, the first of which is the head.

    Attributes:
        environment: of every process that speaks with the cluster.
    """

    def __init__(self, folder: Path, lines: Sequence[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_worker_niceness": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "PATH": f"{Path(os.sys.executable).parent}:{os.environ['PATH']}",  # type: ignore[attr-defined]
        }
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []
        for command in lines:
            if command.startswith("ray start"):
                self.start(command)

    def start(self, command: str, **settings: str) -> None:
        """One more node, by a line of the page."""
        words = command.replace(PORT, self.port).split()
        words += ["--block", "--object-store-memory=100000000"]
        if "--head" in words:
            words.append("--include-dashboard=false")
        own = tempfile.mkdtemp(dir=self._folder)
        words = [w for w in words if not w.startswith("--temp-dir")] + [f"--temp-dir={own}"]
        for _ in range(TRIES):
            node = subprocess.Popen(
                words,
                cwd=self._folder,
                env={**self.environment, **settings},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert node.stdout is not None
            if any(STARTED in line for line in node.stdout):
                self._started.append(node)
                return
            _kill(node)
        pytest.fail(f"this machine is too busy to start a node: {command}")

    def kill(self, number: int) -> None:
        """SIGKILL of a node and all its processes."""
        _kill(self._started[number])

    def working(self, number: int) -> list[psutil.Process]:
        """The processes of a node that run a job."""
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(self._started[number].pid).children(recursive=True)
            return [process for process in family if process.name().startswith("ray::run")]
        return []

    def at_work(self) -> list[psutil.Process]:
        """The processes of all nodes, those that were started later too, that run a job."""
        return [one for number in range(len(self._started)) for one in self.working(number)]

    def end(self) -> None:
        """Kill what is left."""
        for node in self._started:
            _kill(node)


def _kill(node: subprocess.Popen[str]) -> None:
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(node.pid)
        for process in [parent, *parent.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    node.wait()


@contextmanager
def three_nodes() -> Iterator[Nodes]:
    """Three nodes with a processor each; the test is skipped where Ray is not installed."""
    with _started(commands()) as nodes:
        yield nodes


@contextmanager
def gpu_nodes() -> Iterator[Nodes]:
    """Two nodes that declare two GPUs each, whatever this machine has."""
    lines = [line for line in commands() if line.startswith("ray start")]
    with _started([f"{line} --num-gpus=2" for line in lines[:2]]) as nodes:
        yield nodes


@contextmanager
def _started(lines: Sequence[str]) -> Iterator[Nodes]:
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -e '.[cluster]'")
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # short: sockets lie in it
    nodes = Nodes(folder, lines)
    try:
        yield nodes
    finally:
        nodes.end()
        shutil.rmtree(folder, ignore_errors=True)
