"""What pages are made of, whoever shows them: the app draws these parts by Streamlit, the site
writes them as HTML. A page that both have is one function that gives its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leaderboards.views.links import Link


@dataclass(frozen=True)
class Text:
    """Sentences under a title, or under a heading and a lead."""

    texts: tuple[str, ...] = ()
    title: str = ""
    heading: str = ""
    lead: str = ""
    colour: str = ""


@dataclass(frozen=True)
class Links:
    """Links beside each other; nothing is shown where there are none."""

    links: tuple[tuple[str, Link], ...]
    lead: str = ""


@dataclass(frozen=True)
class FilledTemplate:
    """A template of ``templates/`` with its data."""

    template: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class SortableTable:
    """A table that sorts, under its heading.

    Attributes:
        lines: one dictionary for each line, with every column there is.
        first_columns: those that are seen at first, in their order; none, if all are.
        words: for whoever does not see it; the heading where they are left out.
        anchor: its place on the page; ``folded`` if a reader of the site has to open it.
    """

    heading: str
    lines: Sequence[Mapping[str, Any]]
    first_columns: Sequence[str] = ()
    lead: str = ""
    words: str = ""
    anchor: str = ""
    folded: bool = False


@dataclass(frozen=True)
class CodeBlock:
    """Text as it is, or a tree as JSON."""

    heading: str
    content: str | Mapping[str, Any]
    folded: bool = False


@dataclass(frozen=True)
class Columns:
    """Parts in columns, which stand below each other where there is no room."""

    columns: tuple[tuple[Part, ...], ...]


Part = Text | Links | FilledTemplate | SortableTable | CodeBlock | Columns


def facts(pairs: Sequence[tuple[str, str]]) -> FilledTemplate:
    """Names with their values, in two columns."""
    return FilledTemplate("facts", {"facts": pairs})
