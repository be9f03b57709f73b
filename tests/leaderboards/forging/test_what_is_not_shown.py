"""One record never stops a board: what cannot be shown is named beside it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.records.equivalence import Code, flat, names
from bench.records.identity import canonical_record, identity_of
from bench.records.layout import LAYOUT, LAYOUT_FILE
from bench.records.schema import RunRecord, make_run_id, read_record, write_record
from bench.records.store import Store
from bench.runs.serving import find, identify
from core.errors import VERIFICATION_FAILED, UserError
from leaderboards import build
from leaderboards.checks import admission
from leaderboards.checks.agreement import SharedStatements
from leaderboards.contents import OpenBoard
from leaderboards.tables.builder import build_board
from leaderboards.verification.submission import ModelSource, SubmitterStatement, disagreement
from tests.committed import committed_paths
from tests.configurations import compose
from tests.leaderboards.forging.changes import Content
from tests.leaderboards.forging.changes import identify as identified
from tests.leaderboards.sending import sealed


def changed(record: RunRecord, change: Callable[[Content], None], folder: Path) -> Path:
    """Another record of another seed, sealed and of a true identity, in a file of its own."""
    content = json.loads(record.model_dump_json())
    change(content)
    identified(content)
    parts = ("task", "model", "preset", "identity", "seed")
    content["run_id"] = make_run_id(**{name: content[name] for name in parts})
    return sealed(content, folder)


def unknown_task(content: Content) -> None:
    content["task"] = "a_task_of_theirs"
    content["config"]["tasks"]["_target_"] = "a_package.Task"


def data_seed_in_words(content: Content) -> None:
    content["config"]["tasks"]["data_seed"] = "seven"


def forged(content: Content) -> None:
    content["headline"]["value"] = content["metrics"]["test"]["accuracy"] = 0.9999


def newer_schema(content: Content) -> None:
    content["schema_version"] = 2


def test_whatever_lies_among_the_records_the_others_are_shown(
    honest: list[RunRecord], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, output = tmp_path / "records", tmp_path / "board.parquet"
    for record in honest:
        write_record(record, folder)
    bad = [
        changed(honest[0].model_copy(update={"seed": 9}), forged, folder),
        changed(honest[0].model_copy(update={"seed": 10}), unknown_task, folder),
        changed(honest[0].model_copy(update={"seed": 11}), newer_schema, folder),
        changed(honest[0].model_copy(update={"seed": 12}), data_seed_in_words, folder),
        folder / "truncated.json",
    ]
    bad[-1].write_text('{"schema_version": 1, "run_id":')
    words = [f"records={folder}", f"output={output}"]
    for _ in range(2):  # the second time by the index
        assert build.main(words) == VERIFICATION_FAILED
        told = capsys.readouterr()
        lines = [line for line in told.err.splitlines() if line.startswith("not shown: ")]
        assert len(lines) == len(bad)
        for path in bad:
            (line,) = [line for line in lines if str(path) in line]
            assert "delete" not in line
        assert f"{len(bad)} files not shown" in told.out
        shown = {line.run_id for line in OpenBoard(output).records("regbench")}
        assert shown == {record.run_id for record in honest}
    assert build.main([*words, "skip_refused=true"]) == 0
    assert capsys.readouterr().err.count("not shown: ") == len(bad)
    for path in bad:
        path.unlink()
    assert build.main(words) == 0


def test_a_check_that_stumbles_is_a_reason_like_any_other(
    honest: list[RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumbles(record: RunRecord) -> None:
        raise KeyError("a shape that nobody thought of")

    write_record(honest[0], tmp_path / "records")
    monkeypatch.setattr(admission, "RULES", (stumbles,))
    words = [f"records={tmp_path / 'records'}", f"output={tmp_path / 'board.parquet'}"]
    assert build.main(words) == VERIFICATION_FAILED
    assert OpenBoard(tmp_path / "board.parquet").count("records") == 0


def by_older_code() -> tuple[RunRecord, RunRecord]:
    """A committed record of a run by the code of today, and the same run by code that is proven to
    give the same, and had fewer settings."""
    for path in committed_paths("state_tracking/smoke/*"):
        record = canonical_record(read_record(path))
        if record.weights_sha256 is None or record.role == "control":
            continue
        own = Code.of(record.config, record.provenance)
        for name in names(own, record.config):
            if len(flat(name.config)) < len(flat(record.config)):
                codes = {k: getattr(name.code, k) for k in ("model_code", "task_code")}
                provenance = record.provenance.model_copy(update=codes)
                identity = identity_of(name, record.preset, provenance, None)
                place = (record.task, record.model, record.preset)
                changes: dict[str, Any] = {
                    "config": name.config,
                    "provenance": provenance,
                    "identity": identity,
                    "run_id": make_run_id(*place, identity, record.seed),
                }
                today = {"run_id": make_run_id(*place, record.identity, record.seed)}
                return record.model_copy(update=today), record.model_copy(update=changes)
    pytest.skip("no committed record of this task was made by older code with fewer settings")


def test_a_run_by_equal_code_with_fewer_settings_is_the_same_run(tmp_path: Path) -> None:
    today, older = by_older_code()
    assert today.config != older.config
    for first, second in ((today, older), (older, today)):
        together = SharedStatements()
        together.take(admission.check(first))
        together.take(admission.check(second))
    for folder, record in (("old", older), ("new", today)):
        write_record(record, tmp_path / folder)
    for folders in (["old", "new"], ["new", "old"]):
        words = [f"records={tmp_path / folder}" for folder in folders]
        assert build.main([*words, f"output={tmp_path / 'board.parquet'}"]) == 0
        (row,) = OpenBoard(tmp_path / "board.parquet").summary()
        assert (row.seeds, row.note) == (1, "")
    (row,) = [row for row in build_board([today, older]).rows if row.headline]
    assert row.seeds == 1


def test_a_statement_speaks_of_all_code_that_is_proven_equal() -> None:
    today, older = by_older_code()
    target = today.config["models"]["_target_"]
    statement = SubmitterStatement(
        schema_version=1,
        who="Ada",
        contact="ada@example.org",
        licence="CC-BY-4.0",
        sources={target: ModelSource(where="here", sha256=today.provenance.model_code)},
        tuning_trials=100,
        training_data="drawn anew in every run",
        contamination="none: the test is drawn anew",
        records={one.run_id: one.content_hash() for one in (today, older)},
    )
    assert disagreement(statement, today) is None
    assert disagreement(statement, older) is None
    other = {target: ModelSource(where="here", sha256="0" * 64)}
    told = disagreement(statement.model_copy(update={"sources": other}), older)
    assert told is not None
    assert "does not name" in told


def test_a_store_of_a_newer_layout_is_named_and_left_alone(tmp_path: Path) -> None:
    words = ["tasks=state_tracking", "models=lstm", "preset=smoke", f"store={tmp_path}"]
    Store(tmp_path).state_layout()
    assert json.loads((tmp_path / LAYOUT_FILE).read_text()) == {"layout": LAYOUT}
    assert find(identify(compose(words)), "single") is None
    (tmp_path / LAYOUT_FILE).write_text(json.dumps({"layout": LAYOUT + 1, "more": "words"}))
    with pytest.raises(UserError, match=f"has layout {LAYOUT + 1}, and this version") as refusal:
        find(identify(compose(words)), "single")
    assert "\n" not in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)
    (tmp_path / LAYOUT_FILE).write_text("{")
    with pytest.raises(UserError, match="is truncated"):
        Store(tmp_path)
