"""Jobs whose values are there already: they need no process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench.executors.interface import Done, Executor


class ServedFirst:
    """An executor that is opened for the first job that has to be run.

    Args:
        serve: the value of a job; None if it has to be run.
        open_executor: gives the executor of such jobs.
    """

    def __init__(self, serve: Callable[[Any], Any], open_executor: Callable[[], Executor]) -> None:
        self._serve, self._open_executor = serve, open_executor
        self._executor: Executor | None = None
        self._closing = ExitStack()
        self._served: deque[Done] = deque()

    @property
    def slots(self) -> int:
        """The executor's slots. As long as it is closed one job is looked up at a time."""
        return 1 if self._executor is None else self._executor.slots

    def submit(self, ticket: int, job: Any) -> None:
        """Serve a job at once, or have it run."""
        value = self._serve(job)
        if value is not None:
            self._served.append(Done(ticket, value, served=True))
            return
        if self._executor is None:
            self._executor = self._closing.enter_context(self._open_executor())
        self._executor.submit(ticket, job)

    def wait(self) -> Done:
        """The end of a job: of one that was served first."""
        if self._served:
            return self._served.popleft()
        assert self._executor is not None, "no job was submitted"
        return self._executor.wait()

    def __enter__(self) -> ServedFirst:
        return self

    def __exit__(self, *error: Any) -> None:
        self._closing.__exit__(*error)
