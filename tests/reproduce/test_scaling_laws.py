"""Scaling laws on constructed errors whose verdicts are known."""

import hashlib
from typing import Any

import numpy as np
import pytest

from bench.records.schema import Curve, RunRecord
from reproduce.claims.power_laws import fit_power_law
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.scaling_laws.runs import SCHEMES, Part, part_of
from reproduce.scaling_laws.scaling_laws import EXPERIMENT
from tests.bench.records import make_record
from tests.configurations import compose
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words

D = [16, 32, 64, 128, 256, 512, 1024]
N = [10, 100, 1000, 10_000, 100_000]
TASK = {
    "tokens": 1000,
    "classes": 5,
    "alpha": 2.0,
    "dimensions": D,
    "samples": N,
    "population": True,
    "trials": 60,
    "fit_dimensions": [32, 1024],
    "fit_samples": [10, 10_000],
}
SLOPES = {"frequency": -0.25, "threshold": -1.0, "seen": -0.4}
LEVELS = {"frequency": 0.35, "threshold": 3.5, "seen": 4.0}


def record(scheme: str, errors: dict[str, np.ndarray], **task: Any) -> RunRecord:
    """A run whose trials scatter by a tenth around ``errors``."""
    settings = {**TASK, **task}
    generator = np.random.default_rng(len(str(settings)))
    arrays = {
        f"errors/{row}": (
            means * np.exp(0.1 * generator.standard_normal((settings["trials"], len(means))))
        ).tolist()
        for row, means in errors.items()
    }
    model = {"scheme": scheme, "kept": 0.125 if scheme == "threshold" else None}
    return make_record(
        task="scaling_laws",
        model="outer_product",
        label="Outer product",
        identity=hashlib.sha256(f"{scheme}{task}".encode()).hexdigest(),
        config={"tasks": settings, "models": model, "training": {"threads": 1}},
        metrics={"test": {"error": 0.1}},
        curves={},
        per_sequence={},
        arrays=arrays,
    )


def main_run(scheme: str, turned: float = 1.0, **task: Any) -> RunRecord:
    """As in theory; ``turned`` scales the slopes, and 0 makes q = 1 never overflow."""
    d = np.array(task.get("dimensions", D), dtype=float)
    level = LEVELS[scheme] * d ** (turned * SLOPES[scheme])
    errors = {"population": level, "n=100000": level}
    for n in N[:-1]:
        errors[f"n={n}"] = np.full(len(d), 0.6 * n ** (-0.5 * turned))
    if scheme == "seen" and turned:
        errors["n=100000"] = np.where(d < 1000, 0.6, errors["n=10000"])
    elif scheme == "seen":
        errors["population"] = errors["n=100000"] = np.full(len(d), 1e-3)
    return record(scheme, errors, **task)


def few_tokens(steep: bool = True) -> RunRecord:
    d = np.array(D, dtype=float)
    errors = {"population": np.exp(-d / 60) if steep else d**-0.5}
    return record("seen", errors, tokens=100, samples=[])


def table(slope: float = -0.5) -> RunRecord:
    curve = Curve(x=[float(n) for n in N], y=[float(n) ** slope for n in N])
    return make_record(
        task="scaling_laws",
        model="infinite_memory",
        label="infinite_memory",
        role="baseline",
        identity="cd" * 32,
        config={"tasks": TASK},
        curves={"unseen_mass": curve, "error": curve},
    )


def published() -> list[RunRecord]:
    return [*map(main_run, SLOPES), few_tokens(), table()]


def verdicts(records: list[RunRecord]) -> dict[str, str]:
    results = [claim.judge(records) for claim in EXPERIMENT.claims]
    return {result.claim.name: result.finding.verdict for result in results}


def test_memories_as_in_theory_reproduce_every_claim() -> None:
    assert set(verdicts(published()).values()) == {REPRODUCED}


def test_other_laws_contradict() -> None:
    runs = [main_run("frequency", 4), main_run("threshold", 0.1), main_run("seen", 0)]
    assert set(verdicts([*runs, few_tokens(steep=False), table(-0.3)]).values()) == {CONTRADICTED}


def test_few_trials_settle_no_slope_and_say_how_many_seeds_would() -> None:
    records = [main_run(scheme, trials=20) for scheme in SLOPES]
    found = {claim.name: claim.without_control(records) for claim in EXPERIMENT.claims}
    decided = {"order of schemes", "more data hurts a full memory"}  # which are about no slope
    assert {name for name, finding in found.items() if finding.verdict == REPRODUCED} == decided
    assert {found[name].verdict for name in {*found} - decided} == {UNDECIDED}
    assert found["frequency against d"].seeds_needed == 3
    pooled = [run.model_copy(update={"seed": seed}) for run in records for seed in range(3)]
    assert verdicts(pooled)["frequency against d"] == REPRODUCED


def test_a_small_preset_judges_the_order_alone() -> None:
    records = [main_run(scheme, tokens=200, trials=10) for scheme in SLOPES]
    found = [claim.without_control(records) for claim in EXPERIMENT.claims]
    assert found[0].verdict == REPRODUCED
    assert {(one.verdict, one.asked_at) for one in found[1:]} == {(NOT_ASKED, "laptop")}


def test_the_published_grid_asks_nothing_about_many_samples() -> None:
    records = [main_run(scheme, samples=N[:-1]) for scheme in SLOPES]
    found = verdicts([*records, few_tokens(), table()])
    unasked = {name for name, verdict in found.items() if verdict == NOT_ASKED}
    assert unasked == {"frequency against d, counted", "the most frequent against d, counted"}


def test_a_minimum_at_an_end_is_no_minimum_inside() -> None:
    falling = {f"n={n}": np.full(len(D), 0.6 * n**-0.5) for n in N}
    finding = EXPERIMENT.claims[7].without_control([record("seen", falling)])
    assert finding.verdict == CONTRADICTED
    assert "at n = 100,000 minus" in finding.evidence


def test_a_failed_run_settles_nothing_and_is_named() -> None:
    lost = main_run("seen").model_copy(
        update={"seed": 1, "outcome": "out_of_memory", "arrays": {}, "metrics": {}}
    )
    records = [*published(), lost]
    found = verdicts(records)
    assert {found["order of schemes"], found["all seen against n"]} == {UNDECIDED}
    assert found["frequency against d"] == REPRODUCED
    evidence = EXPERIMENT.claims[0].without_control(records).evidence
    assert "seed 1 ran out of memory" in evidence


def test_no_records_are_no_evidence() -> None:
    assert set(verdicts([]).values()) == {UNDECIDED}
    assert not any(panel.traces for panel in EXPERIMENT.draw([]).panels)


def test_equal_records_give_equal_bytes_and_a_figure_is_always_drawn() -> None:
    grid = {"alpha": 0.5, "tokens": 100, "population": False}
    rows = {f"n={n}": np.full(len(D), 0.5) for n in N}
    records = [*published(), record("seen", rows, **grid), record("frequency", rows, **grid)]
    assert rendered(EXPERIMENT.draw(records)) == EXPERIMENT.draw(records).to_json()
    shown = {trace.name for panel in EXPERIMENT.draw(records).panels for trace in panel.traces}
    assert {SCHEMES[name].label for name in SLOPES} <= shown
    for part in ([], records[-1:], [table()]):
        rendered(EXPERIMENT.draw(part))


def test_the_figure_holds_means_and_slopes_beside_those_of_theory() -> None:
    run = main_run("threshold")
    drawn = {trace.name: trace for trace in EXPERIMENT.draw([run]).panels[0].traces}[
        "the d/8 most frequent"
    ]
    values = np.array(run.arrays["errors/population"])
    assert drawn.y == pytest.approx(values.mean(0))
    half = 1.98 * values.std(0, ddof=1) / np.sqrt(len(values))  # Student's, nearly
    low, high = np.array(drawn.interval).T
    np.testing.assert_allclose(high - low, 2 * half, rtol=0.15)
    fit = fit_power_law(D, values, 32, 1024)
    assert fit is not None
    assert fit.slope == pytest.approx(-1, abs=0.02)
    written = "[{:.2f}, {:.2f}], theory -1.00".format(*fit.interval()).replace("-", "−")
    assert written in drawn.entry


def test_an_error_of_zero_is_said_and_not_drawn() -> None:
    rows = {"population": np.array([*[0.1] * (len(D) - 1), 0.0])}
    trace = EXPERIMENT.draw(
        [main_run("seen"), record("seen", rows, tokens=100, samples=[])]
    ).panels[0]
    few = next(one for one in trace.traces if one.name == "q = 1, N = 100")
    assert few.y[-1] is None
    assert few.entry.endswith("0 at 1,024")


@pytest.mark.parametrize("preset", ["smoke", "laptop", "gpu", "paper"])
def test_each_run_of_the_plan_is_told_apart_and_found_again(preset: str) -> None:
    seen = set()
    for words in in_words(EXPERIMENT.plan(preset, 1).runs):
        config = compose([*words, f"preset={preset}"]).resolved()
        run = make_record(task="scaling_laws", model="outer_product", config=config)
        assert EXPERIMENT.select([run]) == [run]
        scheme, part = EXPERIMENT.variant_of(run)
        assert scheme is not None
        assert part is not None
        assert Part([run], part).runs(scheme) == [run]
        seen.add((scheme, part))
    assert len(seen) == len(in_words(EXPERIMENT.plan(preset, 1).runs))
    assert {scheme for scheme, part in seen if part == "main"} >= {*SCHEMES} - {"threshold_12"}
    assert len(in_words(EXPERIMENT.plan(preset, 3).runs)) == 3 * len(seen)


def test_a_single_cell_does_not_belong_to_the_figure() -> None:
    own, cell = main_run("frequency"), record("frequency", {}, tokens=10**6, dimensions=[4096])
    shortened = cell.config["tasks"] | {"samples": [10**6]}
    cell = cell.model_copy(update={"config": cell.config | {"tasks": shortened}})
    assert EXPERIMENT.select([own, cell]) == [own]


def test_errors_by_samples_are_those_of_one_size() -> None:
    run = main_run("seen")
    assert part_of(run) == "main"
    values = Part([run]).by_samples("seen", 128)
    assert values is not None
    assert values.shape == (60, len(N))
    assert values[7, 2] == run.arrays["errors/n=1000"][7][D.index(128)]
