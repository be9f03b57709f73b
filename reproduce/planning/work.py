"""Working on the plan: one candidate after the other, for as long as is given.

Nothing is kept between two calls but records, checkpoints and journals of the store. What is next
is worked out from them anew after each candidate, so that a kill at any moment costs nothing.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.search.sharing import open_coordinator
from core.errors import OK, RUN_FAILED, UserError
from core.escaping import terminal
from core.progress import duration
from reproduce.making import get_or_run_all
from reproduce.planning.console import print_decided, print_how_to_commit
from reproduce.planning.survey import Candidate, Survey, in_order
from reproduce.request import Request


def write_missing_records(storage: str, store: Path) -> None:
    """Copy to the store what other machines have made, where drivers share a database."""
    if coordinator := open_coordinator(storage, store):
        coordinator.write_missing(store)


@dataclass
class TimeLimit:
    """Whether time is over."""

    over: bool = False


@contextmanager
def clock(hours: float | None) -> Iterator[TimeLimit]:
    """After so many hours what a Ctrl-C does: the engine ends its step and writes a checkpoint."""
    limit = TimeLimit()

    def ring(signum: int, frame: Any) -> None:
        limit.over = True
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in a shell's background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        if hours is not None:
            signal.setitimer(signal.ITIMER_REAL, hours * 3600)
        yield limit
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def work(first: Survey, look: Callable[[], Survey], workers: int, hours: float | None) -> int:
    """Make what decides the most an hour, again and again, until all is there or time is over.

    Args:
        first: the survey to start from.
        look: makes another one, by the records that there are by then.

    Returns:
        The exit code: 1 if something could not be run.

    Raises:
        KeyboardInterrupt: stopped by the user; the same command goes on.
    """
    survey, tried, failed = first, set[str](), False
    with clock(hours) as time:
        try:
            while (chosen := _next(survey, tried, workers)) is not None:
                tried.add(chosen.key)
                failed |= not _make(survey, chosen)
                latest = look()
                print_decided(survey.verdicts, latest.verdicts)
                survey = latest
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _conclude(first, look())
            if not time.over:
                raise
            print("time is over: the same command goes on from here")
            return RUN_FAILED if failed else OK
    _conclude(first, survey)
    return RUN_FAILED if failed else OK


def _next(survey: Survey, tried: set[str], workers: int) -> Candidate | None:
    """The best of what was not tried yet, and a line that says so."""
    left = [candidate for candidate in survey.candidates if candidate.key not in tried]
    steps = in_order(survey, left)
    if not steps:
        return None
    step, at_once = steps[0], max(1, workers)
    whole = duration(sum(each.cost.seconds for each in steps) / at_once)
    print(
        f"{step.candidate.shown}: {step.runs} runs for {len(step.claims)} {survey.WANTED}, about "
        f"{duration(step.cost.seconds / at_once)} on an idle machine; all {len(steps)} that "
        f"are left about {whole}",
        flush=True,
    )
    return step.candidate


def _make(survey: Survey, chosen: Candidate) -> bool:
    """Run what a candidate misses; False, with a sentence, if that cannot be."""
    reproduction = survey.reviews[chosen.figure].reproduction
    request = Request.of(chosen.settings, chosen.figure, reproduction)
    try:
        get_or_run_all(request, reproduction)
    except UserError as error:
        print(terminal(f"{chosen.shown} could not be run: {error}"), file=sys.stderr, flush=True)
        return False
    return True


def _conclude(first: Survey, last: Survey) -> None:
    """Which verdicts are others than at the start, and how their records are committed."""
    print("\nwhat this call decided:")
    changed = print_decided(first.verdicts, last.verdicts)
    if not changed:
        print("  none")
    names = set[str]()
    for figure, _ in changed:
        names.update(*(run.identities for run in last.reviews[figure].runs))
    committed = {(r.identity, r.seed) for r in last.catalog.committed}
    new = []
    for record in last.catalog.local:
        if record.identity in names and (record.identity, record.seed) not in committed:
            new.append(record)
    print_how_to_commit(new, last.store)
