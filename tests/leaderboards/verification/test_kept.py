"""What was verified of records: of one's own, of those that were replaced, and by several."""

import json
from pathlib import Path

import pytest

from bench.records.provenance import processor
from bench.records.record_files import records_in
from bench.records.schema import RunRecord, read_record, write_record
from core.errors import VERIFICATION_FAILED, UserError
from leaderboards import build
from leaderboards import verify as command
from leaderboards.contents import OpenBoard
from leaderboards.tables import status as levels
from leaderboards.tables.replications import summarised
from leaderboards.tables.status import Check, earlier_verification, path_of, read_verification
from leaderboards.tables.status import write_verification as write
from leaderboards.verification.targets import records_named
from tests.committed import copied
from tests.leaderboards.sending import current
from tests.leaderboards.verification.engine import in_this_process

RUN = ["tasks=state_tracking", "models=lstm", "preset=smoke", "device=cpu", "training.steps=20"]
TASK = "state_tracking"


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RunRecord]:
    """Three committed records, alone in folders of a board that is empty of all else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(levels, "FOLDER", tmp_path / "leaderboards" / "verifications")
    monkeypatch.setattr(levels, "SUBMISSIONS", tmp_path / "leaderboards" / "submissions")
    monkeypatch.setattr(build, "FOLDER", tmp_path / "leaderboards")
    monkeypatch.setattr(build, "COMMITTED", tmp_path / "leaderboards" / "board.parquet")
    first = current(f"{TASK}/smoke/*")
    found = [first, *[p for p in records_in(first.parent) if p != first][:2]]
    copied(found, tmp_path / "leaderboards" / "records")
    (tmp_path / "reproduce" / "published").mkdir(parents=True)
    return [read_record(path) for path in found]


def again(record: RunRecord, device: str, value: float | None = None, **more: object) -> Check:
    """That a record was run again on a machine."""
    headline, test = record.headline, record.metrics["test"]
    found = headline.value if value is None else value
    fields = {
        "level": "re-run",
        "passed": value is None,
        "at": "2026-01-01T00:00:00+00:00",
        "libraries": {},
        "recorded": headline.value,
        "found": found,
        "bound": 0.1,
        "metrics": {**test, headline.name: found},
        "made": "0" * 64,
    }
    return Check(device=device, **{**fields, **more})


def keep(record: RunRecord, *checks: Check) -> Path:
    """Keep what was checked of a record, where the board reads it."""
    path = path_of(record, levels.FOLDER)
    known = earlier_verification(record, levels.FOLDER)
    for check in checks:
        known = known.with_check(check)
    write(known, path)
    return path


def test_a_replication_in_the_repository_is_counted_and_shown_with_its_numbers(
    committed: list[RunRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    record, other = committed[0], committed[1]
    assert build.main([]) == 0
    board = OpenBoard(build.COMMITTED)
    assert not board.replications(TASK)
    assert {line.checked for line in board.records(TASK)} == {"reported"}
    value = record.headline.value or 0.0
    keep(record, again(record, "A 1", by="Ada", system="Linux x86_64"))
    assert build.main([]) == 0
    keep(record, again(record, "B 2", by="Bob", made="1" * 64))
    keep(other, again(other, "B 2", (other.headline.value or 0.0) + 0.2))
    assert build.main([]) == 0
    board = OpenBoard(build.COMMITTED)
    (row,) = [row for row in board.summary() if record.run_id in row.run_ids]
    assert row.checked.startswith("replicated ×2" if row.seeds == 1 else "reported, 1 of")
    checked = {line.run_id: line.checked for line in board.records(TASK)}
    assert checked[record.run_id] == "replicated ×2"
    assert checked[other.run_id] == "reported, 1 outside the spread"
    assert checked[committed[2].run_id] == "reported"
    found = [line for line in board.replications(TASK) if line.run_id == record.run_id]
    assert [(one.other_machine, one.by) for one in found] == [
        ("A 1, Linux x86_64", "Ada"),
        ("B 2", "Bob"),
    ]
    assert all(one.same_numbers and one.other_value == value for one in found)
    assert (found[0].low, found[0].high) == (value - 0.1, value + 0.1)
    assert [one.origin for one in found] == ["verified", "verified"]
    (far,) = [line for line in board.replications(TASK) if line.run_id == other.run_id]
    assert (far.outside, far.same_numbers) == (True, False)
    assert far.difference == pytest.approx(0.2)
    every = summarised(board.replications(TASK))
    assert (every.runs, every.confirmed, every.outside) == (3, 2, 1)
    assert [(one.name, one.runs) for one in every.each] == [("A 1, Linux x86_64", 1), ("B 2", 2)]
    # What grew is what a build from nothing makes.
    grown = {p.name: p.read_bytes() for p in build.COMMITTED.rglob("*.parquet")}
    build.COMMITTED.with_name(f".{build.COMMITTED.name}.index").unlink()
    assert build.main([]) == 0
    assert {p.name: p.read_bytes() for p in build.COMMITTED.rglob("*.parquet")} == grown
    assert build.main(["--check"]) == 0


def test_what_was_verified_of_records_that_are_gone_counts_for_nothing_and_is_dropped(
    committed: list[RunRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    kept, replaced, gone = committed
    files = [keep(one, again(one, "A 1"), again(one, "B 2")) for one in committed]
    folder = Path("leaderboards/records") / TASK / "smoke"
    assert build.main([]) == 0
    assert "stale" not in capsys.readouterr().err
    (folder / f"{gone.run_id}.json").unlink()
    made = replaced.provenance.model_copy(update={"started_at": "2026-02-02T00:00:00+00:00"})
    (folder / f"{replaced.run_id}.json").unlink()
    write_record(replaced.model_copy(update={"provenance": made}), folder)
    assert build.main([]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("2 verifications are stale")
    assert "python -m leaderboards.build drop_stale=true" in said
    board = OpenBoard(build.COMMITTED)
    known = {line.run_id: line.checked for line in board.records(TASK)}
    assert known == {kept.run_id: "replicated ×2", replaced.run_id: "reported"}
    assert {line.run_id for line in board.replications(TASK)} == {kept.run_id}
    assert build.main(["--check"]) == 0
    assert "2 verifications are stale" in capsys.readouterr().err
    # Of other records than all nobody can tell which are stale.
    assert build.main([f"records={folder}", "output=some.parquet"]) == 0
    assert "stale" not in capsys.readouterr().err
    for words in (["--check"], ["skip_refused=true"], [f"records={folder}"]):
        with pytest.raises(UserError, match="drop_stale=true goes by all records"):
            build.main(["drop_stale=true", *words])
    assert build.main(["drop_stale=true"]) == 0
    assert "dropped 2 stale verifications" in capsys.readouterr().err
    assert [path.exists() for path in files] == [True, False, False]
    assert build.main([]) == 0
    assert "stale" not in capsys.readouterr().err


def test_ones_own_records_are_verified_into_ones_own_store(
    engine: None, committed: list[RunRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (7, 8):
        in_this_process("bench.train", [*RUN, f"seed={seed}"])
    own = Path("runs/verifications")
    records = [read_record(path) for path in sorted(Path("runs/records").glob("*.json"))]
    ids = [record.run_id for record in records]
    assert len(ids) == 2
    names = {
        "runs": ids,
        "runs/records": ids,
        ids[0].rpartition("-s")[0]: ids,
        ids[0]: ids[:1],
        f"runs/work/{ids[1]}": ids[1:],
        f"runs/records/{ids[1]}.json": ids[1:],
    }
    for name, wanted in names.items():
        found = records_named(name, Path("runs"))
        assert [one.record.run_id for one in found] == wanted
        assert all(one.own and one.to.resolve() == own.resolve() for one in found)
    capsys.readouterr()
    assert command.main(["level=consistent"]) == 0
    assert capsys.readouterr().out.count(": consistent") == 2
    assert [path.stem for path in sorted(own.rglob("*.json"))] == ids
    assert not levels.FOLDER.exists()
    # The board of one's own runs reads it; the committed one does not.
    assert build.main(["local=true"]) == 0
    shown = {line.run_id: line.checked for line in OpenBoard(build.LOCAL).records(TASK)}
    assert [shown[name] for name in ids] == ["consistent", "consistent"]
    assert command.main([ids[1]]) == 0
    found = read_verification(path_of(records[1], own))
    assert (found.level, found.checks[-1].device) == ("re-run", processor())
    for name, sentence in (("leaderboards", "holds no record"), ("state_tracking", "is no record")):
        with pytest.raises(UserError, match=sentence):
            records_named(name, Path("runs"))
    # What is refused of a store leaves the others.
    forged = records[0].model_copy(update={"label": "x" * 999})
    path = write_record(forged, Path("runs/records"))
    (path.parent / f"{TASK}-gpt2-smoke-{'a' * 12}-s0.json").write_text("{")
    capsys.readouterr()
    assert command.main(["runs", "level=consistent"]) == VERIFICATION_FAILED
    said = capsys.readouterr().out
    assert (said.count("refused: "), f"{ids[1]}: re-run" in said) == (2, True)
    with pytest.raises(UserError, match="label"):
        command.main([str(path), "level=consistent"])


def test_a_run_from_the_store_of_another_machine_is_of_that_machine(
    engine: None, committed: list[RunRecord]
) -> None:
    record = committed[0]
    there = record.provenance.model_copy(update={"device": "A Machine Far Away 3"})
    write_record(record.model_copy(update={"provenance": there}), Path("there/records"))
    words = [record.run_id, "store=there", "to=found", "by=Ada"]
    assert command.main(words) == 0
    check = read_verification(path_of(record, Path("found"))).checks[-1]
    told = ("A Machine Far Away 3", record.provenance.platform, "Ada")
    assert (check.device, check.system, check.by) == told


def test_a_record_that_was_served_was_not_made_again(
    engine: None, committed: list[RunRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    record = committed[0]
    write_record(record, Path("runs/records"))
    assert command.main([record.run_id, "store=runs", "to=found"]) == 4
    assert "which nobody has made again" in capsys.readouterr().out
    assert not read_verification(path_of(record, Path("found"))).machines


def test_ones_own_runs_of_a_committed_setting_need_not_agree_with_it(
    engine: None, committed: list[RunRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another machine gives other weights for the same run."""
    record = committed[0]
    content = json.loads(json.dumps(record.model_dump(mode="json")))
    content["weights_sha256"] = "a" * 64
    write_record(RunRecord.model_validate(content), Path("runs/records"))
    assert command.main(["runs", "level=consistent"]) == 0
