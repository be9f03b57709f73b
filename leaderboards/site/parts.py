"""The parts of a page as HTML, and the frame around all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup
from pydantic_core import to_json

from core.escaping import script
from leaderboards.markup import markup
from leaderboards.site.addresses import from_page, relative
from leaderboards.site.grids import grid
from leaderboards.views.charts import Spec
from leaderboards.views.parts import CodeBlock, FilledTemplate, Links, Part, SortableTable, Text

FIT = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
Item = tuple[str, str, str]  # name, address, and what is told of it


class Chart(NamedTuple):
    """A chart as it stands in a page: Vega-Lite as JSON, and words for whoever does not see it."""

    title: str
    alt_text: str
    spec: Markup


class Page(NamedTuple):
    """A page of the site: where it lies, and its parts as HTML."""

    place: str
    title: str
    parts: tuple[Markup, ...]

    def written(self, digest: str) -> bytes:
        """The whole page of the board with this hash."""
        return markup(
            "site",
            title=self.title,
            parts=self.parts,
            root=root(self.place),
            charts=any("vega" in part for part in self.parts),
            grids=any("grid" in part for part in self.parts),
            digest=digest,
        ).encode()


def root(place: str) -> str:
    """The way from a page to the root of the site, as the beginning of an address."""
    return "../" * place.count("/")


def html_of_parts(place: str, parts: Iterable[Part]) -> list[Markup]:
    """Parts as they stand in the page at ``place``."""
    pieces = []
    for part in parts:
        if isinstance(part, Text):
            pieces.append(fill(place, "text", **vars(part)))
        elif isinstance(part, Links):
            if part.links:
                pieces.append(fill(place, "links", **vars(part)))
        elif isinstance(part, FilledTemplate):
            pieces.append(fill(place, part.template, **part.data))
        elif isinstance(part, SortableTable):
            pieces.append(table(place, part))
        elif isinstance(part, CodeBlock):
            is_text = isinstance(part.content, str)
            text = part.content if is_text else to_json(part.content, indent=1).decode()
            pieces.append(fill(place, "code", heading=part.heading, text=text, folded=part.folded))
        else:
            for column in part.columns:
                pieces += html_of_parts(place, column)
    return pieces


def fill(place: str, template: str, /, **data: Any) -> Markup:
    """A filled template as it stands in the page at ``place``."""
    return Markup(markup(template, from_page(place), **data))


def table(
    place: str,
    part: SortableTable,
    titles: Mapping[str, str] | None = None,
    hrefs: Mapping[str, Sequence[str]] | None = None,
    chart: Chart | None = None,
    texts: Iterable[str] = (),
    files: Iterable[tuple[str, str]] = (),
) -> Markup:
    """A table that sorts, in a section of its own.

    Args:
        titles: of columns that have another than their name.
        hrefs: where the texts of a column lead to, line by line.
        chart, texts, files: what stands below it, the files by name and address.
    """
    return fill(
        place,
        "table",
        heading=part.heading,
        lead=part.lead,
        anchor=part.anchor,
        folded=part.folded,
        grid=grid(part.lines, part.words or part.heading, part.first_columns, titles, hrefs),
        chart=chart,
        texts=list(texts),
        files=list(files),
    )


def chart(title: str, alt_text: str, spec: Spec) -> Chart:
    """A chart as wide as its page."""
    return Chart(title, alt_text, Markup(script(spec | FIT)))


def badge(place: str, name: str, label: str) -> Markup:
    """The badge of a page, with the address of what shields.io asks for."""
    return fill(place, "badge", name=f"{root(place)}{name}", label=label)


def items(place: str, anchor: str, heading: str, listed: Iterable[Item], *texts: str) -> Markup:
    """A list of links under a heading; their addresses are from the root of the site."""
    entries = [(name, relative(place, target), note) for name, target, note in listed]
    return fill(place, "lists", anchor=anchor, heading=heading, items=entries, texts=texts)
