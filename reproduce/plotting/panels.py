"""A figure as data: a picture has rows of panels, a panel has traces and remarks.

``renderer`` draws it and reads nothing else, and ``curves.json`` is a dump of it. Neither torch
nor matplotlib is imported.
Example::

    panel = Panel(
        title="accuracy",
        x=Axis("pairs in a sequence", scale="log2"),
        y=Axis("accuracy", limits=(0, 1)),
        traces=(Trace("LSTM", x=(4, 8), y=(0.9, 0.5), interval=((0.8, 1), (0.4, 0.6))),),
        remarks=(Remark("chance", y=0.1),),
    )
    picture = Picture("Recall by pairs", rows=[[panel]])
    assert Picture.from_json(picture.to_json()) == picture

Sequences become tuples, and numbers that are not finite become None, which is not drawn.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from core.reading import Kind

# How points are shown: a line with its interval as a band; markers with whiskers; both; bars; a
# matrix in colour with a cell for each x and y; levels of such a matrix.
Mark = Literal["line", "dots", "both", "bars", "heat", "contour"]
# What a trace stands for; the style sheet decides what that looks like.
Role = Literal["measured", "emphasis", "faint", "published", "theory", "reference"]
Scale = Literal["linear", "log", "log2", "symlog"]
Line = Literal["", "solid", "dashed", "dotted", "dashdot", "none"]
Marker = Literal["", "circle", "square", "diamond", "triangle", "cross", "down"]
Place = Literal["", "best", "upper left", "upper right", "lower left", "lower right", "right"]


def _number(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _each(convert: Any) -> BeforeValidator:
    """Any iterable as a tuple of converted values; what is not one is refused as pydantic does."""

    def read(values: Any) -> Any:
        try:
            return tuple(convert(value) for value in values)
        except TypeError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(read)


Numbers = Annotated[Sequence[float | None], _each(_number)]
Places = Annotated[Sequence[float], _each(_number)]
Words = Annotated[Sequence[str], _each(str)]
Pair = tuple[float | None, float | None]
Intervals = Annotated[
    Sequence[tuple[float, float] | None], _each(lambda pair: None if pair is None else tuple(pair))
]
Matrix = Annotated[Sequence[Numbers], _each(lambda row: row)]
Seeds = Annotated[
    Mapping[str, Numbers], BeforeValidator(lambda seeds: {str(k): v for k, v in seeds.items()})
]

_FROZEN = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_FROZEN)
class Axis:
    """One axis of a panel.

    Attributes:
        label: with the unit, and which way is better where one is.
        scale: ``log2`` is logarithmic with ticks at powers of two; ``symlog`` is linear near zero.
        limits: (low, high); None leaves an end to the data.
        ticks: where, in place of the renderer's choice; each is written as a number.
        categories: names of the places 0, 1, 2 …; such an axis has no scale.
        inverted: runs from high to low.
    """

    label: str = ""
    scale: Scale = "linear"
    limits: Pair = (None, None)
    ticks: Places = ()
    categories: Words = ()
    inverted: bool = False


@dataclass(frozen=True, config=_FROZEN)
class Trace:
    """Numbers that belong together.

    Attributes:
        name: unique in its panel.
        x, y: of equal length; None is a point without a number. A matrix has the places of
            its columns and rows here.
        interval: (low, high) of each y, or nothing at all.
        seeds: each seed's y at the same x: thin lines, or ticks beside markers.
        failed: the x at which a run gave no result.
        z: the rows of a matrix.
        numbers: format such as ``.2f`` of the numbers written into the cells of a matrix.
        texts: a word beside each point.
        mark, role: see above.
        colour: name of a model, whose card says its colour, line and marker, or of the palette.
        line, marker, hollow: where they tell traces of one colour apart.
        shade: in place of a colour, a value on the panel's z axis.
        aside: steps sideways, so that intervals at one x do not cover each other.
        legend: its text there if other than the name; "" keeps it out. Traces with equal texts
            share an entry, in grey if their colours differ.
        end: a word at the right end of its line.
    """

    name: str
    x: Places
    y: Numbers
    interval: Intervals = ()
    seeds: Seeds = field(default_factory=dict)
    failed: Places = ()
    z: Matrix = ()
    numbers: str = ""
    texts: Words = ()
    mark: Mark = "line"
    role: Role = "measured"
    colour: str = ""
    line: Line = ""
    marker: Marker = ""
    hollow: bool | None = None
    shade: float | None = None
    aside: float = 0.0
    legend: str | None = None
    end: str = ""

    def __post_init__(self) -> None:
        if self.mark in ("heat", "contour"):
            if [len(row) for row in self.z] != [len(self.x)] * len(self.y):
                raise ValueError(f"'{self.name}' needs a matrix of {len(self.y)} × {len(self.x)}")
            return
        optional: dict[str, Sequence[Any]] = {"interval": self.interval, "texts": self.texts}
        optional |= {f"seed {seed}": values for seed, values in self.seeds.items()}
        values_by_name = {
            "y": self.y,
            **{name: values for name, values in optional.items() if values},
        }
        for name, values in values_by_name.items():
            if len(values) != len(self.x):
                raise ValueError(f"'{self.name}' has {len(self.x)} x and {len(values)} of {name}")

    @property
    def entry(self) -> str:
        """The trace's text in the legend; "" where it has none."""
        return self.name if self.legend is None else self.legend


@dataclass(frozen=True, config=_FROZEN)
class Remark:
    """A word, a line or a span that is no measured trace.

    With ``x`` alone it is a vertical line, with ``y`` alone a horizontal one, with ``x`` and ``to``
    a span, with ``x`` and ``y`` a word at a point, and with none of them a word at ``place``.

    Attributes:
        at: how far along its line the word stands, from 0 to 1; at 1 it stands outside.
        side: of the line or point on which the word stands.
    """

    text: str = ""
    x: float | None = None
    y: float | None = None
    to: float | None = None
    at: float = 0.02
    side: Literal["left", "center", "right"] = "right"
    place: Place = "upper left"
    colour: str = "grey"
    line: Line = "dotted"


@dataclass(frozen=True, config=_FROZEN)
class Panel:
    """Axes and what is drawn on them.

    Attributes:
        z: what the colours of matrices and shades mean; with a label it has a colour bar.
        sideways: y runs to the right and x down, as rows of a table do.
        legend: where, "right" being outside; "" for none.
        columns: of the legend.
    """

    title: str = ""
    x: Axis = Axis()
    y: Axis = Axis()
    traces: Annotated[Sequence[Trace], _each(lambda trace: trace)] = ()
    remarks: Annotated[Sequence[Remark], _each(lambda remark: remark)] = ()
    z: Axis | None = None
    sideways: bool = False
    legend: Place = ""
    columns: int = 1

    def __post_init__(self) -> None:
        names = [trace.name for trace in self.traces]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two traces of '{self.title}' are called '{twice[0]}'")

    @property
    def empty(self) -> bool:
        """A place that is left free in its row."""
        return self == Panel()


@dataclass(frozen=True, config=_FROZEN)
class PanelRow:
    """Panels beside each other.

    Attributes:
        height: in inches.
        widths: relative to each other; equal where none are given.
        shared: the panels have one vertical axis, named at the left.
    """

    panels: Annotated[Sequence[Panel], _each(lambda panel: panel)]
    height: float = 3.4
    widths: Places = ()
    shared: bool = False


def _row(row: Any) -> Any:
    return row if isinstance(row, PanelRow | Mapping) else PanelRow(tuple(row))


@dataclass(frozen=True, config=_FROZEN)
class Picture:
    """A whole figure.

    Attributes:
        width: in inches.
        legend: one for all panels, below them.
        columns: of that legend.
        subtitle, note, foot: what was measured, on what, and which runs failed. They are filled in
            where a reproduction is written.
        facts: numbers beside those that are drawn, such as the counts of a corpus.
    """

    title: str
    rows: Annotated[Sequence[PanelRow], _each(_row)]
    width: float = 10.0
    legend: Literal["", "below"] = ""
    columns: int = 4
    subtitle: str = ""
    note: str = ""
    foot: Words = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        panels: list[Panel] = []
        for row in self.rows:
            panels += row.panels
        return panels

    def to_json(self) -> bytes:
        """All of it, but for what is as by default; each list of numbers is one line."""
        content = TypeAdapter(Picture).dump_python(self, mode="json", exclude_defaults=True)
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        return (_LIST_OF_NUMBERS.sub(_on_one_line, text) + "\n").encode()

    @staticmethod
    def from_json(content: bytes) -> Picture:
        """The picture of a dump.

        Raises:
            ValueError: it is none.
        """
        return TypeAdapter(Picture).validate_python(json.loads(content))

    @staticmethod
    def read(path: Path) -> Picture:
        """The picture of a file.

        Raises:
            UserError: the file is missing, oversized, or holds no picture.
        """
        advice = "make it again with the figure's reproduce command"
        figure = Kind("figure", Picture, advice, most=16 * 2**20)
        # Its own types turn lists into tuples.
        return figure.typed(path, figure.tree(path, figure.bytes_of(path)), strict=False)


_LIST_OF_NUMBERS = re.compile(r"\[\n[^\[\]{}\"]*\]")


def _on_one_line(match: re.Match[str]) -> str:
    return " ".join(match[0].split()).replace("[ ", "[").replace(" ]", "]")
