"""A run that is made again is known by git, and its time is that of the first of its kind."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.records.schema import RunRecord, write_record
from bench.records.store import COMMITTED
from core.errors import OK, VERIFICATION_FAILED, UserError
from core.files import ROOT
from leaderboards.checks import packing
from reproduce.claims import frozen, repeats
from reproduce.claims.frozen import begun_after, set_after, updated
from reproduce.command import main
from tests.reproduce.claims.samples import record
from tests.reproduce.claims.test_frozen import claim, own_rule

OLD, NEW = "2026-11-21T00:00:00+00:00", "2026-11-23T00:00:00+00:00"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository, whatever the user of this machine has set."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    _git(tmp_path, "init", "-q", "-b", "main")
    return tmp_path


def _git(folder: Path, *words: str) -> None:
    own = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*own, *words], check=True, capture_output=True)


def _written(folder: Path, *records: RunRecord) -> None:
    """The checkout holds these records and no others."""
    place = folder / COMMITTED.relative_to(ROOT) / "regbench"
    for path in place.glob("*.json"):
        path.unlink()
    for one in records:
        write_record(one, place)


def _committed(folder: Path, *records: RunRecord) -> None:
    _written(folder, *records)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "records", "--allow-empty")


def made(seed: int, started: str, identity: str, **changes: Any) -> RunRecord:
    return record(seed, 0.9, started=started, identity=identity * 64, **changes)


def test_a_removed_run_with_the_same_seed_data_and_settings_is_repeated(checkout: Path) -> None:
    usual = made(0, OLD, "a").config
    training = {**usual["training"], "lr": 0.5}
    _committed(checkout, *(made(seed, OLD, "a") for seed in range(6)))
    more = {**usual, "tasks": {**usual["tasks"], "later_setting": 1}}
    again = made(0, NEW, "b", config=more, role="final")
    other_data = made(2, NEW, "b")
    moved = other_data.provenance.model_copy(update={"data": {"test": "f" * 64}})
    now = [
        again,
        made(1, NEW, "b", config={**usual, "training": training}),
        other_data.model_copy(update={"provenance": moved}),
        made(3, NEW, "b", preset="laptop"),
        made(4, NEW, "b", label="another predictor"),
        made(5, NEW, "b", model="lstm"),
        made(6, NEW, "b"),
    ]
    _written(checkout, *now)
    assert repeats.repeats(checkout) == {again.run_id: OLD}  # before it is committed, and after
    _committed(checkout, *now)
    assert repeats.repeats(checkout) == {again.run_id: OLD}
    _committed(checkout, made(0, "2026-11-20T00:00:00+00:00", "c"))
    assert repeats.repeats(checkout) == {}  # it is older than what was removed


def test_the_first_of_several_counts_in_any_zone(checkout: Path) -> None:
    for identity, started in (("a", OLD), ("b", "2026-11-21T01:00:00+02:00"), ("c", NEW)):
        _committed(checkout, made(0, started, identity))
    latest = made(0, "2026-11-24T00:00:00+00:00", "d")
    _committed(checkout, latest)
    assert repeats.repeats(checkout) == {latest.run_id: "2026-11-20T23:00:00+00:00"}


def test_a_run_is_repeated_in_its_own_file_beside_it_and_behind_a_merge(checkout: Path) -> None:
    _committed(checkout, made(0, OLD, "a"))
    again = made(0, NEW, "a")
    _committed(checkout, again)
    assert repeats.repeats(checkout) == {again.run_id: OLD}
    beside = made(1, NEW, "b")
    _committed(checkout, made(1, OLD, "a"), beside)
    assert repeats.repeats(checkout) == {beside.run_id: OLD}

    _git(checkout, "checkout", "-qb", "side")
    _committed(checkout, made(2, OLD, "a"))
    merged = made(2, NEW, "b")
    _committed(checkout, merged)
    _git(checkout, "checkout", "-q", "main")
    _written(checkout, merged)
    _git(checkout, "add", "-A")
    _git(checkout, "commit", "-qm", "the same by another way")
    _git(checkout, "merge", "-q", "-s", "ours", "side")
    assert repeats.repeats(checkout) == {merged.run_id: OLD}


def test_a_run_in_a_segment_is_known_when_it_is_withdrawn_replaced_or_gone(checkout: Path) -> None:
    _committed(checkout, *(made(seed, OLD, "a") for seed in range(4)))
    place = checkout / COMMITTED.relative_to(ROOT)
    packing.pack(place)
    assert repeats.repeats(checkout) == {}  # the files that git knew are what was packed
    _git(checkout, "add", "-A")
    _git(checkout, "commit", "-qm", "packed")
    assert repeats.repeats(checkout) == {}
    withdrawn, replaced = made(0, OLD, "a"), made(1, NEW, "a")
    packing.withdraw([withdrawn.run_id], place)
    again = made(0, NEW, "b")
    for one in (again, replaced):
        write_record(one, place / "regbench")
    packing.pack(place)
    assert repeats.repeats(checkout) == {again.run_id: OLD, replaced.run_id: OLD}
    for segment in place.rglob("*.jsonl.xz"):
        segment.unlink()
    third = made(2, NEW, "c")
    _committed(checkout, third)
    assert repeats.repeats(checkout) == {third.run_id: OLD}


def test_where_git_does_not_know_what_was_there_nothing_is_compared(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _committed(checkout, made(0, OLD, "a"))
    _committed(checkout, made(0, NEW, "b"))
    shallow = tmp_path_factory.mktemp("shallow")
    _git(checkout, "clone", "-q", "--depth=1", checkout.as_uri(), str(shallow / "clone"))
    assert repeats.repeats(shallow / "clone") is None
    _git(checkout, "config", "uploadpack.allowFilter", "true")
    words = ("clone", "-q", "--filter=blob:none", checkout.as_uri(), str(shallow / "partial"))
    _git(checkout, *words)
    assert repeats.repeats(shallow / "partial") is None
    assert repeats.repeats(shallow) is None  # no repository


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


@pytest.mark.long
def test_the_committed_file_holds_every_repeat_that_git_knows() -> None:
    assert repeats.main(update=False) == OK


def test_a_missing_repeat_is_told_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_id, *_) = json.loads(repeats.REPEATS.read_text())
    monkeypatch.setattr(repeats, "REPEATS", tmp_path / "repeats.json")
    monkeypatch.setattr(repeats, "repeats", lambda _: {run_id: OLD})
    with pytest.raises(UserError, match="does not hold the 1 repeats that git knows") as caught:
        repeats.main(update=False)
    assert caught.value.exit_code == VERIFICATION_FAILED
    assert repeats.main(update=True) == OK
    assert json.loads(repeats.REPEATS.read_text()) == {run_id: OLD}
    with pytest.raises(UserError, match="'again' cannot be given here"):
        main(["repeats", "again"], {})
    monkeypatch.setattr(repeats, "repeats", lambda _: None)
    assert repeats.main(update=False) == OK
    assert "was not compared" in capsys.readouterr().out
    repeats.REPEATS.write_text('{"a": "yesterday"}')
    with pytest.raises(UserError, match=r"table of repeats .* restore it from version control"):
        repeats.began(made(0, NEW, "a"))
