"""Boards whose files were damaged, lost or forged: one sentence, and nothing of them is shown."""

import json
import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leaderboards import build, contents
from leaderboards.contents import read_board
from leaderboards.tables.builder import build_board
from leaderboards.tables.folder import MANIFEST
from tests.core.test_reading import refusal, refused
from tests.leaderboards.boards import listed_again, with_table, write_board
from tests.leaderboards.conftest import record


@pytest.fixture(scope="module")
def board() -> contents.Board:
    return build_board([record(seed=seed, accuracy=0.8 + seed / 50) for seed in range(3)])


def test_no_changed_bit_of_a_board_is_shown(tmp_path: Path, board: contents.Board) -> None:
    path = tmp_path / "board.parquet"
    write_board(board, path)
    rng = random.Random(0)
    files = [MANIFEST, "summary.parquet", "rows/regbench.parquet", "records/regbench.parquet"]
    for name in files:
        file = path / name
        content, at = file.read_bytes(), file.stat()
        # Anywhere, and each of the last bits: the columns of a file, the hash of the list.
        places = rng.sample(range(8 * len(content)), 30)
        places += [8 * len(content) - 1 - place for place in rng.sample(range(8 * 100), 15)]
        for place in places:
            flipped = bytearray(content)
            flipped[place // 8] ^= 1 << place % 8
            file.write_bytes(flipped)
            os.utime(file, ns=(at.st_mtime_ns, at.st_mtime_ns))  # as the bits of a disk fall
            assert refused(lambda: read_board(path)), (name, place)
        file.write_bytes(content)
    assert read_board(path) == board


def test_the_committed_board_is_protected(tmp_path: Path) -> None:
    path = tmp_path / "board.parquet"
    shutil.copytree(build.COMMITTED, path)
    largest = max(path.rglob("*.parquet"), key=lambda file: file.stat().st_size)
    flipped = bytearray(largest.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    largest.write_bytes(flipped)
    assert "is damaged" in refusal(lambda: read_board(path), largest)
    largest.write_bytes(flipped[:-1])
    refusal(lambda: read_board(path), largest)
    largest.unlink()
    assert "is missing" in refusal(lambda: read_board(path), largest)


def test_a_forged_board_is_one_sentence(tmp_path: Path, board: contents.Board) -> None:
    path = tmp_path / "board.parquet"

    def whole(section: str) -> pa.Table:
        write_board(board, path)
        return pq.read_table(path / section / "regbench.parquet")

    def with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
        place = table.schema.names.index(name)
        return table.set_column(place, table.schema.field(name), values)

    rows, records = whole("rows"), whole("records")
    count = len(rows)
    not_text = pa.Array.from_buffers(
        pa.string(), count, pa.array([b"\xff"] * count, pa.binary()).buffers()
    )
    numbers = pa.array(range(count), pa.int64())
    forged = {
        "bytes that are no text": with_column(rows, "label", not_text),
        "no task": with_column(rows, "task", pa.nulls(count, pa.string())),
        "a column less": rows.drop_columns(["label"]),
        "another type": rows.set_column(0, "task", numbers),
        "records that are none": with_column(records, "content", pa.array(["{}"] * 3)),
        "records of lists": with_column(records, "content", pa.array(["[]"] * 3)),
    }
    for what, table in forged.items():
        write_board(board, path)
        section = "records" if what.startswith("records") else "rows"
        assert read_board(with_table(path, f"{section}/regbench", whole(section))) == board
        name = f"{section}/regbench"
        sentence = refused(lambda n=name, t=table: read_board(with_table(path, n, t)))  # type: ignore[misc]
        assert path.name in sentence, what
    write_board(board, path)
    listed = json.loads((path / MANIFEST).read_text())
    for what, changed_list in {
        "another version": {**listed, "schema_version": 99},
        "a file elsewhere": {**listed, "parts": {"rows/../../x": listed["parts"]["summary"]}},
    }.items():
        (path / MANIFEST).write_text(json.dumps(changed_list))
        assert path.name in refused(lambda: read_board(path)), what
    rng = random.Random(0)
    write_board(board, path)
    file = path / "rows" / "regbench.parquet"
    content = file.read_bytes()
    for _ in range(40):  # damage of any page under a hash that matches
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(bytes(damaged))
        sentence = refused(lambda: read_board(listed_again(path)))
        assert not sentence or path.name in sentence
