"""Controls: an untrained runs of each run must fail, and what may not stand for its failing."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from bench.records.identity import one_of_each
from bench.records.schema import RunRecord, Study, write_record
from bench.records.store import Store
from bench.runs.get_or_run import load_or_run
from core.statistics import LEVEL
from leaderboards.build import FOLDER
from leaderboards.tables.builder import build_board
from reproduce.__main__ import reproductions
from reproduce.claims.claims import Claim
from reproduce.claims.controls import (
    EACH_ITS_OWN,
    LEANING,
    NOTHING_TRAINED,
    UNTRAINED,
    Control,
    Untrained,
    without_untrained,
)
from reproduce.claims.grammar import Number, Runs, above, once, provided, trained_for, within
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.experiment import Experiment
from tests.bench.records import make_record
from tests.committed import committed_records
from tests.configurations import compose, make_plan
from tests.reproduce.plans import in_words

MODEL = Runs("the model", model="gpt2")
ACCURACY = Number("accuracy", "accuracy").of(MODEL)
GOOD = once(trained_for(400, "laptop"), within(ACCURACY, low=0.6))
CLAIM = Claim("it learns", "It learns.", GOOD, control=UNTRAINED)
TRAINED = (0.80, 0.81, 0.82)


def made(accuracy: float, seed: int, steps: int = 400, **changes: Any) -> RunRecord:
    config = {"tasks": {"size": 3}, "models": {"width": 64}, "training": {"steps": steps}}
    metrics = {"test": {"accuracy": accuracy}}
    identity = f"{steps:02x}" * 32
    return make_record(
        **{"seed": seed, "identity": identity[:64], "config": config, "metrics": metrics, **changes}
    )


def runs(*values: float, **changes: Any) -> list[RunRecord]:
    return [made(value, seed, **changes) for seed, value in enumerate(values)]


def twins(*values: float, **changes: Any) -> list[RunRecord]:
    return runs(*values, **{"steps": 1, "role": "control", **changes})


def judged(records: Sequence[RunRecord], claim: Claim = CLAIM) -> tuple[str, str]:
    finding = claim.judge(records).finding
    return finding.verdict, finding.evidence


def test_a_claim_holds_where_its_untrained_twins_fail_although_a_rule_asks_for_their_steps() -> (
    None
):
    verdict, evidence = judged([*runs(*TRAINED), *twins(0.1, 0.11, 0.12)])
    assert verdict == REPRODUCED
    assert "The control, the untrained network, fails as it must (the model 0.110" in evidence
    assert "the untrained network must fail" in CLAIM.tolerance


def test_a_control_that_lacks_only_runs_to_pass_has_not_failed() -> None:
    """The claim asks for 0.6 or more; the means of the two controls are 0.70 and 0.61."""
    leaning = [*runs(*TRAINED), *twins(0.64, 0.70, 0.76)]
    assert GOOD.judge(UNTRAINED.in_place(leaning), LEVEL).verdict == UNDECIDED
    verdict, evidence = judged(leaning)
    assert verdict == UNDECIDED
    assert "does not surely fail: it would pass at 80% (the model 0.700" in evidence
    verdict, evidence = judged([*runs(*TRAINED), *twins(0.55, 0.61, 0.67)])
    assert verdict == REPRODUCED
    assert "does not pass, as it must not (the model 0.610" in evidence


def test_a_claim_that_an_untrained_network_passes_tells_nothing() -> None:
    verdict, evidence = judged([*runs(*TRAINED), *twins(0.90, 0.91, 0.92)])
    assert verdict == UNDECIDED
    assert "holds too, so that the claim tells nothing" in evidence


@pytest.mark.parametrize(
    ("untrained", "said"),
    [
        ((0.1, 0.11, 0.12), True),
        ((0.90, 0.91, 0.92), False),  # learning took it away
        ((0.55, 0.61, 0.67), False),
        ((), False),
    ],
)
def test_a_contradiction_says_where_no_training_was_needed_for_it(
    untrained: tuple[float, ...], said: bool
) -> None:
    verdict, evidence = judged([*runs(0.3, 0.31, 0.32), *twins(*untrained)])
    assert verdict == CONTRADICTED
    assert ("The untrained network contradicts it too (the model 0.110" in evidence) == said
    assert ("contradicts it too" in evidence) == said


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "was not run"),
        (twins(0.1, 0.11), "was run for 2 of 3 seeds only"),
        # Each is no twin: another width, a run of the board, other data, a training that failed.
        (
            twins(*TRAINED, config={"tasks": {"size": 3}, "models": {"width": 8}, "training": {}}),
            "was not run",
        ),
        (twins(0.1, 0.1, 0.1, preset="laptop"), "was not run"),
        (
            twins(
                0.1,
                0.1,
                0.1,
                provenance=made(0.1, 0).provenance.model_copy(update={"data": {"train": "9" * 64}}),
            ),
            "was not run",
        ),
        (twins(0.1, 0.1, 0.1, outcome="failed", cause="out of luck", metrics={}), "was not run"),
    ],
    ids=["none", "a seed without", "another width", "another preset", "other data", "failed"],
)
def test_a_control_that_was_not_judged_from_runs_has_not_failed(
    found: list[RunRecord], words: str
) -> None:
    verdict, evidence = judged([*runs(*TRAINED), *found])
    assert verdict == UNDECIDED
    assert words in evidence


def test_a_control_by_hand_that_is_not_asked_or_has_no_runs_has_not_failed() -> None:
    other = Number("accuracy", "accuracy").of(Runs("the other", model="mamba"))
    unasked = once(trained_for(10_000, "paper"), within(other, low=0.6))
    for rule, words in (
        (within(other, low=0.6), "was not run"),
        (unasked, "could not be judged (asked after 10000 steps"),
    ):
        claim = Claim("", "It learns.", GOOD, control=Control("the other", rule))
        verdict, evidence = judged(runs(*TRAINED), claim)
        assert verdict == UNDECIDED
        assert words in evidence


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ((0.9,), "was run for 1 of 3 seeds only"),
        ((0.9, 0.9), "was run for 2 of 3 seeds only"),
        # Equal seeds have no interval, by which they would pass.
        ((0.9, 0.9, 0.9), "does not surely fail: it would pass at 80% (the other 0.900"),
        ((0.9, 0.9001, 0.9), "holds too, so that the claim tells nothing"),
        ((0.6, 0.6, 0.6), ""),  # what ties with a limit lies on neither side of it
        ((0.5, 0.5, 0.5), ""),
    ],
)
def test_a_control_by_hand_that_has_the_property_has_not_failed(
    other: tuple[float, ...], words: str
) -> None:
    own = Number("accuracy", "loss").of(Runs("the other", model="mamba"))
    control = Control("the other", within(own, low=0.6))
    claim = Claim("", "It learns.", GOOD, control=control)
    beside = [one.model_copy(update={"model": "mamba"}) for one in runs(*other)]
    beside = [
        one.model_copy(update={"metrics": {"test": {"loss": value}}})
        for one, value in zip(beside, other, strict=True)
    ]
    verdict, evidence = judged([*runs(*TRAINED), *beside], claim)
    assert verdict == (UNDECIDED if words else REPRODUCED)
    assert words in evidence


def test_a_control_of_two_equal_numbers_is_not_above() -> None:
    """Such as the steps of two memories of which an untrained network learns none."""
    a, b = (Number(name, name).of(MODEL) for name in ("first", "then"))
    claim = Claim("", "One comes first.", above(b, a), control=UNTRAINED)
    measured = [
        one.model_copy(update={"metrics": {"test": {"first": first, "then": then}}})
        for one, (first, then) in zip(
            [*runs(*TRAINED), *twins(*TRAINED)],
            [(20.0, 80.0), (21.0, 85.0), (22.0, 81.0), *[(400.0, 400.0)] * 3],
            strict=True,
        )
    ]
    assert judged(measured, claim)[0] == REPRODUCED
    early = [
        one.model_copy(update={"metrics": {"test": {"first": 20.0, "then": 80.0}}})
        for one in measured
    ]
    verdict, evidence = judged([*measured[:3], *early[3:]], claim)
    assert verdict == UNDECIDED
    assert "would pass at 80%" in evidence


def test_twins_never_enter_a_claim_themselves_nor_a_board() -> None:
    records = [*runs(*TRAINED), *twins(0.1, 0.11, 0.12)]
    assert CLAIM.without_control(records) == GOOD.judge(runs(*TRAINED), LEVEL)
    board = build_board(records)
    assert {line.run_id for line in board.records} == {run.run_id for run in runs(*TRAINED)}
    assert board.rows == build_board(runs(*TRAINED)).rows


def test_twins_of_a_search_stay_at_the_first_value_of_the_grid() -> None:
    config = {"tasks": {}, "models": {}, "training": {"steps": 400, "lr": 0.01}}
    study = Study(
        name="s",
        sampler="grid",
        optuna="4",
        search_space={"training.lr": [0.001, 0.01]},
        selected_by="accuracy on validation",
        trials=[],
    )
    finals = runs(*TRAINED, config=config, study=study, role="final")
    first = {**config, "training": {"steps": 1, "lr": 0.001}}
    assert judged([*finals, *twins(0.1, 0.1, 0.11, config=first)])[0] == REPRODUCED
    single = runs(*TRAINED, config=config)  # which nobody searched for: another learning rate
    assert judged([*single, *twins(0.1, 0.1, 0.11, config=first)])[0] == UNDECIDED


def test_one_twin_serves_every_length_of_training() -> None:
    longer = runs(0.95, 0.96, 0.97, steps=800)
    rule = above(
        Number("accuracy", "accuracy").of(MODEL.but("800 steps", {"training.steps": 800})),
        Number("accuracy", "accuracy").of(MODEL.but("400 steps", {"training.steps": 400})),
    )
    claim = Claim("", "Longer is better.", rule, control=UNTRAINED)
    records = [*runs(*TRAINED), *longer, *twins(0.1, 0.11, 0.12)]
    verdict, evidence = judged(records, claim)
    assert verdict == REPRODUCED
    assert "400 steps 0.110: difference +0.000" in evidence


def test_a_premise_that_does_not_hold_leaves_a_claim_open() -> None:
    sink = within(Number("loss", "loss").of(MODEL), low=3.0)
    for loss, verdict in ((5.0, REPRODUCED), (1.0, UNDECIDED)):
        records = [
            made(value, seed, metrics={"test": {"accuracy": value, "loss": loss + seed / 100}})
            for seed, value in enumerate(TRAINED)
        ]
        finding = provided(sink, within(ACCURACY, low=0.6)).judge(records, LEVEL)
        assert finding.verdict == verdict
    unready = provided(once(trained_for(900, "paper"), sink), within(ACCURACY, low=0.6))
    assert unready.judge(records, LEVEL).verdict == NOT_ASKED


def test_a_plan_has_one_twin_for_each_model_and_seed() -> None:
    words = ("tasks=multi_query_recall", "models=gpt2", "preset=smoke")
    single = [(*words, f"training.steps={n}", f"seed={s}") for n in (50, 90) for s in (0, 1)]
    found = UNTRAINED.untrained_runs_of(map(compose, single), [])
    assert [(one.seed, one.training.steps) for one in found] == [(0, 1), (1, 1)]
    sweep = ("tasks=regbench", "models=[gpt2,mamba]", "preset=smoke", "sweep.seeds=2")
    found = UNTRAINED.untrained_runs_of([], [make_plan(sweep)])
    grid = found[0].sweep.search_space["training.lr"]
    assert sorted((one.model, one.seed) for one in found) == [
        (model, seed) for model in ("gpt2", "mamba") for seed in (0, 1)
    ]
    assert {one.training.lr for one in found} == {grid[0]}
    of_data = UNTRAINED.untrained_runs_of([], [make_plan([*sweep, "sweep.data_seeds=2"])])
    assert sorted((one.model, one.seed, one.tasks["data_seed"]) for one in of_data) == [
        (model, 2 * data + seed, data)  # new training seeds for each data seed, as the runs have
        for model in ("gpt2", "mamba")
        for data in (0, 1)
        for seed in (0, 1)
    ]
    memory = ("tasks=test_time_memory", "models=stored_in_weights", "preset=smoke")
    assert UNTRAINED.untrained_runs_of([compose(memory)], []) == []
    by_one_step = UNTRAINED.by(stored_in_weights="models.steps=1")
    [twin] = by_one_step.untrained_runs_of([compose(memory)], [])
    assert twin.models["steps"] == 1


def test_a_control_is_served_as_a_control_only(tmp_path: Path) -> None:
    words = ["tasks=test_time_memory", "models=delta_rule", "tasks.counts=[4,8]", "tasks.items=8"]
    configuration = compose([*words, f"store={tmp_path}"])
    control, served = load_or_run(configuration, role="control")
    assert (control.role, served) == ("control", False)
    single, served = load_or_run(configuration)
    assert (single.role, served, single.run_id) == ("single", False, control.run_id)
    assert load_or_run(configuration, role="control") == (control, True)
    assert len(list(Store(tmp_path).controls.glob("*.json"))) == 1
    # One of the other role in its place is not taken for it.
    write_record(control, Store(tmp_path).records)
    assert load_or_run(configuration)[1] is False


# The committed records

FILES = sorted((FOLDER / "verdicts").glob("*.json"))


@cache
def committed() -> dict[str, list[RunRecord]]:
    found: dict[str, list[RunRecord]] = {}
    for record in one_of_each(committed_records()):
        found.setdefault(record.preset, []).append(record)
    return found


# What the published models had hardly learned either: with enough seeds untrained networks would
# lie within their spread (docs/peers.md), so that the claim is contradicted at most.
NOT_LEARNED_THERE = {"cogscale-laptop": {"bracket matching comes out"}}


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_committed_control_passes_its_claim(path: Path) -> None:
    """Whatever the verdict on the trained models is, and by hand or not: an untrained network
    satisfies no claim about them, nor would it with more seeds."""
    file = json.loads(path.read_text())
    reproduction, here = reproductions()[file["figure"]], committed()[file["preset"]]
    if not isinstance(reproduction.control, Untrained):
        return
    chosen = reproduction.select(without_untrained(here))
    records = [*chosen, *reproduction.control.untrained_runs(chosen, here)]
    asked = [claim for claim in reproduction.claims if claim.control != NOTHING_TRAINED]
    passed = [
        c
        for c in asked
        if reproduction.control.judged(c.rule, records, LEANING).verdict == REPRODUCED
    ]
    assert {claim.name for claim in passed} == NOT_LEARNED_THERE.get(path.stem, set())
    reproduced = {v["name"] for v in file["claims"] if v["verdict"] == REPRODUCED}
    assert reproduced.isdisjoint(claim.name for claim in passed)


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("factual_recall", ["fact_transformer", "one_hot_attention"]),
        ("in_context_regression", ["gpt2"]),
        ("recall_depth", ["gpt2"]),
    ],
)
def test_networks_that_take_one_step_here_pass_no_claim(
    name: str, models: list[str], tmp_path: Path
) -> None:
    """The controls that cost little, trained anew: those of the models that claims are about."""
    reproduction, place = reproductions()[name], ("preset=laptop", f"store={tmp_path}")
    plan = reproduction.plan("laptop", None)
    runs, sweeps = (
        [[*words, *place] for words in those]
        for those in (in_words(plan.runs), in_words(plan.sweeps))
    )
    composed, plans = map(compose, runs), map(make_plan, sweeps)
    configurations = reproduction.control.untrained_runs_of(composed, plans)
    assert {configuration.model for configuration in configurations} >= set(models)
    twins = []
    for configuration in configurations:
        if configuration.model in models:
            twin, served = load_or_run(configuration, role="control")
            assert not served
            twins.append(twin)
    chosen = reproduction.select(without_untrained(committed()["laptop"]))
    beside = reproduction.control.untrained_runs(chosen, twins)
    judge = partial(reproduction.control.judged, records=[*chosen, *beside], level=LEANING)
    judged = {claim.name: judge(claim.rule) for claim in reproduction.claims}
    assert REPRODUCED not in {finding.verdict for finding in judged.values()}
    # No claim goes without its twins: only one that is not asked here has no seeds.
    for claim in reproduction.claims:
        if claim.control is reproduction.control:
            finding = judged[claim.name]
            assert finding.seeds or finding.verdict == NOT_ASKED, claim.name


def test_every_claim_names_its_control_or_why_there_is_none() -> None:
    claims = [claim for one in reproductions().values() for claim in one.claims]
    assert all(
        claim.control is not None and claim.control.text in claim.tolerance for claim in claims
    )


@pytest.mark.parametrize(
    ("names", "refusal"),
    [(["a", "b"], "the claim 'b' names nothing that must fail"), (["a", "a"], "two claims")],
)
def test_a_figure_refuses_a_claim_without_control_where_each_names_one(
    names: list[str], refusal: str
) -> None:
    """And two of one name, of which only the last would be frozen."""
    rule = within(Number("accuracy", "accuracy").of(Runs("a")), low=0.5)
    claims = [Claim(name, "It learns.", rule) for name in names]
    own = (replace(claims[0], control=Control("another", rule)), *claims[1:])
    with pytest.raises(ValueError, match=refusal):
        Experiment("title", "source", own, records=[], panels=[], control=EACH_ITS_OWN)
