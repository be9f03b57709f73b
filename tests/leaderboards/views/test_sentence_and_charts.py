"""The first sentence of a table, and its charts, from records."""

from dataclasses import replace

import pytest

from bench.records.schema import Curve
from leaderboards.build import FOLDER
from leaderboards.render import rank
from leaderboards.tables.builder import build_board
from leaderboards.tables.summaries import YOURS
from leaderboards.views.charts import chart, series_name
from leaderboards.views.sentences import summary
from reproduce.claims.fairness import IMPROVING, UNTUNED, Mark, convergence
from reproduce.plotting.models import look
from reproduce.published.numbers import read_published


def test_summary_says_what_seeds_settle(make_record):
    def rows(levels):
        records = [
            make_record(name, name, seed, value)
            for name, values in levels.items()
            for seed, value in enumerate(values)
        ]
        return [row for row in build_board(records).rows if row.headline]

    clear = rows({"a": (0.90, 0.91, 0.92), "b": (0.60, 0.61, 0.62)})
    assert summary(clear) == (
        "a is best: accuracy 0.9100, and its 95 % interval overlaps no other."
    )
    overlap = rows({"a": (0.60, 0.61, 0.63), "b": (0.60, 0.61, 0.62), "c": (0.1, 0.11, 0.12)})
    assert summary(overlap) == (
        "Not settled: a or b may be best, since their 95 % intervals overlap."
    )
    assert [rank(row) for row in overlap] == ["1–2", "1–2", "3"]
    assert "nothing to rank" in summary(rows({"a": (0.9, 0.91)}))
    only = rows({"a": (0.9,), "b": (0.60, 0.61, 0.62)})
    assert summary(only).startswith("Only b is measured with two seeds or more")
    assert "a rank needs two seeds" in summary(rows({"a": (0.9,), "b": (0.6,)}))


def test_one_hurried_run_of_one_seed_changes_neither_the_leader_nor_the_headline(make_record):
    records = [make_record("a", "A", seed, 0.9 + seed / 100) for seed in range(3)]
    records += [make_record("b", "B", seed, 0.6 + seed / 100) for seed in range(3)]
    before = [row for row in build_board(records).rows if row.headline]
    hurried = make_record("b", "B", 0, 0.95, width=8)
    after = [row for row in build_board([*records, hurried]).rows if row.headline]
    assert summary(after) == summary(before)
    assert [rank(row) for row in after] == ["–", *map(rank, before)]


@pytest.mark.parametrize(
    ("reference", "value", "named"),
    [("4_gram", 0.95, True), ("4_gram", 0.85, False), ("oracle", 0.99, False)],
)
def test_a_better_predictor_without_training_is_in_the_headline(
    make_record, reference, value, named
):
    records = [make_record("a", "A", seed, 0.9 + seed / 100) for seed in range(3)]
    records += [make_record("b", "B", seed, 0.6 + seed / 100) for seed in range(3)]
    records.append(make_record(reference, reference, 0, value, role="baseline"))
    said = summary([row for row in build_board(records).rows if row.headline])
    assert ("is best of the trained models: accuracy 0.9100" in said) == named
    assert ("Without training the 4 gram reaches 0.9500." in said) == named


@pytest.mark.parametrize(
    ("models", "word"),
    [
        (("gpt2",), "models=gpt2,"),
        (("gpt2", "GRU"), '"models=[FILE.py:GRU,gpt2]",'),
    ],
)
def test_untuned_rows_of_ones_own_are_told_the_command_that_tunes_them(make_record, models, word):
    records = [make_record(name, name, seed, 0.5 + seed / 10) for name in models for seed in (0, 1)]
    rows = [row for row in build_board(records).rows if row.headline]
    mine = [replace(row, origin=YOURS, mark=UNTUNED, rank_best=None) for row in rows]
    told = summary(mine)
    assert f"To tune: python -m bench.sweep tasks=regbench preset=smoke {word} with the" in told
    theirs = [replace(row, mark=UNTUNED, rank_best=None) for row in rows]
    assert "bench.sweep" not in summary(theirs)
    improving = [replace(row, mark=IMPROVING) for row in mine]
    assert "No ranking" in summary(improving)
    assert "bench.sweep" not in summary(improving)


def test_a_preset_with_one_setting_is_not_advised_for_tuning(make_record):
    records = [make_record("gpt2", "GPT2", seed, 0.5 + seed / 10) for seed in (0, 1)]
    rows = [row for row in build_board(records).rows if row.headline]
    mine = [replace(row, origin=YOURS, mark=UNTUNED, rank_best=None) for row in rows]
    one_setting = [replace(row, task="multi_query_recall") for row in mine]
    command = "python -m bench.sweep tasks=multi_query_recall preset=laptop models=gpt2"
    assert f"To tune: {command} (at smoke it has one setting to try)," in summary(one_setting)
    two_settings = [replace(row, task="three_moons") for row in mine]
    assert "tasks=three_moons preset=smoke models=gpt2, with" in summary(two_settings)


def test_rows_of_ones_own_with_few_validations_are_told_the_setting(make_record):
    records = [make_record("gpt2", "GPT2", seed, 0.5 + seed / 10, curves={}) for seed in (0, 1)]
    why = str(Mark(IMPROVING, convergence(records)[1]))
    rows = [row for row in build_board(records).rows if row.headline]
    seldom = {"marks": (why,), "mark": IMPROVING, "rank_best": None, "training_steps": 2000}
    mine = [replace(row, origin=YOURS, **seldom) for row in rows]
    told = summary(mine)
    assert "whether it has stopped improving: GPT2; training.validate_every=200 tells." in told
    assert "validate_every" not in summary([replace(row, **seldom) for row in rows])
    falling = replace(mine[0], marks=(f"{IMPROVING}: 3% of the whole fall came late",))
    assert "validate_every" not in summary([falling])


def drawn_of(names, lines):
    return [(name, line, (1,) * len(line.x)) for name, line in zip(names, lines, strict=True)]


def test_bands_of_shares_stay_between_0_and_1_and_references_are_grey_and_dashed(make_record):
    def curve(*y):
        return {"accuracy": Curve(x=[1.0, 2.0], y=list(y))}

    records = [make_record(seed=seed, curves=curve(0.9 + seed / 10, seed)) for seed in range(2)]
    for model in ("1_gram", "2_gram"):
        records.append(make_record(model, model, role="baseline", curves=curve(0.4, 0.5)))
    lines = [line for line in build_board(records).lines if not line.by_size]
    names = [series_name(line) for line in lines]
    models = {
        name: line.model for name, line in sorted(zip(names, lines, strict=True), reverse=True)
    }
    content = chart(drawn_of(names, lines), models, "")
    values = content["data"]["values"]
    ends = [(point["low"], point["high"]) for point in values if point["low"] is not None]
    assert len(ends) == 2
    assert all(0 <= low < 0.5 < 0.95 < high <= 1 for low, high in ends)
    drawn = content["layer"][1]["encoding"]
    assert drawn["color"]["scale"]["domain"] == drawn["strokeDash"]["scale"]["domain"]
    styles = {
        name: (colour, dash)
        for name, colour, dash in zip(
            drawn["color"]["scale"]["domain"],
            drawn["color"]["scale"]["range"],
            map(tuple, drawn["strokeDash"]["scale"]["range"]),
            strict=True,
        )
    }
    assert styles["Memory Mosaic"] == (look("memory_mosaic").colour, (1, 0))
    greys = [styles[name] for name in ("1 gram", "2 gram")]
    assert len(set(greys)) == len(greys)
    assert all(len({c[1:3], c[3:5], c[5:7]}) == 1 and dash != (1, 0) for c, dash in greys)


@pytest.mark.parametrize(("first", "reaches"), [(0.1, False), (-0.5, True)])
def test_the_band_of_a_loss_is_not_below_0_where_no_loss_is(make_record, first, reaches):
    records = []
    for seed in range(2):
        losses = Curve(x=[1.0, 2.0], y=[2.0 + seed, first + 0.3 * seed])
        records.append(make_record(seed=seed, curves={"training_loss": losses}))
    (line,) = [line for line in build_board(records).lines if line.metric == "training_loss"]
    assert min(line.y_low) < 0  # Student's, of two seeds
    name = series_name(line)
    values = chart(drawn_of([name], [line]), {name: line.model}, "")["data"]["values"]
    assert (min(point["low"] for point in values) < 0) == reaches


@pytest.mark.parametrize("sizes", [(100,), (100, 1000)])
def test_published_curves_are_hollow_and_dashed_and_ours_filled_and_solid(make_record, sizes):
    ours = [make_record(seed=seed, size=size) for seed in range(2) for size in sizes]
    board = build_board(ours, read_published(FOLDER.parent / "reproduce" / "published"))
    lines = [line for line in board.lines if line.by_size and line.metric == "accuracy"]
    names = [series_name(line) for line in lines]
    models = {name: line.model for name, line in zip(names, lines, strict=True)}
    _, curve, markers = chart(drawn_of(names, lines), models, "")["layer"]
    dashes = curve["encoding"]["strokeDash"]["scale"]
    filled = markers["encoding"]["fillOpacity"]["scale"]
    assert {
        (name.startswith("ours, "), dash == [1, 0], fill)
        for name, dash, fill in zip(dashes["domain"], dashes["range"], filled["range"], strict=True)
    } == {(True, True, 1), (False, False, 0)}
    assert filled["domain"] == dashes["domain"]
