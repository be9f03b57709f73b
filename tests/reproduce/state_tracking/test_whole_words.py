"""The share of whole words, against words that are counted one by one."""

import pytest

from reproduce.claims.grammar import Runs
from reproduce.state_tracking import whole_words
from tasks.state_tracking import StateTracking
from tests.reproduce.state_tracking.words import RATES, SIZES, Follower, scored

TASK = StateTracking(group="s3", **SIZES)
ROW = Runs("a follower", "state_tracking", "lstm")


def test_whole_words_are_those_whose_every_state_is_right() -> None:
    follower = Follower(TASK, span=64, broken=0.3, first=40)
    record = scored(TASK, follower, 0, "lstm")
    words, states = TASK.splits["test"]
    answers, _ = TASK._answers(follower, words, states, "cpu")
    right = answers == states
    counted = {}
    for length in (16, 32, 64):
        counted[length] = sum(all(word[:length]) for word in right) / len(right)
    assert counted[16] == counted[32] == 1.0
    assert 0.6 < counted[64] < 0.8
    curve = whole_words.share_by_length(record)
    assert dict(zip(curve.x, curve.y, strict=True)) == counted
    for times, length in whole_words.lengths(record).items():
        assert whole_words.whole_words(times).value(record) == counted[length]
    # The letters hide it: hardly any of them are wrong.
    assert record.metrics["test"]["accuracy"] > counted[64] + 0.1


def test_a_word_that_is_wrong_early_is_not_whole_later() -> None:
    record = scored(TASK, Follower(TASK, span=64), 0, "lstm")
    early = record.per_sequence["accuracy/1x"]
    early[:64] = [15 / 16] * 64
    assert whole_words.share_by_length(record).y == [0.75] * 3


def test_a_run_without_results_has_no_whole_words() -> None:
    record = scored(TASK, Follower(TASK, span=64), 0, "lstm")
    lost = record.model_copy(update={"outcome": "diverged", "metrics": {}, "per_sequence": {}})
    assert whole_words.whole_words(4).value(lost) is None
    assert whole_words.share_by_length(lost).x == []
    lost_seed = lost.model_copy(update={"seed": 1})
    sample = whole_words.whole_words(4).of(ROW).sample([record, lost_seed])
    assert [item.low for item in sample.observations] == [1.0, 0.0]  # it may have had none


def test_the_table_has_letters_beside_whole_words_of_every_length() -> None:
    runs = [scored(TASK, Follower(TASK, span), 0, "lstm") for span in (64,)]
    runs += [scored(TASK, Follower(TASK, 32), 1, "lstm")]
    head, _, line = whole_words.table([ROW, Runs("nobody", model="gpt2")], runs).splitlines()
    assert [cell.strip() for cell in head.split("|")[1:-1]] == [
        "row",
        *(f"letters {span}" for span in ("1 to 16", "17 to 32", "33 to 64")),
        *(f"whole words of {length}" for length in (16, 32, 64)),
    ]
    means = [float(cell.split()[0]) for cell in line.split("|")[2:-1]]
    assert means[:2] == means[3:5] == [1.0, 1.0]
    assert means[2] == pytest.approx((1 + 1 / 6) / 2, abs=0.02)
    assert means[5] == 0.5


def test_rates_are_those_that_the_search_tried() -> None:
    (trace,) = whole_words.by_rate([ROW])([scored(TASK, Follower(TASK, 64), 0, "lstm")])
    assert (trace.x, trace.y) == (RATES, (0.4, 0.9, 0.7))
