"""``python -m reproduce verdicts``: committed verdict files against committed records."""

import json
from pathlib import Path

import optuna
import pytest

from bench.records.store import Store
from bench.search.model_search import ModelSearch
from core.errors import OK, VERIFICATION_FAILED, UserError
from leaderboards.build import FOLDER
from reproduce import committed, writing
from reproduce.__main__ import reproductions
from reproduce.command import main
from tests.configurations import make_plan
from tests.reproduce.plans import in_words
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
    assert told == "figure5-smoke.json: 1 record more, 0 fewer, the same verdicts"
    with pytest.raises(UserError, match=r"'update=false' cannot be given here\nusage"):
        main(["verdicts", "update=false"], FIGURES)


# Their searches are served where the words of the command name the texts of the records.
ON_TEXTS = ("attention", "babistories", "story_prompts", "wikipedia")
# Of figures whose other rows are still to be run: which settings were.
WAS_RUN: dict[str, dict[str, tuple[str, ...]]] = {
    "mamba3": {"model": ("mamba3",)},
    "cogscale": {
        "task_name": (
            "sinus_forecasting",
            "chaotic_forecasting",
            "sorting_problem",
            "adding_problem",
        )
    },
}


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "verdicts").glob("*-laptop.json")), ids=lambda path: path.stem
)
def test_every_search_of_a_figure_with_verdicts_is_served(path: Path, tmp_path: Path) -> None:
    """Nobody trains for hours what is on the board."""
    file = json.loads(path.read_text())
    was_run = WAS_RUN.get(file["figure"], {})
    asked = [f"preset={file['preset']}", f"store={tmp_path}", "committed=true"]
    searched = []
    for words in in_words(reproductions()[file["figure"]].plan(file["preset"], None).sweeps):
        if words[0].removeprefix("tasks=") in ON_TEXTS:
            continue
        storage = optuna.storages.InMemoryStorage()
        for entry in make_plan([*words, *asked]).entries:
            values = {**entry.configuration.tasks, "model": entry.configuration.model}
            if any(values[key] not in names for key, names in was_run.items()):
                continue
            if ModelSearch(entry, storage, Store(tmp_path)).committed is None:
                searched.append(f"{entry.configuration.model}: {' '.join(words)}")
    assert not searched


def test_a_verdict_whose_record_is_gone_is_not_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = {"figure": "figure4", "preset": "smoke", "records": ["three_moons-lost-s0"]}
    (tmp_path / "records").mkdir()
    (tmp_path / "verdicts").mkdir()
    path = tmp_path / "verdicts" / "figure4-smoke.json"
    path.write_text(json.dumps(verdict))
    monkeypatch.setattr(writing, "COMMITTED", tmp_path / "records")
    with pytest.raises(UserError, match="judged from three_moons-lost-s0, whose record is not"):
        writing.judge_again(FIGURES)
    assert json.loads(path.read_text()) == verdict
