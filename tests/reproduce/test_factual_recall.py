"""The figure of factual recall on constructed records whose verdicts are known."""

import hashlib
import math
from typing import Any

import pytest

from bench.records.schema import Curve, RunRecord
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Verdict
from reproduce.factual_recall import factual_recall as figure
from reproduce.factual_recall.factual_recall import EXPERIMENT, LEARNING, described, fit_of
from tests.bench.records import make_record
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words

CLAIMS = {claim.name: claim for claim in figure.EXPERIMENT.claims}


def made(part: str, seed: int, **changes: Any) -> RunRecord:
    tasks = {"part": part, "subjects": 8, "relations": 8, **changes.pop("tasks", {})}
    content: dict[str, Any] = {
        "task": "factual_recall",
        "model": "fact_transformer",
        "label": "Transformer",
        "seed": seed,
        "identity": hashlib.sha256(repr(tasks).encode()).hexdigest(),
        "config": {"tasks": tasks, "models": {}, "training": {}},
        "per_sequence": {},
        "curves": {},
        "metrics": {"test": {}},
    }
    return make_record(**{**content, **changes})


def diagram(seed: int, alone: float = 0.4, helped: float = 0.9, four: float = 1.0) -> RunRecord:
    arrays = {
        "heads": [1, 2, 4, 8],
        "mlp_widths": [0, 8, 64],
        "accuracy": [
            [alone + 0.01 * seed, 0.6, helped],
            [0.8, 1.0, 1.0],
            [four - 0.001 * seed, 1.0, 1.0],
            [0.99, 1.0, 1.0],
        ],
        "attention_parameters": [64, 128, 256, 512],
        "mlp_parameters": [0, 128, 1024],
    }
    cells = {"heads": arrays["heads"], "mlp_widths": arrays["mlp_widths"]}
    return made("phase_diagram", seed, tasks=cells, arrays=arrays)


def learned(seed: int, steps: float, accuracy: float = 1.0) -> RunRecord:
    levels = Curve(x=[0.0, 2000.0, 8000.0], y=[math.log(32), math.log(8), 0.0])
    return made(
        "phases",
        seed,
        metrics={"test": {"plateau_steps": steps + 16 * seed, "accuracy": accuracy}},
        curves={f"{name}{what}": levels for name in LEARNING for what in ("loss", "accuracy")},
    )


PUBLISHED = {"subject_power": 1, "search_choices": 8}


def search(seed: int, per_parameter: float, steps: int = 16384, **variant: int | None) -> RunRecord:
    parameters = [384.0, 1536.0, 6144.0, 24576.0]
    facts = [per_parameter * p * (1 + 0.02 * (-1) ** k) for k, p in enumerate(parameters)]
    return made(
        "facts_by_parameters",
        seed,
        tasks={**PUBLISHED, "steps": steps, **variant},
        arrays={"parameters": parameters, "facts": facts},
        metrics={"test": {"facts_per_parameter": per_parameter}},
    )


@pytest.mark.parametrize(
    ("alone", "helped", "expected"),
    [(0.4, 0.9, REPRODUCED), (0.4, 0.42, CONTRADICTED), (0.9, 1.0, CONTRADICTED)],
)
def test_the_trade_off_is_judged(alone: float, helped: float, expected: Verdict) -> None:
    runs = [diagram(seed, alone, helped) for seed in range(3)]
    claim = CLAIMS["attention or MLP, 64 facts"]
    assert claim.without_control(runs).verdict == expected
    assert claim.without_control(runs[:1]).verdict == UNDECIDED


@pytest.mark.parametrize(
    ("alone", "helped", "four", "expected"),
    [
        (0.4, 1.0, 1.0, REPRODUCED),
        (0.4, 0.9, 1.0, CONTRADICTED),
        (0.4, 1.0, 0.96, CONTRADICTED),
        (0.7, 1.0, 1.0, CONTRADICTED),
        (0.59, 1.0, 1.0, UNDECIDED),  # 0.59 to 0.61: the interval crosses the limit
    ],
)
def test_single_cells_are_judged_each_by_itself(
    alone: float, helped: float, four: float, expected: Verdict
) -> None:
    runs = [diagram(seed, alone, helped, four) for seed in range(3)]
    finding = CLAIMS["cells of the small diagram, 64 facts"].without_control(runs)
    assert finding.verdict == expected
    assert (
        f"one head alone {alone + 0.01:.3f} (95% interval over seeds and 3072" in finding.evidence
    )
    assert f"four heads alone {four - 0.001:.3f} (95% interval over seeds" in finding.evidence
    assert "two heads, MLP of width 8 1.000" in finding.evidence


@pytest.mark.parametrize(
    ("steps", "accuracy", "expected"),
    [
        (800.0, 1.0, REPRODUCED),
        (784.0, 1.0, CONTRADICTED),  # one seed falls short, the mean does not
        (1100.0, 0.999, CONTRADICTED),
    ],
)
def test_phases_are_judged_in_every_seed(steps: float, accuracy: float, expected: Verdict) -> None:
    claim = CLAIMS["relations before facts"]
    runs = [learned(0, steps, accuracy), *(learned(seed, 1100.0) for seed in range(1, 6))]
    assert claim.without_control(runs).verdict == expected
    assert f", lowest {steps:g};" in claim.without_control(runs).evidence
    few = claim.without_control([learned(0, 1100.0), learned(1, 1100.0)])
    assert (few.verdict, few.seeds_needed) == (UNDECIDED, 6)
    lost = made("phases", 6, outcome="failed", cause="out of disk")
    whole = [learned(seed, 1100.0) for seed in range(6)]
    assert claim.without_control([*whole, lost]).verdict == UNDECIDED


def test_the_plans_have_seeds_enough_for_what_holds_in_every_seed() -> None:
    for preset in ("laptop", "gpu", "paper"):
        runs = [
            words
            for words in in_words(EXPERIMENT.plan(preset, None).runs)
            if "tasks.part=phases" in words
        ]
        records = [learned(seed, 1100.0) for seed in range(len(runs))]
        finding = CLAIMS["relations before facts"].without_control(records)
        assert finding.verdict == REPRODUCED
    assert not any(
        "tasks.part=facts_by_parameters" in words
        for words in in_words(EXPERIMENT.plan("smoke", 2).runs)
    )
    assert len(in_words(EXPERIMENT.plan("laptop", 2).runs)) == 6


def test_equal_seeds_are_sure_by_the_sequences_of_their_tests() -> None:
    runs = [diagram(0, four=1.0).model_copy(update={"seed": seed}) for seed in range(3)]
    finding = CLAIMS["attention or MLP, 64 facts"].without_control(runs)
    assert "two heads and that MLP 1.000 (95% interval over seeds and 3072 test items" in (
        finding.evidence
    )


def test_a_diagram_without_a_cell_settles_nothing_and_other_diagrams_ask_nothing() -> None:
    claim = CLAIMS["attention or MLP, 64 facts"]
    runs = [diagram(seed) for seed in range(3)]
    short = runs[0].model_copy(update={"arrays": {**runs[0].arrays, "heads": [1, 3, 4, 8]}})
    assert claim.without_control([short, *runs[1:]]).verdict == UNDECIDED
    other = made("phase_diagram", 0, tasks={"heads": [4], "mlp_widths": [0, 16]})
    found = claim.without_control([other])
    assert (found.verdict, found.asked_at) == (NOT_ASKED, "laptop")


def test_facts_by_parameters_are_judged_after_full_trainings_only() -> None:
    claim = CLAIMS["facts for each parameter"]
    for slope, verdict in ((0.15, REPRODUCED), (0.5, CONTRADICTED)):
        both = [search(seed, slope) for seed in range(2)]
        assert claim.without_control(both).verdict == verdict
        assert claim.without_control(both[:1]).verdict == UNDECIDED  # one seed never decides
    short = claim.without_control([search(0, 0.15, steps=3000)])
    assert (short.verdict, short.asked_at) == (NOT_ASKED, "laptop")
    assert "shorter trainings: 0.1" in short.evidence
    settings = {**PUBLISHED, "steps": 16384}
    one = made("facts_by_parameters", 0, tasks=settings, arrays=sizes([600.0], [90.0]))
    assert claim.without_control([one]).verdict == UNDECIDED  # one point has no interval
    lost = made("facts_by_parameters", 1, tasks=settings, outcome="out_of_memory")
    for runs in ([lost], [search(0, 0.15), lost]):
        finding = claim.without_control(runs)
        assert finding.verdict == UNDECIDED
        assert "seed 1 ran out of memory" in finding.evidence
    for variant in ({"subject_power": 2}, {"search_choices": None}):
        assert claim.without_control([search(0, 0.15, **variant)]).verdict == NOT_ASKED


def sizes(parameters: list[float], facts: list[float]) -> dict[str, list[float]]:
    return {"parameters": parameters, "facts": facts}


def test_facts_for_each_parameter_are_a_regression_through_the_origin() -> None:
    """Against numbers worked out by hand: Σxy = 32, Σx² = 14, Σy² = 76."""
    runs = [
        made("facts_by_parameters", 0, arrays=sizes([1.0, 2.0], [2.0, 6.0])),
        made("facts_by_parameters", 1, arrays=sizes([3.0], [6.0])),
    ]
    fit = fit_of(runs)
    assert fit is not None
    assert fit.slope == pytest.approx(32 / 14)
    error = math.sqrt((76 - 32**2 / 14) / 2 / 14)
    student = 4.302652730  # 97.5 % quantile for two degrees of freedom
    assert fit.interval == pytest.approx((32 / 14 - student * error, 32 / 14 + student * error))
    assert described(fit, runs).endswith("(3 searches, 2 seeds)")


def large(seed: int, recalled: list[list[float]]) -> RunRecord:
    """A diagram of 1024 facts; of its six cells three lie above the published border."""
    cells = {"heads": [4, 5, 18], "mlp_widths": [0, 52]}
    arrays = {"attention_parameters": [1024.0, 1280.0, 4608.0], "mlp_parameters": [0.0, 1664.0]}
    return made(
        "phase_diagram",
        seed,
        tasks={"subjects": 32, "relations": 32, **cells},
        arrays={**arrays, "accuracy": recalled},
    )


def test_the_border_is_the_published_one() -> None:
    """Attention of 1280 and more, and an MLP of 2300 minus half of attention."""
    claim = CLAIMS["border of the diagram, 1024 facts"]
    published = [[0.5, 0.5], [0.9, 1.0], [1.0, 1.0]]
    assert figure.border_agreement(large(0, published)) == 1.0
    otherwise = [[1.0, 1.0], [1.0, 0.5], [0.5, 0.5]]
    assert figure.border_agreement(large(0, otherwise)) == 0.0
    for seeds, recalled, verdict in (
        (3, otherwise, CONTRADICTED),
        (1, otherwise, UNDECIDED),
        (3, published, UNDECIDED),  # six cells cannot exclude a share below 0.9
    ):
        found = claim.without_control([large(seed, recalled) for seed in range(seeds)])
        assert found.verdict == verdict
    unasked = claim.without_control([diagram(0)])
    assert (unasked.verdict, unasked.asked_at) == (NOT_ASKED, "gpu")


def test_the_figure_is_drawn_from_whatever_is_there() -> None:
    whole = [diagram(0), diagram(1), learned(0, 1100.0), search(0, 0.15)]
    for runs in (whole, whole[:1], whole[2:3], []):
        assert rendered(EXPERIMENT.draw(runs)) == EXPERIMENT.draw(runs).to_json()
    cells, facts, losses, _ = EXPERIMENT.draw(whole).panels
    assert cells.traces[0].z[0][0] == pytest.approx(0.405)  # the mean of 0.40 and 0.41
    assert facts.traces[0].y == tuple(whole[3].arrays["facts"])
    assert "here: 0.1" in facts.traces[1].entry
    assert [trace.y[1] for trace in losses.traces] == [pytest.approx(math.log(8))] * 3
