"""The workflow's own lines, executed by bash; ``nox -s workflow`` verifies a true submission."""

from pathlib import Path

import pytest

from core.files import ROOT
from tests.workflow import COMMENT, TAKE_OUT, VERIFY, Runner, asked_to_merge, steps

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no clone")
FOLDER = Path("leaderboards") / "submissions"


def with_files(folder: Path, *names: str) -> Runner:
    """A pull request that adds some files, after its files were taken out."""

    def change(clone: Path) -> None:
        for name in names:
            path = clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("changed")

    runner = asked_to_merge(folder, change, with_records=False)
    done = runner.run(TAKE_OUT)
    assert done.returncode == 0, done.stderr
    return runner


def test_these_are_the_steps() -> None:
    assert list(steps()) == [TAKE_OUT, VERIFY, COMMENT]


def test_what_was_submitted_is_taken_out_as_files(tmp_path: Path) -> None:
    runner = with_files(tmp_path, f"{FOLDER}/ada/submission.yaml", f"{FOLDER}/bob/records/x.json")
    assert runner.read("names").split() == ["ada", "bob"]
    assert runner.read(f"submitted/{FOLDER}/ada/submission.yaml") == "changed"
    assert not (runner.base / FOLDER).exists()


@pytest.mark.parametrize("other", ["README.md", f"{FOLDER}/x.py", f"{FOLDER}/$(touch x) y/z"])
def test_a_change_of_anything_else_is_told_and_not_verified(other: str, tmp_path: Path) -> None:
    runner = with_files(tmp_path, f"{FOLDER}/ada/submission.yaml", other)
    assert not (runner.temp / "names").exists()
    for step in (VERIFY, COMMENT):
        assert runner.run(step).returncode == 0
    assert runner.read("said").startswith("Not verified: a submission changes nothing but")
    asked = runner.read("asked").split("\n")
    assert asked[:5] == ["pr", "comment", "7", "--repo", "ada/bench"]
    assert not [*tmp_path.rglob("x")]
