"""A damaged journal of a sweep: it is said, a copy is kept, and no record is made twice."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.search import placement
from bench.search.driver import records_of
from bench.search.jobs import Job, execute
from core.progress import silent
from tests.bench.conftest import TINY, outcome, states
from tests.bench.damage import FLIPS, flips
from tests.bench.search.test_study import SPACE, open_study, random_order, run_all
from tests.configurations import make_plan

Lines = list[bytes]


def lines_of(folder: Path) -> Lines:
    return (folder / "journal.log").read_bytes().splitlines(keepends=True)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, object]:
    """The journal of a study of four trials, and what the study says of itself."""
    folder = tmp_path_factory.mktemp("told")
    study = open_study(folder)
    run_all(study)
    return b"".join(lines_of(folder)), settings_of(study)


def settings_of(study) -> list[tuple[dict, float | None, str]]:
    return [(t.parameters, t.value, t.outcome) for t in study.describe().trials]


def test_a_flipped_bit_of_a_journal_is_said_and_loses_no_trial(told, tmp_path, capsys):
    journal, expected = told
    for number, damaged in enumerate(flips(journal, FLIPS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "journal.log").write_bytes(damaged)
        study = open_study(folder)
        said = capsys.readouterr().err
        place = next(i for i, byte in enumerate(journal) if damaged[i] != byte)
        line = journal.count(b"\n", 0, place) + 1
        if damaged.endswith(b"\n"):  # else it looks like a last line that was half written
            assert f"line {line} of {folder / 'journal.log'} is damaged" in said
            (copy,) = folder.glob("journal.log.damaged-*")
            assert copy.read_bytes() == damaged
        run_all(study)
        assert settings_of(study) == expected
        assert study.best() == open_study(folder).best()
        assert capsys.readouterr().err == ""  # what is left is whole


def changed_number(lines: Lines) -> Lines:
    """A line that is still JSON, and still one of Optuna's."""
    changed = json.dumps({**json.loads(lines[9]), "trial_id": 1}).encode() + b"\n"
    return [*lines[:9], changed, *lines[10:]]


KINDS: dict[str, Callable[[Lines], Lines]] = {
    "no JSON": lambda lines: [*lines[:9], b"{" + lines[9], *lines[10:]],
    "no UTF-8": lambda lines: [*lines[:9], b'{"\xff":1}\n', *lines[10:]],
    "no object": lambda lines: [*lines[:9], b"[4]\n", *lines[10:]],
    "no seal": lambda lines: [*lines[:9], b'{"op_code":4}\n', *lines[10:]],
    "deep": lambda lines: [*lines[:9], b"[" * 100_000 + b"\n", *lines[10:]],
    "zeros": lambda lines: [*lines[:9], b"\0" * 4096, *lines[10:]],
    "empty": lambda lines: [*lines[:9], b"\n", *lines[10:]],
    "lost": lambda lines: [*lines[:9], *lines[10:]],
    "twice": lambda lines: [*lines[:9], lines[9], *lines[9:]],
    "swapped": lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]],
    "another number": changed_number,
}


@pytest.mark.parametrize("kind", KINDS)
def test_damage_in_the_middle_of_a_journal_is_said_and_loses_no_trial(kind, told, tmp_path, capsys):
    journal, expected = told
    damaged = b"".join(KINDS[kind](journal.splitlines(keepends=True)))
    (tmp_path / "journal.log").write_bytes(damaged)
    study = open_study(tmp_path)
    assert "is damaged, or of an earlier version" in capsys.readouterr().err
    (copy,) = tmp_path.glob("journal.log.damaged-*")
    assert copy.read_bytes() == damaged
    run_all(study)
    assert settings_of(study) == expected


@pytest.mark.parametrize("content", [b"mine", None], ids=["a file", "nothing"])
def test_what_a_link_in_the_place_of_the_journal_leads_to_is_left_alone(content, tmp_path):
    other, folder = tmp_path / "other", tmp_path / "studies"
    if content:
        other.write_bytes(content)
    folder.mkdir()
    (folder / "journal.log").symlink_to(other)
    run_all(open_study(folder, budget=1))
    assert (other.read_bytes() if content else other.exists()) == (content or False)
    assert len(open_study(folder, budget=1).describe().trials) == 1


def test_half_written_journal_and_stale_locks_are_repaired(tmp_path, capsys):
    run_all(open_study(tmp_path, budget=2))
    journal = tmp_path / "journal.log"
    whole = journal.read_bytes()
    with journal.open("ab") as file:
        file.write(b'{"op_code": 4, "work')
    for name in ("journal.log.lock", "journal.log.lock0815.rename"):  # the second: amid its release
        (tmp_path / name).symlink_to(journal)
    study = open_study(tmp_path, budget=3)
    assert journal.read_bytes().startswith(whole)
    run_all(study)
    assert len(open_study(tmp_path, budget=3).describe().trials) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["journal.log"]
    assert capsys.readouterr().err == ""


def test_a_journal_of_an_earlier_version_is_told_again_by_the_records(told, tmp_path):
    journal, expected = told
    logs = [json.loads(line) for line in journal.splitlines()]
    for log in logs:
        del log["seal"]
    (tmp_path / "journal.log").write_text("".join(json.dumps(log) + "\n" for log in logs))
    study = open_study(tmp_path)
    assert [t.parameters for t in study.describe().trials] == []
    run_all(study)
    assert settings_of(study) == expected
    assert [t.parameters for t in study.describe().trials] == random_order(SPACE, 0)[:4]


def test_a_sweep_goes_on_from_its_records_when_its_journal_is_damaged(
    tmp_path, monkeypatch, capsys
):
    words = [*TINY, "models=lstm", "models.width=8", "models.layers=1", f"store={tmp_path}"]
    words += ["n_trials=3", "seeds=1"]
    before = outcome(tmp_path, records_of(make_plan(words), silent))
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("trials/*")}
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("work/*/*.safetensors")}
    journal = tmp_path / "studies" / "journal.log"
    lines = lines_of(journal.parent)
    lines[len(lines) // 2] = lines[len(lines) // 2].replace(b"0", b"1", 1)
    journal.write_bytes(b"".join(lines))
    asked: list[str] = []

    def heard(job: Job, report):
        asked.append(job.role)
        return execute(job, report)

    monkeypatch.setattr(placement, "execute", heard)
    assert outcome(tmp_path, records_of(make_plan(words), silent)) == before
    assert f"of {journal} is damaged" in capsys.readouterr().err
    assert asked == []  # the journal knew some no longer, and their records were served
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert "RUNNING" not in str(states(tmp_path))
