"""What runs, how far it is, and the time left: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ground.escaping import terminal

# report(description, done, total): cheap, called often.
Report = Callable[[str, int, int], None]

SECONDS_BETWEEN_LINES = 10.0


def silent(description: str, done: int, total: int) -> None:
    """A report that says nothing."""


@contextmanager
def progress(stream: TextIO | None = None) -> Iterator[Report]:
    """A report on ``stream`` (default stderr), which never asks anything."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield _plain_lines(stream)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=stream), transient=True) as bars:
        known: dict[str, TaskID] = {}

        def report(description: str, done: int, total: int) -> None:
            description = terminal(description)
            work = _work(description)
            if work not in known:
                known[work] = bars.add_task(description, total=total)
            bars.update(known[work], description=description, completed=done, total=total)
            if done >= total:
                bars.remove_task(known.pop(work))

        yield report


def _work(description: str) -> str:
    """What "run, split: part" is a part of: parts follow each other and share one estimate."""
    return description.rpartition(": ")[0] or description


def _plain_lines(stream: TextIO) -> Report:
    started: dict[str, tuple[float, int, int]] = {}
    last_line: dict[str, float] = {}

    def report(description: str, done: int, total: int) -> None:
        now, work = time.monotonic(), _work(description)
        last_line.setdefault(work, now)
        if work not in started or started[work][1] > done or started[work][2] != total:
            started[work] = (now, done, total)
        if done < total and now - last_line[work] < SECONDS_BETWEEN_LINES:
            return
        last_line[work] = now
        begin, first, _ = started[work]
        elapsed = now - begin
        if done >= total:
            del started[work], last_line[work]
            ending = f"done in {duration(elapsed)}"
        elif done > first:
            ending = f"about {duration(elapsed / (done - first) * (total - done))} left"
        else:
            ending = "time left not known yet"
        print(f"{terminal(description)}: {done}/{total}, {ending}", file=stream, flush=True)

    return report


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
