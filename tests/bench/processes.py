"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """The workers of a pool that a process has opened: forked from a server of that process."""
    servers = [one for one in process.children() if "forkserver" in " ".join(one.cmdline())]
    return [worker for server in servers for worker in server.children()]


def wait_for(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Until ``condition`` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
