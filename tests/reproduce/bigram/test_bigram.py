"""The bigram figure on constructed runs whose verdicts are known."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from bench.config.groups import contenders
from bench.records.schema import Curve, RunRecord
from reproduce.bigram.bigram import EXPERIMENT
from reproduce.bigram.runs import LABELS
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Finding
from tests.bench.records import make_record
from tests.configurations import compose, make_plan
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words
from tests.reproduce.records import wobble

SEEDS = range(3)
LEVELS = {"gpt2/1": 0.53, "gpt2/2": 0.99, "memory_mosaic/1": 0.995}


def trained(
    model: str,
    seed: int,
    accuracy: float,
    steps: int = 1000,
    triggers: str = "fixed",
    **changes: Any,
) -> RunRecord:
    name, layers = model.split("/")
    task = {"source": "tiny_shakespeare", "triggers": triggers}
    content: dict[str, Any] = {
        "seed": seed,
        "task": "bigram",
        "model": name,
        "label": name,
        "role": "final",
        "preset": "laptop",
        "identity": hashlib.sha256(f"{model} {triggers} {steps}".encode()).hexdigest(),
        "config": {
            "tasks": {**task, **changes.pop("task_settings", {})},
            "models": {"layers": int(layers)},
            "training": {"restarts": 1, "steps": steps},
        },
        "metrics": {
            "test": {
                "in_context_accuracy": accuracy + wobble(seed),
                "first_occurrence_accuracy": 1 / 65 + wobble(seed) / 5,
            }
        },
        "curves": {"validation_loss": Curve(x=[50.0, 100.0], y=[2.0, 1.0 - accuracy])},
    }
    return make_record(**{**content, **changes})


def probed(seed: int, output: float, token: float, position: float, accuracy: float) -> RunRecord:
    """A run of the simplified model whose memories reach one half at these steps."""
    crossings = {
        "steps_to_half_output_recall": output,
        "steps_to_half_token_recall": token,
        "steps_to_half_early_position_recall": position,
        "steps_to_half_accuracy": accuracy,
    }
    names = ("accuracy", "output_recall", "token_recall", "early_position_recall")
    return make_record(
        seed=seed,
        task="bigram_probes",
        model="two_layer_attention",
        preset="laptop",
        config={"tasks": {"steps": 300}, "models": {}, "training": {}},
        metrics={"test": {name: v * (1 + seed / 100) for name, v in crossings.items()}},
        curves={name: Curve(x=[0.0, 300.0], y=[0.0, 1.0]) for name in names},
    )


def stepped(seed: int, accuracy: float = 0.96, position: float = 0.933) -> RunRecord:
    names = ("accuracy", "output_recall", "token_recall", "position_recall")
    last = dict(zip(names, (accuracy + wobble(seed), 1.0, 1.0, position), strict=True))
    return make_record(
        seed=seed,
        task="three_gradient_steps",
        model="disentangled_attention",
        preset="laptop",
        config={
            "tasks": {"evaluated": 512, "length": 16, "tokens": 32},
            "models": {},
            "training": {},
        },
        metrics={"test": last},
        curves={name: Curve(x=[0.0, 3.0], y=[0.0, last[name]]) for name in names},
    )


def all_runs(**levels: float) -> list[RunRecord]:
    values = {**dict.fromkeys(LABELS, 0.6), **LEVELS, **levels}
    steps = {"memory_mosaic/1": 200}
    runs = [
        trained(model, seed, values[model], steps.get(model, 1000))
        for model in LABELS
        for seed in SEEDS
    ]
    runs += [probed(seed, 50, 15, 95, 105) for seed in SEEDS]
    return [*runs, *(stepped(seed) for seed in SEEDS)]


def judge(records: list[RunRecord]) -> dict[str, Finding]:
    return {claim.name: claim.without_control(records) for claim in EXPERIMENT.claims}


def without(records: list[RunRecord], task: str) -> list[RunRecord]:
    return [record for record in records if record.task != task]


def test_everything_is_reproduced_but_what_was_not_run() -> None:
    found = judge(all_runs())
    # 14 of 15 positions in every seed, 42 of 45 in all: perhaps fewer than 9 in 10 in the long run.
    positions = found.pop("three memories after three steps")
    assert positions.verdict == UNDECIDED
    assert "45 test items 0.817 to 0.986" in positions.evidence
    open_claims = {name for name, finding in found.items() if finding.verdict != REPRODUCED}
    assert {name.split(",")[0] for name in open_claims} == {"random triggers"}
    assert {(found[name].verdict, found[name].asked_at) for name in open_claims} == {
        (NOT_ASKED, "laptop")
    }


@pytest.mark.parametrize(
    ("model", "level", "claim"),
    [
        ("gpt2/1", 0.8, "one layer of attention"),
        ("gpt2/1", 0.3, "one layer of attention"),
        ("gpt2/2", 0.9, "two layers of attention"),
        ("memory_mosaic/1", 0.9, "one layer of memory units"),
    ],
)
def test_other_accuracies_contradict(model: str, level: float, claim: str) -> None:
    assert judge(all_runs(**{model: level}))[claim].verdict == CONTRADICTED


def test_memory_units_that_were_trained_longer_say_nothing_about_200_steps() -> None:
    runs = [r for r in all_runs() if r.model != "memory_mosaic"]
    runs += [trained("memory_mosaic/1", seed, 0.995, steps=1000) for seed in SEEDS]
    assert judge(runs)["one layer of memory units"].verdict == UNDECIDED


@pytest.mark.parametrize("levels", [(0.19, 0.2, 0.21), (0.0285, 0.029, 0.0287)])
def test_a_leak_in_a_single_model_contradicts(levels: tuple[float, ...]) -> None:
    """Also one that is no more than twice chance."""
    leaky = [
        trained("lstm/2", seed, 0.6, metrics={"test": {"first_occurrence_accuracy": level}})
        for seed, level in zip(SEEDS, levels, strict=True)
    ]
    runs = [r for r in all_runs() if r.model != "lstm"] + leaky
    assert judge(runs)["nothing leaks"].verdict == CONTRADICTED
    assert judge(all_runs())["nothing leaks"].verdict == REPRODUCED


def test_short_runs_and_random_tables_are_not_asked() -> None:
    short = [trained(model, seed, 0.3, steps=60) for model in LABELS for seed in SEEDS]
    other = [
        trained(model, seed, 0.3, task_settings={"source": "dirichlet"})
        for model in LABELS
        for seed in SEEDS
    ]
    for runs, asked_at in ((short, "laptop"), (other, "")):
        found = judge(runs)["one layer of attention"]
        assert (found.verdict, found.asked_at) == (NOT_ASKED, asked_at)


def test_the_order_of_learning() -> None:
    names = ("W_O² before W_K¹", "W_K² before W_K¹", "accuracy jumps with W_K¹")
    late = without(all_runs(), "bigram_probes")
    found = judge([*late, *(probed(seed, 120, 15, 90, 200) for seed in SEEDS)])
    assert [found[name].verdict for name in names] == [CONTRADICTED, REPRODUCED, CONTRADICTED]
    assert judge(late)[names[0]].verdict == UNDECIDED
    never = [_unlearned(run, "early_position_recall") for run in all_runs()]
    assert {judge(never)[name].verdict for name in names} == {UNDECIDED}


def _unlearned(record: RunRecord, name: str) -> RunRecord:
    """The same, where a memory never comes to one half."""
    test = {key: y for key, y in record.metrics["test"].items() if key != f"steps_to_half_{name}"}
    return record.model_copy(update={"metrics": {"test": test}})


def test_three_steps_that_succeed_everywhere_are_reproduced_and_that_fail_contradict() -> None:
    runs = without(all_runs(), "three_gradient_steps")
    found = judge([*runs, *(stepped(seed, position=1.0) for seed in SEEDS)])
    assert found["three memories after three steps"].verdict == REPRODUCED
    found = judge([*runs, *(stepped(seed, accuracy=0.5, position=0.4) for seed in SEEDS)])
    assert found["three gradient steps"].verdict == CONTRADICTED
    assert found["three memories after three steps"].verdict == CONTRADICTED
    assert judge(runs)["three gradient steps"].verdict == UNDECIDED


def test_random_triggers_are_judged_by_themselves() -> None:
    runs = all_runs() + [
        trained(model, seed, level, triggers="random")
        for model, level in (("gpt2/2", 0.95), ("memory_mosaic/1", 0.7))
        for seed in SEEDS
    ]
    found = judge(runs)
    assert found["random triggers, two layers of attention"].verdict == REPRODUCED
    assert found["random triggers, one layer of memory units"].verdict == CONTRADICTED
    assert found["two layers of attention"].verdict == REPRODUCED


def test_the_figure_and_its_numbers_are_pure_functions_of_records() -> None:
    runs = all_runs()
    failed: dict[str, Any] = {
        "outcome": "diverged",
        "cause": "the loss is not finite",
        "metrics": {},
        "curves": {},
    }
    runs.append(trained("s4d/2", 7, 0.5, **failed))
    selected = EXPERIMENT.select(runs[::-1])
    assert len(selected) == len(runs)
    picture = EXPERIMENT.draw(selected)
    accuracies, _, probes, _ = [
        {trace.name: trace for trace in panel.traces} for panel in picture.panels
    ]
    assert accuracies["LSTM"].y == pytest.approx([0.6], abs=0.01)
    assert accuracies["S4D"].seeds["7"] == (None,)
    assert accuracies["S4D"].failed == accuracies["S4D"].x
    assert probes["W_O² (outputs)"].x == (0, 300)
    assert rendered(picture) == EXPERIMENT.draw(EXPERIMENT.select(runs)).to_json()
    assert not EXPERIMENT.draw([]).panels[1].traces  # no name in the legend without a run


def test_the_plan_names_every_row_and_its_seeds() -> None:
    counts = Counter(run[:-1] for run in in_words(EXPERIMENT.plan("laptop", None).runs))
    assert {words[0]: n for words, n in counts.items()} == {
        "tasks=three_gradient_steps": 30,
        "tasks=bigram_probes": 5,
    }
    assert set(
        Counter(run[:-1] for run in in_words(EXPERIMENT.plan("laptop", 2).runs)).values()
    ) == {2}
    for preset in ("smoke", "laptop"):
        entries = [
            entry
            for words in in_words(EXPERIMENT.plan(preset, None).sweeps)
            for entry in make_plan([*words, f"preset={preset}"]).entries
        ]
        every = [entry.configuration for entry in entries]
        found = [one for one in every if one.tasks["triggers"] == "fixed"]
        drawn = {(one.model, one.models["layers"]) for one in every if one not in found}
        assert drawn == ({("gpt2", 2), ("memory_mosaic", 1)} if preset == "laptop" else set())
        assert len(found) == len({(one.model, one.models.get("layers")) for one in found})
        assert {one.model for one in found} == set(contenders("bigram", preset))
        (memory,) = [one for one in found if one.model == "memory_mosaic"]
        assert memory.training.steps == (200 if preset == "laptop" else 60)
        for training in (one.training for one in found if preset == "laptop"):
            assert training.validate_every is not None
            assert training.validate_every * 10 <= training.steps  # convergence can be seen


def test_random_triggers_are_planned_from_laptop_on() -> None:
    for preset in ("laptop", "gpu", "paper"):
        random = [
            w for w in in_words(EXPERIMENT.plan(preset, 1).sweeps) if "tasks.triggers=random" in w
        ]
        assert len(random) == 2, preset
    assert not any(
        "tasks.triggers=random" in words for words in in_words(EXPERIMENT.plan("smoke", 1).sweeps)
    )


def test_every_model_that_the_task_sweeps_has_its_row() -> None:
    rows = {row.partition("/")[0] for row in LABELS}
    for preset in ("smoke", "laptop", "gpu"):
        assert set(_swept(preset)) <= rows
    assert set(_swept("paper")) == rows


def _swept(preset: str) -> Sequence[str]:
    return compose(["tasks=bigram", "models=gpt2", f"preset={preset}"]).sweep.models
