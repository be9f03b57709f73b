"""The figure of capacities on constructed records whose constants are known."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest

from bench.claims import CONTRADICTED, REPRODUCED, UNDECIDED, Verdict
from bench.records import Curve, RunRecord
from bench.reproduction import View, render
from reproduce import capacity
from reproduce.presets import preset_settings
from tests.bench.records import make_record

CLAIMS = {claim.name: claim for claim in capacity.REPRODUCTION.claims}


def measured(
    model: str, widths: list[int], count: Any, threshold: float, **tasks: Any
) -> RunRecord:
    """``count(width)`` associations, spread by 2 % over five trials."""
    trials = [[round(count(w) * (0.98 + 0.01 * k)) for k in range(5)] for w in widths]
    means = [sum(row) / 5 for row in trials]
    across = [float(w) for w in widths]
    name = f"{threshold:g}"
    settings = preset_settings("capacity", model, "laptop")["tasks"]
    settings = {**settings, "thresholds": [threshold], **tasks}
    return make_record(
        task="capacity",
        model=model,
        label=model,
        preset="laptop",
        identity=hashlib.sha256(repr((model, settings)).encode()).hexdigest(),
        config={"tasks": settings, "models": {}, "training": {}},
        metrics={"test": {"associations": means[0]}},
        per_sequence={},
        arrays={"widths": widths, f"associations/{name}": trials},
        curves={
            f"associations/{name}": Curve(x=across, y=means),
            f"weights/{name}": Curve(x=across, y=[w * w for w in across]),
        },
    )


def solved(width: int, constant: float) -> float:
    """N with N log N = constant · d²."""
    return capacity._solve(constant * width**2)


@pytest.mark.parametrize(
    ("constant", "expected"), [(0.55, REPRODUCED), (0.6, UNDECIDED), (0.8, CONTRADICTED)]
)
def test_the_hebbian_constant_is_judged(constant: float, expected: Verdict) -> None:
    run = measured("outer_product", [32, 64, 128], lambda w: solved(w, constant), 0.5)
    claim = CLAIMS["Hebbian memory, half recalled"]
    assert claim.judge([run]).finding.verdict == expected
    assert CLAIMS["trained matrix"].judge([run]).finding.verdict == UNDECIDED


def test_widths_outside_the_window_do_not_count() -> None:
    run = measured("outer_product", [8, 16], lambda w: solved(w, 2.0), 0.5)
    finding = CLAIMS["Hebbian memory, half recalled"].judge([run]).finding
    assert finding.verdict == UNDECIDED
    assert "no width from 32 to 128" in finding.evidence


def test_the_perceptron_is_judged_with_its_classes_alone() -> None:
    claim = CLAIMS["perceptron, 32 classes"]
    own = measured("mlp", [16, 32], lambda w: 0.9 * w * w, 0.99, classes=32)
    other = measured("mlp", [16, 32], lambda w: 0.5 * w * w, 0.99)
    assert claim.judge([own, other]).finding.verdict == REPRODUCED
    assert claim.judge([other]).finding.verdict == UNDECIDED


def test_n_log_n_is_solved() -> None:
    for product in (10.0, 1000.0, 1e6):
        n = capacity._solve(product)
        assert n * math.log(n) == pytest.approx(product)


def test_of_records_with_the_same_draws_the_longest_counts() -> None:
    short = measured("outer_product", [32], lambda w: 100, 0.5)
    short = short.model_copy(update={"arrays": {"widths": [32], "associations/0.5": [[7]]}})
    long = measured("outer_product", [32], lambda w: 100, 0.5)
    assert capacity.trials_at([short, long], "outer_product", 0.5, 32) == [98, 99, 100, 101, 102]


def test_every_memory_of_the_preset_is_drawn_and_the_same_bytes_come_out() -> None:
    widths = preset_settings("capacity", "outer_product", "laptop")["tasks"]["widths"]
    settings = preset_settings("capacity", "outer_product", "laptop")["tasks"]
    runs = []
    for model in ("outer_product", "trained_linear", "kernel"):
        run = measured(model, widths, lambda w: w, 0.99)
        runs.append(run.model_copy(update={"config": {**run.config, "tasks": settings}}))
    own = measured("mlp", [16, 32], lambda w: 0.9 * w * w, 0.99, classes=32)
    chosen = capacity.select([*runs, own])
    assert {run.model for run in capacity.overview(chosen)} == {r.model for r in runs}
    images = [render(capacity.draw(chosen, View("laptop")), "capacity") for _ in range(2)]
    assert images[0] == images[1]
    assert b"trained_linear" in images[0]["svg"] or len(images[0]["svg"]) > 10_000
    assert set(capacity.curves(chosen)["memories"]) == {r.model for r in runs}


def test_plans_name_runs_that_exist() -> None:
    for preset in ("smoke", "laptop"):
        plan = capacity.plan(preset, None)
        assert len(plan.runs) >= 16
        assert len(capacity.plan(preset, 2).runs) == 2 * len(plan.runs)
