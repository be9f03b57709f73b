"""Runs that differ in the seed of their data: one row, one mean, an interval over data too."""

import math

import numpy as np
import pytest
from scipy import stats

from bench.records.numbers import data_seed
from leaderboards.contents import ClaimLine
from leaderboards.summary import summary
from leaderboards.tables.builder import build_board
from leaderboards.tables.grouping import arrange
from leaderboards.tables.summaries import summary_of
from leaderboards.tables.verdicts import corrected
from reproduce.claims.grammar import Number, Runs, above, within
from reproduce.claims.observations import by_seed
from reproduce.claims.verdicts import REPRODUCED, UNDECIDED
from tests.leaderboards.conftest import digest, record

LEVELS = ((0.80, 0.82), (0.70, 0.74), (0.90, 0.91))


def drawn(data, seed, accuracy, place="", **changes):
    settings = {"data_seed": data}
    found = record(seed=seed, accuracy=accuracy, task_settings=settings, **changes)
    hashes = {split: digest(split, data, place) for split in ("train", "validation", "test")}
    provenance = found.provenance.model_copy(update={"data": hashes})
    identity = digest(found.identity, hashes)
    run_id = found.run_id.replace(found.run_id.split("-")[-2], identity[:12])
    changes = {"provenance": provenance, "identity": identity, "run_id": run_id}
    return found.model_copy(update=changes)


def all_drawn(**changes):
    runs = ((k, 2 * k + n, v) for k, own in enumerate(LEVELS) for n, v in enumerate(own))
    return [drawn(*run, **changes) for run in runs]


def test_data_seeds_are_one_row_whose_interval_is_over_them():
    (row,) = [row for row in build_board(all_drawn()).rows if row.headline]
    means = [sum(own) / 2 for own in LEVELS]
    truth = stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))
    assert (row.seeds, row.data_seeds) == (6, 3)
    assert row.mean == pytest.approx(np.mean(means))
    # A share's: like Student's of the three means, but inside of its range, and so no narrower.
    assert row.low < truth[0] < row.low + 0.12
    assert 0.95 < row.high < 1 < truth[1]


def collect(records):
    return arrange(map(summary_of, records))


def test_a_run_of_the_first_data_seed_stays_in_its_group_and_its_row():
    alone, joined = collect(all_drawn()[:2]), collect(all_drawn())
    assert [setting.group for setting in alone] == [setting.group for setting in joined]
    other = drawn(0, 0, 0.5, model="gpt2", label="GPT2")
    groups = {setting.group for setting in collect([*all_drawn(), other])}
    assert len(groups) == 1  # ranked together


def test_other_data_of_one_data_seed_are_no_seed():
    here, there = all_drawn()[:2], [drawn(0, 7, 0.9, place="there"), drawn(1, 8, 0.9)]
    assert len(collect([*here, *there])) == 3
    assert len({setting.group for setting in collect([*here, *there])}) == 3


def test_claims_take_data_seeds_together():
    found = all_drawn()
    assert [data_seed(run) for run in by_seed(found)] == [0, 0, 1, 1, 2, 2]
    crossed = [drawn(data, 0, value) for data, (value, _) in enumerate(LEVELS)]
    assert len(by_seed(crossed)) == 3  # one training seed, three data seeds
    accuracy, ours = Number("accuracy", "accuracy"), Runs("ours", model="memory_mosaic")
    finding = within(accuracy.of(ours), low=0.5).judge(found, 0.95)
    means = [sum(own) / 2 for own in LEVELS]
    assert finding.seeds == 3
    assert finding.effect.standardised == pytest.approx(
        (np.mean(means) - 0.5) / np.std(means, ddof=1) / math.sqrt(math.pi), abs=1e-4
    )
    # Decided by two runs on one set of data, and open over several.
    near = within(accuracy.of(ours), low=0.72)
    assert near.judge(all_drawn()[:2], 0.8).verdict == REPRODUCED
    assert near.judge(found, 0.8).verdict == UNDECIDED
    # A predictor without training varies with the data, too.
    exact = Runs("exact", baseline="3-gram")
    fixed = [drawn(k, 0, v, role="baseline", label="3-gram") for k, v in enumerate((0.6, 0.9, 0.8))]
    assert within(accuracy.of(exact), low=0.75).judge(fixed, 0.95).verdict == UNDECIDED


def test_a_lost_run_leaves_its_data_seed_open():
    found = all_drawn()
    found[3] = drawn(1, 3, None, outcome="failed", cause="no reason")
    rule = above(Number("accuracy", "accuracy").of(Runs("ours")), within_reach(), by=0.2)
    finding = rule.judge(found, 0.95)
    assert "data seed 1 run 3 failed (no reason)" in finding.evidence
    assert finding.verdict == UNDECIDED


def within_reach():
    return Number("accuracy", "tvd").of(Runs("theirs"))


def claim(preset="laptop", **changes):
    fields = {"figure": "figure9", "title": "t", "preset": preset, "name": "n", "source": "s"}
    fields |= {"sentence": "It is.", "tolerance": "so", "verdict": "reproduced", "evidence": "e"}
    fields |= {"seeds": 3, "seeds_needed": None, "asked_at": "", "cost": "", "run_ids": ("r",)}
    return ClaimLine(**fields | changes)


def test_verdicts_of_a_preset_are_corrected_for_all_that_it_asks():
    open_ones = [claim(verdict="not enough evidence")] * 3
    unasked, exact = claim(verdict="not asked here"), claim(p=0.0)
    lines = [claim(p=0.04), claim(p=0.001), *open_ones, unasked, exact]
    assert [line.stays for line in corrected(lines)] == [False, True, *[None] * 5]
    # Facts are no tests, and make no room for those that are.
    assert corrected([*lines, *[exact] * 50])[0].stays is False
    assert corrected([claim(p=0.04), claim("smoke", p=0.9, verdict="reproduced")])[0].stays is True


def test_the_headline_count_leaves_the_smallest_preset_out(make_record):
    run = make_record(run_id="regbench-gpt2-laptop-0-s0", preset="laptop")
    board = build_board([run])
    given = {"run_ids": (run.run_id,), "p": 0.01, "stays": True}
    claims = (claim(**given), claim("smoke", figure="figure8", verdict="contradicted", **given))
    shown = summary(board.__class__(board.rows, board.lines, claims, board.records))
    assert "**1 published claims** of 1 figures and tables:" in shown
    assert "1 reproduced ([by figure]" in shown
    assert "counts for nothing above: 1 contradicted, claims of 1 more figures" in shown


def test_a_committed_row_is_of_one_data_seed_and_knows_its_parts(honest):
    (row,) = [row for row in build_board(honest).rows if row.headline]
    table = np.array([run.per_sequence["accuracy"] for run in honest])
    seeds, items = table.shape
    residual = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    chance = (residual**2).sum() / ((seeds - 1) * (items - 1)) / table.size
    of_items, of_seeds = table.mean(0).var(ddof=1) / items, table.mean(1).var(ddof=1) / seeds
    total = of_items + max(of_seeds, chance)  # both hold the chance
    assert row.data_seeds == 1
    assert row.share_of_items == pytest.approx(of_items / (total - chance), rel=1e-9)
