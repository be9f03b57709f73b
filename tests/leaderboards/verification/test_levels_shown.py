"""How far rows and records were checked, on the pages where they stand."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.records.schema import RunRecord
from leaderboards.contents import Board
from leaderboards.tables.builder import build_board
from leaderboards.tables.status import Check, VerificationStatuses, earlier_verification
from leaderboards.views.trust import explained
from tests.leaderboards.app_test import AppTest
from tests.leaderboards.boards import write_board
from tests.leaderboards.conftest import record as made_up

LEVELS = ("reported", "consistent", "re-scored", "re-run", "replicated ×k")
Open = Callable[..., AppTest]


def check(record: RunRecord, level: str, device: str = "A 1", shift: float = 0.0) -> Check:
    value = (record.headline.value or 0.0) + shift
    ran = {"made": "0" * 64, "bound": 0.05, "found": value, "recorded": record.headline.value}
    fields: dict[str, Any] = {"at": "2026-01-01", "libraries": {}, "device": device}
    return Check(level=level, passed=True, **fields, **(ran if level == "re-run" else {}))  # type: ignore[arg-type]


@pytest.fixture
def records() -> list[RunRecord]:
    return [
        made_up(name, name.upper(), seed, mean + seed / 100, role="final", trials=8)
        for name, mean in (("a", 0.9), ("b", 0.5), ("c", 0.3))
        for seed in range(2)
    ]


@pytest.fixture
def board(records: list[RunRecord]) -> Board:
    """Both seeds of A are replicated, one of B is consistent, and of C a seed was sent."""
    a, b = records[:2], records[2:4]
    known = [
        earlier_verification(one)
        .with_check(check(one, "re-run"))
        .with_check(check(one, "re-run", "B 2", 0.01 * (1 + one.seed)))
        for one in a
    ]
    known += [earlier_verification(one).with_check(check(one, "consistent")) for one in b]
    sent = made_up("c", "C", 9, 0.99, role="final", trials=8)
    return build_board(records, submitted=[sent], statuses=VerificationStatuses.of(known))


@pytest.fixture
def open_page(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setenv("BOARD", str(tmp_path / "board.parquet"))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    write_board(board, tmp_path / "board.parquet")

    def open_it(name: str, **query: str) -> AppTest:
        script = f"from leaderboards.screens import {name}\n{name}.show()"
        page = AppTest.from_string(script, default_timeout=60)
        for key, value in query.items():
            page.query_params[key] = value
        page.run()
        assert not page.exception, page.exception
        return page

    return open_it


def says_what_a_level_means(table: Any) -> bool:
    config = json.loads(table.proto.columns)["checked"]
    return str(config["help"]) == f"{explained()}." and all(w in explained() for w in LEVELS)


def test_the_table_of_a_task_has_the_level_of_each_row(open_page: Open) -> None:
    page = open_page("task", task="regbench", preset="smoke")
    table = page.dataframe[0]
    found = list(zip(table.value["model"], table.value["checked"], strict=True))
    assert found == [
        ("A", "replicated ×2"),
        ("B", "consistent"),
        ("C", "reported"),
        ("C", "reported"),
    ]
    assert list(table.value["rank"]) == ["1", "2", "3", ""]  # the seed that was sent has none
    assert "checked" in table.proto.column_order
    assert says_what_a_level_means(table)
    by_machine = next(t.value for t in page.dataframe if "largest difference" in t.value)
    assert list(by_machine["machine"]) == ["A 1", "B 2"]
    assert list(by_machine["runs"]) == [2, 2]
    assert list(by_machine["mean difference"]) == pytest.approx([0.0, 0.015])
    assert list(by_machine["largest difference"]) == pytest.approx([0.0, 0.02])


def test_the_page_of_a_model_has_the_level_of_each_row(open_page: Open) -> None:
    table = open_page("model", model="a").dataframe[0]
    assert list(table.value["checked"]) == ["replicated ×2"]
    assert "checked" in table.proto.column_order
    assert says_what_a_level_means(table)
    assert list(open_page("model", model="c").dataframe[0].value["checked"]) == ["reported"] * 2


def test_the_page_of_a_record_has_its_own_level_and_that_of_each_seed(
    open_page: Open, records: list[RunRecord]
) -> None:
    page = open_page("record", record=records[0].run_id)
    html = "\n".join(part.proto.body for part in page.get("html"))
    assert "replicated ×2 (reported: somebody" in html
    seeds = page.dataframe[0]
    assert list(seeds.value["checked"]) == ["replicated ×2"] * 2
    assert says_what_a_level_means(seeds)
    again = page.dataframe[1].value
    assert list(again["machine again"]) == ["A 1", "B 2"]
    assert list(again["again"]) == pytest.approx([0.9, 0.91])
