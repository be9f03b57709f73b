"""Git holds source and finished records: no archive, no store, nothing above 8 MB."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

LARGEST = 8 * 10**6  # bytes
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
    told = {str(p.relative_to(ROOT)): kind for p in files_in_git() if (kind := what_it_is(p))}
    assert told == {}, "keep it out of git: a commit cannot be taken back"


@pytest.mark.parametrize("start", ARCHIVES)
def test_archives_are_known_by_their_first_bytes(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "records.json").write_bytes(start + bytes(600))
    assert what_it_is(tmp_path / "records.json") == ARCHIVES[start]
    (tmp_path / "large.json").write_bytes(b"{" + b" " * LARGEST)
    assert what_it_is(tmp_path / "large.json") == f"{LARGEST + 1:,} bytes"
