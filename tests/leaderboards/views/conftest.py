"""A small board, as the pages open it."""

from __future__ import annotations

import pytest

from bench.records.schema import RunRecord, Study
from leaderboards.board import build_board
from leaderboards.contents import Board, OpenBoard, write_board


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
        seen = made[0].metrics["validation"]["accuracy"]
        records += [record.model_copy(update={"study": _seen(record, seen)}) for record in made]
    return build_board(records)


def _seen(record: RunRecord, best: float) -> Study:
    """The search of a record, whose best trial saw what the run with its first seed has."""
    assert record.study is not None
    highest = max(trial.value or 0.0 for trial in record.study.trials)
    trials = [
        trial.model_copy(update={"value": best if trial.value == highest else best / 2})
        for trial in record.study.trials
    ]
    return record.study.model_copy(update={"trials": trials})


@pytest.fixture
def opened(tmp_path):
    """A board as pages read it: from its folder."""

    def open_it(board: Board) -> OpenBoard:
        path = tmp_path / "board.parquet"
        write_board(board, path)
        return OpenBoard(path)

    return open_it
