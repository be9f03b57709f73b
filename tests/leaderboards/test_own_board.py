"""A board of one's own that begins from the committed one is, byte for byte, one that is made from
all records."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.records.schema import read_record, write_record
from core.errors import UserError
from leaderboards.tables import builder, sources
from leaderboards.tables.index import Index
from leaderboards.tables.sources import SOURCES, RecordFolder
from leaderboards.tables.status import Check, earlier_verification, path_of, write_verification
from leaderboards.tables.summaries import COMMITTED as COMMITTED_ORIGIN
from leaderboards.tables.summaries import YOURS
from tests.committed import committed_paths, copied
from tests.leaderboards.test_incremental_build import another, bytes_of

TASKS = ("attention", "capacity", "regbench")


class Boards:
    """Committed records of three tasks, their board, and a store with a run of one of them."""

    def __init__(self, folder: Path, looked_into: list[str]) -> None:
        self.folder, self.looked_into = folder, looked_into
        self.records, self.own = folder / "records", folder / "runs" / "records"
        chosen = committed_paths("regbench/smoke/*-s0")[::4]
        chosen += committed_paths("capacity/laptop/*")[:6]
        chosen += committed_paths("attention/smoke/*")[:4]
        copied(chosen, self.records)
        trained = [record for record in map(read_record, chosen) if record.role != "baseline"]
        self.committed_run = next(record for record in trained if record.task == "regbench")
        write_record(another(self.committed_run, 5), self.own)
        self.inputs = builder.Inputs(
            [RecordFolder(self.records, COMMITTED_ORIGIN), RecordFolder(self.own, YOURS)],
            folder / "nothing",
            verifications=[folder / "verifications"],
            committed=folder / "committed.parquet",
        )
        self.commit()

    def commit(self) -> None:
        """Make the committed board."""
        theirs = replace(self.inputs, folders=self.inputs.folders[:1], committed=None)
        builder.build(theirs, self.folder / "committed.parquet")

    def tasks_looked_into(self) -> set[str]:
        """Renew one's own board, which has the bytes of one that is made from all records; the
        tasks of which it looked into a record."""
        own, fresh = self.folder / "own.parquet", self.folder / "fresh.parquet"
        self.looked_into.clear()
        builder.build(self.inputs, own)
        tasks = {name.partition("-")[0] for name in self.looked_into}
        for path in (fresh, fresh.with_name(f".{fresh.name}.index")):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        builder.build(replace(self.inputs, committed=None), fresh)
        assert bytes_of(own) == bytes_of(fresh)
        return tasks


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Boards:
    looked_into: list[str] = []
    take: Callable[..., tuple[str, set[bytes]]] = Index._take

    def noted(index: Index, place: int, path: Path, state: str) -> tuple[str, set[bytes]]:
        looked_into.append(path.name)
        return take(index, place, path, state)

    monkeypatch.setattr(Index, "_take", noted)
    return Boards(tmp_path, looked_into)


def test_tasks_without_a_run_of_ones_own_are_taken_over(boards: Boards, tmp_path: Path) -> None:
    assert boards.tasks_looked_into() == {"regbench"}
    assert boards.tasks_looked_into() == set()
    # What happens to a file of a task that was taken over is seen: a new one, one less, a check.
    capacity = sorted((boards.records / "capacity").rglob("*.json"))
    moved = tmp_path / capacity[0].name
    capacity[0].rename(moved)
    assert boards.tasks_looked_into() == {"capacity"}
    moved.rename(capacity[0])
    assert boards.tasks_looked_into() == {"capacity"}
    record = read_record(next((boards.records / "attention").rglob("*.json")))
    verification = earlier_verification(record, tmp_path / "verifications").with_check(
        Check(level="consistent", passed=True, at="2026-01-01", device="a", libraries={})
    )
    write_verification(verification, path_of(record, tmp_path / "verifications"))
    assert boards.tasks_looked_into() == {"attention"}


def test_a_task_that_is_gone_leaves_ones_own_board(boards: Boards, tmp_path: Path) -> None:
    boards.tasks_looked_into()
    shutil.rmtree(boards.records / "attention")
    boards.tasks_looked_into()
    assert not (tmp_path / "own.parquet" / "rows" / "attention.parquet").exists()


def test_a_damaged_table_that_was_taken_over_is_made_anew(boards: Boards, tmp_path: Path) -> None:
    boards.tasks_looked_into()
    damaged = tmp_path / "own.parquet" / "rows" / "capacity.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert boards.tasks_looked_into() == {"capacity"}
    shutil.rmtree(tmp_path / "own.parquet")  # but not its index
    assert boards.tasks_looked_into() >= {"attention"}


def test_what_is_not_as_when_the_board_was_made_is_not_taken_over(
    boards: Boards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next((boards.records / "attention").rglob("*.json"))
    record = read_record(path)
    cost = record.cost.model_copy(update={"wall_seconds": 1.5})
    write_record(record.model_copy(update={"cost": cost}), path.parent)
    assert boards.tasks_looked_into() == {"attention", "regbench"}
    begin_again(tmp_path)
    boards.commit()
    assert boards.tasks_looked_into() == {"regbench"}
    begin_again(tmp_path)
    monkeypatch.setattr(sources, "hash_of_code", lambda: "0" * 64)
    assert boards.tasks_looked_into() == set(TASKS)


@pytest.mark.parametrize("content", [None, b"{}", b"\xff"])
def test_without_a_list_of_sources_all_records_are_looked_into(
    boards: Boards, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "committed.parquet" / SOURCES
    path.unlink() if content is None else path.write_bytes(content)
    assert boards.tasks_looked_into() == set(TASKS)


def test_a_board_that_is_as_it_was_gets_its_list_of_sources_back(
    boards: Boards, tmp_path: Path
) -> None:
    path = tmp_path / "committed.parquet" / SOURCES
    content = path.read_bytes()
    path.unlink()
    boards.commit()
    assert path.read_bytes() == content


def test_a_run_of_ones_own_is_checked_as_ever(boards: Boards, tmp_path: Path) -> None:
    own = another(boards.committed_run, 5)
    headline = own.headline.model_copy(update={"value": 2 * (own.headline.value or 1.0)})
    write_record(own.model_copy(update={"headline": headline}), boards.own)
    with pytest.raises(UserError, match=rf"{own.run_id} is refused because its headline.value is"):
        builder.build(boards.inputs, tmp_path / "own.parquet")


def begin_again(folder: Path) -> None:
    """Forget one's own board."""
    shutil.rmtree(folder / "own.parquet")
    (folder / ".own.parquet.index").unlink()
