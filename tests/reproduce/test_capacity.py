"""The figure of capacities on constructed records whose constants are known."""

import hashlib
import math
from typing import Any

import pytest

from bench.records.schema import Curve, RunRecord
from reproduce.capacity import capacity
from reproduce.capacity.capacity import EXPERIMENT, solve
from reproduce.capacity.runs import HALF, MEMORIES, NARROW, WIDE, overview
from reproduce.claims.presets import preset_settings
from reproduce.claims.trials import sample
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Verdict, mean_within
from reproduce.plotting.models import look
from tests.bench.records import make_record
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words

CLAIMS = {claim.name: claim for claim in capacity.EXPERIMENT.claims}


def measured(
    model: str,
    widths: list[int],
    count: Any,
    threshold: float,
    expansion: float = 1.0,
    rank: int = 8,
    **tasks: Any,
) -> RunRecord:
    """``count(width)`` associations, spread by 2 % over five trials."""
    trials = [[round(count(w) * (0.98 + 0.01 * k)) for k in range(5)] for w in widths]
    means = [sum(row) / 5 for row in trials]
    across = [float(w) for w in widths]
    name = f"{threshold:g}"
    settings = preset_settings("capacity", model, "laptop")["tasks"]
    settings = {**settings, "thresholds": [threshold], "widths": widths, **tasks}
    return make_record(
        task="capacity",
        model=model,
        label=model,
        preset="laptop",
        identity=hashlib.sha256(repr((model, expansion, rank, settings)).encode()).hexdigest(),
        config={
            "tasks": settings,
            "models": {"expansion": expansion, "rank": rank},
            "training": {},
        },
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
    return solve(constant * width**2)


@pytest.mark.parametrize(
    ("constant", "expected"), [(0.55, REPRODUCED), (0.6, UNDECIDED), (0.8, CONTRADICTED)]
)
def test_the_hebbian_constant_is_judged(constant: float, expected: Verdict) -> None:
    run = measured("outer_product", [32, 64, 128], lambda w: solved(w, constant), 0.5)
    claim = CLAIMS["Hebbian memory, half recalled"]
    assert claim.without_control([run]).verdict == expected
    assert CLAIMS["trained matrix"].without_control([run]).verdict == UNDECIDED


def test_widths_outside_the_window_do_not_count() -> None:
    run = measured("outer_product", [8, 16], lambda w: solved(w, 2.0), 0.5)
    finding = CLAIMS["Hebbian memory, half recalled"].without_control([run])
    assert finding.verdict == UNDECIDED
    assert "no width from 32 to 128" in finding.evidence


def test_the_perceptron_is_judged_with_its_classes_alone() -> None:
    claim = CLAIMS["perceptron, 32 classes"]
    own = measured("mlp", [16, 32], lambda w: 0.9 * w * w, 0.99, classes=32)
    other = measured("mlp", [16, 32], lambda w: 0.5 * w * w, 0.99)
    assert claim.without_control([own, other]).verdict == REPRODUCED
    assert claim.without_control([other]).verdict == UNDECIDED


def test_a_perceptron_twice_as_wide_is_another_constant() -> None:
    narrow = measured("mlp", [8, 16], lambda w: 0.9 * w * w, 0.99, classes=32)
    wide = measured("mlp", [8, 16], lambda w: 1.9 * w * w, 0.99, expansion=2.0, classes=32)
    chosen = capacity.EXPERIMENT.select([narrow, wide])
    assert sum(NARROW.trials(chosen)[16]) / 5 == pytest.approx(0.9, abs=0.01)
    assert sum(WIDE.trials(chosen)[16]) / 5 == pytest.approx(0.95, abs=0.01)
    claim = CLAIMS["perceptron twice as wide, 32 classes"]
    assert claim.without_control(chosen).verdict == REPRODUCED
    assert claim.without_control([narrow]).verdict == UNDECIDED


def test_past_the_end_of_the_published_search_no_number_is_too_large() -> None:
    claim = CLAIMS["perceptron, 32 classes"]
    past = measured("mlp", [16], lambda w: 1.1 * w * w, 0.99, classes=32, largest=1.5)
    finding = claim.without_control([past])
    assert finding.verdict == REPRODUCED
    assert "d = 16: 1.10" in finding.evidence


def test_equal_trials_and_failed_runs_settle_nothing() -> None:
    claim = CLAIMS["perceptron, 32 classes"]
    run = measured("mlp", [16], lambda w: 0.9 * w * w, 0.99, classes=32)
    assert claim.without_control([run]).verdict == REPRODUCED
    equal = run.model_copy(update={"arrays": {"widths": [16], "associations/0.99": [[256] * 5]}})
    assert claim.without_control([equal]).verdict == UNDECIDED
    lost = {"seed": 1, "outcome": "out_of_memory", "arrays": {}, "curves": {}, "metrics": {}}
    finding = claim.without_control([run, run.model_copy(update=lost)])
    assert finding.verdict == UNDECIDED
    assert "seed 1 ran out of memory" in finding.evidence


def test_seeds_needed_are_those_of_the_command_with_several_trials_each() -> None:
    run = measured("outer_product", [32], lambda w: solved(w, 0.592), 0.5)
    finding = CLAIMS["Hebbian memory, half recalled"].without_control([run])
    trials = mean_within(sample("", HALF.trials([run])[32]), 0.5, 0.6).seeds_needed
    assert trials is not None
    assert trials > 5
    assert finding.seeds_needed == math.ceil(trials / 5)


@pytest.mark.parametrize(
    ("low", "verdicts"), [(8, (REPRODUCED, CONTRADICTED)), (16, (CONTRADICTED, REPRODUCED))]
)
def test_small_keys_are_judged_by_themselves(low: int, verdicts: tuple[Verdict, Verdict]) -> None:
    run = measured("mlp", [8, 16], lambda w: (0.6 if w == low else 1.0) * w * w, 0.99, classes=32)
    claims = [CLAIMS[f"perceptron{keys}, 32 classes"] for keys in ("", " of small keys")]
    assert tuple(claim.without_control([run]).verdict for claim in claims) == verdicts


@pytest.mark.parametrize(("constant", "expected"), [(1 / 8, REPRODUCED), (0.2, CONTRADICTED)])
def test_all_recalled_is_judged_by_its_own_search(constant: float, expected: Verdict) -> None:
    run = measured("outer_product", [32, 64, 128], lambda w: solved(w, constant), 1.0)
    assert CLAIMS["Hebbian memory, all recalled"].without_control([run]).verdict == expected
    assert CLAIMS["Hebbian memory, half recalled"].without_control([run]).verdict == UNDECIDED


def test_with_a_value_for_each_key_the_logarithm_counts_and_nothing_ends_at_one() -> None:
    run = measured("mlp", [8, 11], lambda w: solved(w, 2.7), 0.99)
    claim = CLAIMS["perceptron, a value for each key"]
    finding = claim.without_control([run])
    assert finding.verdict == REPRODUCED
    assert "d = 8: 2." in finding.evidence
    few = measured("mlp", [8, 11], lambda w: solved(w, 0.9), 0.99)
    assert claim.without_control([few]).verdict == CONTRADICTED


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((84, 130, 175, 190), REPRODUCED),
        ((50, 100, 200, 400), CONTRADICTED),
        ((84, 130), UNDECIDED),
    ],
)
def test_ranks_are_compared_draw_by_draw(counts: tuple[int, ...], expected: Verdict) -> None:
    runs = [
        measured("trained_low_rank", [8, 32], lambda w, n=n: n, 0.99, rank=rank)
        for rank, n in zip((4, 8, 16, 32), counts, strict=False)
    ]
    claim = CLAIMS["trained low rank"]
    assert claim.without_control(capacity.EXPERIMENT.select(runs)).verdict == expected


def test_every_memory_of_the_list_has_a_line_of_its_own() -> None:
    assert len({look(model) for model in MEMORIES}) == len(MEMORIES)


def test_n_log_n_is_solved() -> None:
    for product in (10.0, 1000.0, 1e6):
        n = solve(product)
        assert n * math.log(n) == pytest.approx(product)


def test_of_records_of_one_seed_the_longest_counts() -> None:
    short = measured("outer_product", [32], lambda w: 100, 0.5)
    short = short.model_copy(update={"arrays": {"widths": [32], "associations/0.5": [[7]]}})
    long = measured("outer_product", [32], lambda w: 100, 0.5)
    found = HALF.trials([short, long])[32]
    assert found == pytest.approx([n * math.log(n) / 1024 for n in (98, 99, 100, 101, 102)])


def test_every_memory_of_the_preset_is_drawn_and_the_same_bytes_come_out() -> None:
    widths = preset_settings("capacity", "outer_product", "laptop")["tasks"]["widths"]
    settings = preset_settings("capacity", "outer_product", "laptop")["tasks"]
    runs = []
    for model in ("outer_product", "trained_linear", "kernel"):
        run = measured(model, widths, lambda w: w, 0.99)
        runs.append(run.model_copy(update={"config": {**run.config, "tasks": settings}}))
    own = measured("mlp", [16, 32], lambda w: 0.9 * w * w, 0.99, classes=32)
    chosen = capacity.EXPERIMENT.select([*runs, own])
    assert {run.model for run in overview(chosen)} == {r.model for r in runs}
    assert rendered(EXPERIMENT.draw(chosen)) == EXPERIMENT.draw(chosen).to_json()
    by_width, by_size, constants, ranks = EXPERIMENT.draw(chosen).panels
    for panel in (by_width, by_size):
        assert {t.colour for t in panel.traces if t.mark == "both"} == {r.model for r in runs}
    drawn = next(one for one in constants.traces if one.name.startswith("MLP, m = d, 32"))
    assert list(drawn.y) == pytest.approx([0.9, 0.9], abs=0.01)
    assert [len(values) for values in drawn.seeds.values()] == [2] * 5
    assert not ranks.traces[0].x
    rendered(EXPERIMENT.draw([]))


def test_plans_name_runs_that_exist() -> None:
    for preset in ("smoke", "laptop"):
        plan = capacity.EXPERIMENT.plan(preset, None)
        assert len(in_words(plan.runs)) >= 16
        alone = capacity.EXPERIMENT.plan(preset, 1)
        assert set(in_words(alone.runs)) <= set(in_words(plan.runs))  # one trains more often
        assert len(in_words(capacity.EXPERIMENT.plan(preset, 2).runs)) == 2 * len(
            in_words(alone.runs)
        )
