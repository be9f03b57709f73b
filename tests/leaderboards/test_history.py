"""Commits that change code alone are told from those that change what was found."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from bench.records.equivalence import IN_CHECKOUT
from core.errors import VERIFICATION_FAILED, UserError
from core.files import ROOT
from leaderboards import history
from tests.committed import committed_paths, copied

RECORD = committed_paths("regbench/*/regbench-gpt2-*")[0]
VERDICTS = next((ROOT / history.VERDICTS).glob("figure9*.json"))
ROWS = ROOT / history.ROWS / "bigram.parquet"


class Repository:
    """A checkout with the code of models and tasks, a record, a verdict file and a few rows."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("models", "tasks"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        copied([RECORD], root / history.RECORDS)
        shutil.copytree(ROOT / IN_CHECKOUT, root / IN_CHECKOUT)
        for path in (VERDICTS, ROWS):
            target = self.path(str(path.relative_to(ROOT)))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        self.git("init", "--quiet")
        self.commit("the beginning")

    def path(self, name: str) -> Path:
        return self.root / name

    def git(self, *words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def edit(self, path: Path, before: str, after: str, message: str) -> None:
        target = self.path(str(path))
        text = target.read_text()
        assert before in text
        target.write_text(text.replace(before, after, 1))
        self.commit(message)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(history, "ROOT", tmp_path / "project")
    return Repository(tmp_path / "project")


def shown(capsys: pytest.CaptureFixture[str], repository: Repository, code: int) -> list[str]:
    folder = repository.root.parent / "history"
    words = ["HEAD~1..HEAD", f"folder={folder}", "recompute=none"]
    assert history.main(words) == code
    return capsys.readouterr().out.splitlines()


GPT2 = Path("models", "gpt2.py")


def test_code_that_makes_no_record_stale_is_told_from_code_that_does(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.edit(GPT2, "from __future__", "# a comment\nfrom __future__", "a comment")
    assert shown(capsys, repository, 0)[-1] == "1 of 1 commit changed code alone"
    repository.edit(GPT2, "from __future__", "SIZE = 3\nfrom __future__", "a constant")
    said = shown(capsys, repository, VERIFICATION_FAILED)
    assert said[0].startswith("differs: ")
    assert said[1:] == [
        "  1 stale record: regbench, gpt2",
        "0 of 1 commit changed code alone",
    ]
    assert shown(capsys, repository, VERIFICATION_FAILED) == said  # as it was kept


def test_a_changed_verdict_is_a_fault_unless_the_commit_names_its_claim(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    path = VERDICTS.relative_to(ROOT)
    claim = json.loads(VERDICTS.read_text())["claims"][0]
    before = f'"verdict": "{claim["verdict"]}"'
    repository.edit(path, before, '"verdict": "other"', "tidied")
    change = f"{path.stem}, {claim['name']}: {claim['verdict']} before, other now"
    assert shown(capsys, repository, VERIFICATION_FAILED)[1] == f"  {change}"
    repository.edit(path, '"verdict": "other"', before, f"why {claim['name']} is so again")
    said = shown(capsys, repository, 0)
    assert said[1].startswith("  named by the commit: ")


def test_other_numbers_of_the_same_records_are_a_fault(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    target = repository.path(str(ROWS.relative_to(ROOT)))
    table = pyarrow.parquet.read_table(target)
    rows: list[dict[str, Any]] = table.to_pylist()
    row = next(row for row in rows if row["run_ids"] and row["mean"] is not None)
    place = f"{row['task']}, {row['preset']}, {row['label']}, {row['metric']}"

    def write(changed: list[dict[str, Any]], message: str) -> None:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(changed, table.schema), target)
        repository.commit(message)

    others = [other for other in rows if other is not row]
    mean = row["mean"]
    write([*others, {**row, "mean": mean + 1, "note": "x"}], "another number")
    said = shown(capsys, repository, VERIFICATION_FAILED)
    assert said[1:-1] == [f"  {place}: mean {mean} before, {mean + 1} now"]
    runs = [*row["run_ids"], "one-more"]
    write([*others, {**row, "mean": 0.5, "run_ids": runs}], "one more record")
    assert len(shown(capsys, repository, 0)) == 2
    write(others, "without it")
    assert shown(capsys, repository, VERIFICATION_FAILED)[1] == f"  {place}: gone"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a range of commits"),
        (["HEAD"], "name a range of commits"),
        (["a..b", "recompute=all"], "recompute=all is none of last, each and none"),
        (["a..nothing"], "git refuses: .*a..nothing"),
    ],
)
def test_what_cannot_be_looked_at_is_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        history.main(words)
