"""What a metric follows from, as cards say it: each entry is read, or refused in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from bench.records.schema import read_record
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
    record = read_record(current("regbench/smoke/*", "final"))
    assert following.derives(record, "accuracy")
    following.stated.cache_clear()
    monkeypatch.setattr(following, "card_of", lambda task: {})
    assert not following.derives(record, "accuracy")
    assert following.agrees(record) is None
    metrics = {**record.metrics, "test": {**record.metrics["test"], "accuracy": 0.1}}
    assert "the mean of per_sequence" in str(
        following.agrees(record.model_copy(update={"metrics": metrics}))
    )
