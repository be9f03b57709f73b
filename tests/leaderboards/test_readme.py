"""Every number in the README's results is the committed board's."""

import pytest

from bench.errors import UserError
from leaderboards.build import COMMITTED
from leaderboards.contents import read_board
from leaderboards.readme import END, README, START, main, results, with_results


def test_the_readme_holds_the_results_of_the_committed_board() -> None:
    assert main(["--check"]) == 0


def test_every_measured_headline_of_the_board_is_in_the_section() -> None:
    board = read_board(COMMITTED)
    section = results(board)
    for row in board.rows:
        if row.headline and row.kind == "measured" and row.mean is not None:
            assert f"| {row.label} |" in section
            assert f"{row.mean:.3f}" in section
    for claim in board.claims:
        assert claim.sentence in section


def test_an_edited_number_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    edited = tmp_path / "README.md"
    edited.write_text(with_results(README.read_text(), "| GPT2 | 1 | 0.999 |\n"))
    monkeypatch.setattr("leaderboards.readme.README", edited)
    with pytest.raises(UserError, match="not those of the committed board"):
        main(["--check"])
    edited.write_text(f"no {START} second marker")
    with pytest.raises(UserError, match="must hold the lines"):
        main([])
    assert END not in edited.read_text()
