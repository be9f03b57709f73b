"""Every number in the README's results and in docs/results.md is the committed board's."""

import shutil
from pathlib import Path

import pytest

from bench.ground.errors import UserError
from leaderboards import readme
from leaderboards.build import COMMITTED
from leaderboards.contents import read_board


def test_readme_and_page_hold_the_results_of_the_committed_board() -> None:
    assert readme.main(["--check"]) == 0


def test_every_measured_headline_and_verdict_is_on_the_page() -> None:
    board = read_board(COMMITTED)
    page, summary = readme.results(board), readme.summary(board)
    for row in board.rows:
        if row.headline and row.kind == "measured" and row.mean is not None:
            assert f"{row.label}" in page
            assert f"{row.mean:.3f}" in page
    for claim in board.claims:
        assert claim.sentence in page
        assert claim.title in summary


def test_an_edited_number_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copy(readme.RESULTS, tmp_path / "docs")
    text = (readme.ROOT / "README.md").read_text()
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    edited = tmp_path / "README.md"
    edited.write_text(readme.with_results(text, "| GPT2 | 1 | 0.999 |\n", "README.md"))
    with pytest.raises(UserError, match=r"in README\.md are not those of the committed board"):
        readme.main(["--check"])
    edited.write_text(f"no {readme.START} second marker")
    with pytest.raises(UserError, match="must hold the lines"):
        readme.main([])
