"""Keys that come back: hits beside a list of what is held, and the drawn streams."""

from typing import Any

import numpy as np
import pytest
import torch

from core.progress import silent
from models.memories.tables.hashed_table import HashedTable
from models.memories.tables.limited_table import LimitedTable
from models.memories.tables.nearest_neighbour import NearestNeighbour
from tasks.returning_keys import ReturningKeys, Stream
from tests.closeness import assert_near

SMALL: dict[str, Any] = {"size": 32, "tokens": 12, "events": 80, "turn": 20, "trials": 3}


def test_hits_are_those_of_a_list_of_the_last_tokens() -> None:
    task = ReturningKeys(**SMALL)
    found = task.measure(
        lambda *sizes, seed=0: LimitedTable(*sizes, slots=4), "test", 5, "cpu", silent
    )
    shares = []
    for tokens in task._draw("test", 5).drawn.tolist():
        recent: list[int] = []
        right, known = 0, 0
        for event, token in enumerate(tokens):
            if event >= 40 and token in tokens[:event]:
                known += 1
                right += token in recent[-4:]
            recent = [*(other for other in recent if other != token), token]
        shares.append(right / known)
    assert found.arrays["recall"] == pytest.approx(shares)
    assert found.metrics["recall"] == pytest.approx(sum(shares) / 3)
    assert_near(found.metrics["compared"], 1.0, terms=40 + 3, dtype=torch.float64)
    assert found.metrics["state_bytes"] == 4 * (2 * 32 * 4 + 8)


def test_the_stream_of_the_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    task = ReturningKeys(size=8, tokens=3, events=8, turn=8, trials=1)
    drawn = torch.tensor([[0, 1, 0, 2, 0, 1, 2, 2]])
    axes = torch.eye(8)[None, :3]
    stream = Stream(axes, axes, drawn, torch.zeros(1, 8, 8))
    monkeypatch.setattr(ReturningKeys, "_draw", lambda *_: stream)
    found = task.measure(
        lambda *sizes, seed=0: LimitedTable(*sizes, slots=2), "test", 0, "cpu", silent
    )
    # Of events 4 to 7, all of tokens that came before: found, evicted, evicted, found.
    assert_near(found.metrics["recall"], 0.5, terms=4, dtype=torch.float64)


def test_a_search_finds_all_and_a_hash_compares_fewer() -> None:
    task = ReturningKeys(**SMALL | {"noise": 0.2})
    search, hashed = (
        task.measure(build, "test", 1, "cpu", silent)
        for build in (
            lambda *sizes, seed=0: NearestNeighbour(*sizes),
            lambda *sizes, seed=0: HashedTable(*sizes, tables=12, bits=6),
        )
    )
    # Means over 40 events and 3 trials.
    for metric in ("recall", "compared"):
        assert_near(search.metrics[metric], 1.0, terms=40 + 3, dtype=torch.float64)
    assert 0 < hashed.metrics["compared"] < 0.6
    assert hashed.metrics["recall"] > 0.9


def test_frequent_tokens_follow_the_law_and_change_at_each_turn() -> None:
    task = ReturningKeys(size=2, tokens=10, events=4000, turn=2000, trials=2)
    drawn = task._draw("test", 0).drawn
    law = 1 / np.arange(1, 11)
    law /= law.sum()
    orders = []
    for trial in range(2):
        for turn in (slice(0, 2000), slice(2000, 4000)):
            shares = np.bincount(drawn[trial, turn], minlength=10) / 2000
            orders.append(shares.argsort()[::-1])
            # Four standard deviations of a share.
            assert np.sort(shares)[::-1] == pytest.approx(law, abs=4 * (0.25 / 2000) ** 0.5)
    assert not (orders[0] == orders[1]).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokens": 1}, "tokens=1 is too small: give at least 2"),
        ({"events": 7}, "events=7 is too small"),
        ({"alpha": 0.0}, "tasks.alpha is 0"),
        ({"noise": -1.0}, "noise=-1.0: give 0 for none"),
    ],
)
def test_bad_numbers_get_a_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReturningKeys(**settings)
