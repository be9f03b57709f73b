"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """The workers of a pool that a process has opened: forked from a server of that process."""
    workers = []
    for child in process.children():
        with suppress(psutil.NoSuchProcess):  # it has ended since it was listed
            if "forkserver" in " ".join(child.cmdline()):
                workers += child.children()
    return workers


def wait_for(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    """Until ``condition`` holds; a machine with much other work takes its time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
