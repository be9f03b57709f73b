"""Records in segments are, to every reader, what they are as files of their own."""

import hashlib
import json
import lzma
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.records import segments
from bench.records.record_files import (
    WITHDRAWN,
    is_record,
    packed_at,
    packed_in,
    records_below,
    records_in,
)
from bench.records.schema import (
    RunRecord,
    as_file,
    json_of,
    read_file,
    read_record,
    read_records,
    write_record,
)
from bench.records.segments import SUFFIX, all_lines, records_of, write_segments
from bench.runs.saved import find_record
from core.amounts import amount
from core.errors import UserError
from core.files import ROOT
from leaderboards import add, pack
from leaderboards.checks import packing
from leaderboards.tables.index import files_in
from leaderboards.tables.sources import RecordFolder
from leaderboards.tables.summaries import COMMITTED
from tests.bench.records import make_record


def several(count: int = 5) -> list[RunRecord]:
    """Runs that differ in seed and numbers, with letters and numbers that JSON may spell twice."""
    items = {"accuracy": [0.1 + 0.2, 1e-17, 5.0, 1 / 3]}
    return [
        make_record(seed=seed, label='Größe \\ "x"\u2028', per_sequence=items)
        for seed in range(count)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder TASK/PRESET with records as files."""
    place = tmp_path / "records" / "regbench" / "smoke"
    for record in several():
        write_record(record, place)
    return place


def test_what_is_packed_is_read_listed_and_taken_out_as_it_was(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = records_in(folder)
    before = {path: (path.read_bytes(), read_file(path)) for path in paths}
    in_order = [path for _, path, _ in files_in([RecordFolder(tmp_path / "records", COMMITTED)])]
    assert pack.main([f"records={tmp_path / 'records'}"]) == 0
    assert "5 records moved into 1 new segment below" in capsys.readouterr().out
    (segment,) = folder.iterdir()
    assert segment.name.endswith(SUFFIX)
    assert records_in(folder) == paths == records_below(tmp_path)
    assert records_in(folder, "*-s1.json") == [path for path in paths if path.stem.endswith("-s1")]
    assert in_order == [
        path for _, path, _ in files_in([RecordFolder(tmp_path / "records", COMMITTED)])
    ]
    for path, (content, file) in before.items():
        assert is_record(path)
        again = read_file(path)
        assert (again.record, again.content_sha256) == file[:2]
        assert hashlib.sha256(again.content).hexdigest() == file.content_sha256
        assert as_file(path) == content
    assert list(read_records([tmp_path])) == [file.record for _, file in before.values()]
    # A segment is no record, and says how one of them is named.
    with pytest.raises(UserError, match=f"is a segment of 5 records: .* such as {paths[0]}"):
        read_record(segment)
    with pytest.raises(UserError, match="is a segment of 5 records"):
        find_record(str(segment), tmp_path)
    run_ids = [path.stem for path in paths[:2]]
    words = [f"records={tmp_path / 'records'}", f"to={tmp_path / 'out'}"]
    assert pack.main([*run_ids, *words]) == 0
    for path in paths[:2]:
        assert (tmp_path / "out" / path.name).read_bytes() == before[path][0]
    # What a program that knows nothing of this project reads.
    lines = lzma.decompress(segment.read_bytes()).splitlines()[1:]
    assert [json.loads(line)["run_id"] for line in lines] == [path.stem for path in paths]
    assert lines == all_lines(segment.read_bytes())


def test_a_packed_record_in_use_is_not_read_again_until_its_segment_is_another(
    folder: Path,
) -> None:
    path = min(folder.glob("*.json"))
    expected = read_record(path)
    assert pack.main([f"records={folder.parents[1]}"]) == 0
    (segment,) = folder.iterdir()
    first = read_record(path)
    assert first == expected
    assert read_record(path) is first
    os.utime(segment, ns=(0, 0))
    assert read_record(path) is not first
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match=segment.name):
        read_record(path)


def test_segments_are_joined_without_loss(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = f"records={tmp_path / 'records'}"
    assert pack.main([place]) == 0
    for record in several(8)[5:]:
        write_record(record, folder)
    assert pack.main([place]) == 0
    withdrawn = records_in(folder)[2]
    assert pack.main([place, f"withdraw={withdrawn.stem}"]) == 0
    before = {path: as_file(path) for path in records_in(folder)}
    size = sum(path.stat().st_size for path in folder.glob(f"*{SUFFIX}"))
    capsys.readouterr()
    assert pack.main([place, "join=regbench/smoke"]) == 0
    (segment,) = folder.glob(f"*{SUFFIX}")
    less = size - segment.stat().st_size
    assert less > 0
    assert (
        f"regbench/smoke: 2 segments joined, {amount(less, 'byte')} less" in capsys.readouterr().out
    )
    assert {path: as_file(path) for path in records_in(folder)} == before
    assert withdrawn not in before
    assert pack.main([place, "join=regbench/smoke"]) == 0
    assert list(folder.glob(f"*{SUFFIX}")) == [segment]
    with pytest.raises(UserError, match=r"join=regbench/laptop: .* has no segments"):
        pack.main([place, "join=regbench/laptop"])


def test_blocks_and_segments_are_as_many_as_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(segments, "LARGEST_SEGMENT", 4000)
    lines = {f"run-{n}": b'"%s"' % os.urandom(400).hex().encode() for n in range(20)}
    paths = write_segments(tmp_path, lines)
    assert len(paths) > 2
    assert all(path.stat().st_size <= 4000 for path in paths)
    found = {name: record.line() for path in paths for name, record in records_of(path).items()}
    assert found == lines
    with pytest.raises(UserError, match="run-0 is too large for a segment"):
        write_segments(tmp_path, {"run-0": os.urandom(9000).hex().encode()})


def test_a_file_counts_before_a_segment_and_replaces_what_is_in_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packing.pack(folder)
    first = records_in(folder)[0]
    older = read_record(first)
    newer = older.model_copy(update={"label": "another"})
    write_record(newer, folder)
    assert packed_at(first) is None
    assert read_record(first) == newer
    packing.pack(folder)
    assert not first.exists()
    assert read_record(first) == newer
    assert (folder / WITHDRAWN).read_text() == f"{older.content_hash()} {older.run_id}\n"
    # The same record as a file again: nothing is packed twice.
    write_record(newer, folder)
    before = set(folder.iterdir()) - {first}
    capsys.readouterr()
    packing.pack(folder)
    assert capsys.readouterr().out.startswith(f"1 file below {folder} deleted")
    assert set(folder.iterdir()) == before
    packing.pack(folder)
    assert capsys.readouterr().out.startswith("nothing to move")
    # What was withdrawn stays a file when it comes back, so that it counts.
    write_record(older, folder)
    packing.pack(folder)
    assert first.exists()
    assert read_record(first) == older


def test_what_is_withdrawn_counts_no_more_until_its_line_is_gone(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packing.pack(folder)
    paths = records_in(folder)
    capsys.readouterr()
    words = [f"records={tmp_path / 'records'}"]
    assert pack.main([f"withdraw={paths[0].stem}", f"withdraw={paths[3].stem}", *words]) == 0
    assert records_in(folder) == [paths[1], paths[2], paths[4]]
    withdrawn = f"withdrawn: {paths[0].stem} (a line of {folder / WITHDRAWN};"
    assert capsys.readouterr().out.startswith(withdrawn)
    with pytest.raises(UserError, match="there is no record"):
        read_record(paths[0])
    with pytest.raises(UserError, match="there is no record 'regbench-gpt2'"):
        pack.main(["withdraw=regbench-gpt2", *words])
    with pytest.raises(UserError, match="name the records to take out"):
        pack.main([paths[1].stem, *words])
    lines = (folder / WITHDRAWN).read_text().splitlines()
    (folder / WITHDRAWN).write_text(next(f"{line}\n" for line in lines if paths[3].stem in line))
    assert records_in(folder) == [paths[0], paths[1], paths[2], paths[4]]
    (folder / WITHDRAWN).write_text("all of them\n")
    with pytest.raises(UserError, match=r"withdrawn.txt, line 1, is not a content hash"):
        records_in(folder)


def test_branches_that_pack_and_withdraw_are_merged_by_git(folder: Path, tmp_path: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True)

    def commit() -> None:
        packing.pack(folder)
        git("add", "-A")
        git("commit", "-qm", "records")

    git("init", "-q", "-b", "main")
    shutil.copy(ROOT / ".gitattributes", tmp_path)
    commit()
    paths = records_in(folder)
    git("checkout", "-qb", "side")
    both, theirs, ours = (make_record(seed=seed) for seed in (10, 11, 12))
    for record in (both, theirs):
        write_record(record, folder)
    packing.withdraw([paths[0].stem], folder)
    commit()
    git("checkout", "-q", "main")
    for record in (both, ours):
        write_record(record, folder)
    packing.withdraw([paths[4].stem], folder)
    commit()
    git("merge", "-q", "side", "-m", "merge")
    seeds = {record.seed for record in read_records([folder])}
    assert seeds == {1, 2, 3, 10, 11, 12}


def test_two_records_of_one_name_in_two_segments_are_told(folder: Path) -> None:
    packing.pack(folder)
    (path, *_) = records_in(folder)
    other = read_record(path).model_copy(update={"label": "another"})
    content = other.model_dump(mode="json")
    write_segments(folder, {path.stem: segments.canonical(content)})
    with pytest.raises(UserError, match=f"hold two records named {path.stem}") as refused:
        read_record(path)
    assert other.content_hash() in str(refused.value)
    (folder / WITHDRAWN).write_text(f"{other.content_hash()} {path.stem}\n")
    assert read_record(path).label != "another"


def renamed(path: Path, content: bytes) -> None:
    """Let a segment have other content, and the name that goes with it."""
    name = hashlib.sha256(content).hexdigest()[: segments.DIGITS_OF_NAME]
    path.with_name(f"{name}{SUFFIX}").write_bytes(content)
    path.unlink()


def bomb(content: bytes) -> bytes:
    """A list that promises little, before a block that holds a gigabyte."""
    first = lzma.decompress(content).splitlines()[0]
    block = lzma.compress(bytes(2**26))
    listed = json.loads(first)
    listed["blocks"] = [{"bytes": len(block), "records": len(listed["records"])}]
    return lzma.compress(json.dumps(listed).encode()) + block


def escaping(content: bytes) -> bytes:
    """A list of a record whose name leads out of the folder."""
    listed = json.loads(lzma.decompress(content).splitlines()[0])
    listed["records"][0]["run_id"] = "../../evil"
    return lzma.compress(json.dumps(listed).encode()) + content


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-40], "does not hold what it lists"),
        (lambda content: content[:20], "truncated"),
        (lambda content: b"{}" + content, "cannot be decompressed"),
        (lambda content: lzma.compress(b"{}"), "is not a segment of records"),
        (lambda content: lzma.compress(b"[1"), "not JSON"),
        (lambda content: lzma.compress(bytes(2**25)), "holds more than it lists"),
        (lambda content: content + b"more", "does not hold what it lists"),
        (escaping, "is not a segment of records"),
        (bomb, "holds more than it lists"),
    ],
)
def test_a_damaged_segment_is_refused_in_one_sentence(
    folder: Path, damage: Callable[[bytes], bytes], reason: str
) -> None:
    packing.pack(folder)
    (path, *_) = records_in(folder)
    (segment,) = folder.iterdir()
    content = segment.read_bytes()
    renamed(segment, damage(content))
    with pytest.raises(UserError, match=reason) as refused:
        read_record(path)
    assert "restore it from version control" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_flipped_bit_is_told_by_the_name_and_a_pipe_is_not_waited_for(folder: Path) -> None:
    packing.pack(folder)
    (path, *_) = records_in(folder)
    (segment,) = folder.iterdir()
    content = bytearray(segment.read_bytes())
    content[-50] ^= 1
    segment.write_bytes(content)
    with pytest.raises(UserError, match="its name is not that of its content"):
        read_record(path)
    segment.unlink()
    os.mkfifo(segment)
    with pytest.raises(UserError, match="is not a regular file"):
        read_record(path)


def test_a_strangers_line_that_is_not_canonical_is_no_record(folder: Path) -> None:
    content = several(1)[0].model_dump(mode="json")
    run_id = content["run_id"]
    shutil.rmtree(folder)
    write_segments(folder, {run_id: json.dumps(content, sort_keys=True).encode()})
    with pytest.raises(UserError, match="content hash does not match"):
        read_record(folder / f"{run_id}.json")
    assert json.loads(json_of(folder / f"{run_id}.json")) == content


def test_a_packed_record_is_there_already_when_it_is_added_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path, *_) = records_in(folder)
    sent = tmp_path / path.name
    sent.write_bytes(path.read_bytes())
    packing.pack(folder)
    assert packed_in(folder)
    planned: list[RunRecord] = []
    monkeypatch.setattr("leaderboards.checks.adding.check", planned.append)
    monkeypatch.setattr("leaderboards.checks.adding.examine", lambda records, beside: {})
    assert add.main([str(sent), f"to={tmp_path / 'records'}"]) == 0
    assert len(planned) == 1
    assert not path.exists()
