"""Gradients as memories, judged on a real measurement and on altered ones."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from bench.records.schema import Curve, RunRecord
from models.associative.matrix import Matrix
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED
from reproduce.gradient_memory.gradient_memory import CLEAN, EXPERIMENT, accuracies
from tasks.gradient_memory import GradientMemory
from tests.bench.records import make_record
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words

YAML = Path(__file__).parents[2] / "tasks" / "gradient_memory.yaml"


def settings() -> dict[str, Any]:
    content = yaml.safe_load(YAML.read_text())
    others = {"_target_", "takes", "card", "presets", "sweep"}
    found = {key: content[key] for key in set(content) - others}
    return found | content["presets"]["smoke"]["tasks"]


SETTINGS = settings()


@cache
def real() -> RunRecord:
    found = GradientMemory(**SETTINGS).measure(
        lambda *sizes, seed=0: Matrix(*sizes), "test", 0, "cpu", lambda *_: None
    )
    return record(found.metrics, found.arrays)


def record(
    metrics: dict[str, float],
    arrays: dict[str, Any],
    tasks: Mapping[str, Any] = MappingProxyType({}),
    **changes: Any,
) -> RunRecord:
    return make_record(
        task="gradient_memory",
        model="matrix",
        label="Matrix",
        config={"tasks": {**SETTINGS, **tasks}, "models": {}, "training": {}},
        metrics={"test": metrics},
        arrays=arrays,
        per_sequence={},
        curves={"none": Curve(x=[0.0], y=[0.0])},
        **changes,
    )


def altered(values: dict[str, Any], metrics: dict[str, float]) -> RunRecord:
    own = real()
    return record({**own.metrics["test"], **metrics}, {**own.arrays, **values})


def verdicts(records: list[RunRecord]) -> dict[str, str]:
    return {c.name: c.without_control(records).verdict for c in EXPERIMENT.claims}


def test_a_real_measurement_reproduces_what_five_trials_can_show() -> None:
    found = verdicts([real()])
    assert CONTRADICTED not in found.values()
    certain = {"the lemma", "the lemma for noisy inputs", "noise cancels"}
    certain.add("spread of the scores after one step")
    assert {found[name] for name in certain} == {REPRODUCED}


@pytest.mark.parametrize(
    ("claim", "values", "metrics"),
    [
        ("the lemma", {}, {"gap/clean": 1e-9}),
        ("noise cancels", {}, {"gap/cancelled": 1e-9}),
        ("scores after one step", {}, {"target/N=64": 0.5}),
        # Without the 1/N of the prediction
        ("scores after one step", {}, {"other/N=64": 0.0}),
        ("scores after one step", {}, {"other/N=256": -0.001}),
        # 1/d in the place of 2/d
        ("spread of the scores after one step", {}, {"spread/N=64": 0.07}),
        ("one step suffices", {"accuracy/N=64,d=256": [0.5, 0.51, 0.5, 0.5, 0.49]}, {}),
        ("samples suffice", {"accuracy/T=8,n=4096": [0.5, 0.51, 0.5, 0.5, 0.49]}, {}),
        (
            "accuracy does not depend on the noise",
            {f"accuracy/T=64,N=64,d={d}": [0.01, 0.0, 0.02, 0.0, 0.01] for d in (16, 64, 128)},
            {},
        ),
        (
            "few noise vectors are worse from samples",
            {"accuracy/T=8,n=256": [0.95, 0.94, 0.95, 0.96, 0.95]},
            {},
        ),
    ],
)
def test_other_numbers_contradict(
    claim: str, values: dict[str, Any], metrics: dict[str, float]
) -> None:
    assert verdicts([altered(values, metrics)])[claim] == CONTRADICTED


def test_right_classes_are_left_open_within_their_standard_error() -> None:
    claim = next(c for c in EXPERIMENT.claims if c.name == "scores after one step")
    for gap, trials, expected in (
        (0.004, 5, REPRODUCED),
        (0.012, 5, UNDECIDED),  # the standard error is 0.0074
        (0.03, 5, CONTRADICTED),
        (0.012, 500, CONTRADICTED),  # and here 0.0007
    ):
        targets = {f"target/N={n}": 1 - 1 / n + gap * (n == 64) for n in (32, 64, 256)}
        one = record({**real().metrics["test"], **targets}, {}, {"trials": trials})
        finding = claim.without_control([one])
        assert finding.verdict == expected
        assert f"right classes {gap:.4f} (N = 64" in finding.evidence


def test_the_noise_is_judged_in_every_cell_by_itself() -> None:
    """Cells that differ in opposite directions do not cancel."""
    claim = next(c for c in EXPERIMENT.claims if c.name == "accuracy does not depend on the noise")

    def judged(gap: float, spread: float) -> tuple[str, str]:
        noise = {8: [spread * k for k in (1, 2, -2, 0, -1)]}
        noise[64] = sorted(noise[8])
        arrays = {
            f"accuracy/T={noises},N=32,d={d}": [
                0.5 + sign * gap * (noises == 64) + t for t in noise[noises]
            ]
            for noises in (8, 64)
            for d, sign in ((16, 0.9), (32, -1), (64, 0.1))
        }
        cells = {"noisy_tokens": [32], "dimensions": [16, 32, 64]}
        finding = claim.without_control([record({}, arrays, cells)])
        return finding.verdict, finding.evidence

    assert judged(0.02, 0.001)[0] == REPRODUCED
    assert judged(0.1, 0.001)[0] == CONTRADICTED
    verdict, evidence = judged(0.02, 0.01)  # near zero, and perhaps by chance
    assert verdict == UNDECIDED
    assert "the largest of 3 cells: accuracy at T = 8, N = 32, d = 32 0.500" in evidence
    assert "difference +0.020" in evidence


@pytest.mark.parametrize(("trials", "expected"), [(5, UNDECIDED), (20, REPRODUCED)])
def test_equal_trials_settle_what_their_tokens_can(trials: int, expected: str) -> None:
    """All of 5 × 32 tokens right leaves an accuracy of 0.977 possible, of 20 × 32 one of 0.994."""
    claim = next(c for c in EXPERIMENT.claims if c.name == "one step suffices")
    arrays = {f"accuracy/N=32,d={d}": [1.0] * trials for d in (128, 256)}
    finding = claim.without_control([record({}, arrays, {"tokens": [32]})])
    assert finding.verdict == expected
    assert f"over seeds and {32 * trials} test items" in finding.evidence


def test_a_run_that_failed_leaves_the_trials_open() -> None:
    claim = next(c for c in EXPERIMENT.claims if c.name == "samples suffice")
    arrays = {f"accuracy/T={t},n=4096": [1.0] * 20 for t in (8, 64)}
    found = record({}, arrays)
    assert claim.without_control([found]).verdict == REPRODUCED
    lost = record({}, {}, seed=1, outcome="failed", cause="out of patience")
    finding = claim.without_control([found, lost])
    assert finding.verdict == UNDECIDED
    assert "failed (out of patience)" in finding.evidence


def test_nothing_is_concluded_from_nothing() -> None:
    failed = record({}, {}, outcome="failed", cause="out of patience")
    assert set(verdicts([failed])) == {claim.name for claim in EXPERIMENT.claims}
    assert set(verdicts([failed]).values()) == {UNDECIDED}
    evidence = EXPERIMENT.claims[0].without_control([failed]).evidence
    assert "failed (out of patience)" in evidence
    rendered(EXPERIMENT.draw([failed]))


def test_figure_and_numbers() -> None:
    records = EXPERIMENT.select([real()])
    found = accuracies(records, CLEAN, 32, 128)
    assert len(found) == 5
    assert rendered(EXPERIMENT.draw(records))
    drawn = {trace.name: trace for trace in EXPERIMENT.draw(records).panels[0].traces}["N = 32"]
    assert list(drawn.x) == SETTINGS["dimensions"]
    assert drawn.y[list(drawn.x).index(128)] == pytest.approx(sum(found) / 5)


def test_seeds_are_runs() -> None:
    assert len(in_words(EXPERIMENT.plan("smoke", 3).runs)) == 3
