"""The figure of multi-query recall on constructed runs whose verdicts are known."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from bench.config.groups import contenders
from bench.records.schema import Cost, Curve, RunRecord
from bench.training.building import build_task
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Finding
from reproduce.multi_query_recall.multi_query_recall import EXPERIMENT
from reproduce.multi_query_recall.runs import FIXED_STATE, LONGER, kind, label
from tests.bench.records import make_record
from tests.configurations import make_plan
from tests.reproduce.claims.test_fairness import study
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words
from tests.reproduce.records import wobble

SEEDS = range(3)
MODELS = contenders("multi_query_recall", "laptop")
STATE = {"lstm": 8, "mamba": 150, "s4d": 250}  # bytes for each unit of width, of others 500
CELLS: dict[str, dict[str, Any]] = {
    "easy": {"protocol": "easy", "pairs": [4], "rewritten": 0},
    "plain": {"protocol": "as_set", "pairs": [2, 4, 8], "rewritten": 0},
    "forgetting": {"protocol": "as_set", "pairs": [2, 4, 6], "rewritten": 2},
}


def run(
    cell: str, model: str, seed: int, *, width: int = 64, steps: int = 400, **metrics: float
) -> RunRecord:
    task = {**CELLS[cell], "evaluated_pairs": None, "test_size": 2000}
    setting = f"{cell} {model} {width} {steps}"
    return make_record(
        seed=seed,
        task="multi_query_recall",
        model=model,
        label=model,
        preset="laptop",
        identity=hashlib.sha256(setting.encode()).hexdigest(),
        config={
            "tasks": task,
            "models": {"width": width},
            "training": {"restarts": 1, "steps": steps},
        },
        metrics={"test": {name.replace("_at_", "/"): value for name, value in metrics.items()}},
        cost=Cost(state_bytes=STATE.get(model, 500) * width),
    )


def tuned(record: RunRecord) -> RunRecord:
    """The same, chosen by a search, with a validation loss that has stopped falling."""
    training = {**record.config["training"], "lr": 3e-3, "select": "last"}
    steps = float(training["steps"])
    curves = {"validation_loss": Curve(x=[steps / 2, steps * 0.8, steps], y=[1.1, 1.0, 1.0])}
    changed = {"config": {**record.config, "training": training}, "curves": curves}
    return record.model_copy(update={**changed, "study": study()})


def easy(memory: float = 1.0, attention: float = 0.998, steps: int = 100) -> list[RunRecord]:
    return [
        one
        for seed in SEEDS
        for one in (
            run("easy", "memory_mosaic", seed, steps=steps, accuracy=memory),
            run("easy", "conv_attention", seed, accuracy=attention),
        )
    ]


def plain(steps: int = 400, **levels: tuple[float, float]) -> list[RunRecord]:
    """Runs at two widths whose accuracies at 2 and 8 pairs are ``levels``; half as good at 8 pairs
    where the width is half."""
    return _levels([(size, steps) for size in (32, 64)], levels)


def longer(**levels: tuple[float, float]) -> list[RunRecord]:
    """The same at the widths and after the steps of the longer trainings."""
    cells = {(size, n) for size, of in LONGER["laptop"].items() for n in of.values()}
    return [record for record in _levels(sorted(cells), levels) if kind(record) == "long"]


def _levels(
    cells: list[tuple[int, int]], levels: dict[str, tuple[float, float]]
) -> list[RunRecord]:
    known = {name: (0.95, 0.4) if name in FIXED_STATE else (1.0, 0.999) for name in MODELS}
    return [
        run(
            "plain",
            model,
            seed,
            width=width,
            steps=steps,
            accuracy=few,
            accuracy_at_2=few + wobble(seed) / 10,
            accuracy_at_4=(few + many) / 2,
            accuracy_at_8=many * width / 64 - wobble(seed) / 10,
        )
        for model, (few, many) in {**known, **levels}.items()
        for width, steps in cells
        for seed in SEEDS
    ]


def forgetting(**levels: float) -> list[RunRecord]:
    known = {**dict.fromkeys(MODELS, 0.5), "titans": 0.9, **levels}
    return [
        run(
            "forgetting",
            model,
            seed,
            accuracy=level,
            accuracy_rewritten=level + wobble(seed),
            stale_rate=1 - level,
        )
        for model, level in known.items()
        for seed in SEEDS
    ]


def judge(records: list[RunRecord]) -> dict[str, Finding]:
    selected = EXPERIMENT.select(records)
    return {claim.name: claim.without_control(selected) for claim in EXPERIMENT.claims}


def test_everything_is_reproduced_as_published() -> None:
    found = judge(easy() + plain() + longer() + forgetting())
    assert {finding.verdict for finding in found.values()} == {REPRODUCED}
    assert "after 100 steps 1.000" in found["one layer of memory units"].evidence


@pytest.mark.parametrize(
    ("records", "claim"),
    [
        (easy(memory=0.95), "one layer of memory units"),
        (easy(attention=0.98), "attention with a short convolution"),
        (plain(conv_attention=(1.0, 0.9)), "no fall with a state that grows"),
        (plain(mamba=(0.99, 0.98)), "Mamba falls with the pairs"),
        (longer(mamba=(1.0, 0.999)), "the gap to fixed states"),
        (forgetting(memory_mosaic=0.8), "rewritten keys, without order"),
        (forgetting(titans=0.4), "rewritten keys, with forgetting"),
    ],
)
def test_other_accuracies_contradict(records: list[RunRecord], claim: str) -> None:
    assert judge(records)[claim].verdict == CONTRADICTED


def test_memory_units_that_were_trained_longer_say_nothing_about_100_steps() -> None:
    found = judge(easy(steps=400))["one layer of memory units"]
    assert (found.verdict, found.seeds) == (UNDECIDED, 0)


def test_a_model_that_only_guesses_says_nothing_about_its_state() -> None:
    """A guess among D values falls as 1/D by itself."""
    found = judge(plain(s4d=(0.5, 0.125)))
    for name in ("S4D falls with the pairs", "S4D recalls more with a larger state"):
        assert found[name].verdict == UNDECIDED
        assert "guess among its values (0.5)" in found[name].evidence
    assert found["Mamba falls with the pairs"].verdict == REPRODUCED


def test_a_slow_model_is_judged_by_the_runs_that_were_long_enough_for_it() -> None:
    """And by no others: what it guesses after few steps says nothing, nor what it learns later."""
    guessing = {"lstm": (0.5, 0.125)}
    claims = ["LSTM falls with the pairs", "LSTM recalls more with a larger state"]
    learned = judge(plain(**guessing) + longer())
    assert {learned[name].verdict for name in claims} == {REPRODUCED}
    assert "8,000 steps" in learned[claims[0]].evidence
    guessed = judge(plain() + longer(**guessing))
    assert {guessed[name].verdict for name in claims} == {UNDECIDED}
    assert judge(longer(lstm=(0.99, 0.98)))[claims[0]].verdict == CONTRADICTED
    assert "24,000 steps" in learned["Mamba recalls more with a larger state"].evidence
    figure = EXPERIMENT.draw(EXPERIMENT.select(plain(**guessing) + longer()))
    names = [[trace.name for trace in panel.traces] for panel in figure.panels]
    assert "LSTM, 8,000 steps" in names[0]
    assert not any("8,000 steps" in name for panel in names[1:] for name in panel)


def test_the_gap_is_between_trainings_of_equal_length() -> None:
    """Of the length at which all have converged: what few steps leave apart says nothing."""
    name = "the gap to fixed states"
    apart, alike = (0.9, 0.3), (1.0, 0.999)
    assert judge(plain(mamba=alike) + longer(mamba=apart))[name].verdict == REPRODUCED
    assert judge(plain(mamba=apart) + longer(mamba=alike))[name].verdict == CONTRADICTED
    without = [record for record in longer() if record.model != "s4d"]
    lacking = judge(plain() + without)[name]
    assert (lacking.verdict, lacking.seeds) == (UNDECIDED, 0)
    assert "no runs of S4D after more steps" in lacking.evidence
    steps = {record.config["training"]["steps"] for record in longer() if record.seed == 0}
    assert steps == {8000, 24000}
    assert EXPERIMENT.select([run("plain", "mamba", 0, width=16, steps=8000)]) == []


def test_short_runs_are_left_out() -> None:
    found = judge(plain(steps=60))
    unasked = found["the gap to fixed states"]
    assert (unasked.verdict, unasked.asked_at) == (NOT_ASKED, "laptop")


def test_other_cells_and_trials_do_not_belong() -> None:
    one = run("plain", "lstm", 0, accuracy=0.5)
    other = {**one.config, "tasks": {**CELLS["plain"], "pairs": [4]}}
    changed: list[dict[str, Any]] = [
        {"role": "trial"},
        {"config": other},
        {"task": "bigram"},
        {"model": "lstm_x"},
    ]
    assert EXPERIMENT.select([one.model_copy(update=change) for change in changed]) == []


def test_the_figure_and_its_numbers_are_pure_functions_of_records() -> None:
    runs = [*easy(), *plain(), *forgetting()]
    lost = {"outcome": "diverged", "cause": "the loss is not finite", "metrics": {}}
    runs.append(run("plain", "s4d", 7).model_copy(update=lost))
    selected = EXPERIMENT.select(runs[::-1])
    assert len(selected) == len(runs)
    picture = EXPERIMENT.draw(selected)
    by_state = picture.panels[1]
    (lstm,) = [trace for trace in by_state.traces if trace.name == "LSTM"]
    assert lstm.x == (256, 512)  # bytes, of the two widths
    assert lstm.y[0] == pytest.approx(0.2, abs=0.01)
    assert "after 100–400" not in by_state.title
    assert rendered(picture) == EXPERIMENT.draw(EXPERIMENT.select(runs)).to_json()
    rendered(EXPERIMENT.draw([]))


@pytest.mark.parametrize("preset", ["smoke", "laptop", "gpu", "paper"])
def test_every_planned_run_fits_and_belongs(preset: str) -> None:
    entries = [
        entry
        for words in in_words(EXPERIMENT.plan(preset, None).sweeps)
        for entry in make_plan([*words, f"preset={preset}"]).entries
    ]
    found = {entry.configuration.model for entry in entries}
    assert found == set(contenders("multi_query_recall", preset))
    for configuration in (entry.configuration for entry in entries):
        if configuration.model == "lstm" or configuration.tasks["protocol"] == "easy":
            assert build_task(configuration).specification().maximum_length


@pytest.mark.parametrize("model", FIXED_STATE)
def test_who_is_stopped_early_says_nothing_of_its_state(model: str) -> None:
    """Attention that keeps every pair falls with them while it still learns."""
    records = [tuned(record) for record in plain() if record.model == model]
    claims = [one for one in EXPERIMENT.claims if one.name.startswith(f"{label(model)} ")]
    assert len(claims) == 2
    for late, verdict in ((1.0, REPRODUCED), (0.9, UNDECIDED)):
        curve = Curve(x=[200.0, 320.0, 400.0], y=[1.1, 1.0, late])
        found = [r.model_copy(update={"curves": {"validation_loss": curve}}) for r in records]
        judged = [replace(claim, control=None).judge(found).finding for claim in claims]
        assert {finding.verdict for finding in judged} == {verdict}
        assert all(("still improving" in one.evidence) == (late < 1.0) for one in judged)
