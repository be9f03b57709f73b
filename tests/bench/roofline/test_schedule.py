"""Bounds of a plan on several devices, against schedules that are really made."""

import heapq
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.roofline.devices import Span
from bench.roofline.schedule import timeline

STAGE = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6)
PLANS = st.lists(st.lists(STAGE, min_size=1, max_size=3), min_size=1, max_size=4)
Plan = Sequence[Sequence[Sequence[float]]]


def line(plan: Plan):
    spans = [[[Span(s / 2, s, 2 * s) for s in stage] for stage in chain] for chain in plan]
    return timeline(spans)


def greedy(plan: Plan, devices: int) -> float:
    """A free device takes the first run that may start: what the driver of a sweep does."""
    waiting = [list(chain[0]) for chain in plan]
    stage, left = [0] * len(plan), [len(chain[0]) for chain in plan]
    running: list[tuple[float, int]] = []
    now = 0.0
    while True:
        for chain, runs in enumerate(waiting):
            while runs and len(running) < devices:
                heapq.heappush(running, (now + runs.pop(0), chain))
        if not running:
            return now
        now, chain = heapq.heappop(running)
        left[chain] -= 1
        if not left[chain] and stage[chain] + 1 < len(plan[chain]):
            stage[chain] += 1
            waiting[chain] = list(plan[chain][stage[chain]])
            left[chain] = len(waiting[chain])


def test_a_sweep_by_hand() -> None:
    """Two models: trials of 4, 2, 2 and a final run of 3; trials of 5 and a final run of 1."""
    found = line([[[4.0, 2.0, 2.0], [3.0]], [[5.0], [1.0]]])
    assert found.work == Span(8.5, 17.0, 34.0)
    assert found.critical == Span(3.5, 7.0, 14.0)
    assert (found.devices, found.widest) == (3, 4)
    assert found.bounds(1) == (17.0, 17.0)
    assert found.bounds(2) == (8.5, 12.0)
    assert found.bounds(4) == (7.0, 7.0)


@given(PLANS, st.integers(1, 30))
def test_a_schedule_lies_between_the_bounds(plan: Plan, devices: int) -> None:
    least, most = line(plan).bounds(devices)
    assert least <= greedy(plan, devices) * (1 + 1e-9)
    assert greedy(plan, devices) <= most * (1 + 1e-9)


@given(PLANS, st.integers(1, 30))
def test_more_devices_are_never_slower_and_never_beat_the_critical_path(
    plan: Plan, devices: int
) -> None:
    found = line(plan)
    few, many = found.bounds(devices), found.bounds(devices + 1)
    assert all(b <= a * (1 + 1e-12) for a, b in zip(few, many, strict=True))
    assert many[0] >= found.critical.likely
    assert found.bounds(found.widest) == (found.critical.likely, found.critical.likely)
    assert 1 <= found.devices <= found.widest


def test_an_empty_plan_takes_no_time() -> None:
    found = timeline([])
    assert found.work.likely == found.critical.likely == 0
    assert found.devices == 1


def test_stages_without_runs_are_left_out() -> None:
    assert line([[[2.0], []]]).critical.likely == pytest.approx(2.0)
