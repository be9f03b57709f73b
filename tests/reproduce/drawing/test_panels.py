"""Every reproduction that is drawn from data, on the committed records and on none at all."""

import math
from functools import cache

import pytest

from bench.config.groups import choices
from bench.records.schema import RunRecord
from core.errors import UserError
from reproduce.__main__ import reproductions
from reproduce.drawing.frame import View, framed
from reproduce.experiment import Experiment
from reproduce.plotting.panels import Picture
from tests.committed import committed_records
from tests.reproduce.drawing.rendering import assert_every_number_is_in_the_dump, draw
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
def pictures(name: str) -> dict[str, Picture]:
    """The picture of a figure by the preset of its records, and without any."""
    reproduction = DRAWN[name]
    assert reproduction.panels is not None
    records = {preset: selected(reproduction, preset) for preset in choices("preset")}
    with_records = {preset: chosen for preset, chosen in records.items() if chosen}
    return {
        preset: framed(reproduction.draw(chosen), chosen, View(preset))
        for preset, chosen in [*with_records.items(), ("none", [])]
    }


each = pytest.mark.parametrize("name", DRAWN)


@pytest.mark.parametrize("name", ["figure9", "table3", "bigram"])
def test_reproductions_with_records_are_among_the_cases(name: str) -> None:
    assert {"laptop", "none"} <= pictures(name).keys()


@each
def test_intervals_contain_their_means_and_names_are_unique(name: str) -> None:
    for panel in [panel for picture in pictures(name).values() for panel in picture.panels]:
        assert len({trace.name for trace in panel.traces}) == len(panel.traces)
        for trace in panel.traces:
            if trace.mark not in ("heat", "contour"):
                assert len(trace.x) == len(trace.y)
            for y, interval in zip(trace.y, trace.interval, strict=False):
                if interval is not None:
                    assert y is not None
                    assert interval[0] <= y <= interval[1] or math.isclose(*interval)


@each
def test_the_dump_holds_the_whole_picture(name: str) -> None:
    for picture in pictures(name).values():
        assert Picture.from_json(picture.to_json()) == picture


@each
def test_every_number_drawn_is_in_the_dump(name: str) -> None:
    """Those with committed verdicts are in tests/reproduce/test_committed_records.py."""
    for preset, picture in pictures(name).items():
        if (name, preset) not in DRAWN_WHOLE:
            assert_every_number_is_in_the_dump(draw(picture), picture)


@each
def test_the_order_of_records_does_not_matter(name: str) -> None:
    reproduction = DRAWN[name]
    assert reproduction.panels is not None
    for preset in pictures(name):
        records = [] if preset == "none" else selected(reproduction, preset)
        again = reproduction.draw(reproduction.select(records[::-1]))
        assert again.to_json() == reproduction.draw(records).to_json()
