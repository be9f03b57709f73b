"""``python -m reproduce`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.errors import CLAIM_CONTRADICTED, OK, RUN_FAILED, UserError
from bench.records import write_record
from bench.reproduction import HELP, View, main
from leaderboards.verdicts import read_verdicts
from reproduce.__main__ import reproductions
from tests.reproduce.records import moons

FIGURES = reproductions()
FILES = ["curves.json", "figure.png", "figure.svg", "records.txt", "verdicts.json"]


def fill(folder: Path, steps: bool = True, outcome: str = "ok") -> Path:
    for seed in range(5):
        write_record(moons(seed, 3, steps, outcome), folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_listing_is_complete_and_loads_neither_torch_nor_matplotlib(run_command) -> None:
    script = (
        "import sys; from bench.reproduction import main; "
        "from reproduce.__main__ import reproductions; main([], reproductions()); "
        "main(['--help'], {}); "
        "assert not {'torch', 'matplotlib', 'lightning'} & set(sys.modules)"
    )
    done = run_command("-c", script)
    assert done.returncode == OK, done.stderr
    for name in ("figure4", "figure5", "figure9", "figure10", "table3"):
        assert f"  {name} " in done.stdout
    assert HELP in done.stdout


def test_records_are_enough_and_need_no_torch(run_command, tmp_path: Path) -> None:
    fill(tmp_path / "records")
    words = ["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path / 'store'}"]
    script = (
        "import sys; from bench.reproduction import main; "
        "from reproduce.__main__ import reproductions; "
        f"code = main({words!r}, reproductions()); "
        "assert not {'torch', 'lightning'} & set(sys.modules); sys.exit(code)"
    )
    done = run_command("-c", script)
    assert done.returncode == OK, done.stderr
    assert "reproduced  The three-head network predicts well" in done.stdout
    folder = tmp_path / "store" / "reproductions" / "figure5" / "smoke"
    assert sorted(contents(folder)) == FILES
    # In this process, in another folder: the same bytes.
    assert main([*words[:2], f"store={tmp_path / 'again'}"], FIGURES) == OK
    assert contents(tmp_path / "again" / "reproductions" / "figure5" / "smoke") == contents(folder)


def test_verdict_file_is_what_the_board_reads(tmp_path: Path) -> None:
    fill(tmp_path / "records")
    main(["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path}"], FIGURES)
    folder = tmp_path / "reproductions" / "figure5" / "smoke"
    [file] = read_verdicts([folder / "verdicts.json"])
    assert (file.figure, file.preset) == ("figure5", "smoke")
    assert file.records == (folder / "records.txt").read_text().split()
    assert {claim.verdict for claim in file.claims} == {"reproduced"}
    assert {claim.seeds for claim in file.claims} == {5}
    curves = json.loads((folder / "curves.json").read_bytes())
    assert sorted(curves["runs"]) == sorted(file.records)


def test_contradicted_is_a_result_unless_strict(tmp_path: Path, capsys) -> None:
    fill(tmp_path / "records", steps=False)
    words = ["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path}"]
    assert main(words, FIGURES) == OK
    assert "contradicted  " in capsys.readouterr().out
    assert main([*words, "strict=true"], FIGURES) == CLAIM_CONTRADICTED


def test_nothing_but_failures_is_a_failure_and_is_written_all_the_same(
    tmp_path: Path, capsys
) -> None:
    fill(tmp_path / "records", outcome="diverged")
    words = ["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path}"]
    assert main(words, FIGURES) == RUN_FAILED
    assert "5 of 5 runs gave no result" in capsys.readouterr().out
    assert (tmp_path / "reproductions" / "figure5" / "smoke" / "verdicts.json").exists()


def test_records_of_another_preset_or_task_are_not_mixed_in(tmp_path: Path) -> None:
    fill(tmp_path / "records")
    write_record(moons(9, 3, steps=False, preset="laptop"), tmp_path / "records")
    write_record(moons(8, 1, steps=False), tmp_path / "records")
    main(["figure5", f"records={tmp_path / 'records'}", f"store={tmp_path}"], FIGURES)
    used = (tmp_path / "reproductions" / "figure5" / "smoke" / "records.txt").read_text().split()
    assert len(used) == 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["figure55"], "there is no reproduction 'figure55': did you mean 'figure5'?"),
        (["figure5", "preset=smok"], "there is no preset 'smok': did you mean 'smoke'?"),
        (["figure5", "seed=3"], "'seed=3' cannot be chosen here"),
        (["figure9", "sweep.seeds=5"], "seeds=N sets how many"),
        (["figure5", "models=gpt2"], "'models=gpt2' cannot be chosen here"),
        (["figure5", "seeds=0"], "at least one seed is needed"),
        (["figure5", "seeds=true"], "seeds=True is not a number of seeds"),
        (["figure5", "strict=perhaps"], "strict=perhaps is neither true nor false"),
        (["figure5", "records=/nowhere"], "there is no folder /nowhere"),
        (["figure5", "records=.", "seeds=3"], "'seeds=3' changes runs, but records=… runs nothing"),
        (["figure5", "training.stepz=3"], "there is no setting 'training.stepz'"),
    ],
)
def test_mistakes_get_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        main([*words, f"store={tmp_path}"], FIGURES)
    assert sentence in str(error.value)


def test_an_empty_folder_of_records_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leave records=… out to make the runs"):
        main(["figure5", f"records={tmp_path}", f"store={tmp_path}"], FIGURES)


def test_changed_settings_are_named_and_have_a_folder_of_their_own() -> None:
    view = View("smoke", ("training.lr=0.1", "training.steps=5"))
    assert view.name == "smoke training.lr=0.1 training.steps=5"
    assert view.folder == "smoke+training.lr=0.1+training.steps=5"
    assert "/" not in View("smoke", ("models.a=x/../y",)).folder


def test_runs_are_made_once(tmp_path: Path, capsys) -> None:
    words = [
        "figure5",
        "preset=smoke",
        "seeds=2",
        "training.steps=3",
        "training.restarts=1",
        "tasks.sequences=2",
        "tasks.contexts_every=30",
        f"store={tmp_path}",
    ]
    assert main(words, FIGURES) == OK
    said = capsys.readouterr().out
    assert "not enough evidence  " in said or "contradicted  " in said
    [folder] = (tmp_path / "reproductions" / "figure5").iterdir()
    assert sorted(contents(folder)) == FILES
    records = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    assert len(records) == 2 + 4  # networks, and predictors without training
    before = contents(folder)
    assert main(words, FIGURES) == OK
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    assert after == records
    assert contents(folder) == before
    verdicts = json.loads(before["verdicts.json"])
    assert verdicts["preset"].startswith("smoke tasks.contexts_every=30 ")
