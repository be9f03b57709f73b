"""Dictionaries of a view as a table of HTML that sorts, each number with all of its digits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from leaderboards.views.columns import LINKS, cell_text, columns

OPEN = "open"  # the text of a link that is a column of its own
_RANK = re.compile(r"\d+")


class HtmlCell(NamedTuple):
    """One cell.

    Attributes:
        order: what it is sorted by: a number with all of its digits; None where that is the text.
        href: where it leads to.
    """

    text: str
    order: str | None
    href: str


class Column(NamedTuple):
    """A column; ``more`` if a reader has to ask for it."""

    name: str
    title: str
    number: bool
    more: bool


class HtmlTable(NamedTuple):
    """A table with the words for whoever does not see it."""

    alt_text: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[HtmlCell, ...], ...]


def grid(
    lines: Sequence[Mapping[str, Any]],
    alt_text: str,
    first: Sequence[str] = (),
    titles: Mapping[str, str] | None = None,
    hrefs: Mapping[str, Sequence[str]] | None = None,
) -> HtmlTable:
    """A table of the lines, in their order.

    Args:
        first: the columns that are seen at first, in their order; without it, all.
        titles: of columns that have another than their name.
        hrefs: where the texts of a column lead to, line by line; "" where to nothing.
    """
    titles, hrefs = titles or {}, hrefs or {}
    shown_columns = []
    for name in columns(lines, first):
        is_number = name == "rank" or any(_is_number(line.get(name)) for line in lines)
        is_folded = bool(first) and name not in first
        shown_columns.append(Column(name, titles.get(name, name), is_number, is_folded))
    rows = []
    for place, line in enumerate(lines):
        cells = []
        for column in shown_columns:
            href = hrefs[column.name][place] if column.name in hrefs else ""
            cells.append(_cell(column, line.get(column.name), href))
        rows.append(tuple(cells))
    return HtmlTable(alt_text, tuple(shown_columns), tuple(rows))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(column: Column, value: Any, href: str) -> HtmlCell:
    if column.name in LINKS:
        return HtmlCell(OPEN if value else "", None, value or "")
    text = cell_text(column.name, value)
    if not column.number:
        return HtmlCell(text, None, href)
    if column.name == "rank":
        best = _RANK.match(text)
        return HtmlCell(text, best[0] if best else "", "")
    return HtmlCell(text, repr(value) if _is_number(value) else "", "")
