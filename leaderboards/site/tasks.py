"""The page of a task: every table by its headline, then its curves and everything else of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from leaderboards.contents import OpenBoard, Row
from leaderboards.pages import curves as drawn
from leaderboards.pages.dots import dots_spec
from leaderboards.pages.links import slug, to_model
from leaderboards.pages.parts import Filled, Grid, Text
from leaderboards.pages.sentences import notes, scale_note, summary
from leaderboards.pages.tables import (
    AT_FIRST,
    Brief,
    Table,
    cards,
    contents_of,
    headline_tables,
    lines,
    most_telling_first,
    whole,
)
from leaderboards.pages.task import claim_parts, coverage_parts, replication_parts
from leaderboards.render import ARROWS, task_label
from leaderboards.site.addresses import badge, from_page, relative, table_anchor, task_page
from leaderboards.site.parts import Chart, Page, chart, fill, table, written
from leaderboards.site.parts import badge as shown_badge

OTHERS = ("metric", "model", "setting", "score", "low", "high", "rank", "seeds", "outcome")


@dataclass(frozen=True)
class Shown:
    """A table of a task's page, and where it stands there."""

    table: Table[Row]
    anchor: str

    @property
    def name(self) -> str:
        """Of its files to cite, from the root of the site, without an ending."""
        return f"tables/{slug(self.table.task)}/{self.anchor}"


@dataclass(frozen=True)
class Task:
    """A task of the board with all of its tables by the headline, the most telling first."""

    name: str
    tables: tuple[Shown, ...]
    briefs: tuple[Table[Brief], ...]

    @property
    def place(self) -> str:
        """Its page."""
        return task_page(self.name)


def task_of(board: OpenBoard, name: str) -> Task:
    """A task; without tables, where the board has none of it."""
    briefs = headline_tables(board, name)
    found = [whole(board, brief) for brief in most_telling_first(briefs)]
    return Task(name, tuple(_anchored(found)), tuple(briefs))


def _anchored(found: Iterable[Table[Row]]) -> Iterator[Shown]:
    taken: set[str] = set()
    for one in found:
        own = table_anchor(one.preset, one.variant, "" if one.rows[0].headline else one.metric)
        own = table_anchor(one.preset, one.variant, one.metric) if own in taken else own
        taken.add(own)
        yield Shown(one, own)


def task_page_of(board: OpenBoard, task: Task, linked: Sequence[Table[Row]]) -> Page:
    """The page of a task.

    Args:
        linked: tables by other metrics that another page leads to.
    """
    place, label = task.place, task_label(task.name)
    if not task.tables:
        nothing = Text(title=label, lead="Nothing is measured yet.")
        return Page(place, label, tuple(written(place, [nothing])))
    first = task.tables[0].table
    anchors = {shown.anchor for shown in task.tables}
    also = [shown for shown in _anchored(linked) if shown.anchor not in anchors]
    below = [*claim_parts(board, task.name, from_page(place))]
    below += coverage_parts(task.name, task.briefs)
    below.append(Filled("cards", {"cards": _cards(task)}))
    scale = scale_note(first.rows, task.briefs)
    parts = [
        *written(place, [Text((scale,) if scale else (), title=label)]),
        fill(place, "contents", tables=[(where(one.table), one.anchor) for one in task.tables]),
        *(_table(board, place, one, cited=True) for one in task.tables),
        *(_table(board, place, one, cited=False) for one in also),
        *written(place, replication_parts(board, task.name)),
        *_curves(board, task),
        *written(place, _other_metrics(board, task)),
        *written(place, below),
        shown_badge(place, badge("tasks", task.name), label),
    ]
    return Page(place, label, tuple(parts))


def _cards(task: Task) -> list[tuple[str, Mapping[str, object]]]:
    return list({name: own for one in task.tables for name, own in cards(one.table)}.items())


def _table(board: OpenBoard, place: str, shown: Shown, cited: bool) -> Markup:
    own = shown.table
    to_model_page = from_page(place)
    files = [
        ("LaTeX", f"{shown.name}.tex"),
        ("BibTeX", f"{shown.name}.bib"),
        ("CSV of the task", f"data/{slug(own.task)}.csv"),
        ("Parquet of the task", f"data/{slug(own.task)}.parquet"),
    ]
    part = Grid(
        f"{where(own)}: {own.metric}",
        lines(own.rows, contents_of(board, own.rows), from_page(place)),
        AT_FIRST,
        lead=summary(own.rows),
        words=f"Scores of {own.place} by {own.metric}",
        anchor=shown.anchor,
    )
    dots = None
    if any(row.mean is not None for row in own.rows):
        dots = chart(own.place, f"The scores of {own.place} as dots", dots_spec(own.rows))
    model_links = []
    for row in own.rows:
        has_page = row.kind == "measured"
        model_links.append(to_model_page(to_model(row.model)) if has_page else "")
    return table(
        place,
        part,
        titles={"score": f"{own.metric} {ARROWS.get(own.rows[0].direction or '', '')}".strip()},
        hrefs={"model": model_links},
        chart=dots,
        texts=notes(own.rows),
        files=[(name, relative(place, file)) for name, file in files] if cited else (),
    )


def where(own: Table[Row]) -> str:
    """Where a table is among those of its task, in words."""
    return ", ".join(filter(None, (own.preset, own.variant)))


def _curves(board: OpenBoard, task: Task) -> Iterator[Markup]:
    """Every curve that the app draws at first, for each table."""
    sized: set[str] = set()
    for one in (shown.table for shown in task.tables):
        for kind in (drawn.POSITION, drawn.SIZE):
            if kind == drawn.SIZE and one.preset in sized:
                continue
            sized |= {one.preset} if kind == drawn.SIZE else set()
            found = drawn.curves(board, one.task, one.preset, one.variant, kind)
            charts = [_curve(one, found, name, kind) for name in drawn.names(found)]
            heading = f"Curves {kind}: {one.preset if kind == drawn.SIZE else where(one)}"
            if charts:
                yield fill(task.place, "charts", heading=heading, charts=charts, texts=CURVES[kind])


CURVES = {
    drawn.POSITION: (
        f"Grey: without training. Long curves are means of at most {drawn.BINS} bins. Bands: 95 % "
        "intervals. A click in the legend picks a curve out.",
    ),
    drawn.SIZE: (
        "Bands: 95 % intervals of ours, errors of reading of what was published, which is dashed "
        "and hollow.",
    ),
}


def _curve(own: Table[Row], lines: Sequence[drawn.Line], metric: str, kind: str) -> Chart:
    mine = [line for line in lines if line.metric == metric]
    if kind == drawn.SIZE:
        wanted = drawn.sources_at_first(mine)
        mine = [line for line in mine if drawn.origin(line) in wanted]
    found = drawn.named(mine)
    best = [row.model for row in own.rows if row.kind == "reference"][:2]
    title = f"{metric} {ARROWS.get(mine[0].direction or '', '')}".strip()
    shown = drawn.at_first(found, best)
    spec = drawn.curve_spec(found, shown, title, logarithmic=kind == drawn.SIZE)
    return chart(title, f"Curves of {metric} on {own.place}", spec)


def _other_metrics(board: OpenBoard, task: Task) -> Iterator[Grid]:
    """Every number of ours by other metrics, and every published one."""
    headlines = {shown.table.metric for shown in task.tables}
    rows = [row for row in board.rows(task.name) if row.metric not in headlines]
    for (preset, variant), group in groupby(rows, key=lambda row: (row.preset, row.variant)):
        of_table = list(group)
        shown_lines = []
        for row, line in zip(of_table, lines(of_table, {}, from_page(task.place)), strict=True):
            cells = {"metric": row.metric, **line}
            shown_lines.append({key: cells[key] for key in OTHERS})
        heading = f"Other metrics: {', '.join(filter(None, (preset, variant)))}"
        yield Grid(heading, shown_lines, folded=True)
