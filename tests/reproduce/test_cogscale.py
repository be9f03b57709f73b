"""CogScale: the figure on constructed runs; its widths and numbers against those of the package."""

from typing import Any

import pytest

from bench.records.schema import RunRecord
from models.peers import cogscale as models_of_package
from models.specification import SequenceSpecification
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED
from reproduce.cogscale.cogscale import EXPERIMENT, LABELS, ORACLE, printed
from reproduce.cogscale.sizes import CHANNELS, DECODER, GRU, LSTM, MAMBA, MODELS, width_of
from reproduce.published.numbers import PublishedFile
from tasks.cogscale.task import TASK_NAMES, CogScale
from tests.bench.records import make_record
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.records import wobble
from tests.tasks.packages import lacking

CLASSES = {
    LSTM: models_of_package.CogScaleLSTM,
    GRU: models_of_package.CogScaleGRU,
    MAMBA: models_of_package.CogScaleMamba,
    DECODER: models_of_package.CogScaleDecoder,
}
# "Actual_Params" of baseline/results/results.csv at 100,000, in the order of MODELS.
COUNTS = {
    ("sinus_forecasting", "small"): (99_373, 99_001, 98_001, 100_289),
    ("chaotic_forecasting", "medium"): (99_668, 99_348, 98_323, 100_547),
    ("bracket_matching", "small"): (99_512, 99_168, 98_242, 100_482),
    ("discrete_postcasting", "medium"): (99_720, 99_624, 99_128, 101_192),
    ("simple_copy", "small"): (100_288, 99_885, 98_403, 100_611),
    ("simple_copy", "medium"): (100_328, 99_058, 99_208, 101_256),
    ("selective_copy", "small"): (99_641, 99_327, 98_483, 100_675),
    ("selective_copy", "medium"): (99_668, 99_583, 99_288, 101_320),
    ("adding_problem", "small"): (99_951, 99_685, 98_645, 100_805),
    ("adding_problem", "medium"): (99_465, 99_717, 99_855, 101_775),
    ("sorting_problem", "small"): (100_053, 99_705, 99_203, 101_251),
    ("sorting_problem", "medium"): (99_408, 99_442, 100_808, 96_356),
    ("cross_situation", "small"): (100_444, 99_606, 100_338, 95_994),
    ("cross_situation", "medium"): (100_368, 99_988, 101_628, 96_996),
    ("associative_recall", "medium"): (99_388, 99_709, 100_416, 96_054),
}
# Of the package's own table, mean_std.md, where both rules choose the same rate.
PRINTED = [
    ("sorting_problem", "small", "decoder", 0.00, 0.00),
    ("sorting_problem", "medium", "LSTM", 0.70, 0.01),
    ("induction_heads", "medium", "Mamba", 0.21, 0.05),
    ("simple_copy", "small", "Mamba", 0.50, 0.05),
    ("selective_copy", "medium", "GRU", 0.54, 0.24),
    ("adding_problem", "small", "GRU", 0.16, 0.10),
    ("discrete_pattern_completion", "medium", "encoder-decoder", 0.00, 0.00),
    ("bracket_matching", "medium", "xLSTM", 0.02, 0.01),
]


@pytest.mark.parametrize(("task_name", "difficulty"), COUNTS)
def test_widths_have_the_parameters_of_the_published_runs(task_name: str, difficulty: str) -> None:
    inputs, outputs = CHANNELS[task_name][difficulty]
    shape = SequenceSpecification(100, input_channels=inputs, output_channels=outputs)
    counts = []
    for model in MODELS:
        built = CLASSES[model](shape, width=width_of(model, task_name, difficulty))
        counts.append(sum(parameter.numel() for parameter in built.parameters()))
    assert tuple(counts) == COUNTS[task_name, difficulty]


@pytest.mark.skipif(bool(lacking("cogscale")), reason=lacking("cogscale"))
@pytest.mark.parametrize("task_name", TASK_NAMES)
def test_channels_are_those_of_the_package(task_name: str) -> None:
    for difficulty in ("small", "medium"):
        if (task_name, difficulty) == ("cross_situation", "medium"):
            continue  # it lists 774,400 sentences; its counts of parameters are checked above
        shape = CogScale(task_name=task_name, difficulty=difficulty).specification()
        assert (shape.input_channels, shape.output_channels) == CHANNELS[task_name][difficulty]


@pytest.mark.parametrize(("task_name", "difficulty", "label", "mean", "deviation"), PRINTED)
def test_published_numbers_are_those_of_the_package_s_table(
    task_name: str, difficulty: str, label: str, mean: float, deviation: float
) -> None:
    assert printed(task_name, difficulty, label) == pytest.approx((mean, deviation), abs=0.00501)


def test_every_task_has_its_numbers() -> None:
    assert set(CHANNELS) == set(TASK_NAMES)
    for task_name, sizes in CHANNELS.items():
        for difficulty in sizes:
            for label in (*LABELS.values(), "xLSTM", "encoder-decoder"):
                mean, deviation = printed(task_name, difficulty, label)
                assert 0 <= mean <= 1
                assert deviation >= 0


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        ({"LSTM": [0.1]}, "has a spread of LSTM, and no value of it"),
        ({"GRU": [0.1, 0.2]}, "error of GRU needs 1 numbers"),
        ({"GRU": [float("inf")]}, "is not finite"),
    ],
)
def test_a_spread_without_its_number_is_refused(spread: dict[str, list[float]], said: str) -> None:
    content = {
        "schema_version": 1,
        "source": "a test",
        "short": "a test",
        "task": "cogscale",
        "how": "printed",
        "size": {"name": "parameters", "values": [100_000]},
        "metrics": {"error": {"direction": "minimise", "values": {"GRU": [0.5]}, "spread": spread}},
    }
    with pytest.raises(ValueError, match=said):
        PublishedFile.model_validate(content)


def run(task_name: str, model: str, seed: int, error: float, **changes: Any) -> RunRecord:
    config = {
        "tasks": {
            "task_name": task_name,
            "difficulty": changes.pop("difficulty", "small"),
            "data_seed": seed,
        },
        "models": {"width": 64},
        "training": {"restarts": 1, "steps": changes.pop("steps", None)},
    }
    if config["training"]["steps"] is None:
        config["training"]["epochs"] = 50
    content: dict[str, Any] = {
        "seed": seed,
        "role": "final",
        "task": "cogscale",
        "model": model,
        "label": model,
        "preset": "laptop",
        "config": config,
        "metrics": {"test": {"error": error}},
        "per_sequence": {"error": [error] * 100},
    }
    return make_record(**{**content, **changes})


def as_published(difficulty: str = "small", **aside: float) -> list[RunRecord]:
    """Every baseline at its published error, or ``aside`` of it, with a tenth of the wobble."""
    records = []
    for task_name in CHANNELS:
        for model, label in LABELS.items():
            mean = printed(task_name, difficulty, label)[0] + aside.get(model, 0.0)
            for seed in range(5):
                error = max(0.0, mean + wobble(seed) / 100)
                preset = "laptop" if difficulty == "small" else "gpu"
                records.append(
                    run(task_name, model, seed, error, difficulty=difficulty, preset=preset)
                )
    return records


def judge(records: list[RunRecord]) -> dict[str, str]:
    selected = EXPERIMENT.select(records)
    findings = {claim.name: claim.without_control(selected) for claim in EXPERIMENT.claims}
    return {name: finding.verdict for name, finding in findings.items()}


def test_published_errors_come_out() -> None:
    assert set(judge(as_published()).values()) == {REPRODUCED}
    of_medium = judge(as_published("medium"))
    assert {verdict for name, verdict in of_medium.items() if "comes out" in name} == {REPRODUCED}


def test_other_errors_do_not() -> None:
    far = judge(as_published(cogscale_decoder=0.4))
    assert far["sorting problem comes out"] == far["of these only attention sorts"] == CONTRADICTED
    able = judge(as_published(cogscale_mamba=-0.5))
    assert able["of these only attention finds what followed"] == CONTRADICTED


def test_short_trainings_are_not_asked() -> None:
    short = [run("sorting_problem", LSTM, 0, 0.6, steps=20, preset="smoke")]
    assert set(judge(short).values()) == {NOT_ASKED}


def test_the_table_marks_what_no_causal_model_can_know() -> None:
    records = as_published("medium")
    name = "discrete_pattern_completion"
    guess = run(name, "", 0, 0.0732, difficulty="medium", preset="gpu")
    records.append(guess.model_copy(update={"role": "baseline", "label": ORACLE}))
    assert EXPERIMENT.table is not None
    lines = EXPERIMENT.table(EXPERIMENT.select(records)).splitlines()
    (row,) = (line for line in lines if line.startswith("| discrete pattern completion |"))
    assert "0.000 (sd 0.000), below what a causal model can know" in row
    assert "0.073" in row
    assert sum("below what" in line for line in lines) == 1


def test_it_is_drawn_with_and_without_records() -> None:
    assert rendered(EXPERIMENT.draw([]))
    assert rendered(EXPERIMENT.draw(EXPERIMENT.select(as_published())))
