"""What a metric follows from, as cards say it: each entry is read, or refused in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from bench.records.schema import Curve, read_record
from ground.errors import UserError
from leaderboards.checks import following
from settings.groups import choices
from tests.leaderboards.sending import current


@pytest.fixture(autouse=True)
def forget() -> Any:
    following.stated.cache_clear()
    yield
    following.stated.cache_clear()


def test_every_card_of_the_tree_is_read() -> None:
    assert sum(len(following.stated(task)) for task in choices("tasks")) > 15


@pytest.mark.parametrize(
    "entry",
    [
        "per_sequence.accuracy",
        {},
        {"within": 0.1},
        {"mean": "per_sequence.accuracy"},
        {"median": "per_sequence.accuracy", "within": 0.1},
        {"mean": "items.accuracy", "within": 0.1},
        {"mean": "per_sequence", "within": 0.1},
        {"mean": "per_sequence.accuracy", "within": "little"},
        {"mean": "per_sequence.accuracy", "last": "curves.loss", "within": 0.1},
        {"mean": "per_sequence.accuracy", "within": 0.1, "only_with": {"variant": "iid"}},
    ],
    ids=str,
)
def test_a_damaged_entry_is_one_sentence(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "card_of", lambda task: {"follows": {"accuracy": entry}})
    with pytest.raises(UserError, match=r"tasks/regbench.yaml: card.follows.accuracy is not like"):
        following.stated("regbench")


def test_the_order_of_keys_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"within": 0.1, "mean": "per_sequence.accuracy"}
    monkeypatch.setattr(following, "card_of", lambda task: {"follows": {"accuracy": entry}})
    (read,) = following.stated("regbench")
    assert (read.take, read.within) == ("mean", 0.1)


def test_a_metric_that_no_card_derives_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its items are looked at all the same; but nothing says that it is their mean."""
    record = read_record(current("state_tracking/smoke/*", "final"))
    assert following.derives(record, "accuracy")
    following.stated.cache_clear()
    monkeypatch.setattr(following, "card_of", lambda task: {})
    assert not following.derives(record, "accuracy")
    assert following.agrees(record) is None
    metrics = {**record.metrics, "test": {**record.metrics["test"], "accuracy": 0.1}}
    assert "the mean of per_sequence" in str(
        following.agrees(record.model_copy(update={"metrics": metrics}))
    )


def test_an_entry_of_several_holds_for_a_predictor_where_it_has_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a model each is asked for; a predictor has one of them, or is none of those named."""
    record = read_record(current("state_tracking/smoke/*product*", "baseline"))
    both = [
        {"mean": "per_sequence.accuracy", "within": 0.05},
        {"mean": "curves.nothing", "within": 0.05},
    ]

    def said(entries: list[dict[str, Any]], **changes: Any) -> str | None:
        following.stated.cache_clear()
        monkeypatch.setattr(following, "card_of", lambda task: {"follows": {"accuracy": entries}})
        return following.agrees(record.model_copy(update={"curves": {}, **changes}))

    assert said(both) is None
    assert "no curves.nothing" in str(said(both, role="final"))
    assert "no curves.nothing" in str(said(both[1:]))
    assert "no per_sequence.accuracy" in str(said(both, per_sequence={}))
    others = [{**both[1], "only_of": ["somebody else"]}]
    assert said(others) is None
    assert "no curves.nothing" in str(said([{**both[1], "only_of": [record.label]}]))


@pytest.mark.parametrize(("y", "agrees"), [([9.0, 0.5], True), ([0.4, 0.6], True), ([0.4], False)])
def test_a_curve_of_a_metric_ends_in_it_or_has_its_mean(
    y: list[float], agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "card_of", lambda task: {})
    record = read_record(current("regbench/smoke/*", "final"))
    changes = {"metrics": {"test": {"accuracy": 0.5}}, "per_sequence": {}}
    curve = Curve(x=[*map(float, range(len(y)))], y=y)
    found = following.agrees(record.model_copy(update={**changes, "curves": {"accuracy": curve}}))
    assert (found is None) == agrees
