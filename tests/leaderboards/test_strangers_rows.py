"""What a board says of the models of others: their labels as they typed them, what they learn
beside their parameters, and which sizes nobody measured."""

from typing import Any

import pytest

from bench.records.schema import Cost, Examination, RunRecord
from leaderboards.render import name
from leaderboards.tables.builder import build_board
from leaderboards.tables.lines import Row
from tests.leaderboards.conftest import record

DECLARED = "its state bytes are declared by the model, and were not measured"


def guest(seed: int, label: str = "Counts", *, before: Any = (), **cost: Any) -> RunRecord:
    made = record("Counts", label, seed, 0.6 + seed / 100)
    config = {**made.config, "models": {"_target_": "net.py:Counts"}}
    sizes: dict[str, Any] = {"parameters": 20, "training_steps": 800, **cost}
    examination = Examination(before=list(before))
    update = {"config": config, "cost": Cost(**sizes), "examination": examination}
    return made.model_copy(update=update)


def row_of(*records: RunRecord) -> Row:
    (row,) = [row for row in build_board([], own=list(records)).rows if row.headline]
    return row


@pytest.mark.parametrize(
    ("changed", "clause"),
    [(7, "training changed 7 numbers in buffers"), (4_000, "4,000 numbers in buffers, more than")],
)
def test_numbers_in_buffers_stand_beside_the_parameters(changed: int, clause: str) -> None:
    row = row_of(guest(0, changed_buffers=changed), guest(1, changed_buffers=3))
    assert row.parameters == 20
    assert "beside its 20 parameters" in row.note
    assert clause in row.note
    assert ("more than these" in row.note) == (changed > 20)
    assert "buffers" not in row_of(guest(0), guest(1)).note


def test_a_state_that_nobody_measured_is_told_as_declared() -> None:
    assert DECLARED in row_of(guest(0, state_bytes=8), guest(1, state_bytes=8)).note
    assert DECLARED not in row_of(guest(0), guest(1)).note  # it declares none
    measured = [guest(seed, state_bytes=8, before=["state bytes"]) for seed in (0, 1)]
    assert DECLARED not in row_of(*measured).note
    ours = [record("gpt2", "GPT2", seed, 0.6 + seed / 100) for seed in (0, 1)]
    assert ours[0].cost.state_bytes
    assert DECLARED not in row_of(*ours).note


def test_labels_of_models_are_shown_as_they_were_typed() -> None:
    board = build_board([], own=[guest(0, "a__b _c"), guest(1, "a__b _c")])
    assert {name(row) for row in board.rows} == {"a__b _c"}
    predictor = record("1_gram", "repeat_last", 0, 0.3, role="baseline")
    assert {name(row) for row in build_board([predictor]).rows} == {"repeat last"}
