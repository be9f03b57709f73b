"""Marks of rows: what records say of their search and of their convergence, and what they hide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records.schema import Curve, RunRecord, Study, Trial, read_record
from core.statistics import REAL
from reproduce.claims.claims import Claim
from reproduce.claims.controls import NOTHING_TRAINED
from reproduce.claims.fairness import EDGE, IMPROVING, NOT_CHOSEN, TUNED, UNTUNED, marks, not_ranked
from reproduce.claims.grammar import Number, Runs, above, each
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED
from tests.bench.records import make_record
from tests.committed import committed_paths, seeds_beside

STEPS = 1000
FLAT = Curve(x=[500.0, 800.0, 1000.0], y=[1.1, 1.005, 1.0])
GRID = (1e-3, 3e-3, 1e-2)


def study(chosen=3e-3, space=GRID, tried=None, lost=(), name="training.lr", **values):
    """A search over ``space`` that tried all of it unless told, in which ``chosen`` was best."""
    trials = [
        Trial(
            number=number,
            parameters={name: value},
            value=None if value in lost else 0.9 if value == chosen else 0.1,
            outcome="diverged" if value in lost else "ok",
        )
        for number, value in enumerate(space if tried is None else tried)
    ]
    fields = {"name": "s", "sampler": "grid", "optuna": "4", "selected_by": "accuracy"}
    fields |= {"search_space": {name: list(space)}, "trials": trials, **values}
    return Study(**fields)


def trained(search=None, curve=FLAT, lr=3e-3, role="final", select="last", **changes) -> RunRecord:
    training = {"steps": STEPS, "lr": lr, "select": select}
    curves = {"training_loss": Curve(x=[5.0, 1000.0], y=[3.0, 0.9])}
    if curve is not None:
        curves["validation_loss"] = curve
    config = {"tasks": {}, "models": {"width": 64, "layers": 1}, "training": training}
    return make_record(study=search, curves=curves, config=config, role=role, **changes)


def words(*records: RunRecord) -> list[str]:
    return [mark.word for mark in marks(records)]


def test_a_searched_and_converged_row_is_tuned():
    assert words(trained(study())) == [TUNED]
    assert "3 settings" in str(marks([trained(study())])[0])


@pytest.mark.parametrize(
    "search",
    [
        None,
        study(space=[3e-3]),
        study(tried=[3e-3]),  # a grid of three, of which one was tried
        study(tried=[]),
        study(tried=[3e-3, 3e-3]),  # one setting, twice
        study(chosen=1e-3),  # another one was better than the record's own
        study(tried=[1e-3, 1e-2]),  # the record's own was not tried
    ],
)
def test_what_only_claims_to_be_tuned_is_untuned(search):
    cost = make_record().cost.model_copy(update={"tuning_trials": 54})
    assert words(trained(search, cost=cost)) == [UNTUNED]


def test_a_search_chooses_a_setting_for_all_its_seeds():
    more = [trained(seed=seed, role="single") for seed in (1, 2)]
    for rows in ([trained(study()), *more], [*more, trained(study())]):
        assert words(*rows) == [TUNED]
        assert "3 settings" in str(marks(rows)[0])
    assert words(trained(study(chosen=1e-3)), *more) == [UNTUNED]
    assert words(*more) == [UNTUNED]


def test_what_a_search_elsewhere_did_not_choose_says_so_and_never_hides_a_search_of_its_own():
    def found(record):
        return [mark.word for mark in marks([record], searched_elsewhere=True)]

    assert found(trained()) == [NOT_CHOSEN]
    assert found(trained(curve=None)) == [NOT_CHOSEN, IMPROVING]
    assert found(trained(study(tried=[]))) == [UNTUNED]
    assert found(trained(study())) == [TUNED]
    assert not found(trained(role="baseline"))
    assert not_ranked([("A", [trained(preset="laptop")])]) == "A is untuned"


@given(st.permutations([1e-3, 3e-3, 1e-2]), st.permutations([1e-3, 3e-3, 1e-2]))
def test_an_edge_is_one_in_whatever_order_the_space_is_written(space, tried):
    found = {lr: words(trained(study(lr, space, tried), lr=lr)) for lr in GRID}
    assert found == {1e-3: [EDGE], 3e-3: [TUNED], 1e-2: [EDGE]}


def test_values_that_failed_were_tried_and_values_that_were_not_tried_move_no_edge():
    assert words(trained(study(lost=[1e-2]))) == [TUNED]
    assert words(trained(study(lost=[1e-3, 1e-2]))) == [TUNED]
    assert words(trained(study(tried=[1e-3, 3e-3]))) == [EDGE]
    interrupted = study()
    last = interrupted.trials[-1].model_copy(update={"outcome": "interrupted", "value": None})
    assert words(trained(study(trials=[*interrupted.trials[:2], last]))) == [EDGE]


@pytest.mark.parametrize(
    ("name", "space", "chosen", "word"),
    [
        ("models.layers", [1, 2, 4], 1, TUNED),  # there is no model of no layer
        ("models.layers", [2, 4], 2, EDGE),
        ("models.dropout", [0.0, 0.1], 0.0, TUNED),
        ("models.dropout", [0.0, 0.1], 0.1, EDGE),
        ("models.gate", ["a", "b"], "b", TUNED),
        ("models.gate", [True, False], False, TUNED),
        ("models.sizes", [[1], [2]], [2], TUNED),
    ],
)
def test_an_edge_is_one_of_numbers_that_could_go_on(name, space, chosen, word):
    record = trained(study(chosen, space, name=name))
    record.config["models"][name.partition(".")[2]] = chosen
    assert words(record) == [word]


@pytest.mark.parametrize(
    ("x", "y", "stopped"),
    [
        ([500, 800, 1000], [1.1, 1.019, 1.0], True),  # 0.95 % of a whole fall of 2
        ([500, 800, 1000], [1.1, 1.021, 1.0], False),
        ([500, 700, 900, 1000], [1.1, 1.02, 1.01, 1.0], True),  # 800 lies between: 1.015 there
        ([600, 900, 1000], [1.09, 1.0, 1.0], False),  # and here 1.03
        ([500, 1000], [1.0, 1.0], False),  # one point in the last fifth shows nothing
        ([800, 900], [1.0, 1.0], False),  # nor does a curve that ends before the run
        ([1000], [1.0], False),
        ([], [], False),
        ([800, 850, 900, 950, 1000], [1.06, 1.0, 1.05, 0.99, 1.0], True),  # rises as it falls
        ([800, 900, 1000], [1.0, 1.5, 1.9], True),  # it overfits: no better, at least
    ],
)
def test_the_last_fifth_of_the_validation_says_whether_a_run_has_stopped_improving(x, y, stopped):
    curve = Curve(x=[float(one) for one in x], y=y)
    assert words(trained(study(), curve)) == ([TUNED] if stopped else [IMPROVING])


def test_the_weights_that_were_kept_count_and_the_mean_over_seeds():
    overfitted = Curve(x=[800.0, 900.0, 1000.0], y=[1.1, 1.0, 1.09])
    assert words(trained(study(), overfitted)) == [TUNED]
    assert words(trained(study(), overfitted, select="best_validation")) == [IMPROVING]
    late = Curve(x=[800.0, 1000.0], y=[2.0, 1.0])  # one seed of three learns in the last fifth
    seeds = [trained(study(), curve, seed=n) for n, curve in enumerate((FLAT, FLAT, late))]
    assert words(*seeds) == [IMPROVING]
    assert words(*seeds[:2]) == [TUNED]
    assert words(seeds[0], trained(study(), None, seed=1)) == [IMPROVING]


def test_epochs_end_where_their_curve_ends_and_every_mark_is_told_gravest_first():
    record = trained(None, Curve(x=[1.0, 2.0], y=[3.0, 2.0]))
    record.config["training"] |= {"steps": None, "epochs": 2}
    assert words(record) == [UNTUNED, IMPROVING]
    edge = trained(study(1e-2), None, lr=1e-2)
    assert words(edge) == [IMPROVING, EDGE]
    assert "training.lr=0.01 is the largest value tried of 0.001, 0.003, 0.01" in str(
        marks([edge])[1]
    )


def test_what_no_optimiser_trained_has_no_mark():
    assert words(trained(role="baseline")) == []
    config = {"tasks": {}, "models": {}, "training": {"threads": 1}}
    assert words(make_record(config=config)) == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("regbench/smoke/regbench-lstm-*", [IMPROVING, EDGE]),  # 2 rates, 3 validations
        ("regbench/laptop/regbench-mamba-*", [TUNED]),  # 0.054 of eight rates
        ("wikipedia/laptop/wikipedia-gpt2-*", [IMPROVING]),  # 0.02 of six rates
        ("bigram/laptop/bigram-lstm-*", [IMPROVING]),
        ("test_time_memory/laptop/*", []),
    ],
)
def test_committed_rows_carry_the_marks_that_an_audit_by_hand_gave(pattern, expected):
    found = committed_paths(f"{pattern}-s0")
    first = next(path for path in found if read_record(path).role != "control")
    assert words(*map(read_record, seeds_beside(first))) == expected


def runs(model, search, level, preset="laptop"):
    """Three seeds of a model, 0.01 apart."""
    rows = []
    for seed in range(3):
        metrics = {"test": {"accuracy": level + seed / 100}}
        rows.append(trained(search, model=model, seed=seed, preset=preset, metrics=metrics))
    return rows


def test_a_claim_that_ranks_rows_is_open_until_all_are_tuned():
    ours, theirs = (Runs(name, model=name) for name in ("a", "b"))
    number = Number("accuracy", "accuracy", kind=REAL)
    ranked = Claim(
        "ahead",
        "a is ahead of b.",
        above(number.of(ours), number.of(theirs)),
        control=NOTHING_TRAINED,
        ranks=lambda records: [ours, theirs],
    )

    tuned, untuned = runs("a", study(), 0.9), runs("b", None, 0.5)
    assert ranked.judge([*tuned, *runs("b", study(), 0.5)]).finding.verdict == REPRODUCED
    found = ranked.judge([*tuned, *untuned]).finding
    assert found.verdict == UNDECIDED
    assert "b is untuned" in found.evidence
    # Smoke tests the machinery, and tunes nothing.
    smoke = [*runs("a", study(), 0.9, "smoke"), *runs("b", None, 0.5, "smoke")]
    assert ranked.judge(smoke).finding.verdict == REPRODUCED
    # What is open for another reason keeps that reason.
    assert "untuned" not in ranked.judge([*tuned]).finding.evidence
    assert "every row is tuned" in ranked.tolerance


def test_what_is_said_of_each_row_is_contradicted_by_ranked_ones_alone():
    ours, *others = (Runs(name, model=name) for name in ("a", "b", "c"))
    number = Number("accuracy", "accuracy", kind=REAL)
    rule = each([above(number.of(ours), number.of(other)) for other in others])
    rows = lambda records: [ours, *others]  # noqa: E731
    parts = ("ahead", "a is ahead of every other.", rule)
    of_each = Claim(*parts, control=NOTHING_TRAINED, ranks=rows, of_each=True)
    jointly = Claim(*parts, control=NOTHING_TRAINED, ranks=rows)

    def judge(claim, *found):
        return claim.judge([record for some in found for record in some]).finding

    tuned = runs("a", study(), 0.7)
    above_it, untuned_above = runs("b", study(), 0.9), runs("b", None, 0.9)
    untuned_below, untuned_too = runs("c", None, 0.5), runs("c", None, 0.9)
    found = judge(of_each, tuned, above_it, untuned_below)
    assert found.verdict == CONTRADICTED
    assert "c is untuned, but the others contradict it alone" in found.evidence
    assert judge(of_each, tuned, above_it).verdict == CONTRADICTED
    assert judge(jointly, tuned, above_it, untuned_below).verdict == UNDECIDED
    # A row that is not ranked contradicts nothing, and nothing is contradicted for a row of ours
    # that is not ranked.
    assert judge(of_each, tuned, untuned_above, runs("c", study(), 0.5)).verdict == UNDECIDED
    assert judge(of_each, tuned, runs("b", study(), 0.5), untuned_too).verdict == UNDECIDED
    assert judge(of_each, runs("a", None, 0.7), above_it, untuned_below).verdict == UNDECIDED
    # And what holds of ranked rows alone does not hold of each.
    assert judge(of_each, tuned, runs("b", study(), 0.5), untuned_below).verdict == UNDECIDED
    assert "contradicted where the rows that are do so by themselves" in of_each.tolerance


def test_rows_of_one_name_are_all_looked_at():
    """As of one model on two kinds of data."""
    tuned, untuned = ([trained(one, preset="laptop")] for one in (study(), None))
    assert not_ranked([("a", tuned), ("a", tuned)]) == ""
    for rows in ([("a", untuned), ("a", tuned)], [("a", tuned), ("a", untuned)]):
        assert "a is untuned" in not_ranked(rows)
