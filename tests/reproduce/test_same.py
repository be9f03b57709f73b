"""``python -m reproduce same``: what claims and figures say, beside another state of the code."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.records.equivalence import IN_CHECKOUT, Code, Equivalence, read_file
from core.errors import OK, VERIFICATION_FAILED, UserError
from core.files import ROOT
from reproduce import judgements, same
from reproduce.__main__ import main, reproductions
from reproduce.claims import frozen
from reproduce.claims.frozen import RESTATED, SAME_TESTS, read_frozen
from tests.committed import committed_records

BEFORE_A_MOVE = "d74a1db4b91f49fd6505f741fe41242d074a32d0"  # of tables in models/memories
GIT = ["git", "-C", str(ROOT)]


def git(*words: str) -> str:
    return subprocess.run([*GIT, *words], capture_output=True, text=True, check=True).stdout


def proof(old: str, new: str, **changes: Any) -> Equivalence:
    before, after = (Code(task="t", task_code="1", model=m, model_code="2") for m in (old, new))
    fields: dict[str, Any] = {"by": "definitions", "added": {}, **changes}
    return Equivalence(task="t", model="m", commit="0" * 40, old=before, new=after, **fields)


def test_proofs_lead_to_the_code_of_an_older_checkout() -> None:
    """A class that was moved twice since, and the code before it."""
    earlier, first = proof("m.Before", "m.Net"), proof("m.Net", "m.a.Net", moved={"m.N": "m.a.N"})
    second, more = proof("m.a.Net", "m.b.Net"), proof("m.b.Net", "m.c.Net", added={"models.x": 1})
    apart = proof("m.Other", "m.a.Other")
    entries = [second, earlier, first, apart, more]

    def ends(current: str) -> list[tuple[str, str]]:
        turned = same.towards(entries, lambda code: code.model == current)
        return [(entry.old.model, entry.new.model) for entry in turned]

    as_they_are = [(entry.old.model, entry.new.model) for entry in entries]
    assert ends("m.c.Net") == as_they_are
    there = [("m.b.Net", "m.a.Net"), as_they_are[1], ("m.a.Net", "m.Net"), *as_they_are[3:]]
    assert ends("m.Net") == there
    assert [e.moved for e in same.towards([first], lambda c: c.model == "m.Net")] == [
        {"m.a.N": "m.N"}
    ]


def test_a_record_of_a_file_that_was_moved_has_its_name_of_then(tmp_path: Path) -> None:
    if subprocess.run([*GIT, "cat-file", "-e", BEFORE_A_MOVE], capture_output=True).returncode:
        pytest.skip("a shallow clone has no older commits")
    same.unpack(BEFORE_A_MOVE, tmp_path)
    table = tmp_path / IN_CHECKOUT / "test_time_memory.json"
    place = "models.memories.nearest_neighbour.NearestNeighbour"
    there = [entry for entry in read_file(table) if entry.new.model == place]
    assert any(entry.new.is_current(tmp_path) for entry in there)
    assert not any(e.old.is_current(tmp_path) for e in read_file(table) if e.old.model == place)


def said_of(figure: str) -> dict[str, Any]:
    content = judgements._figure(reproductions()[figure], list(committed_records()))
    return {figure: json.loads(json.dumps(content))}


def test_what_differs_is_named_and_another_form_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = said_of("recall_depth")
    (name, claim), *_ = now["recall_depth"]["claims"].items()
    assert list(now["recall_depth"]["presets"]) == ["laptop"]

    def state(**changes: Any) -> dict[str, Any]:
        other = json.loads(json.dumps(now))
        other["recall_depth"]["claims"][name] |= changes
        return dict(other)

    assert list(same.differences(now, state(test="another"))) == []
    assert same.restated(state(test="older"), now) == {"older": claim["test"]}
    assert list(same.differences(now, state(words="w"))) == [
        f"recall_depth, {name}: has other words"
    ]
    other = state()
    findings = other["recall_depth"]["presets"]["laptop"]["judged"][name]["two of three"]
    findings[2] = {**findings[2], "evidence": "another number"}
    expected = f"recall_depth at laptop, {name}: is judged otherwise"
    assert list(same.differences(now, other)) == [expected]
    assert list(same.differences(now, {})) == ["recall_depth: is gone"]

    states = iter([state(test="older"), now, other, now])
    monkeypatch.setattr(same, "unpack", lambda commit, folder: None)
    monkeypatch.setattr(same, "judged_in", lambda folder: next(states))
    monkeypatch.setattr(same, "RESTATED", tmp_path / "restated.yaml")
    assert main(["same", "commit=HEAD", "update=true"]) == OK
    assert "1 test has another form" in capsys.readouterr().out
    (kept,) = yaml.safe_load((tmp_path / "restated.yaml").read_text())
    assert kept == {
        "compared with": git("rev-parse", "HEAD").strip(),
        "same": {"older": claim["test"]},
    }
    with pytest.raises(UserError, match="1 claim or figure says something else") as refused:
        main(["same", "commit=HEAD", "update=true"])
    assert refused.value.exit_code == VERIFICATION_FAILED
    assert len(yaml.safe_load((tmp_path / "restated.yaml").read_text())) == 1


def test_a_claim_keeps_its_time_over_several_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = frozen.FrozenClaim("words", "2026-11-01T00:00:00+00:00", "first")
    monkeypatch.setattr(frozen, "same_tests", lambda: {"first": "second", "second": "third"})
    for test, known in {"first": True, "second": True, "third": True, "fourth": False}.items():
        assert entry.has_test(frozen.Hashes("a claim", "words", test)) == known


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["commit=no-such-commit"], "commit=no-such-commit cannot be unpacked"),
        ([], "cannot be given here\nusage"),
        (["commit=HEAD", "update=maybe"], "cannot be given here\nusage"),
        (["comit=HEAD"], "cannot be given here\nusage"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(words: list[str], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        main(["same", *words])


def test_only_a_comparison_excuses_a_test_that_is_not_as_it_was_frozen() -> None:
    """Each states the commit that it compared with, which is one of this history; and what it
    excuses was a test of a frozen claim, or is one in another form."""
    tests = {entry.test for claims in read_frozen().values() for entry in claims.values()}
    later = dict(yaml.safe_load(SAME_TESTS.read_text()))
    for comparison in yaml.safe_load(RESTATED.read_text()) or []:
        assert comparison.keys() == {"compared with", "same"}
        if not (ROOT / ".git").exists():
            continue
        commit = comparison["compared with"]
        git("merge-base", "--is-ancestor", commit, "HEAD")
        assert comparison["same"].keys() <= tests | set(later.values())
        later |= comparison["same"]
