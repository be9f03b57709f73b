"""Weights, learned embeddings and the transformer, judged on constructed records."""

import hashlib
from typing import Any

import pytest

from bench.records.schema import Curve, RunRecord
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED
from reproduce.gradient_descent.optimisation import EXPERIMENT, LEARNED, SUMS, effective_tokens
from reproduce.gradient_descent.runs import OTHERS
from tests.bench.records import make_record
from tests.configurations import compose
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words

WEIGHTS = (LEARNED, *SUMS)

CLASSES = [1, 2, 10, 50, 100]
EXPONENTS = {0.001: 0.99, 0.1: 0.35, 1.0: 0.06}
LINE = Curve(x=[0.0, 1.0, 2.0], y=[1.0, 0.5, 0.2])


def weights_record(exponents: dict[float, float] = EXPONENTS) -> RunRecord:
    names = [
        *(
            f"population_{what}/{rule}"
            for what in ("error", "loss")
            for rule in ("sgd", "sign", "normalised")
        ),
        *("batch_error/B=1", "approximation/descent", "approximation/weights", "weights/lr=0.1"),
    ]
    return make_record(
        task="weighting_schemes",
        model="matrix",
        config={
            "tasks": {"batches": [1], "single_lrs": [0.1]},
            "models": {"layer_norm": False},
            "training": {},
        },
        metrics={"test": {f"exponent/lr={lr:g}": value for lr, value in exponents.items()}},
        arrays={f"picture/q={q},d={d}": [[0.2] * 5] * 10 for q in ("p", "1") for d in (10, 50)},
        curves=dict.fromkeys(names, LINE),
    )


def learned_record(
    levels: list[float] | None = None, trials: int = 41, **changes: Any
) -> RunRecord:
    means = levels or [0.0, 0.0, 0.001, 0.02, 0.02]
    spread = [(k - trials // 2) / trials for k in range(trials)]
    return make_record(
        task="learned_embeddings",
        model="learnable",
        config={
            "tasks": {"classes": CLASSES, "tokens": 100, "alpha": 2.0},
            "models": {},
            "training": {},
        },
        metrics={"test": {"error": means[-1]}},
        arrays={"error": [[mean * (1 + k / 5) for k in spread] for mean in means]},
        curves={"error": Curve(x=[float(m) for m in CLASSES], y=means)},
        **changes,
    )


def transformer_record(width: int) -> RunRecord:
    trained = ("output_2", "all") if width == 64 else ("all",)
    names = [f"{what}/{t},lr=20" for what in ("loss", "margin", "memory_margin") for t in trained]
    return make_record(
        task="attention_descent",
        model="two_layer_attention",
        identity=hashlib.sha256(str(width).encode()).hexdigest(),
        config={"tasks": {}, "models": {"width": width}, "training": {}},
        metrics={"test": {"accuracy": 0.4}},
        curves=dict.fromkeys(names, LINE),
    )


def published() -> list[RunRecord]:
    """All parts, as the paper has them."""
    return [weights_record(), learned_record(), *map(transformer_record, (64, 128))]


def verdicts(records: list[RunRecord]) -> list[str]:
    return [claim.without_control(records).verdict for claim in WEIGHTS]


def test_claims_hold_and_break() -> None:
    assert verdicts(published()) == [REPRODUCED] * 3
    assert verdicts([]) == [UNDECIDED] * 3
    steep = weights_record({0.001: 0.3, 0.1: 0.35, 1.0: 0.16})
    assert verdicts([learned_record([0.0, 0.2, 0.2, 0.2, 0.2]), steep]) == [CONTRADICTED] * 3


def test_every_number_of_classes_but_the_single_one_counts() -> None:
    assert verdicts([learned_record([0.9, 0.0, 0.0, 0.0, 0.0])])[0] == REPRODUCED
    assert verdicts([learned_record([0.0, 0.0, 0.0, 0.09, 0.0])])[0] == CONTRADICTED
    assert verdicts([learned_record([0.0, 0.0, 0.0, 0.0, 0.9])])[0] == CONTRADICTED


def test_few_trials_without_an_error_settle_nothing() -> None:
    """An error weighs tokens by Zipf's law, so that those of a trial count as 1 / Σ p² = 2.5."""
    probabilities = [rank**-2 / sum(k**-2 for k in range(1, 101)) for rank in range(1, 101)]
    expected = 1 / sum(p * p for p in probabilities)
    assert effective_tokens(learned_record()) == pytest.approx(expected)
    finding = WEIGHTS[0].without_control([learned_record([0.0] * 5, trials=5)])
    assert finding.verdict == UNDECIDED
    assert "error at M = 2 0.000 (95% interval over seeds and 12 test items" in finding.evidence


def test_each_exponent_is_compared_with_the_released_one() -> None:
    claim = {claim.name: claim for claim in WEIGHTS}["exponents of single samples"]
    flat = {
        0.001: 0.987,
        0.01: 0.783,
        0.1: 0.353,
        1.0: 0.162,
    }  # flatter by step, yet not as released
    assert verdicts([weights_record(flat)])[1] == REPRODUCED
    finding = claim.without_control([weights_record(flat)])
    assert finding.verdict == CONTRADICTED
    assert finding.evidence == (
        "exponent with step 0.001 (released 1) 0.987; exponent with step 0.1 (released 0.35) "
        "0.353; exponent with step 1 (released 0.05) 0.162"
    )
    some = claim.without_control([weights_record({0.001: 0.96, 0.01: 0.7})])
    assert some.verdict == UNDECIDED
    assert "no weights with every released step among the records" in some.evidence


def test_a_failed_training_is_named() -> None:
    lost = learned_record(outcome="diverged", cause="not finite")
    finding = WEIGHTS[0].without_control([lost])
    assert finding.verdict == UNDECIDED
    assert "not finite" in finding.evidence


@pytest.mark.parametrize("records", [published(), published()[:1], published()[3:], []])
def test_the_figure_is_drawn_from_whatever_is_there(records: list[RunRecord]) -> None:
    """Of all records and of none, test_committed_records and test_panels make the image too."""
    assert EXPERIMENT.select(records) == sorted(records, key=lambda record: record.run_id)
    picture = EXPERIMENT.draw(records)
    assert bool(records) == any(panel.traces for panel in picture.panels[12:])
    if 0 < len(records) < len(published()):
        assert rendered(picture)


def test_runs_are_told_apart_and_found_again() -> None:
    seen = set()
    for runs in OTHERS:
        (words,) = in_words(runs.planned("smoke", 1))
        configuration = compose([*words, "preset=smoke"])
        record = make_record(
            task=configuration.task, model=configuration.model, config=configuration.resolved()
        )
        assert EXPERIMENT.select([record]) == [record]
        seen.add(EXPERIMENT.variant_of(record))
    assert len(seen) == len(OTHERS) == 5
