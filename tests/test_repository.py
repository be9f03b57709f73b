"""Git holds source and finished records: no archive but segments of records, no store, nothing
above 8 MB; a checkout stays small; and folders and files of source stay small enough to read."""

import lzma
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.records.segments import SUFFIX, records_of, write_segments
from bench.records.store import COMMITTED
from core.errors import UserError
from tests.clone_size import BLOCK, LARGEST_CHECKOUT
from tests.conftest import ROOT

LARGEST = 8 * 10**6  # bytes
LINES = 400  # of a Python file, below which it is read in one go
FILES = 20  # Python files of a folder of source, which a reader can still survey
# First bytes -> what such a file is. Archives of arrays (.npz) are data, and are read as such.
ARCHIVES = {
    b"PK\x03\x04": "zip",
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"SQLite format 3\x00": "a database",
}


def files_in_git() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True
    )
    if listed.returncode:
        pytest.skip("there is no git here")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def is_segment(path: Path) -> bool:
    """Whether a file has the place and the content of committed records: a whole segment."""
    in_place = path.name.endswith(SUFFIX) and path.parent.parent.parent == COMMITTED
    return in_place and bool(records_of(path))


def what_it_is(path: Path) -> str | None:
    """The kind of archive that a file is, or how large it is; None for what may be committed."""
    if path.stat().st_size > LARGEST:
        return f"{path.stat().st_size:,} bytes"
    with path.open("rb") as file:
        first = file.read(512)
    if first[257:262] == b"ustar":
        return "tar"
    kinds = [kind for start, kind in ARCHIVES.items() if first.startswith(start)]
    return kinds[0] if kinds and path.suffix != ".npz" else None


def test_nothing_in_git_is_an_archive_or_large() -> None:
    told = {}
    for path in files_in_git():
        kind = what_it_is(path)
        if kind is not None and not (kind == "xz" and is_segment(path)):
            told[str(path.relative_to(ROOT))] = kind
    assert told == {}, "keep it out of git: a commit cannot be taken back"


def test_a_checkout_is_small() -> None:
    blocks = sum(-(-path.stat().st_size // BLOCK) for path in files_in_git())
    assert BLOCK * blocks <= LARGEST_CHECKOUT, "pack the records: `python -m leaderboards.pack`"


def python_files(names: Iterable[Path]) -> list[Path]:
    return [path for path in names if path.suffix == ".py"]


def crowded(paths: Iterable[Path]) -> dict[str, int]:
    """Folders with more than ``FILES`` Python files, and how many these are."""
    folders = Counter(str(path.parent) for path in python_files(paths))
    return {folder: files for folder, files in folders.items() if files > FILES}


def test_no_folder_of_source_has_more_than_20_python_files() -> None:
    source = [path.relative_to(ROOT) for path in files_in_git()]
    source = [path for path in source if path.parts[0] != "tests"]
    assert len(python_files(source)) > 100
    assert crowded(source) == {}, "divide it by what its files are about"


def test_a_crowded_folder_is_found() -> None:
    full = [Path(f"models/{number}.py") for number in range(FILES)]
    others = [Path("models/card.yaml"), Path("models/layers/one.py")]
    assert crowded([*full, *others]) == {}
    assert crowded([*full, *others, Path("models/one_more.py")]) == {"models": FILES + 1}


def test_no_python_file_reaches_400_lines() -> None:
    lines = {path: path.read_text().count("\n") for path in python_files(files_in_git())}
    assert {str(path): count for path, count in lines.items() if count >= LINES} == {}


def test_only_whole_segments_among_the_committed_records_are_no_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "records" / "task" / "smoke"
    (segment,) = write_segments(folder, {"run": b"{}"})
    assert what_it_is(segment) == "xz"
    assert not is_segment(segment)  # it lies elsewhere
    monkeypatch.setattr("tests.test_repository.COMMITTED", tmp_path / "records")
    assert is_segment(segment)
    other = segment.with_name(f"0123456789abcdef{SUFFIX}")
    other.write_bytes(lzma.compress(b"an archive of something else"))
    with pytest.raises(UserError, match="its name is not that of its content"):
        is_segment(other)
    assert not is_segment(segment.rename(folder / "records.xz"))


@pytest.mark.parametrize("start", ARCHIVES)
def test_archives_are_known_by_their_first_bytes(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "records.json").write_bytes(start + bytes(600))
    assert what_it_is(tmp_path / "records.json") == ARCHIVES[start]
    (tmp_path / "large.json").write_bytes(b"{" + b" " * LARGEST)
    assert what_it_is(tmp_path / "large.json") == f"{LARGEST + 1:,} bytes"
