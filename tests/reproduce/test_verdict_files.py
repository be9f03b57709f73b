"""``python -m reproduce verdicts``: committed verdict files against committed records."""

from __future__ import annotations

import json
import re
from pathlib import Path

import optuna
import pytest

from bench.records.schema import write_record
from bench.records.store import Store
from bench.search.contender import Contender
from bench.search.plan import make_plan
from ground.errors import OK, VERIFICATION_FAILED, UserError
from leaderboards.build import FOLDER
from reproduce import committed, set_after_runs
from reproduce.__main__ import reproductions
from reproduce.command import main
from tests.bench.records import make_record
from tests.committed import committed_records
from tests.conftest import ROOT
from tests.reproduce.test_command import FIGURES, fill


def test_verdict_files_are_compared_with_the_records_and_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = tmp_path / "records"
    fill(records / "three_moons" / "smoke")
    shown = [f"records={records}", f"store={tmp_path / 'store'}"]
    assert main(["figure5", *shown], FIGURES) == OK
    right = tmp_path / "store" / "reproductions" / "figure5" / "smoke" / "verdicts.json"
    kept = tmp_path / "verdicts" / "figure5-smoke.json"
    kept.parent.mkdir()
    older = json.loads(right.read_text())
    (name, verdict), *_ = [(c["name"], c["verdict"]) for c in older["claims"]]
    older["claims"][0]["verdict"], older["records"] = "contradicted", older["records"][1:]
    kept.write_text(json.dumps(older))
    monkeypatch.setattr(committed, "COMMITTED", records)
    capsys.readouterr()
    with pytest.raises(UserError, match="1 of 1 verdict files are not what") as refused:
        main(["verdicts"], FIGURES)
    assert refused.value.exit_code == VERIFICATION_FAILED
    (changed,) = capsys.readouterr().out.splitlines()
    evidence = json.loads(right.read_text())["claims"][0]["evidence"]
    assert changed.startswith(f"figure5-smoke.json: {name}: contradicted, now {verdict}: ")
    assert evidence.startswith(changed.partition(f"now {verdict}: ")[2])
    assert json.loads(kept.read_text()) == older
    assert main(["verdicts", "update=true"], FIGURES) == OK
    assert kept.read_bytes() == right.read_bytes()
    assert main(["verdicts"], FIGURES) == OK
    fewer = json.loads(right.read_text())
    kept.write_text(json.dumps(fewer | {"records": fewer["records"][1:]}))
    # What cannot be judged is named, and then nothing is written.
    for content, why in (
        ("{", "truncated|JSON"),
        (json.dumps(fewer | {"figure": "gone"}), "no repro"),
    ):
        spoilt = kept.with_name("gone-smoke.json")
        spoilt.write_text(content)
        with pytest.raises(UserError, match=f"gone-smoke.json.*({why})"):
            main(["verdicts", "update=true"], FIGURES)
        spoilt.unlink()
    assert len(json.loads(kept.read_text())["records"]) == len(fewer["records"]) - 1
    capsys.readouterr()
    assert main(["verdicts", "update=true"], FIGURES) == OK
    told = capsys.readouterr().out.splitlines()[0]
    assert told == "figure5-smoke.json: 1 records more, 0 fewer, the same verdicts"
    with pytest.raises(UserError, match=r"'update=false' cannot be given here\nusage"):
        main(["verdicts", "update=false"], FIGURES)


PAGE = "docs/set_after_runs.md"


def test_the_page_names_every_committed_claim_that_was_set_after_its_runs() -> None:
    began = {one.run_id: one.provenance.started_at for one in committed_records()}
    began |= json.loads((FOLDER / "repeats.json").read_text())  # of the first that a run repeats
    text = (ROOT / PAGE).read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()]
    listed = {(r[0], r[1], re.sub(r"\\(.)", r"\1", r[2])): r[-3:] for r in rows if len(r) == 7}
    late = {}
    for path in sorted((FOLDER / "verdicts").glob("*.json")):
        file = json.loads(path.read_text())
        first = min((began[run] for run in file["records"]), default="")
        for one in (claim for claim in file["claims"] if claim["after_runs"]):
            times = [time[:16].replace("T", " ") for time in (one["set"], first)]
            confirmed = {True: "yes", False: "no"}.get(one.get("confirmed"), "not decided")
            late[file["figure"], file["preset"], one["name"]] = [*times, confirmed]
    again = f"the verdicts have changed: make it again by `python -m reproduce claims page={PAGE}`"
    listed.pop(("figure", "preset", "claim"))
    assert listed.pop(("---", "---", "---"))
    assert listed == late, again
    assert text == set_after_runs.page(PAGE), again


def test_the_page_is_written_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_after_runs, "COMMITTED", tmp_path / "records")
    made = make_record().provenance
    starts = ("2026-11-25T08:00", "2026-11-24T08:00")
    runs = [
        make_record(seed=n, provenance=made.model_copy(update={"started_at": start}))
        for n, start in enumerate(starts)
    ]
    for run in runs:
        write_record(run, tmp_path / "records")
    claim = {"verdict": "reproduced", "evidence": "", "set": "2026-11-30T09:30:59+00:00"}
    claims = [
        {**claim, "name": "before", "tolerance": "at least 1", "after_runs": False},
        {**claim, "name": "late", "tolerance": "|x| < 1", "after_runs": True, "confirmed": False},
        {**claim, "name": "new", "tolerance": "any", "after_runs": True, "set": None},
    ]
    file = {"figure": "figure9", "preset": "smoke", "records": [one.run_id for one in runs]}
    (tmp_path / "verdicts").mkdir()
    kept = tmp_path / "verdicts" / "figure9-smoke.json"
    kept.write_text(json.dumps({**file, "claims": claims}))
    page = tmp_path / "page.md"
    assert main(["claims", f"page={page}"], FIGURES) == OK
    text = page.read_text()
    assert "2 of the 3 claims" in text
    assert f"`python -m reproduce claims page={page}`" in text
    first, second = text.splitlines()[-2:]
    times = "2026-11-30 09:30 | 2026-11-24 08:00"
    assert first == rf"| figure9 | smoke | late | \|x\| \< 1 | {times} | no |"
    assert second == "| figure9 | smoke | new | any |  | 2026-11-24 08:00 | not decided |"
    kept.write_text(json.dumps({**file, "records": ["gone"], "claims": claims}))
    with pytest.raises(UserError, match="figure9 at smoke are judged from gone, whose record"):
        main(["claims", f"page={page}"], FIGURES)
    for words in (["page="], [f"page={page}", "update=true"]):
        with pytest.raises(UserError, match=r"cannot be given here\nusage: .*page=FILE"):
            main(["claims", *words], FIGURES)


# Their searches are served where the words of the command name the texts of the records.
ON_TEXTS = ("attention", "babistories", "story_prompts", "wikipedia")


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "verdicts").glob("*-laptop.json")), ids=lambda path: path.stem
)
def test_every_search_of_a_figure_with_verdicts_is_served(path: Path, tmp_path: Path) -> None:
    """Nobody trains for hours what is on the board."""
    file = json.loads(path.read_text())
    asked = [f"preset={file['preset']}", f"store={tmp_path}", "committed=true"]
    searched = []
    for words in reproductions()[file["figure"]].plan(file["preset"], None).sweeps:
        if words[0].removeprefix("tasks=") in ON_TEXTS:
            continue
        storage = optuna.storages.InMemoryStorage()
        for entry in make_plan([*words, *asked]).entries:
            if Contender(entry, storage, Store(tmp_path)).given is None:
                searched.append(f"{entry.configuration.model}: {' '.join(words)}")
    assert not searched
