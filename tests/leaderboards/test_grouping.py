"""Which rows share a table or a curve, and which are kept apart."""

import pytest

from bench.records.schema import Curve
from leaderboards.tables.builder import build_board
from leaderboards.views.sentences import standing
from tests.leaderboards.conftest import find, tuned

SIZE = "training_automata=100"  # of every record here


@pytest.mark.parametrize(
    "difference",
    [
        {"preset": "laptop"},
        {"task_settings": {"string_length": [1, 9]}},
        {"size": 500},
        {"task": "other"},
    ],
)
def test_only_equal_presets_and_task_configurations_are_ranked_together(make_record, difference):
    one = [make_record("a", "A", seed, 0.9 + seed / 100) for seed in range(3)]
    same = [make_record("b", "B", seed, 0.5 + seed / 100) for seed in range(3)]
    other = [make_record("b", "B", seed, 0.5 + seed / 100, **difference) for seed in range(3)]
    together = find(build_board(one + same))
    apart = find(build_board(one + other))
    assert len({row.group for row in together}) == 1
    assert [row.rank_best for row in together] == [1, 2]
    assert len({row.group for row in apart}) == 2
    assert [row.rank_best for row in apart] == [None, None]
    assert len({(row.task, row.preset, row.variant) for row in apart}) == 2


@pytest.fixture
def trained(make_record):
    """A record of a model that was trained for so many steps."""

    def make(name, steps, **more):
        record = make_record(name, name.upper(), **more)
        training = {**record.config["training"], "steps": steps}
        config = {**record.config, "training": training}
        curves = dict(record.curves)
        if found := curves.pop("validation_loss", None):
            curves["validation_loss"] = Curve(x=[x * steps / 800 for x in found.x], y=found.y)
        return record.model_copy(update={"config": config, "curves": curves})

    return make


def test_models_trained_longer_are_not_ranked_with_others(make_record, trained):
    lengths = (("a", 800), ("b", 800), ("c", 2400))
    models = [
        trained(name, steps, seed=seed, accuracy=0.9 + seed / 100)
        for name, steps in lengths
        for seed in (0, 1)
    ]
    untrained = make_record("oracle", "Oracle", role="baseline")
    rows = find(build_board([*models, untrained]))
    assert list(dict.fromkeys(row.variant for row in rows)) == [
        f"{SIZE}, steps=800",
        f"{SIZE}, steps=2400",
    ]
    tables = {variant: [] for variant in (f"{SIZE}, steps=800", f"{SIZE}, steps=2400")}
    for row in rows:
        tables[row.variant].append((row.label, row.rank_best is not None))
    assert sorted(tables[f"{SIZE}, steps=800"]) == [("A", True), ("B", True), ("Oracle", False)]
    assert sorted(tables[f"{SIZE}, steps=2400"]) == [("C", False), ("Oracle", False)]  # alone
    alone = find(build_board([*models[:4], untrained]))
    assert {row.variant for row in alone} == {SIZE}


def test_what_the_search_of_its_model_did_not_choose_is_told_from_the_untuned(make_record):
    def row(name, *, steps=800, lr=5e-3, width=64, search=None):
        role = "final" if search else "single"
        made = make_record(name, name.upper(), width=width, role=role, study=search)
        training = {**made.config["training"], "steps": steps, "lr": 5e-4 if search else lr}
        curves = {name: one for name, one in made.curves.items() if name != "validation_loss"}
        identity = f"{name}{steps}{width}{role}"
        changes = {"config": {**made.config, "training": training}, "curves": curves}
        return made.model_copy(update={**changes, "identity": identity, "run_id": identity})

    others = [row("a"), row("a", steps=400), row("a", width=32), row("b")]
    searched = row("a", search=tuned())
    untuned, not_chosen = "untuned", "not chosen"
    for rows, expected in (
        ([searched, *others], [not_chosen, "still improving", *[untuned] * 3]),
        (others, [untuned] * 4),
    ):
        assert sorted(line.mark for line in find(build_board(rows))) == sorted(expected)


def test_a_setting_that_diverged_stands_below_with_that_word_and_improves_no_more(make_record):
    ranked = [make_record("a", "A", seed, 0.9 + seed / 100) for seed in range(3)]
    ranked += [make_record("b", "B", seed, 0.5 + seed / 100) for seed in range(3)]
    cause = "the training loss was nan at step 3"
    made = make_record("a", "A", 0, None, outcome="diverged", cause=cause, study=None)
    training = {**made.config["training"], "lr": 0.16}
    changes = {"config": {**made.config, "training": training}, "identity": "ab" * 32}
    rows = find(build_board([*ranked, made.model_copy(update={**changes, "run_id": "lost"})]))
    (row,) = (row for row in rows if row.outcome != "ok")
    assert (row.outcome, row.rank_best, row.mean) == ("diverged", None, None)
    assert row.cause == f"diverged in 1 of 1 seeds: {cause}"
    assert [mark.partition(":")[0] for mark in row.marks] == ["not chosen"]
    assert [other.rank_best for other in rows if other is not row] == [1, 2]
    assert "below stand A (lr=0.16) (diverged)." in standing(rows)


def test_a_length_at_one_size_breaks_no_curve_by_size(make_record, trained):
    models = [trained("a", 100, size=size) for size in (10, 20, 40)]
    models.append(trained("c", 400, size=20))
    board = build_board([*models, make_record("o", "O", role="baseline", size=20)])
    lines = [line for line in board.lines if line.by_size and line.metric == "accuracy"]
    assert {line.x for line in lines if line.label == "A"} == {(10.0, 20.0, 40.0)}


def test_equal_configuration_on_other_data_is_another_table(make_record):
    one = make_record("a", "A")
    provenance = one.provenance.model_copy(update={"data": {"test": "0" * 64}})
    other = make_record("b", "B", provenance=provenance)
    rows = find(build_board([one, other]))
    assert len({row.group for row in rows}) == 2
    assert len({row.variant for row in rows}) == 2
    assert all("data " in row.variant for row in rows)


@pytest.mark.parametrize("sizes", [(100, 100), (100, 500)])
def test_a_changed_task_code_is_another_table_and_another_curve(make_record, sizes):
    one = [make_record("a", "A", seed, 0.9 + seed / 100, size=sizes[0]) for seed in range(3)]
    other = [make_record("a", "A", seed, 0.8 + seed / 100, size=sizes[1]) for seed in range(3)]
    code = "feedbe" + "0" * 58
    changed = [
        r.model_copy(
            update={
                "identity": "ab" * 32,
                "run_id": f"changed-{r.seed}",
                "provenance": r.provenance.model_copy(update={"task_code": code}),
            }
        )
        for r in other
    ]
    board = build_board(one + changed)
    rows = find(board)
    old = one[0].provenance.task_code[:6]
    assert {(row.variant, row.rank_best, row.rank_worst) for row in rows} == {
        (f"training_automata={sizes[0]}, task code {old}", None, None),  # nothing to rank it with
        (f"training_automata={sizes[1]}, task code feedbe", None, None),
    }
    curves = [line for line in board.lines if line.by_size and line.metric == "accuracy"]
    assert sorted(line.variant for line in curves) == sorted(
        [f"task code {old}", "task code feedbe"]
    )
