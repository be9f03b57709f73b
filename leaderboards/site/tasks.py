"""The page of a task: every table by its headline, then its curves and everything else of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from leaderboards.contents import OpenBoard, Row
from leaderboards.render import task_label, with_arrow
from leaderboards.site.addresses import badge, from_page, relative, table_anchor, task_page
from leaderboards.site.parts import Chart, Page, chart, fill, html_of_parts, table
from leaderboards.site.parts import badge as shown_badge
from leaderboards.views import curves as drawn
from leaderboards.views.dots import dots as dots_chart
from leaderboards.views.links import slug, to_model
from leaderboards.views.parts import FilledTemplate, SortableTable, Text
from leaderboards.views.sentences import notes, scale_note, summary
from leaderboards.views.tables import (
    AT_FIRST,
    Brief,
    RankedTable,
    cards,
    contents_of,
    headline_tables,
    lines,
    most_telling_first,
    whole,
)
from leaderboards.views.task import claim_parts, coverage_parts, replication_parts

OTHERS = ("metric", "model", "setting", "score", "low", "high", "rank", "seeds", "outcome")


@dataclass(frozen=True)
class PageTable:
    """A table of a task's page, and where it stands there."""

    table: RankedTable[Row]
    anchor: str

    @property
    def name(self) -> str:
        """The name of its files to cite, from the root of the site, without an ending."""
        return f"tables/{slug(self.table.task)}/{self.anchor}"


@dataclass(frozen=True)
class TaskPages:
    """A task of the board with all of its tables by the headline, the most telling first."""

    name: str
    tables: tuple[PageTable, ...]
    briefs: tuple[RankedTable[Brief], ...]

    @property
    def place(self) -> str:
        """The address of the task's page."""
        return task_page(self.name)


def task_of(board: OpenBoard, name: str) -> TaskPages:
    """A task; without tables, where the board has none of it."""
    briefs = headline_tables(board, name)
    ranked_tables = [whole(board, brief) for brief in most_telling_first(briefs)]
    return TaskPages(name, tuple(_anchored(ranked_tables)), tuple(briefs))


def _anchored(ranked_tables: Iterable[RankedTable[Row]]) -> Iterator[PageTable]:
    taken: set[str] = set()
    for ranked_table in ranked_tables:
        preset, variant = ranked_table.preset, ranked_table.variant
        anchor = table_anchor(preset, variant)
        if anchor in taken or not ranked_table.rows[0].headline:
            anchor = table_anchor(preset, variant, ranked_table.metric)
        taken.add(anchor)
        yield PageTable(ranked_table, anchor)


def task_page_of(board: OpenBoard, task: TaskPages, linked: Sequence[RankedTable[Row]]) -> Page:
    """The page of a task.

    Args:
        linked: tables by other metrics that another page leads to.
    """
    place, label = task.place, task_label(task.name)
    if not task.tables:
        nothing = Text(title=label, lead="Nothing is measured yet.")
        return Page(place, label, tuple(html_of_parts(place, [nothing])))
    first = task.tables[0].table
    anchors = {placed.anchor for placed in task.tables}
    also = [placed for placed in _anchored(linked) if placed.anchor not in anchors]
    below = [*claim_parts(board, task.name, from_page(place))]
    below += coverage_parts(task.name, task.briefs)
    card_by_name: dict[str, Mapping[str, object]] = {}
    for placed in task.tables:
        card_by_name |= cards(placed.table)
    below.append(FilledTemplate("cards", {"cards": card_by_name.items()}))
    scale = scale_note(first.rows, task.briefs)
    parts = [
        *html_of_parts(place, [Text((scale,) if scale else (), title=label)]),
        fill(
            place,
            "contents",
            tables=[(place_in_words(placed.table), placed.anchor) for placed in task.tables],
        ),
        *(_table(board, place, placed, cited=True) for placed in task.tables),
        *(_table(board, place, placed, cited=False) for placed in also),
        *html_of_parts(place, replication_parts(board, task.name)),
        *_curves(board, task),
        *html_of_parts(place, _other_metrics(board, task)),
        *html_of_parts(place, below),
        shown_badge(place, badge("tasks", task.name), label),
    ]
    return Page(place, label, tuple(parts))


def _table(board: OpenBoard, place: str, placed: PageTable, cited: bool) -> Markup:
    ranked_table = placed.table
    to_model_page = from_page(place)
    files = [
        ("LaTeX", f"{placed.name}.tex"),
        ("BibTeX", f"{placed.name}.bib"),
        ("CSV of the task", f"data/{slug(ranked_table.task)}.csv"),
        ("Parquet of the task", f"data/{slug(ranked_table.task)}.parquet"),
    ]
    part = SortableTable(
        f"{place_in_words(ranked_table)}: {ranked_table.metric}",
        lines(ranked_table.rows, contents_of(board, ranked_table.rows), from_page(place)),
        AT_FIRST,
        lead=summary(ranked_table.rows),
        words=f"Scores of {ranked_table.place} by {ranked_table.metric}",
        anchor=placed.anchor,
    )
    dots = None
    if any(row.mean is not None for row in ranked_table.rows):
        dots = chart(
            ranked_table.place,
            f"The scores of {ranked_table.place} as dots",
            dots_chart(ranked_table.rows),
        )
    score = with_arrow(ranked_table.metric, ranked_table.rows[0].direction)
    model_links = []
    for row in ranked_table.rows:
        has_page = row.kind == "measured"
        model_links.append(to_model_page(to_model(row.model)) if has_page else "")
    return table(
        place,
        part,
        titles={"score": score},
        hrefs={"model": model_links},
        chart=dots,
        texts=notes(ranked_table.rows),
        files=[(name, relative(place, file)) for name, file in files] if cited else (),
    )


def place_in_words(ranked_table: RankedTable[Row]) -> str:
    """Where a table is among those of its task, in words."""
    return ", ".join(filter(None, (ranked_table.preset, ranked_table.variant)))


def _curves(board: OpenBoard, task: TaskPages) -> Iterator[Markup]:
    """Every curve that the app draws at first, for each table."""
    sized: set[str] = set()
    for ranked_table in (placed.table for placed in task.tables):
        for kind in (drawn.POSITION, drawn.SIZE):
            if kind == drawn.SIZE and ranked_table.preset in sized:
                continue
            sized |= {ranked_table.preset} if kind == drawn.SIZE else set()
            lines = drawn.curves(
                board, ranked_table.task, ranked_table.preset, ranked_table.variant, kind
            )
            charts = [_curve(ranked_table, lines, name, kind) for name in drawn.names(lines)]
            scope = ranked_table.preset if kind == drawn.SIZE else place_in_words(ranked_table)
            heading = f"Curves {kind}: {scope}"
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


def _curve(
    ranked_table: RankedTable[Row], lines: Sequence[drawn.ModelCurve], metric: str, kind: str
) -> Chart:
    of_metric = drawn.of_metric(lines, metric)
    if kind == drawn.SIZE:
        of_metric = drawn.from_sources(of_metric, drawn.sources_at_first(of_metric))
    named_lines = drawn.with_legend_names(of_metric)
    title = with_arrow(metric, of_metric[0].direction)
    shown_names = drawn.at_first(named_lines, ranked_table.rows)
    spec = drawn.curve_chart(named_lines, shown_names, title, logarithmic=kind == drawn.SIZE)
    return chart(title, f"Curves of {metric} on {ranked_table.place}", spec)


def _other_metrics(board: OpenBoard, task: TaskPages) -> Iterator[SortableTable]:
    """Every number of ours by other metrics, and every published one."""
    headlines = {placed.table.metric for placed in task.tables}
    rows = [row for row in board.rows(task.name) if row.metric not in headlines]
    for (preset, variant), group in groupby(rows, key=lambda row: (row.preset, row.variant)):
        of_table = list(group)
        shown_lines = []
        for row, line in zip(of_table, lines(of_table, {}, from_page(task.place)), strict=True):
            cells = {"metric": row.metric, **line}
            shown_lines.append({key: cells[key] for key in OTHERS})
        heading = f"Other metrics: {', '.join(filter(None, (preset, variant)))}"
        yield SortableTable(heading, shown_lines, folded=True)
