"""A board that grows on disk is, byte for byte, that of a build from nothing."""

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.records.schema import Curve, RunRecord, make_run_id, read_record, write_record
from core.errors import VERIFICATION_FAILED
from core.files import ROOT
from leaderboards import build
from leaderboards.checks import admission
from leaderboards.contents import OpenBoard, read_board
from leaderboards.making import inputs
from leaderboards.tables import builder
from leaderboards.tables.index import Index, RecordFolder
from leaderboards.tables.status import Check, earlier_verification, path_of, write_verification
from leaderboards.tables.summaries import COMMITTED as COMMITTED_ORIGIN
from leaderboards.tables.summaries import SUBMITTED
from tests.committed import committed_paths, copied
from tests.leaderboards.boards import bytes_of


def another(record: RunRecord, seed: int, **changes: object) -> RunRecord:
    """The same setting with another seed: other weights, and numbers that are a little off."""
    shift = 1 + 1e-4 * seed
    name = make_run_id(record.task, record.model, record.preset, record.identity, seed)
    own = {
        name: Curve(x=curve.x, y=[shift * y for y in curve.y])
        for name, curve in record.curves.items()
        if name in ("training_loss", "validation_loss")
    }
    weights = record.weights_sha256 and hashlib.sha256(name.encode()).hexdigest()
    validation = {k: shift * v for k, v in record.metrics.get("validation", {}).items()}
    fields = {"seed": seed, "run_id": name, "weights_sha256": weights}
    fields |= {"metrics": {**record.metrics, "validation": validation}}
    return record.model_copy(update={**fields, "curves": {**record.curves, **own}, **changes})


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Committed records of three tasks, one of which has a training size and references."""
    folder = tmp_path / "records"
    chosen = committed_paths("regbench/smoke/*-s0")[::4]
    chosen += committed_paths("capacity/laptop/*")[:6]
    chosen += committed_paths("attention/smoke/*")[:4]
    copied(chosen, folder)
    return folder


def test_a_process_that_builds_needs_no_pandas_and_writes_the_same_bytes(
    records: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.parquet"
    gone = next(records.rglob("capacity*.json"))
    watched = (
        "import sys\nfrom pathlib import Path\nfrom leaderboards import build\n"
        f"words = ['records={records}', 'output={alone}']\n"
        f"assert build._alone(words) == 0\nPath({str(gone)!r}).unlink()\n"
        "assert build._alone(words) == 0\n"
        "assert 'pandas' not in sys.modules\nimport pandas\n"
    )
    # With other hashes than this process: a set in their order would show.
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    subprocess.run([sys.executable, "-c", watched], cwd=ROOT, env=environment, check=True)
    assert not gone.exists()
    builder.build(inputs([records], build.FOLDER), tmp_path / "here.parquet")
    assert bytes_of(alone) == bytes_of(tmp_path / "here.parquet")


def test_what_grows_is_what_a_build_from_nothing_makes(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown, fresh = tmp_path / "grown.parquet", tmp_path / "fresh.parquet"
    read: list[str] = []
    original = Index.read
    monkeypatch.setattr(Index, "read", lambda s, k: read.append(k.run_id) or original(s, k))

    def grow() -> dict[str, bytes]:
        build.main([f"records={records}", f"output={grown}"])
        return bytes_of(grown)

    def compare() -> None:
        read.clear()
        now = grow()
        monkeypatch.setattr(build, "STORE", tmp_path)  # the index of the other is its own
        fresh.with_name(f".{fresh.name}.index").unlink(missing_ok=True)
        again = list(read)
        build.main([f"records={records}", f"output={fresh}"])
        assert now == bytes_of(fresh)
        read[:] = again

    before = grow()
    assert grow() == before
    smoke = sorted((records / "regbench" / "smoke").glob("*.json"))
    models = [r for r in map(read_record, smoke) if r.role != "baseline"]
    attention = (grown / "rows" / "attention.parquet").stat().st_mtime_ns
    # One more seed: its setting is read, and nothing of another.
    write_record(another(models[0], 5), smoke[0].parent)
    compare()
    assert set(read) <= {models[0].run_id, another(models[0], 5).run_id}
    assert (grown / "rows" / "attention.parquet").stat().st_mtime_ns == attention
    # A failure, and one that lasts: it stands under every metric of its table.
    lost = another(models[1], 6, outcome="failed", cause="no reason", metrics={}, per_sequence={})
    lost = lost.model_copy(update={"headline": lost.headline.model_copy(update={"value": None})})
    write_record(lost, smoke[0].parent)
    compare()
    write_record(another(models[2], 7), smoke[0].parent)
    compare()
    # A record that is gone, one that has changed, and one whose file alone is newer.
    smoke[-1].unlink()
    cost = models[0].cost.model_copy(update={"wall_seconds": 1.5})
    write_record(models[0].model_copy(update={"cost": cost}), smoke[0].parent)
    os.utime(smoke[1], ns=(1, 1))
    compare()
    # Another task is gone with all that it had.
    shutil.rmtree(records / "attention")
    compare()
    assert not (grown / "rows" / "attention.parquet").exists()
    # Damage is mended, of a file that nothing touched as well.
    damaged = grown / "curves" / "capacity.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    compare()
    (grown / "summary.parquet").unlink()
    compare()


def test_what_is_checked_or_sent_makes_its_task_again(records: Path, tmp_path: Path) -> None:
    sent, checked = tmp_path / "submissions", tmp_path / "verifications"
    folders = [RecordFolder(records, COMMITTED_ORIGIN), RecordFolder(sent, SUBMITTED)]
    inputs = builder.Inputs(folders, tmp_path / "nothing", verifications=[checked])
    grown, fresh = tmp_path / "grown.parquet", tmp_path / "fresh.parquet"
    paths = sorted((records / "regbench" / "smoke").glob("*.json"))
    found = [r for r in map(read_record, paths) if r.role != "baseline" and r.outcome == "ok"]
    record = max(found, key=lambda r: r.headline.value or 0.0)  # it would stand first
    path = records / "regbench" / "smoke" / f"{record.run_id}.json"
    (sent / "ada" / "records").mkdir(parents=True)
    path.rename(sent / "ada" / "records" / path.name)

    def standing() -> tuple[str, str, bool, bool]:
        board = builder.build(inputs, grown)
        for old in (fresh, fresh.with_name(f".{fresh.name}.index")):
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        builder.build(inputs, fresh)
        assert bytes_of(grown) == bytes_of(fresh)
        rows = board.rows("regbench", metric=record.headline.name, kind="measured")
        own = next(row for row in rows if record.run_id in row.run_ids)
        table = [row for row in rows if row.group == own.group]
        assert len(table) > 1
        return own.origin, own.checked, own.verified, table[0] is own

    assert standing() == ("submitted", "reported", False, False)
    attention = (grown / "rows" / "attention.parquet").stat().st_mtime_ns
    fields = {"at": "2026-01-01T00:00:00+00:00", "libraries": {}, "device": "a"}
    made = Check(level="re-run", passed=True, **fields)
    verification = earlier_verification(record, checked).with_check(made)
    write_verification(verification, path_of(record, checked))
    assert standing() == ("submitted", "re-run", True, True)
    other = verification.model_copy(update={"record_sha256": "0" * 64})  # of that name
    write_verification(other, path_of(record, checked))
    assert standing() == ("submitted", "reported", False, False)
    # A record of the project is ranked as it is; a submission of the same run adds nothing.
    shutil.copy(sent / "ada" / "records" / path.name, path)
    assert standing() == ("committed", "reported", True, True)
    path.unlink()
    path_of(record, checked).unlink()
    assert standing() == ("submitted", "reported", False, False)
    assert (grown / "rows" / "attention.parquet").stat().st_mtime_ns == attention


def test_a_changed_checkout_makes_everything_again(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "board.parquet"
    build.main([f"records={records}", f"output={output}"])
    before = bytes_of(output)
    made: list[str] = []
    original = Index.summaries
    monkeypatch.setattr(Index, "summaries", lambda s, task: made.append(task) or original(s, task))
    build.main([f"records={records}", f"output={output}"])
    assert not made
    monkeypatch.setattr("leaderboards.tables.index.made_by", lambda folders: "other code")
    build.main([f"records={records}", f"output={output}"])
    assert {"attention", "capacity", "regbench"} <= set(made)
    assert bytes_of(output) == before


def test_a_record_that_contradicts_others_leaves_the_board_as_it_was(
    records: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "board.parquet"
    words = [f"records={records}", f"output={output}"]
    build.main(words)
    before = bytes_of(output)
    first = next(iter(sorted((records / "regbench" / "smoke").glob("*gpt2*.json"))))
    record = read_record(first)
    same = another(record, 9, weights_sha256=record.weights_sha256)
    path = write_record(same, first.parent)
    # A record of the project is restored, and one's own made again; nobody is told to delete one.
    capsys.readouterr()
    for place, how in ((admission.COMMON, "to make it again"), (records, "restore the file")):
        monkeypatch.setattr(admission, "COMMON", place)
        assert build.main(words) == VERIFICATION_FAILED
        sentence = f"not shown: {re.escape(str(path))}: .* with which it must agree: {how}"
        assert re.search(sentence, capsys.readouterr().err)
        assert bytes_of(output) == before
    assert build.main([*words, "skip_refused=true"]) == 0
    assert bytes_of(output) == before
    path.unlink()
    assert build.main(words) == 0
    assert bytes_of(output) == before


def test_a_question_reads_what_was_asked_for(records: Path, tmp_path: Path) -> None:
    output = tmp_path / "board.parquet"
    build.main([f"records={records}", f"output={output}"])
    board, whole = OpenBoard(output), read_board(output)
    assert board.tasks() == sorted({row.task for row in whole.rows})
    for task in board.tasks():
        own = [row for row in whole.rows if row.task == task]
        assert board.rows(task) == own
        for metric in {row.metric for row in own}:
            assert board.rows(task, metric=metric) == [r for r in own if r.metric == metric]
        assert board.distinct("rows", task, "preset", "variant") == list(
            dict.fromkeys((row.preset, row.variant) for row in own)
        )
        assert board.lines(task, by_size=True) == [
            line for line in whole.lines if line.task == task and line.by_size
        ]
    assert board.summary() == [row for row in whole.rows if row.headline and row.group]
    names = random.Random(0).sample([line.run_id for line in whole.records], 5)
    for name in names:
        assert board.record(name) == next(r for r in whole.records if r.run_id == name)
    assert board.record("regbench-nobody-s0") is None
    assert board.rows("no_task") == []
    assert board.claims(preset=["laptop"]) == [c for c in whole.claims if c.preset == "laptop"]


def test_an_open_board_follows_a_build(records: Path, tmp_path: Path) -> None:
    output = tmp_path / "board.parquet"
    words = [f"records={records}", f"output={output}"]
    build.main(words)
    board = OpenBoard(output)
    before = board.sha256
    count = len(board.records("capacity"))
    min((records / "capacity" / "laptop").glob("*.json")).unlink()
    time.sleep(0.01)
    build.main(words)
    assert len(board.records("capacity")) == count - 1
    assert board.sha256 != before
