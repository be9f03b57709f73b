"""A run that is made again is known by git, and its time is that of the first of its kind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.records.schema import RunRecord, write_record
from bench.records.store import COMMITTED
from ground.errors import OK, VERIFICATION_FAILED, UserError
from ground.files import ROOT
from judging import frozen, repeats
from judging.frozen import begun_after, set_after, updated
from tests.judging.samples import record
from tests.judging.test_frozen import claim, own_rule

OLD, NEW = "2026-11-21T00:00:00+00:00", "2026-11-23T00:00:00+00:00"


def _git(folder: Path, *words: str) -> None:
    own = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*own, *words], check=True, capture_output=True)


def _committed(folder: Path, *records: RunRecord) -> None:
    """A commit that holds these records and no others."""
    place = folder / COMMITTED.relative_to(ROOT) / "regbench"
    for path in place.glob("*.json"):
        path.unlink()
    for one in records:
        write_record(one, place)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "records")


def made(seed: int, started: str, identity: str, **changes: Any) -> RunRecord:
    return record(seed, 0.9, started=started, identity=identity * 64, **changes)


def test_a_removed_run_with_the_same_seed_data_and_settings_is_repeated(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    usual = made(0, OLD, "a").config
    training = {**usual["training"], "lr": 0.5}
    _committed(tmp_path, made(0, OLD, "a"), made(1, OLD, "a"), made(2, OLD, "a"))
    more = {**usual, "tasks": {**usual["tasks"], "later_setting": 1}}
    again = made(0, NEW, "b", config=more)
    other_data = made(2, NEW, "b")
    moved = other_data.provenance.model_copy(update={"data": {"test": "f" * 64}})
    now = [
        again,
        made(1, NEW, "b", config={**usual, "training": training}),
        other_data.model_copy(update={"provenance": moved}),
        made(3, NEW, "b"),
    ]
    _committed(tmp_path, *now)
    assert repeats.repeats(tmp_path) == {again.run_id: OLD}
    _committed(tmp_path, *now[1:])  # and a run that is older than what was removed repeats nothing
    _committed(tmp_path, made(0, "2026-11-20T00:00:00+00:00", "c"))
    assert repeats.repeats(tmp_path) == {}


def test_where_git_knows_nothing_there_are_none(tmp_path: Path) -> None:
    assert repeats.repeats(tmp_path) == {}


def test_a_repeat_has_seen_what_the_first_of_its_kind_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = claim(own_rule(3))
    (entry,) = updated({"f": [one.hashes]}, {}, "2026-11-22T00:00:00+00:00")["f"].values()
    monkeypatch.setattr(frozen, "_by_words", lambda: {entry.words: entry})
    again, new = made(0, NEW, "b"), made(1, NEW, "b")
    monkeypatch.setattr(repeats, "REPEATS", tmp_path / "repeats.json")
    assert begun_after(one.hashes, [again, new]) == [again, new]
    assert not set_after(one.hashes, [again, new])
    repeats.REPEATS.write_text(json.dumps({again.run_id: OLD}))
    assert begun_after(one.hashes, [again, new]) == [new]
    assert set_after(one.hashes, [again, new])


def test_the_committed_file_holds_every_repeat_that_git_knows() -> None:
    assert repeats.main([]) == OK


def test_a_missing_repeat_is_told_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_id, *_) = json.loads(repeats.REPEATS.read_text())
    monkeypatch.setattr(repeats, "REPEATS", tmp_path / "repeats.json")
    monkeypatch.setattr(repeats, "repeats", lambda _: {run_id: OLD})
    with pytest.raises(UserError, match="holds 0 repeats, and there are 1") as caught:
        repeats.main([])
    assert caught.value.exit_code == VERIFICATION_FAILED
    assert repeats.main(["update=true"]) == OK
    assert json.loads(repeats.REPEATS.read_text()) == {run_id: OLD}
    with pytest.raises(UserError, match="'again' cannot be given here"):
        repeats.main(["again"])
