"""How far a sweep is: what is told counts the runs that are made here, and no record served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.executors.interface import Done
from bench.search.model_search import ModelSearch
from core.progress import Report


class Pace:
    """Runs of a sweep that have been made, of those that are to be.

    A run that is served takes no time, so that it would make every forecast of the others too
    short, and one that is still to be served would make it too long.

    Args:
        title: what the sweep is called, where there are several.
    """

    def __init__(self, report: Report, title: str) -> None:
        self.report, self.title = report, title
        self._searches: Sequence[ModelSearch] = ()
        self._earlier: dict[str, int] = {}  # of each model: runs that had ended before this command
        self._served: Counter[str] = Counter()
        self._planned: dict[str, int] = {}  # runs, before the space grows
        self._missing: Mapping[str, int] = {}
        self.makes_runs = False  # until the first run that is not served

    def begin(self, searches: Sequence[ModelSearch]) -> None:
        """Count from here."""
        self._searches = searches
        self._earlier = {search.entry.name: search.ended() for search in searches}
        self._planned = {search.entry.name: search.runs for search in searches}

    def expect(self, missing: Mapping[str, int]) -> None:
        """How many runs of each model, by the name of its entry, have no record."""
        self._missing = missing

    def count(self, search: ModelSearch, done: Done) -> None:
        """Take in that a job has ended."""
        self._served[search.entry.name] += done.served

    def show(self) -> None:
        """Report how far the sweep is."""
        if not self.makes_runs:
            return
        made = to_make = 0
        for search in self._searches:
            name = search.entry.name
            before = self._earlier[name] + self._served[name]
            made_of_it, most = search.ended() - before, search.runs - before
            expected = self._missing.get(name, most) + search.runs - self._planned[name]
            made += made_of_it
            to_make += max(made_of_it, min(most, expected))
        if to_make:
            self.report(f"runs of {self.title or 'the sweep'}", made, to_make)
