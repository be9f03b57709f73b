"""Claims cannot change unseen: neither their words nor their numbers nor the code that judges."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from core import statistics
from core.errors import VERIFICATION_FAILED, UserError
from core.files import ROOT
from leaderboards.build import FOLDER
from reproduce.__main__ import reproductions
from reproduce.claims import controls, fairness, frozen
from reproduce.claims.claims import Claim, Hashes
from reproduce.claims.controls import Control
from reproduce.claims.frozen import (
    FrozenClaim,
    FrozenNumber,
    differing,
    differing_numbers,
    read_frozen,
    read_numbers,
    set_after,
    updated,
    updated_numbers,
    write_frozen,
)
from reproduce.claims.grammar import Number, Rule, Runs, above, each, once, trained_for, within
from reproduce.claims.history import changes_of, history
from reproduce.claims.numbers import numbers
from reproduce.claims.trials import settled
from reproduce.command import main
from tests.committed import committed_records
from tests.reproduce.claims.samples import record

# Claims whose source alone was mended: figure -> claim -> before, words_before.
MENDED = yaml.safe_load(Path(frozen.__file__).with_name("mended_sources.yaml").read_text())
ACCURACY = Number("accuracy", "accuracy")
OURS, THEIRS = Runs("ours", model="a"), Runs("theirs", model="b", settings={"models.layers": 2})
NOW = "2026-11-22T06:00:00+00:00"
FROM_NOW_ON = "2026-11-22T08:00:00+00:00"  # what is older is counted on the pages of results
LEAST = 0.8
NUMBER = '{"value": '  # in the line of a number
PLACES = ("judging/frozen.yaml", "reproduce/claims/frozen.yaml")  # the first until 2026-11-28


@cache
def all_claims() -> dict[str, list[Hashes]]:
    """The hashes of every claim by its figure; working them out takes seconds."""
    return {name: [claim.hashes for claim in one.claims] for name, one in reproductions().items()}


def claim(rule: Rule, sentence: str = "It is so.", control: Control | None = None) -> Claim:
    return Claim("n", sentence, rule, source="figure 9", control=control)


def own_rule(least: float) -> Rule:
    return Rule("as often as is needed", lambda found, level: settled(len(found) > least, ""))


def changed(one: Claim, other: Claim) -> list[str]:
    return differing({"f": [other.hashes]}, updated({"f": [one.hashes]}, {}, NOW))


def test_every_claim_is_as_it_was_frozen() -> None:
    how = "python -m reproduce claims update=true"
    assert differing(all_claims(), read_frozen()) == [], f"{how} sets them now"
    assert frozen.main(False, all_claims(), pytest.fail) == 0
    assert all(len({one.name for one in own}) == len(own) for own in all_claims().values())


WITHIN = within(ACCURACY.of(OURS), low=0.8)
CONTROL = Control("untrained", WITHIN)


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        (claim(WITHIN), claim(WITHIN, "It is nearly so."), "set anew"),
        (claim(WITHIN), claim(within(ACCURACY.of(OURS), low=0.79)), "set anew"),
        (claim(WITHIN), claim(WITHIN, control=CONTROL), "set anew"),
        (
            claim(WITHIN, control=CONTROL),
            claim(WITHIN, control=replace(CONTROL, label="x")),
            "anew",
        ),
        # The words stay, and the test does not.
        (claim(own_rule(3)), claim(own_rule(2)), "test was edited"),
        (claim(WITHIN), claim(replace(WITHIN, judge=own_rule(0).judge)), "edited"),
        (
            claim(above(ACCURACY.of(OURS), ACCURACY.of(THEIRS))),
            claim(
                above(ACCURACY.of(OURS), ACCURACY.of(THEIRS.but("theirs", {"models.layers": 1})))
            ),
            "test was edited",
        ),
        (
            claim(once(trained_for(9, "gpu"), WITHIN)),
            claim(once(trained_for(8, "gpu"), WITHIN)),
            "test was edited",
        ),
        (claim(each([WITHIN])), claim(each([WITHIN, WITHIN])), "test was edited"),
    ],
)
def test_each_change_of_a_claim_is_seen(one: Claim, other: Claim, how: str) -> None:
    assert changed(one, one) == []
    (found,) = changed(one, other)
    assert how in found


def test_a_constant_of_the_module_belongs_to_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule("often", lambda found, level: settled(len(found) > LEAST, ""))
    known = updated({"f": [claim(rule).hashes]}, {}, NOW)
    monkeypatch.setitem(globals(), "LEAST", 0.1)
    assert differing({"f": [claim(rule).hashes]}, known) == ["f, n: its test was edited"]


def test_times_stay_with_what_did_not_change(tmp_path: Path) -> None:
    path, later = tmp_path / "frozen.yaml", "2026-12-01T00:00:00+00:00"
    write_frozen(updated({"f": [claim(own_rule(3)).hashes]}, {}, NOW), path)
    (entry,) = (known := read_frozen(path))["f"].values()
    assert (entry.set, entry.edited, entry.since) == (NOW, "", NOW)
    same = updated({"f": [claim(own_rule(3)).hashes]}, known, later)
    assert same == known
    (edited,) = updated({"f": [claim(own_rule(2)).hashes]}, known, later)["f"].values()
    assert (edited.set, edited.edited, edited.since) == (NOW, later, later)
    (anew,) = updated({"f": [claim(own_rule(3), "Other words.").hashes]}, known, later)[
        "f"
    ].values()
    assert (anew.set, anew.edited) == (later, "")
    assert differing({}, known) == ["f: is gone"]
    with pytest.raises(UserError, match="cannot be given here"):
        main(["claims", "updat=true"], {})


@pytest.mark.parametrize(
    ("module", "name", "value", "said"),
    [
        (controls, "LEANING", 0.95, "reproduce.claims.controls.LEANING: is 0.95, was 0.8"),
        (controls, "FEWEST", 1, "reproduce.claims.controls.FEWEST: is 1, was 3"),
        (fairness, "STOPPED", 0.2, "reproduce.claims.fairness.STOPPED: is 0.2, was 0.01"),
        (statistics, "LEVEL", 0.9, "core.statistics.LEVEL: is 0.9, was 0.95"),
        (controls, "SLACK", 0.1, "reproduce.claims.controls.SLACK: is new"),
        (fairness, "LAST", None, "reproduce.claims.fairness.LAST: is gone"),
    ],
)
def test_a_number_that_decides_all_verdicts_cannot_change_unseen(
    module: ModuleType,
    name: str,
    value: float | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, name, value, raising=False)
    with pytest.raises(UserError, match="1 claim or number of judging is not as") as refused:
        frozen.main(False, all_claims(), pytest.fail)
    assert refused.value.exit_code == VERIFICATION_FAILED
    assert capsys.readouterr().out.splitlines() == [said]


def test_numbers_are_kept_beside_the_claims_with_their_times(tmp_path: Path) -> None:
    path, later = tmp_path / "frozen.yaml", "2026-12-01T00:00:00+00:00"
    claims = updated({"f": [claim(own_rule(3)).hashes]}, {}, NOW)
    first = updated_numbers({"a.SMALL": 1e-9, "a.FEW": 3}, {}, NOW)
    write_frozen(claims, path, first)
    assert read_frozen(path) == claims
    assert (
        read_numbers(path)
        == first
        == {"a.SMALL": FrozenNumber(1e-9, NOW), "a.FEW": FrozenNumber(3, NOW)}
    )
    now = {"a.SMALL": 1e-9, "a.FEW": 2}
    assert differing_numbers(now, first) == ["a.FEW: is 2, was 3"]
    second = updated_numbers(now, first, later)
    assert second == {"a.SMALL": FrozenNumber(1e-9, NOW), "a.FEW": FrozenNumber(2, later)}
    assert differing_numbers(now, second) == []
    assert read_numbers(tmp_path / "none.yaml") == {}


def test_a_number_belongs_to_the_module_that_gives_it_its_name() -> None:
    """LEVEL is of the statistics, whoever imports it."""
    own = {name.rpartition(".")[2]: name for name in numbers()}
    assert own["LEVEL"] == "core.statistics.LEVEL"
    assert sum(name.endswith(".LEVEL") for name in numbers()) == 1


def test_one_run_that_began_before_the_claim_is_enough_to_have_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = claim(own_rule(3))
    before, after = (
        record(n, 0.9, started=f"{day}T00:00:00")
        for n, day in enumerate(("2026-11-21", "2026-11-23"))
    )
    assert set_after(one.hashes, [after])  # it is not frozen at all
    (entry,) = updated({"f": [one.hashes]}, {}, NOW)["f"].values()
    monkeypatch.setattr(frozen, "_by_words", lambda: {entry.words: entry})
    assert not set_after(one.hashes, [after])
    assert set_after(one.hashes, [before, after])
    monkeypatch.setattr(frozen, "_by_words", lambda: {entry.words: entry._replace(test="0")})
    assert set_after(one.hashes, [after])  # its test is another one now


def test_runs_that_began_after_a_claim_was_set_confirm_it_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = claim(within(ACCURACY.of(Runs("all")), low=0.5))
    (entry,) = updated({"f": [one.hashes]}, {}, NOW)["f"].values()
    monkeypatch.setattr(frozen, "_by_words", lambda: {entry.words: entry})
    known = [0.9, 0.91, 0.92]
    seen = [record(n, a, started="2026-11-21T00:00:00") for n, a in enumerate(known)]

    def standing(*accuracies: float) -> tuple[bool | None, bool | None]:
        new = [record(n, a, started="2026-11-23T00:00:00") for n, a in enumerate(accuracies, 3)]
        result = one.judge([*seen, *new])
        return result.confirmed, result.asked_again

    assert standing() == (False, False)  # nothing was predicted
    assert standing(0.9) == (False, False)  # one run has no interval
    assert standing(0.9, 0.91, 0.89) == (True, True)
    # As many as were seen: 0.7 with an interval of 0.7 ± 0.51 decides nothing by itself, while all
    # six together are above 0.5.
    assert standing(0.9, 0.7, 0.5) == (False, True)
    assert standing(0.9, 0.8) == (False, False)  # fewer than were seen, with 0.85 ± 0.64
    assert standing(0.9, 0.91, 0.1) == (None, None)  # all together decide nothing
    late = [record(n, a, started="2026-11-23T00:00:00") for n, a in enumerate(known)]
    assert one.judge(late).confirmed is None  # set before all of them


@pytest.mark.parametrize("path", sorted((FOLDER / "verdicts").glob("*.json")), ids=lambda p: p.stem)
def test_a_claim_that_was_set_after_its_runs_is_named_in_the_history(path: Path) -> None:
    file = json.loads(path.read_text())
    late = [one for one in file["claims"] if one["after_runs"]]
    new = [one["name"] for one in late if one["p"] is not None and one["set"] > FROM_NOW_ON]
    changes = changes_of(file["figure"])
    missing = [name for name in new if not any(name in c.names_of(file["figure"]) for c in changes)]
    assert not missing, (
        f"set after their runs, and reproduce/claims/history.yaml does not say so: {missing}"
    )


def test_the_history_names_claims_that_there_are() -> None:
    names = {figure: {one.name for one in claims} for figure, claims in all_claims().items()}
    titles = [change.title for change in history()]
    assert len(titles) == len(set(titles))
    dates = [change.date for change in history()]
    assert dates == sorted(dates)
    for change in history():
        for figure, listed in change.claims.items():
            assert set(listed) <= names[figure], change.title
        for figure, listed in change.gone.items():
            assert not set(listed) & names[figure], change.title


def test_no_claim_is_dated_long_before_the_commit_that_holds_it() -> None:
    """Those of the first version of the file were dated by the history of the claims, and the first
    numbers of judging by theirs."""
    first = _git("log", "--diff-filter=A", "--format=%H", "--", PLACES[0]).split()
    if not first:
        pytest.skip("there is no history here")
    old = set(_git("show", f"{first[-1]}:{PLACES[0]}").splitlines())
    if with_numbers := _git("log", "-S", NUMBER, "--format=%H", "--", PLACES[0]).split():
        old |= {*_git("show", f"{with_numbers[-1]}:{PLACES[0]}").splitlines()}
    old = set(map(_without_package, old))
    present = set(map(_without_package, Path(frozen.FROZEN).read_text().splitlines())) - old
    made = {_without_package(line): time for line, time in _lines_committed()}  # the oldest is last
    mended = "|".join(read_frozen()[f][name].words for f in MENDED for name in MENDED[f])
    for line in present:
        committed = made.get(line, datetime.now(UTC))
        if re.search(f'"words": "({mended})"', line):  # see the next test
            continue
        for entry in (yaml.safe_load(line) or {}).values() if ": {" in line else ():
            since = FrozenNumber(**entry).set if NUMBER in line else FrozenClaim(**entry).since
            assert datetime.fromisoformat(since) > committed - timedelta(days=1), line


@pytest.mark.parametrize(("figure", "name"), [(f, name) for f in MENDED for name in MENDED[f]])
def test_a_claim_with_another_source_and_no_other_change_is_as_old_as_it_was(
    figure: str, name: str
) -> None:
    (present,) = [one for one in reproductions()[figure].claims if one.name == name]
    older = replace(present, source=MENDED[figure][name]["before"]).hashes
    assert older.words == MENDED[figure][name]["words_before"] != present.hashes.words
    assert older.test == present.hashes.test
    entry = read_frozen()[figure][name]
    history = _git("log", "--full-history", "-m", "-p", "--format=", "--", *PLACES)
    lines = [line for line in history.splitlines() if f'"words": "{older.words}"' in line]
    if not lines:
        pytest.skip("there is no history here, or not all of it")
    kept = {FrozenClaim(**next(iter(yaml.safe_load(line[1:]).values()))) for line in lines}
    assert entry._replace(words=older.words) in kept


def test_a_claim_that_counts_as_set_before_its_runs_was_committed_before_them() -> None:
    """The first commit that holds its two hashes is no younger than the first run."""
    committed: dict[tuple[str, ...], datetime] = {}
    for line, time in _lines_committed():
        if hashes := re.findall(r'"(?:words|test)": "(\w+)"', line):
            committed[tuple(hashes)] = min(time, committed.get(tuple(hashes), time))
    if not committed or _git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("there is no history here, or not all of it")
    began = {(r.preset, r.run_id): r.provenance.started_at for r in committed_records()}
    late = []
    for figure, claims in MENDED.items():
        for name, older in claims.items():
            entry = read_frozen()[figure][name]
            committed[entry.words, entry.test] = committed[older["words_before"], entry.test]
    for path in sorted((FOLDER / "verdicts").glob("*.json")):
        file = json.loads(path.read_text())
        first = min((began[file["preset"], name] for name in file["records"]), default="9999")
        for claim in (one for one in file["claims"] if not one["after_runs"]):
            if committed[*claim["frozen"].split("-")].isoformat() > first:
                late.append(f"{path.stem}: {claim['name']}")
    assert late == []


def _without_package(line: str) -> str:
    """A line of the file; the number of a module has lost the package, which moved."""
    return re.sub(r"^  [\w.]+\.(\w+\.\w+: )", r"  \1", line) if NUMBER in line else line


def _lines_committed() -> Iterator[tuple[str, datetime]]:
    """Every line that a commit brought into the file, with its time, the newest commit first."""
    time = datetime.now(UTC)
    words = ("log", "--full-history", "-m", "--format=@%at", "-p", "--", *PLACES)
    for line in _git(*words).splitlines():
        if line.startswith("@") and line[1:].isdigit():
            time = datetime.fromtimestamp(int(line[1:]), UTC)
        elif line.startswith("+"):
            yield line[1:], time


def _git(*words: str) -> str:
    found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout if found.returncode == 0 else ""
