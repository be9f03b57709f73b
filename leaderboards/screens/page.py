"""What all pages of the app share: the board, read once for each state of its file, and how its
parts are drawn."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from leaderboards.build import COMMITTED, LOCAL, default_board
from leaderboards.contents import OpenBoard
from leaderboards.markup import markup
from leaderboards.tables.folder import MANIFEST
from leaderboards.views.columns import FORMATS, LINKS
from leaderboards.views.links import Link
from leaderboards.views.overview import Overview, overview
from leaderboards.views.parts import CodeBlock, FilledTemplate, Links, Part, SortableTable, Text
from leaderboards.views.trust import explained

if TYPE_CHECKING:
    from leaderboards.views.charts import Spec

OWN = "the board of your runs, beside those that are committed"

NOTHING_OF_OURS = "Nothing of ours is measured yet: these numbers are published ones."

Lines = Sequence[Mapping[str, Any]]


def board_path() -> Path:
    """The command line's board, else that of the environment variable BOARD, else the default."""
    if len(sys.argv) > 1 and sys.argv[1].endswith(".parquet"):
        return Path(sys.argv[1])
    return Path(os.environ["BOARD"]) if os.environ.get("BOARD") else default_board()


def board() -> OpenBoard:
    """The board that the app shows, of which every page reads what it asks for.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    return _opened(*state())


def first_page() -> Overview:
    """The first page of the board, made once for each state of its file."""
    return _overview(*state())


def described() -> str:
    """Which board this is. No place on this machine is named."""
    which = {COMMITTED.resolve(): "the committed board", LOCAL.resolve(): OWN}
    kind = which.get(board_path().resolve(), "a board of your own")
    return f"This is {kind}: {board().count('records'):,} records."


def prepare(path: Path) -> None:
    """Make the first page of a board before anybody asks for it."""
    state_of_board = state(path)
    if _opened(*state_of_board).tasks():
        _overview(*state_of_board)


def state(path: Path | None = None) -> tuple[str, int]:
    """The board and when it was written: what is remembered of a board goes by it."""
    path = path or board_path()
    listed = path / MANIFEST
    return str(path), listed.stat().st_mtime_ns if listed.exists() else 0


@st.cache_resource(max_entries=2, show_spinner=False)
def _opened(path: str, modified: int) -> OpenBoard:
    return OpenBoard(Path(path))


@st.cache_resource(max_entries=2, show_spinner=False)
def _overview(path: str, modified: int) -> Overview:
    return overview(_opened(path, modified))


def show(parts: Iterable[Part]) -> None:
    """The parts of a page that the site has, too."""
    for part in parts:
        if isinstance(part, Text):
            draw("text", **vars(part))
        elif isinstance(part, Links):
            links(part.links, part.lead)
        elif isinstance(part, FilledTemplate):
            draw(part.template, **part.data)
        elif isinstance(part, SortableTable):
            text(heading=part.heading, lead=part.lead)
            grid(part.lines, part.words or part.heading, part.first_columns or None)
        elif isinstance(part, CodeBlock):
            st.text(part.heading)
            if isinstance(part.content, str):
                st.code(part.content, language=None, wrap_lines=True)
            else:
                st.json(dict(part.content), expanded=1)
        else:
            for column, parts_of_column in zip(
                st.columns(len(part.columns)), part.columns, strict=True
            ):
                with column:
                    show(parts_of_column)


def draw(template: str, /, **data: Any) -> None:
    """A template of the project."""
    st.html(markup(template, **data))


def text(*texts: str, title: str = "", heading: str = "", lead: str = "", colour: str = "") -> None:
    """Sentences under a title or heading."""
    sentences = [sentence for sentence in texts if sentence]
    draw("text", title=title, heading=heading, lead=lead, texts=sentences, colour=colour)


def links(pairs: Iterable[tuple[str, Link]], lead: str = "") -> None:
    """Links beside each other."""
    all_pairs = list(pairs)
    if all_pairs:
        draw("links", links=all_pairs, lead=lead)


def plot(spec: Spec, alt_text: str) -> None:
    """A chart with its description."""
    st.vega_lite_chart(spec=spec, width="stretch", alt=alt_text)


def columns_of(lines: Lines, score: str = "score") -> dict[str, Any]:
    """How the columns of a table are written: numbers short, and links as links."""
    short = st.column_config.NumberColumn
    config: dict[str, Any] = {
        **{name: short(name, format=form) for name, form in FORMATS.items()},
        "score": short(score, format=FORMATS["score"]),
        **{name: st.column_config.LinkColumn(name, display_text="open") for name in LINKS},
        "checked": st.column_config.TextColumn("checked", help=f"{explained()}."),
    }
    named = set().union(*lines)
    return {name: column for name, column in config.items() if name in named}


def grid(lines: Lines, alt_text: str, order: Sequence[str] | None = None, **more: Any) -> Any:
    """A table that sorts by a click on a column, and searches."""
    config = columns_of(lines, more.pop("score", "score")) | more.pop("config", {})
    return st.dataframe(
        pd.DataFrame(lines),
        column_order=order,
        column_config=config,
        hide_index=True,
        placeholder="–",
        alt=alt_text,
        **more,
    )
