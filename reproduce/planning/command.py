"""``python -m reproduce evidence``: the plan is printed, or worked on for as long as is given."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.config.config import parse
from bench.config.groups import choices
from bench.search.plan import JOURNAL, MAKING, checked_device_like
from core.errors import OK, UserError, nearest
from core.files import write_atomically
from core.places import absolute, shown
from core.words import word as quoted_word
from reproduce.experiment import Experiment
from reproduce.planning.console import print_plan
from reproduce.planning.experiments import experiments
from reproduce.planning.page import page_of
from reproduce.planning.survey import Survey, in_order
from reproduce.planning.work import work
from reproduce.request import task_keys

LARGEST_HOURS = 24.0 * 366
SHARED = ("device", "tracking", *MAKING)  # words that every figure knows


@dataclass(frozen=True)
class Asked:
    """The words of the command line, read."""

    preset: str = "laptop"
    hours: float | None = None
    workers: int = 0
    figures: tuple[str, ...] = ()
    store: Path = Path("runs")
    dry_run: bool = False
    storage: str = JOURNAL
    others: tuple[str, ...] = ()
    device_like: str | None = None
    page: Path | None = None

    @classmethod
    def read(cls, words: Sequence[str], known: Mapping[str, Experiment]) -> Asked:
        """Check every word.

        Raises:
            UserError: one that cannot be used.
        """
        values = {o.key_or_group: (o.value(), w) for w in words for o in parse([w])}
        own = {name: values.pop(name)[0] for name in OWN if name in values}
        storage = str(values.get("storage", values.get("sweep.storage", (cls.storage, "")))[0])
        preset, workers = own.get("preset", cls.preset), own.get("workers", cls.workers)
        if preset not in choices("preset"):
            raise UserError(
                f"there is no preset '{preset}': {nearest(str(preset), choices('preset'))}"
            )
        if type(workers) is not int or workers < 0:
            raise UserError(f"workers={workers} is not a number of processes, such as workers=2")
        dry_run = own.get("dry_run", False)
        if not isinstance(dry_run, bool):
            raise UserError(f"dry_run={dry_run} is neither true nor false")
        figures = _figures(own.get("figures", []), known)
        if storage != cls.storage and "://" not in storage:
            raise UserError(
                f"storage={storage} is neither '{cls.storage}' nor an address of a database, such "
                "as postgresql://USER@HOST:5432/DATABASE"
            )
        others = tuple(word for _, word in values.values())
        preset = str(preset)
        store = absolute(str(own.get("store", cls.store)))
        hours = _hours(own.get("hours"))
        device_like = checked_device_like(own.get("device_like"), dry_run)
        page = own.get("page")
        if page is not None and (not dry_run or device_like is not None):
            raise UserError("page= is a page of a plan: say dry_run=true too, and no device_like=")
        asked = (preset, hours, workers, figures, store, dry_run, storage, others)
        return cls(*asked, device_like, None if page is None else absolute(str(page)))

    def words(self, known: Mapping[str, Experiment]) -> dict[str, list[str]]:
        """For each figure the words of ``python -m reproduce``.

        Raises:
            UserError: a word that no figure knows.
        """
        store = quoted_word("store", str(self.store))
        base = [f"preset={self.preset}", store, f"workers={self.workers}"]
        keys = {word: parse([word])[0].key_or_group for word in self.others}
        settings = {n: set(task_keys(known[n], base[0])) if keys else set() for n in self.figures}
        shared = {*SHARED, *(f"sweep.{name}" for name in MAKING)}
        of = {name: {*shared, *own, *(f"tasks.{k}" for k in own)} for name, own in settings.items()}
        for word, key in keys.items():
            if not any(key in own for own in of.values()):
                valid = {*OWN, *(key for own in of.values() for key in own)}
                raise UserError(
                    f"'{word}' is known to none of these figures: {nearest(key, valid)}"
                )
        return {n: [*base, *(w for w, key in keys.items() if key in of[n])] for n in self.figures}


OWN = ("preset", "hours", "workers", "figures", "store", "dry_run", "device_like", "page")


def main(words: Sequence[str], reproductions: Mapping[str, Experiment]) -> int:
    """Exit code 0 when all is there or time is over, 1 if something could not be run."""
    asked = Asked.read(words, reproductions)
    of = {name: reproductions[name] for name in asked.figures}
    own = asked.words(reproductions)

    def look() -> Survey:
        from bench.search.exchange import open_exchange

        if exchange := None if asked.dry_run else open_exchange(asked.storage, asked.store):
            exchange.take_in(asked.store)
        return Survey(of, own, asked.preset, asked.store, asked.device_like)

    if not asked.dry_run:
        return work(look(), look, asked.workers, asked.hours)
    with _without_collector():
        survey = look()
        steps, found = in_order(survey, survey.candidates), experiments(survey)
        print_plan(survey, steps, found, asked.workers, asked.hours)
        if asked.page is not None:
            text = page_of(found, asked.preset, shown(asked.page))
            write_atomically(asked.page, text.encode())
    print(f"dry run, nothing was run{'' if asked.page else ' or written'}")
    return OK


@contextmanager
def _without_collector() -> Iterator[None]:
    """What a plan makes is kept to its end: the collector took a sixth of its time, and found next
    to nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _figures(value: object, known: Mapping[str, Experiment]) -> tuple[str, ...]:
    names = [str(name) for name in value] if isinstance(value, list) else [str(value)]
    for name in names:
        if name not in known:
            raise UserError(f"there is no reproduction '{name}': {nearest(name, known)}")
    return tuple(dict.fromkeys(names)) or tuple(sorted(known))


def _hours(value: object) -> float | None:
    if value is None:
        return None
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not 0 < number <= LARGEST_HOURS:
        raise UserError(f"hours={value} is not a time above 0, such as hours=8 or hours=0.5")
    return float(number)
