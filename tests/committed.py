"""The committed records, and their board, read once for all tests of a process: reading them takes
seconds."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from bench.records.record_files import records_below, records_in
from bench.records.schema import RunRecord, as_file, read_records
from bench.records.store import COMMITTED
from core.files import write_atomically
from leaderboards.build import COMMITTED as BOARD
from leaderboards.contents import Board, read_board


@cache
def committed_records() -> tuple[RunRecord, ...]:
    """All of them, as a figure reads them."""
    return tuple(read_records([COMMITTED]))


@cache
def committed_board() -> Board:
    """The board that is made of them."""
    return read_board(BOARD)


def committed_paths(pattern: str) -> list[Path]:
    """The paths of committed records, files or in segments, in their order.

    Args:
        pattern: such as ``regbench/smoke/regbench-gpt2-*``.
    """
    place, _, names = pattern.rpartition("/")
    folders = sorted(COMMITTED.glob(place))
    return [path for folder in folders for path in records_in(folder, f"{names}.json")]


def seeds_beside(path: Path) -> list[Path]:
    """The records of one setting, which lie beside each other."""
    return records_in(path.parent, f"{path.stem.rpartition('-')[0]}-s*.json")


def copied(paths: Iterable[Path], folder: Path) -> list[Path]:
    """Committed records as files below another folder, by task and preset."""
    places = []
    for path in paths:
        place = folder / path.relative_to(COMMITTED)
        write_atomically(place, as_file(path))
        places.append(place)
    return places


def copied_folder(name: str, folder: Path) -> list[Path]:
    """All committed records of a TASK/PRESET as files below another folder."""
    return copied(records_below(COMMITTED / name), folder)
