"""Every file of the site of a board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from core.progress import Report, silent
from leaderboards.contents import KeptBoard, Row
from leaderboards.render import as_csv
from leaderboards.site import badges, citation, pages
from leaderboards.site.addresses import badge, slug
from leaderboards.site.assets import ASSETS
from leaderboards.site.parts import Page
from leaderboards.site.tasks import TaskPages, task_of, task_page_of
from leaderboards.views import models as modelled
from leaderboards.views.overview import Overview, overview
from leaderboards.views.records import record
from leaderboards.views.tables import RankedTable

File = tuple[str, bytes]  # the place in the site, and what is there


class Site:
    """The files of a board's site, which are made one by one.

    Example: ``dict(Site(OpenBoard(COMMITTED).path).files())["index.html"]``.
    """

    def __init__(self, board: Path) -> None:
        self.board = KeptBoard(board)
        self.digest = self.board.sha256

    @cached_property
    def overview(self) -> Overview:
        """The first page."""
        return overview(self.board)

    @cached_property
    def tasks(self) -> list[TaskPages]:
        """Every task that the board has, or that a planned cell of the overview leads to."""
        names = set(self.board.tasks())
        for _, lines in self.overview.matrix.groups:
            for cell in chain.from_iterable(line.cells for line in lines):
                if cell is not None:
                    names.add(dict(cell.link.query)["task"])
        return [task_of(self.board, name) for name in sorted(names)]

    @cached_property
    def models(self) -> dict[str, str]:
        """Every model with its label: those that were measured, and those of the overview."""
        labels: dict[str, str] = {}
        for _, lines in self.overview.matrix.groups:
            labels |= {line.model: line.label for line in lines}
        return labels | modelled.models(self.board)

    @cached_property
    def records(self) -> list[tuple[Any, ...]]:
        """Run id and origin of every record."""
        names: list[tuple[Any, ...]] = []
        for task in self.board.tasks():
            names += self.board.distinct("records", task, "run_id", "origin")
        return names

    def own(self, report: Report = silent) -> Iterator[File]:
        """Every file but those that the sites of all boards share."""
        each = (self.tasks, self.models, self.board.claims(), self.records)
        years = [""]
        total = sum(map(len, each)) + len(self._lists)
        for done, page in enumerate(self._pages(years)):
            report("pages", done, total)
            yield page.place, page.written(self.digest)
        report("pages", total, total)
        yield from self._citations(max(years))
        yield from self._badges()
        yield from self._data()
        yield ".nojekyll", b""  # GitHub Pages takes the files as they are

    def files(self, report: Report = silent) -> Iterator[File]:
        """Every file; ``report`` counts pages as they are made."""
        yield from self.own(report)
        yield from ((place, make().encode()) for place, make in ASSETS.items())

    @cached_property
    def _lists(self) -> list[Page]:
        """The pages that lead to all others."""
        labels = sorted(self.models.items(), key=lambda pair: pair[1].lower())
        names = [task.name for task in self.tasks]
        return [
            pages.of_overview(self.board, self.overview, names, labels),
            pages.of_claims(self.board, self.overview),
            pages.of_records(self.board),
        ]

    def _pages(self, years: list[str]) -> Iterator[Page]:
        yield from self._lists
        for task in self.tasks:
            yield task_page_of(self.board, task, self._linked(task.name))
        for model in self.models:
            yield pages.of_model(self.board, model)
        for claim in self.board.claims():
            yield pages.of_claim(self.board, claim)
        for run_id, origin in self.records:
            found_record = record(self.board, run_id, origin)
            assert found_record is not None
            years.append(found_record.content["provenance"]["started_at"][:4])
            yield pages.of_record(found_record, self.models)

    def _linked(self, task: str) -> list[RankedTable[Row]]:
        """The tables of a task by other metrics that the overview leads to, as the app has them."""
        whole_tables = []
        for _, source in self.overview.matrix.sources:
            table = source.table
            if table.task == task and not table.rows[0].headline:
                where = {"preset": table.preset, "variant": table.variant, "metric": table.metric}
                whole_tables.append(replace(table, rows=tuple(self.board.rows(task, **where))))
        return whole_tables

    def _citations(self, year: str) -> Iterator[File]:
        yield "CITATION.cff", citation.cff(self.digest)
        yield "board.bib", citation.bibtex(self.digest, year)
        for placed in chain.from_iterable(task.tables for task in self.tasks):
            name = placed.name.partition("/")[2]
            yield f"{placed.name}.tex", citation.table(placed, self.digest)
            yield f"{placed.name}.bib", citation.bibtex(self.digest, year, name, placed.table.place)

    def _badges(self) -> Iterator[File]:
        badge_by_place = {badge("tasks", task.name): badges.of_task(task) for task in self.tasks}
        for name in self.models:
            model = modelled.model(self.board, name)
            badge_by_place[badge("models", name)] = badges.of_model(model)
        for place, shown_badge in badge_by_place.items():
            yield f"{place}.svg", shown_badge.svg()
            yield f"{place}.json", shown_badge.endpoint()

    def _data(self) -> Iterator[File]:
        for task in self.board.tasks():
            place = f"data/{slug(task)}"
            yield f"{place}.csv", as_csv(self.board.rows(task)).encode()
            yield f"{place}.parquet", (self.board.path / "rows" / f"{task}.parquet").read_bytes()
