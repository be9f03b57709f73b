"""The figures of state tracking and of regression in context on runs whose verdicts are known."""

import hashlib
from typing import Any

import pytest

from bench.config.groups import choices
from bench.records.schema import Curve, RunRecord
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Finding
from reproduce.experiment import Experiment
from reproduce.in_context_regression import in_context_regression as regression
from reproduce.plotting.models import label
from reproduce.state_tracking import state_tracking as tracking
from tests.bench.records import make_record
from tests.configurations import make_plan
from tests.reproduce.drawing.rendering import rendered
from tests.reproduce.plans import in_words
from tests.reproduce.records import wobble

SEEDS = range(3)
FOLLOWS = {"lstm", "delta_net_negative", "gated_delta_net_negative", "rwkv7"}
MODELS = {*FOLLOWS, *tracking.POSITIVE, *tracking.ATTENTION}


def run(task: str, model: str, seed: int, steps: int, **fields: Any) -> RunRecord:
    config = {"tasks": fields.pop("tasks"), "models": {}, "training": {"steps": steps}}
    setting = f"{task} {model} {config['tasks']}"
    fields = {"role": "final", "label": model, "preset": "laptop", "config": config, **fields}
    identity = hashlib.sha256(setting.encode()).hexdigest()
    return make_record(task=task, model=model, seed=seed, identity=identity, **fields)


def judge(figure: Experiment, records: list[RunRecord]) -> dict[str, Finding]:
    known = [*figure.select(records), *(one for one in records if one.role == "control")]
    return {claim.name: claim.judge(known).finding for claim in figure.claims}


def tracked(
    steps: int = 3000, words: int = 1024, near: float = 0.995, **far: float
) -> list[RunRecord]:
    """Accuracies far beyond training; a model's is given as ``mamba_s5=0.3``. Who is slow has more
    steps."""
    long = tracking.LONG_STEPS["laptop"] if steps >= tracking.STEPS else steps
    longer = {(model, group): long for group, those in tracking.SLOW.items() for model in those}
    return [
        run(
            "state_tracking",
            model,
            seed,
            longer.get((model, group), steps),
            tasks={
                "group": group,
                "letters": letters,
                "length": 16,
                "factors": [1, 4],
                "test_size": words,
            },
            metrics={
                "test": {"accuracy/1x": near, "accuracy/4x": max(0.0, level - wobble(seed) / 100)}
            },
            per_sequence={"accuracy/1x": [near] * words, "accuracy/4x": [level] * words},
            curves={"accuracy_by_position": Curve(x=[1.0, 64.0], y=[1.0, level])},
        )
        for model in sorted(MODELS)
        for group, (_, letters, guess) in tracking.GROUPS.items()
        for seed in SEEDS
        for level in [far.get(f"{model}_{group}", 0.999 if model in FOLLOWS else guess)]
    ]


def test_state_tracking_is_as_theory_says() -> None:
    found = judge(tracking.EXPERIMENT, tracked())
    assert {finding.verdict for finding in found.values()} == {REPRODUCED}
    assert "fails as it must" in found["S₅ needs more than diagonal"].evidence


@pytest.mark.parametrize(
    ("far", "claim"),
    [
        ({"lstm_parity": 0.9}, "a nonlinear state keeps parity"),
        ({"delta_net_negative_parity": 0.6}, "negative eigenvalues keep parity"),
        ({"mamba_parity": 0.9}, "positive eigenvalues lose parity"),
        ({"delta_net_parity": 0.9}, "positive eigenvalues lose parity"),
        ({"gpt2_rope_parity": 0.97}, "attention falls off"),
        ({"s4d_s5": 0.2}, "S₅ needs more than diagonal"),
        ({"delta_net_negative_s5": 0.8}, "reflections keep S₅"),
        ({"gpt2_rope_s5": 0.2}, "S₅ needs reflections or nonlinearity"),
    ],
)
def test_a_model_out_of_its_class_contradicts(far: dict[str, Any], claim: str) -> None:
    assert judge(tracking.EXPERIMENT, tracked(**far))[claim].verdict == CONTRADICTED


def test_networks_that_guess_pass_no_claim() -> None:
    guesses = {f"{m}_{g}": guess for m in MODELS for g, (_, _, guess) in tracking.GROUPS.items()}
    for near in (0.5, 0.995):
        found = judge(tracking.EXPERIMENT, tracked(near=near, **guesses))
        assert REPRODUCED not in {finding.verdict for finding in found.values()}


def test_claims_need_a_control_that_fails_and_enough_steps() -> None:
    for far, name, verdict in (
        ({"lstm_s5": 0.01}, "S₅ needs more than diagonal", CONTRADICTED),  # "a nonlinear state can"
        ({"lstm_parity": 0.5}, "positive eigenvalues lose parity", UNDECIDED),
        ({"delta_net_negative_s5": 0.01}, "S₅ needs reflections or nonlinearity", UNDECIDED),
    ):  # a control that learned nothing has not failed
        assert judge(tracking.EXPERIMENT, tracked(**far))[name].verdict == verdict
    found = judge(tracking.EXPERIMENT, tracked(words=256))  # too few to tell 0.99
    assert "no runs of LSTM on parity" in found["a nonlinear state keeps parity"].evidence
    assert "no runs of DeltaNet" in found["negative eigenvalues keep parity"].evidence
    # Whoever learned nothing loses nothing: a broken recurrence shows nothing of its kind.
    broken = judge(tracking.EXPERIMENT, tracked(near=0.1))
    losses = ("positive eigenvalues lose parity", "S₅ needs more than diagonal")
    for name in (*losses, "S₅ needs reflections or nonlinearity", "attention falls off"):
        assert broken[name].verdict == UNDECIDED
        assert "the claim would say nothing" in broken[name].evidence
    # Nor do runs of what cannot follow S₅ count that have the steps of all others.
    usual = [r for r in tracked() if r.config["training"]["steps"] == tracking.STEPS]
    found = judge(tracking.EXPERIMENT, usual)
    for name in ("S₅ needs reflections or nonlinearity", "negative eigenvalues keep parity"):
        assert found[name].verdict == UNDECIDED
    two_letters = judge(tracking.EXPERIMENT, tracked(near=0.563))
    assert two_letters["attention falls off"].verdict == UNDECIDED
    one_of_five = [r for r in tracked() if r.model in ("s4d", "lstm")]
    for name in losses:
        found = judge(tracking.EXPERIMENT, one_of_five)[name]
        assert (found.verdict, "no runs of Mamba" in found.evidence) == (UNDECIDED, True)
    few = judge(tracking.EXPERIMENT, tracked(steps=60))
    assert {finding.verdict for finding in few.values()} == {NOT_ASKED}


def test_whole_words_stand_below_letters_and_one_layer_has_figures_of_its_own() -> None:
    records = tracked(lstm_parity=1.0)
    perfect = [r for r in records if r.model == "lstm"]
    for record in perfect:
        record.per_sequence["accuracy/1x"][:] = [1.0] * 1024
    panels = tracking.EXPERIMENT.draw(records).panels
    below = next(panel for panel in panels if panel.title == "parity, whole words")
    shares = {trace.name: (trace.x, trace.y) for trace in below.traces}
    assert shares[label("lstm")] == ((16.0, 64.0), (1.0, 1.0))
    assert shares[label("mamba")] == ((16.0, 64.0), (0.0, 0.0))
    one_layer = records[0].model_copy(deep=True)
    one_layer.config["models"]["layers"] = 1
    assert tracking.EXPERIMENT.select([records[0], one_layer]) == [records[0]]


def test_more_steps_of_a_model_are_a_curve_of_their_own() -> None:
    usual = [r.model_copy(update={"run_id": f"{r.run_id}-more"}) for r in tracked()]
    for record in usual:
        record.config["training"]["steps"] = tracking.STEPS
    panels = tracking.EXPERIMENT.draw([*usual, *tracked()]).panels
    of_s5 = next(panel for panel in panels if panel.title == "S₅, swaps")
    names = [trace.name for trace in of_s5.traces if "DeltaNet" in trace.name]
    assert {"DeltaNet", "DeltaNet, 9,000 steps"} <= set(names)
    assert all(len(trace.seeds) == len(SEEDS) for trace in of_s5.traces)


ERRORS = {  # at the end, from ridge, from one step
    "gpt2": (0.02, 0.05, 0.3),
    "ridge": (0.0, 0.002, 0.33),
    "delta_rule": (0.12, 0.16, 0.17),
    "outer_product": (2.7, 1.0, 0.9),
    "kernel": (0.65, 0.7, 0.5),
}


def regressed(steps: int = 3000, **changes: tuple[float, float, float]) -> list[RunRecord]:
    made = []
    known = {**ERRORS, **changes, "1 gradient step": (0.35, 0.34, 0.0)}
    for model, levels in known.items():
        sequence_model = model in choices("models") or model == "1 gradient step"
        baseline = model == "1 gradient step"
        for seed in range(1) if baseline else SEEDS:
            names = ("error_at_end", "from_ridge", "from_1_step")
            values = dict(zip(names, (x + wobble(seed) / 100 for x in levels), strict=True))
            one = run(
                "in_context_regression" if sequence_model else "in_context_regression_memories",
                model,
                seed,
                steps,
                tasks={"dimension": 8, "pairs": 16, "sequences": 512},
                role="baseline" if baseline else "final" if sequence_model else "single",
                metrics={"test": {"error": 0.4, **values}},
                per_sequence={name: [value, value + 0.001] * 128 for name, value in values.items()},
                curves={"error_by_pairs": Curve(x=[0.0, 16.0], y=[1.0, levels[0]])},
            )
            made.append(one)
            if model == "gpt2":
                untrained = {"error_at_end": 1.0, "from_ridge": 0.8, "from_1_step": 0.4}
                twin = {"metrics": {"test": untrained}, "role": "control", "per_sequence": {}}
                training = {**one.config, "training": {"steps": 1}}
                made.append(one.model_copy(update={**twin, "config": training}))
    return made


def test_regression_is_as_claimed() -> None:
    found = judge(regression.EXPERIMENT, regressed(steps=50_000))
    assert {finding.verdict for finding in found.values()} == {REPRODUCED}
    early = judge(regression.EXPERIMENT, regressed())
    assert early.pop("attention is near least squares").verdict == NOT_ASKED
    assert {finding.verdict for finding in early.values()} == {REPRODUCED}


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"gpt2": (0.5, 0.05, 0.3)}, "attention learns from the pairs"),
        ({"gpt2": (0.2, 0.3, 0.05)}, "attention is near least squares"),
        ({"ridge": (0.3, 0.3, 0.3)}, "exact sums are least squares"),
        ({"delta_rule": (0.5, 0.3, 0.3)}, "corrected writes beat one step"),
        ({"kernel": (0.1, 0.1, 0.3)}, "averages do not regress"),
    ],
)
def test_other_errors_contradict(changes: dict[str, Any], claim: str) -> None:
    records = regressed(steps=50_000, **changes)
    assert judge(regression.EXPERIMENT, records)[claim].verdict == CONTRADICTED


def test_who_always_says_zero_shows_nothing_about_averages() -> None:
    silent = judge(regression.EXPERIMENT, regressed(kernel=(1.1, 0.9, 0.9)))
    found = silent["averages do not regress"]
    assert found.verdict == UNDECIDED
    assert "the claim would say nothing" in found.evidence


def test_untrained_models_are_not_asked() -> None:
    few = judge(regression.EXPERIMENT, regressed(steps=60))
    assert few["attention learns from the pairs"].verdict == NOT_ASKED
    assert few["exact sums are least squares"].verdict == REPRODUCED


@pytest.mark.parametrize(
    ("figure", "records"),
    [(tracking.EXPERIMENT, tracked()), (regression.EXPERIMENT, regressed())],
    ids=["state_tracking", "in_context_regression"],
)
def test_both_are_drawn(figure: Experiment, records: list[RunRecord]) -> None:
    picture = figure.draw(figure.select(records))
    assert rendered(picture)
    assert rendered(figure.draw([]))


def test_regression_lists_the_nearest_to_ridge_first_and_what_failed_last() -> None:
    lost = {"outcome": "diverged", "metrics": {}}
    found = [
        r.model_copy(update=lost) if r.model == "kernel" else r
        for r in regression.EXPERIMENT.select(regressed())
    ]
    *_, memories = regression.EXPERIMENT.draw(found).panels
    listed = memories.x.categories
    assert listed[0] == label("ridge")
    assert listed[-1] == label("kernel")
    levels = {label(model): distance for model, (_, distance, _) in ERRORS.items()}
    assert [levels[one] for one in listed[:-1]] == sorted(levels[one] for one in listed[:-1])
    assert len(listed) > 3


@pytest.mark.parametrize("preset", ["smoke", "paper"])
def test_plans_hold_every_model_of_the_tasks(preset: str) -> None:
    for figure in (tracking.EXPERIMENT, regression.EXPERIMENT):
        plan = figure.plan(preset, None)
        for words in in_words(plan.sweeps):
            names = {
                one.configuration.model for one in make_plan([*words, f"preset={preset}"]).entries
            }
            assert {"lstm", "gpt2", "mamba", "s4d"} <= names
    assert len({words[1] for words in in_words(plan.runs)}) == 9


def test_at_laptop_every_model_that_a_claim_names_takes_part() -> None:
    with_guests = {}
    for words in in_words(tracking.EXPERIMENT.plan("laptop", None).sweeps):
        entries = make_plan([*words, "preset=laptop"]).entries
        one = entries[0].configuration
        models = {entry.configuration.model for entry in entries}
        setting = one.tasks["group"], one.tasks["test_size"], one.sweep.seeds, one.training.steps
        with_guests[setting] = models
    assert with_guests.pop(("parity", 256, 5, 3000)) >= MODELS
    assert with_guests == {
        ("parity", 256, 15, 3000): {*tracking.ATTENTION},
        ("parity", 1024, 5, 3000): {*tracking.NONLINEAR},
        ("s5", 256, 3, 3000): {
            *(*tracking.NONLINEAR, *tracking.DIAGONAL),
            *(*tracking.REFLECTING, *tracking.NOT_REFLECTING, *tracking.RANK_ONE),
        },
        ("s5", 256, 3, 9000): {*tracking.NOT_REFLECTING, *tracking.RANK_ONE},
        ("parity", 256, 3, 9000): {"gpt2", *tracking.RANK_ONE},
        ("parity", 1024, 5, 9000): set(tracking.NEGATIVE),
    }
