"""Kernel regression, judged on constructed errors."""

from collections.abc import Callable

import numpy as np

from bench.records.schema import RunRecord
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.kernel_regression.kernel_regression import (
    BY_ROOT,
    CONSTANT,
    EXPERIMENT,
    NEAREST,
    RULES,
    SLOWER,
    of,
)
from tests.reproduce.associative.constructed import measured, planned, verdicts
from tests.reproduce.drawing.rendering import rendered

Law = Callable[[float, int], float]


def runs(laws: dict[str, Law]) -> list[RunRecord]:
    """Errors of each rule by n and d, whose trials scatter by a twentieth."""
    records = []
    for place, run in enumerate(planned(EXPERIMENT)):
        tasks = run.resolved()["tasks"]
        blank = measured(run, {"error": 0.1})
        (rule,) = [name for name in (*RULES, NEAREST) if of(name, tasks["dimension"]).has(blank)]
        generator, arrays = np.random.default_rng(place), {}
        for n in tasks["pairs"]:
            scatter = np.exp(0.05 * generator.standard_normal(tasks["trials"]))
            arrays[f"errors/n={n}"] = (laws[rule](n, tasks["dimension"]) * scatter).tolist()
        records.append(measured(run, {"error": 0.1}, arrays))
    return records


FALLING: dict[str, Law] = {
    BY_ROOT: lambda n, d: 10 * n**-0.75,
    CONSTANT: lambda n, d: 0.5,
    SLOWER: lambda n, d: 2 * n**-0.4,
    NEAREST: lambda n, d: 0.25,
}


def test_errors_that_fall_reproduce_every_claim() -> None:
    assert set(verdicts(EXPERIMENT, runs(FALLING)).values()) == {REPRODUCED}


def test_an_error_that_stalls_contradicts_where_it_does() -> None:
    stalls = FALLING | {BY_ROOT: lambda n, d: max(10 * n**-0.75, 0.05 if d == 6 else 0.0)}
    found = verdicts(EXPERIMENT, runs(stalls))
    assert found["β = √n converges, d = 6"] == CONTRADICTED
    assert found["β = √n converges, d = 3"] == REPRODUCED
    assert found["a bandwidth by dimension converges, d = 6"] == REPRODUCED


def test_a_test_that_a_constant_bandwidth_passes_tells_nothing() -> None:
    found = verdicts(EXPERIMENT, runs(FALLING | {CONSTANT: lambda n, d: 3 * n**-0.4}))
    assert found["β = √n converges, d = 1"] == UNDECIDED
    assert set(verdicts(EXPERIMENT, []).values()) == {NOT_ASKED, UNDECIDED}


def test_the_figure_is_drawn() -> None:
    drawn = EXPERIMENT.draw(EXPERIMENT.select(runs(FALLING)))
    assert rendered(drawn)
    assert [len(panel.traces) for panel in drawn.panels] == [4, 4, 4]
