"""The board against numbers computed another way, and the rules that make a ranking fair."""

import json
import random

import numpy as np
import pytest
from scipy import stats

from bench.records.code import code_hash
from bench.records.schema import Curve
from core.errors import UserError
from leaderboards.build import FOLDER
from leaderboards.contents import Board, Row, read_board
from leaderboards.markdown import pages
from leaderboards.tables.builder import build_board
from leaderboards.tables.code_status import code_statuses_in_words, count_code_statuses
from leaderboards.tables.difference import describe_difference
from leaderboards.views.sentences import summary
from reproduce.published.numbers import read_published
from tests.bench.records import make_record as plain_record
from tests.leaderboards.boards import to_parquet, write_board
from tests.leaderboards.conftest import find, tuned

SIZE = "training_automata=100"  # of every record here
PUBLISHED = read_published(FOLDER.parent / "reproduce" / "published")


def test_means_and_intervals_are_those_of_scipy(sample_records):
    board = build_board(sample_records)
    for name in ("Memory Mosaic", "GPT2", "LSTM"):
        for size in (100, 1000, 2500):
            values = [
                record.metrics["test"]["accuracy"]
                for record in sample_records
                if record.label == name
                and record.role == "final"
                and record.config["tasks"]["training_automata"] == size
            ]
            (row,) = find(board, label=name, variant=f"training_automata={size}")
            # A share: Clopper and Pearson's limits at Korn and Graubard's effective number.
            p = np.mean(values)
            ratio = stats.norm.ppf(0.975) / stats.t.ppf(0.975, 2)
            n = max(3, p * (1 - p) / (np.var(values, ddof=1) / 3) * ratio**2)
            low = stats.beta.ppf(0.025, n * p, n - n * p + 1)
            high = stats.beta.ppf(0.975, n * p + 1, n - n * p)
            assert row.mean == pytest.approx(p)
            assert (row.low, row.high) == pytest.approx((low, high))
            assert row.items is None
            assert (row.seeds, row.trials, row.outcome) == (3, 8, "ok")


def test_a_point_of_a_curve_has_no_test_items(make_record):
    """Items are of a metric's mean over all positions, even where a curve bears its name."""
    points = [[2.0, 1.0], [2.2, 1.1], [2.1, 1.3]]
    records = [
        make_record(
            seed=seed,
            per_sequence={"loss": [1.0, 9.0, 2.0, 8.0]},
            curves={"loss": Curve(x=[0.0, 1.0], y=own)},
        )
        for seed, own in enumerate(points)
    ]
    lines = build_board(records).lines
    (line,) = [line for line in lines if (line.metric, line.abscissa) == ("loss", "position")]
    for place in (0, 1):
        values = [own[place] for own in points]
        half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
        assert line.y[place] == pytest.approx(np.mean(values))
        assert line.y_high[place] == pytest.approx(np.mean(values) + half)


def test_intervals_are_over_test_items_too_where_records_hold_them(make_record):
    """A loss of 40 documents, by the analysis of variance of scipy's numbers."""
    generator = np.random.default_rng(1)
    table = 2 + generator.standard_normal(40) + 0.3 * generator.standard_normal((3, 40))
    records = [
        make_record(
            seed=seed,
            per_sequence={"loss": row.tolist()},
            metrics={"test": {"accuracy": 0.5 + seed / 10, "loss": row.mean()}},
        )
        for seed, row in enumerate(table)
    ]
    (row,) = find(build_board(records), "loss")
    assert row.items == 40
    residual = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    variance = table.mean(1).var(ddof=1) / 3 + table.mean(0).var(ddof=1) / 40
    variance -= (residual**2).sum() / (2 * 39) / 120
    # The documents dominate: nearly their Student's interval.
    assert row.low is not None
    half = (row.high - row.low) / 2
    assert half == pytest.approx(stats.t.ppf(0.975, 39) * variance**0.5, rel=0.02)
    assert [row.items for row in find(build_board(records), "accuracy")] == [None]


def test_equal_seeds_have_no_rank_and_take_none_from_others(make_record):
    levels = {"a": (0.90, 0.91, 0.92), "b": (0.60, 0.61, 0.62), "c": (0.75, 0.75, 0.75)}
    records = [
        make_record(name, name, seed, value)
        for name, values in levels.items()
        for seed, value in enumerate(values)
    ]
    rows = {row.label: row for row in find(build_board(records))}
    assert {n: (r.rank_best, r.rank_worst) for n, r in rows.items()} == {
        "a": (1, 1),
        "b": (2, 2),
        "c": (None, None),
    }
    assert rows["c"].low is None


def test_ranks_are_ranges_where_intervals_overlap(make_record):
    levels = {"a": (0.90, 0.91, 0.92), "b": (0.60, 0.61, 0.62), "c": (0.59, 0.60, 0.61)}
    records = [
        make_record(name, name, seed, value)
        for name, values in levels.items()
        for seed, value in enumerate(values)
    ]
    rows = build_board(records).rows
    ranks = {row.label: (row.rank_best, row.rank_worst) for row in rows if row.metric == "accuracy"}
    assert ranks == {"a": (1, 1), "b": (2, 3), "c": (2, 3)}
    # Less loss is better, although nobody says so in the record; tvd has no known direction here.
    losses = [row for row in rows if row.metric == "loss"]
    assert {row.direction for row in losses} == {"minimise"}
    assert {row.rank_best for row in rows if row.metric == "tvd"} == {None}
    with_directions = build_board(records, PUBLISHED)
    tvd = [row for row in with_directions.rows if row.metric == "tvd" and row.group]
    assert [row.label for row in tvd if row.rank_worst == 1] == ["a"]


def test_failures_are_rows_with_their_cause_and_no_rank(sample_records):
    board = build_board(sample_records)
    (some,) = find(board, label="RWKV")
    assert some.outcome == "diverged"
    assert some.cause == "diverged in 1 of 3 seeds: loss is not finite at step 12"
    assert (some.seeds, some.mean, some.rank_best) == (3, pytest.approx(0.45), None)
    (all_failed,) = find(board, label="Hyena")
    assert (all_failed.outcome, all_failed.mean, all_failed.rank_best) == (
        "out_of_memory",
        None,
        None,
    )
    assert find(board, "tvd", label="Hyena")  # the failure shows under every metric
    assert not [line for line in board.lines if line.by_size and line.label == "RWKV"]
    (partial,) = (c for c in board.lines if c.label == "RWKV" and c.metric == "training_loss")
    assert partial.setting == "2 of 3 seeds"


def test_a_metric_that_one_seed_lacks_is_a_failure_of_that_seed(make_record):
    records = [make_record(seed=seed) for seed in range(3)]
    metrics = {"test": {"accuracy": 0.9}}
    records[1] = records[1].model_copy(update={"metrics": metrics})
    (row,) = find(build_board(records), "tvd")
    assert (row.outcome, row.cause) == ("failed", "no finite tvd in 1 of 3 seeds")


def test_one_seed_has_no_interval_and_no_rank_and_widens_no_other(make_record):
    records = [make_record("a", "A", 0, 0.9)]
    for model, level in (("b", 0.1), ("c", 0.2)):
        records += [make_record(model, model, seed, level + seed / 1000) for seed in range(3)]
    rows = {row.label: row for row in find(build_board(records))}
    assert rows["A"].low is rows["A"].high is None
    ranks = {label: (row.rank_best, row.rank_worst) for label, row in rows.items()}
    assert ranks == {"A": (None, None), "b": (2, 2), "c": (1, 1)}


def test_trials_never_appear_and_references_are_never_ranked(sample_records):
    board = build_board(sample_records)
    trial = next(record for record in sample_records if record.role == "trial")
    assert all(trial.run_id not in row.run_ids for row in board.rows)
    assert trial.run_id not in {record.run_id for record in board.records}
    (reference,) = find(board, label="3-gram")
    assert (reference.kind, reference.rank_best, reference.seeds) == ("reference", None, None)


def test_only_tuned_and_converged_rows_are_ranked_and_the_others_stand_below(make_record):
    """Far ahead, and untuned: it has no rank, takes none from others, and stands below them."""
    levels = {"a": 0.6, "b": 0.5, "untuned": 0.9, "edge": 0.8, "improving": 0.7}
    lacks = {
        "untuned": {"study": tuned(rates=[5e-4])},
        "edge": {"study": tuned(rates=[1e-4, 5e-4])},
        "improving": {"curves": {}},
    }
    records = [
        make_record(name, name, seed, level + seed / 1000, trials=3, **lacks.get(name, {}))
        for name, level in levels.items()
        for seed in range(3)
    ]
    board = build_board(records)
    for metric in ("accuracy", "loss"):
        rows = find(board, metric)
        assert {row.label for row in rows[:2]} == {"a", "b"}
        assert {row.label: row.mark for row in rows} == {
            "a": "tuned",
            "b": "tuned",
            "untuned": "untuned",
            "edge": "edge",
            "improving": "still improving",
        }
        assert {row.label for row in rows if row.rank_best} <= {"a", "b"}
    rows = find(board)
    assert [(row.label, row.rank_best) for row in rows[:2]] == [("a", 1), ("b", 2)]
    said = summary(rows)
    assert said.startswith("a is best: accuracy 0.6010")
    assert "below stand untuned (untuned), edge (edge), improving (still improving)" in said
    page = pages(board)["regbench.md"]
    (line,) = [line for line in page.splitlines() if line.startswith("| untuned |  | 0.901 |")]
    assert line.endswith("| 3 | 98,304 | 3 | untuned |")
    assert "Only rows that are tuned and converged are ranked" in page


def test_fewer_than_two_tuned_rows_are_no_ranking_and_fewer_trials_are_told(make_record):
    def rows(**lacks):
        records = [
            make_record(name, name, seed, 0.5 + seed / 100 + place / 10, trials=3 + place)
            if name not in lacks
            else make_record(name, name, seed, 0.9 + seed / 100, **lacks[name])
            for place, name in enumerate("abc")
            for seed in range(3)
        ]
        return find(build_board(records))

    one = rows(a={"study": None}, b={"curves": {}})
    assert {row.rank_best for row in one} == {None}
    assert summary(one) == (
        "No ranking: 1 of 3 rows is tuned and converged, and a ranking needs two."
    )
    none = rows(**{name: {"study": None} for name in "abc"})
    assert "No ranking: none of 3 rows is tuned" in summary(none)
    said = summary(rows())
    assert said.endswith("Fewer tuning trials than the 5 of others: b 4, a 3.")
    tried = {"a": 8, "b": 9, "c": 8, "d": 8}
    several = [make_record(n, n, s, 0.5 + s / 100, trials=tried[n]) for n in tried for s in (0, 1)]
    assert summary(find(build_board(several))).endswith("Each had 8 tuning trials, but b 9.")


def test_one_run_under_two_names_is_refused(make_record):
    records = [make_record(seed=0), make_record(seed=0, run_id="a-copy"), make_record(seed=1)]
    with pytest.raises(UserError, match="count twice"):
        build_board(records)


def test_settings_of_one_label_are_told_apart_by_what_differs(make_record):
    records = [make_record(seed=seed, width=width) for seed in range(2) for width in (64, 128)]
    rows = find(build_board(records))
    assert {row.setting for row in rows} == {"width=64", "width=128"}
    assert {row.seeds for row in rows} == {2}


def test_curves_are_pointwise_means_with_intervals(make_record):
    values = np.array([[0.1, 0.5], [0.2, 0.6], [0.3, 0.9]])
    records = [
        make_record(seed=seed, curves={"loss": Curve(x=[1.0, 2.0], y=row.tolist())})
        for seed, row in enumerate(values)
    ]
    (line,) = (line for line in build_board(records).lines if not line.by_size)
    assert (line.x, line.abscissa, line.seeds) == ((1.0, 2.0), "position", 3)
    assert line.y == pytest.approx(values.mean(axis=0))
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert line.y_low == pytest.approx(np.maximum(interval.low, 0))  # no loss is less
    assert line.y_high == pytest.approx(interval.high)


def test_curve_by_size_takes_the_setting_that_validation_chose(make_record):
    records = []
    for seed in range(2):
        # The wider setting is better on test and worse on validation: it must not be shown.
        records.append(make_record(seed=seed, size=100, validation_loss=1.0, accuracy=0.80))
        records.append(
            make_record(seed=seed, size=100, width=128, validation_loss=1.5, accuracy=0.99)
        )
        records.append(make_record(seed=seed, size=1000, validation_loss=0.9, accuracy=0.85))
    board = build_board(records)
    (line,) = (line for line in board.lines if line.by_size and line.metric == "accuracy")
    assert (line.abscissa, line.x, line.y) == (
        "training_automata",
        (100.0, 1000.0),
        pytest.approx((0.80, 0.85)),
    )


def test_published_rows_are_marked_and_never_ranked(sample_records):
    board = build_board(sample_records, PUBLISHED)
    published = [row for row in board.rows if not row.group]
    assert published
    assert all(row.kind.startswith("published (") for row in published)
    assert all(row.rank_best is None and row.preset == "paper" for row in published)
    alone = build_board(sample_records)
    ranks = [(row.run_ids, row.metric, row.rank_best) for row in find(alone)]
    assert ranks == [(r.run_ids, r.metric, r.rank_best) for r in find(board) if r.group]


def test_published_numbers_stand_in_the_measured_table_of_their_configuration(make_record):
    both = [
        make_record("a", "A", preset="paper", task_settings={"variant": variant})
        for variant in ("held_out", "iid")
    ]
    board = build_board(both, PUBLISHED)
    for variant, source in (("held_out", "Memory Mosaics, Fig. 9"), ("iid", "Table 3")):
        table = find(board, variant=f"training_automata=100, variant={variant}")
        assert table[0].kind == "measured"
        assert len(table) == 12  # ours and the eleven published ones
        assert all(source in row.source for row in table[1:])


def test_equal_records_give_equal_bytes_in_whatever_order(sample_records, tmp_path):
    board = build_board(sample_records, PUBLISHED)
    shuffled = random.Random(1).sample(sample_records, len(sample_records))
    assert to_parquet(build_board(shuffled, PUBLISHED)) == to_parquet(board)
    write_board(board, tmp_path / "board.parquet")
    assert read_board(tmp_path / "board.parquet") == board


def test_differences_are_found_and_rounding_is_not_one(sample_records, make_record):
    board = build_board(sample_records)
    assert describe_difference(board, board) == ""
    changed = [*sample_records[:-1], make_record("3_gram", "3-gram", 0, 0.94, role="baseline")]
    assert "0.94" in describe_difference(board, build_board(changed))
    first = min(record.run_id for record in sample_records)
    fewer = build_board([r for r in sample_records if r.run_id != first])
    assert describe_difference(fewer, board) == f"it lacks the record {first}"
    assert f"the record {first}, whose file is not there" in describe_difference(board, fewer)
    first = board.rows[0]
    assert first.mean is not None
    row = Row(**{**vars(first), "mean": first.mean * (1 + 1e-14)})
    rounded = Board((row, *board.rows[1:]), board.lines, board.claims, board.records)
    assert describe_difference(board, rounded) == ""


def test_the_whole_provenance_of_a_record_is_on_the_board(make_record):
    record = make_record()
    (line,) = build_board([record]).records
    content = json.loads(line.content)
    assert content["provenance"] == record.provenance.model_dump(mode="json")
    assert content["config"] == record.config
    assert content["content_sha256"] == record.content_hash()
    assert "curves" not in content


@pytest.mark.parametrize("content", [None, b"", b"PAR1 not a board PAR1"])
def test_a_board_that_cannot_be_read_names_the_command_that_makes_one(tmp_path, content):
    path = tmp_path / "board.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"python -m leaderboards\.build"):
        read_board(path)


def test_the_board_counts_records_by_the_form_of_their_code() -> None:
    target, model = "tasks.capacity.Capacity", "models.memories.delta_rule.DeltaRule"
    config = {"tasks": {"_target_": target}, "models": {"_target_": model}}
    hashes = {"task_code": code_hash(target), "model_code": code_hash(model)}
    here = plain_record(config=config)
    here = here.model_copy(update={"provenance": here.provenance.model_copy(update=hashes)})
    older = plain_record(config=config, seed=1)
    foreign = {**config, "models": {"_target_": "elsewhere.Model"}}
    theirs = here.model_copy(update={"config": foreign, "seed": 2, "run_id": "theirs"})
    board = build_board([here, older, theirs])
    assert count_code_statuses(board) == {"current": 2, "stale": 1}
    assert "2 current, 0 equivalent, 0 equal up to rounding, 1 stale" in code_statuses_in_words(
        board
    )
