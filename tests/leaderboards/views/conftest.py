"""A small board, as the pages open it."""

import pytest

from leaderboards.contents import Board, OpenBoard
from leaderboards.tables.builder import build_board
from tests.leaderboards.boards import write_board
from tests.leaderboards.conftest import as_searched


def with_ends(make_record, floor=0.2, oracle=1.0, **settings):
    """The predictors between which RegBench's card places a score."""
    return [
        make_record(name.replace(" ", "_"), name, 0, value, role="baseline", **settings)
        for name, value in (("uniform over seen letters", floor), ("oracle", oracle))
    ]


def language_board(make_record, levels, preset="laptop") -> Board:
    """Tuned models on held-out languages: name → the scores of its seeds."""
    settings = {"preset": preset, "task_settings": {"variant": "held_out"}}
    records = with_ends(make_record, **settings)
    for model, scores in levels.items():
        fields = {"role": "final", "trials": 3, **settings}
        made = [
            make_record(model, model.upper(), seed, s, **fields) for seed, s in enumerate(scores)
        ]
        records += as_searched(made)
    return build_board(records)


@pytest.fixture
def opened(tmp_path):
    """A board as pages read it: from its folder."""

    def open_it(board: Board) -> OpenBoard:
        path = tmp_path / "board.parquet"
        write_board(board, path)
        return OpenBoard(path)

    return open_it
