"""What runs, how far it is, and the time left: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from core.escaping import terminal

# report(description, done, total): cheap, called often.
Report = Callable[[str, int, int], None]
Thing = TypeVar("Thing")

SECONDS_BETWEEN_LINES = 10.0
SECONDS_UNSAID = 1.0
SECONDS_OF_SILENCE = 15.0  # then the last line is said again: whoever reads a file sees no cursor


def silent(description: str, done: int, total: int) -> None:
    """A report that says nothing."""


@contextmanager
def progress(stream: TextIO | None = None) -> Iterator[Report]:
    """A report on ``stream`` (default stderr), which never asks anything."""
    stream = stream or sys.stderr
    if not stream.isatty():
        with _Lines(stream) as lines:
            yield lines.report
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=stream), transient=True) as bars:
        bar_by_work: dict[str, TaskID] = {}

        def report(description: str, done: int, total: int) -> None:
            description = terminal(description)
            work = _work(description)
            if work not in bar_by_work:
                bar_by_work[work] = bars.add_task(description, total=total)
            bars.update(bar_by_work[work], description=description, completed=done, total=total)
            if done >= total:
                bars.remove_task(bar_by_work.pop(work))

        yield report


def _work(description: str) -> str:
    """What "run, split: part" is a part of: parts follow each other and share one estimate."""
    return description.rpartition(": ")[0] or description


class _Lines:
    """Progress as lines: of each work not more often than a person reads, and never silence."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._started: dict[str, tuple[float, int]] = {}  # when, and how much was done then
        self._last_line: dict[str, float] = {}
        self._running: dict[str, tuple[str, int, int]] = {}  # the latest report comes last
        self._spoke = time.monotonic()
        self._after = ""  # which work ended last
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._watch = threading.Thread(target=self._break_silence, daemon=True)

    def __enter__(self) -> _Lines:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watch.join()

    def report(self, description: str, done: int, total: int) -> None:
        with self._lock:
            now, work = time.monotonic(), _work(description)
            started = self._started
            self._last_line.setdefault(work, now)
            before = self._running.pop(work, (description, 0, total))
            said_before, done_before, total_before = before
            # The total of one work may change on the way; another part of it is timed anew.
            is_other = total != total_before and (description != said_before or done == 0)
            if work not in started or done < done_before or is_other:
                started[work] = (now, done)
            self._running[work] = (description, done, total)
            if done >= total or now - self._last_line[work] >= SECONDS_BETWEEN_LINES:
                self._say(work)

    def _break_silence(self) -> None:
        while not self._ended.wait(SECONDS_OF_SILENCE / 10):
            with self._lock:
                if time.monotonic() - self._spoke < SECONDS_OF_SILENCE:
                    continue
                if self._running:
                    self._say(next(reversed(self._running)))
                else:
                    self._print(f"still at work{self._after}, nothing to count yet")

    def _say(self, work: str) -> None:
        now, (description, done, total) = time.monotonic(), self._running[work]
        begin, first = self._started[work]
        elapsed = now - begin
        self._last_line[work] = now
        if done >= total:
            del self._started[work], self._last_line[work], self._running[work]
            self._after = f" after: {terminal(description)}"
            if total == 1 and work != description and elapsed < SECONDS_UNSAID:
                return  # a phase that took no time only hides the others
            # Of work that is heard of for the first time when it is done nobody knows how long.
            ending = f"done in {duration(elapsed)}" if elapsed >= SECONDS_UNSAID else "done"
        elif done > first:
            left = elapsed / (done - first) * (total - done)
            ending = f"about {duration(max(1.0, left))} left"
        else:
            ending = "time left not known yet"
        self._print(f"{terminal(description)}: {done}/{total}, {ending}")

    def _print(self, line: str) -> None:
        self._spoke = time.monotonic()
        print(line, file=self._stream, flush=True)


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@contextmanager
def phase(report: Report, description: str) -> Iterator[None]:
    """Work without parts to count, such as an examination: the report hears that it is under way,
    and that it has ended."""
    report(description, 0, 1)
    try:
        yield
    finally:
        report(description, 1, 1)


def with_progress(things: Sequence[Thing], description: str, report: Report) -> Iterator[Thing]:
    """The same things, one after the other, and the report hears how many are done, unless all are
    within a second: a line about what took no time only hides the others."""
    begun, is_long = time.monotonic(), False
    for number, thing in enumerate(things):
        is_long = is_long or time.monotonic() - begun > SECONDS_UNSAID
        if is_long:
            report(description, number, len(things))
        yield thing
    if is_long:
        report(description, len(things), len(things))


def now_and_then(tell: Callable[[], None], seconds: float = 5.0) -> Callable[[], None]:
    """``tell``, but only when it was silent for some seconds: what is timed pays a look at the
    clock for it."""
    told_at = time.monotonic()

    def look() -> None:
        nonlocal told_at
        if time.monotonic() - told_at > seconds:
            tell()
            told_at = time.monotonic()

    return look
