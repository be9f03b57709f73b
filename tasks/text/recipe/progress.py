"""How far the collection is: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.text.recipe.collection import Report

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress() -> Iterator[Report]:
    """A report on stderr, which may be told as often as one likes."""
    # Bars would fill a log file with control characters.
    if not sys.stderr.isatty():
        yield _plain_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def report(description: str, done: int, total: int) -> None:
            task_ids = {task.description: task.id for task in bars.tasks}
            if description not in task_ids:
                task_ids[description] = bars.add_task(description, total=total)
            bars.update(task_ids[description], completed=done, total=total)

        yield report


def _plain_lines() -> Report:
    last: dict[str, float] = {}

    def report(description: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - last.setdefault(description, now) >= SECONDS_BETWEEN_LINES:
            last[description] = now
            print(f"{description}: {done}/{total}", file=sys.stderr, flush=True)

    return report
