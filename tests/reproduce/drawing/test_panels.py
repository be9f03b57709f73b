"""Every reproduction that is drawn from data, on the committed records and on none at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import pytest

from bench.config.groups import choices
from bench.records.schema import RunRecord
from core.errors import UserError
from reproduce.__main__ import reproductions
from reproduce.drawing.frame import framed
from reproduce.experiment import Experiment, View
from reproduce.plotting.panels import Picture
from reproduce.plotting.renderer import render
from tests.committed import committed_records
from tests.reproduce.drawing.rendering import assert_every_number_is_in_the_dump
from tests.reproduce.test_committed_records import DRAWN as DRAWN_WHOLE

DRAWN = {name: one for name, one in reproductions().items() if one.panels is not None}


@cache
def committed() -> list[RunRecord]:
    return [r for r in committed_records() if r.role not in ("trial", "control")]


def selected(reproduction: Experiment, preset: str) -> list[RunRecord]:
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
    return framed(reproduction.draw(records), records, View(preset))


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


@pytest.mark.parametrize(("name", "preset"), [one for one in cases() if one not in DRAWN_WHOLE])
def test_every_number_drawn_is_in_the_dump(name: str, preset: str) -> None:
    """Those with committed verdicts are in tests/reproduce/test_committed_records.py."""
    assert_every_number_is_in_the_dump(render(picture(name, preset)), picture(name, preset))


@each
def test_the_order_of_records_does_not_matter(name: str, preset: str) -> None:
    reproduction = DRAWN[name]
    records: Sequence[RunRecord] = [] if preset == "none" else selected(reproduction, preset)
    assert reproduction.panels is not None
    again = reproduction.draw(reproduction.select(records[::-1]))
    assert again.to_json() == reproduction.draw(records).to_json()
