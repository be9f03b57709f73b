"""Every reproduction that is drawn from data, on the committed records and on none at all."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from bench.records.schema import RunRecord, read_records
from ground.errors import UserError
from leaderboards.build import FOLDER
from pictures.panels import Picture
from pictures.renderer import render
from reproduce.__main__ import reproductions
from reproduce.drawing.frame import framed
from reproduce.reproduction import Reproduction, View
from settings.groups import choices

DRAWN = {name: one for name, one in reproductions().items() if one.panels is not None}


@cache
def committed() -> list[RunRecord]:
    return [r for r in read_records([FOLDER / "records"]) if r.role not in ("trial", "control")]


def selected(reproduction: Reproduction, preset: str) -> list[RunRecord]:
    """None where a preset has no records, or only some of which the figure shows none."""
    try:
        return reproduction.select([r for r in committed() if r.preset == preset])
    except UserError:
        return []


@cache
def with_records() -> list[tuple[str, str]]:
    """(name, preset), the most demanding preset last."""
    return [
        (name, preset)
        for name, reproduction in DRAWN.items()
        for preset in choices("preset")
        if selected(reproduction, preset)
    ]


@cache
def cases() -> list[tuple[str, str]]:
    """(name, preset) with records, and every name without any."""
    return [*with_records(), *((name, "none") for name in DRAWN)]


@cache
def picture(name: str, preset: str) -> Picture:
    reproduction = DRAWN[name]
    records = [] if preset == "none" else selected(reproduction, preset)
    assert reproduction.panels is not None
    return framed(reproduction.panels(records), records, View(preset))


def numbers(content: Any) -> Iterator[float]:
    """All numbers of a parsed JSON file."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        for item in content:
            yield from numbers(item)
    elif isinstance(content, int | float):
        yield float(content)


each = pytest.mark.parametrize(("name", "preset"), cases(), ids=map("-".join, cases()))


def test_reproductions_with_records_are_among_the_cases() -> None:
    assert {("figure9", "laptop"), ("table3", "laptop"), ("bigram", "laptop")} <= set(cases())


@each
def test_intervals_contain_their_means_and_names_are_unique(name: str, preset: str) -> None:
    for panel in picture(name, preset).panels:
        assert len({trace.name for trace in panel.traces}) == len(panel.traces)
        for trace in panel.traces:
            if trace.mark not in ("heat", "contour"):
                assert len(trace.x) == len(trace.y)
            for y, interval in zip(trace.y, trace.interval, strict=False):
                if interval is not None:
                    assert y is not None
                    assert interval[0] <= y <= interval[1] or math.isclose(*interval)


@each
def test_the_dump_holds_the_whole_picture(name: str, preset: str) -> None:
    assert Picture.from_json(picture(name, preset).to_json()) == picture(name, preset)


@each
def test_every_number_drawn_is_in_the_dump(name: str, preset: str) -> None:
    known = np.array(sorted({*numbers(json.loads(picture(name, preset).to_json())), 0.0, 1.0}))
    panels = [panel for panel in picture(name, preset).panels if not panel.empty]
    figure = render(picture(name, preset))
    axes = [one for one in figure.axes if one.axison and one.get_label() != "<colorbar>"]
    assert len(axes) == len(panels)
    for one, panel in zip(axes, panels, strict=True):
        for line in one.lines:
            drawn = line.get_xdata() if panel.sideways else line.get_ydata()
            assert np.isin(np.asarray(drawn, float), known).all(), line.get_label()


@each
def test_the_order_of_records_does_not_matter(name: str, preset: str) -> None:
    reproduction = DRAWN[name]
    records: Sequence[RunRecord] = [] if preset == "none" else selected(reproduction, preset)
    assert reproduction.panels is not None
    again = reproduction.panels(reproduction.select(records[::-1]))
    assert again.to_json() == reproduction.panels(records).to_json()
