"""The columns of the first page: one budget each, shares between ends that were run, and who leads
as README has it."""

import pytest

from leaderboards.build import COMMITTED
from leaderboards.contents import Board, OpenBoard
from leaderboards.render import plain
from leaderboards.tables.builder import build_board
from leaderboards.views import overview
from leaderboards.views.abilities.questions import answers, questions
from leaderboards.views.abilities.sources import ability_tables
from tests.committed import committed_board
from tests.leaderboards.conftest import as_searched
from tests.leaderboards.views.conftest import with_ends
from tests.leaderboards.views.test_views import cell_of

LAPTOP = {"preset": "laptop", "task_settings": {"variant": "held_out"}}
NUMBERS = (overview.SURE, overview.PALE)


@pytest.fixture(scope="module")
def committed() -> Board:
    return committed_board()


@pytest.fixture(scope="module")
def page() -> overview.Overview:
    return overview.overview(OpenBoard(COMMITTED))


def test_all_numbers_of_a_column_are_from_one_table(page: overview.Overview) -> None:
    for group, lines in page.matrix.groups:
        for place, ability in enumerate(page.matrix.abilities):
            cells = [line.cells[place] for line in lines]
            tables = {cell.source.table.place for cell in cells if cell and cell.state in NUMBERS}
            assert len(tables) <= 1, (group, ability)


def test_a_share_is_between_ends_that_were_run_or_are_stated(page: overview.Overview) -> None:
    for _, lines in page.matrix.groups:
        for cell in (cell for line in lines for cell in line.cells if cell):
            if not cell.score.endswith("%"):
                continue
            rows = cell.source.table.rows
            means = {row.mean for row in rows if row.kind == "reference"}
            stated = {cell.source.test.floor, cell.source.test.oracle}
            assert cell.source.scale.floor in means | stated
            assert cell.source.scale.best or cell.source.scale.oracle in means | stated


def test_the_first_page_and_readme_name_the_same_leaders(committed: Board) -> None:
    tables = ability_tables(OpenBoard(COMMITTED))
    asked = [question for question in questions() if question.ability]
    assert {"learn a language in context", "recall", "state tracking"} <= {
        question.ability for question in asked
    }
    for question in asked:
        first = tables[question.ability][0]
        assert first.of_question, question.ability
        placed = answers(committed, question)
        by_readme = {plain(a.row.label) for a in placed if a.row.rank_best == 1}
        # README leaves ablations out, and has the headline alone, so that it names no others.
        if first.test.metric == placed[0].row.metric:
            by_page = {plain(row.label) for row in first.rows if row.rank_best == 1}
            assert by_readme <= by_page, question.ability


def runs(make_record, model, level, size):
    fields = {"role": "final", "trials": 3, "size": size, **LAPTOP}
    made = [make_record(model, model.upper(), n, level + n / 100, **fields) for n in range(3)]
    return as_searched(made)


def test_a_model_of_another_budget_has_a_link_and_no_number(opened, make_record) -> None:
    records = with_ends(make_record, **LAPTOP)
    records += runs(make_record, "gpt2", 0.6, 100) + runs(make_record, "lstm", 0.4, 100)
    records += runs(make_record, "memory_mosaic", 0.9, 2500)
    board = opened(build_board(records))
    assert cell_of(board, "gpt2").state == overview.SURE
    mosaic = cell_of(board, "memory_mosaic")
    assert (mosaic.state, mosaic.score, mosaic.rank) == (overview.ELSEWHERE, "–", "")
    assert "training_automata=2500" in mosaic.words
    assert mosaic.source in [source for _, source in overview.overview(board).matrix.sources]


def test_a_share_needs_the_floor_of_its_own_table(opened, make_record) -> None:
    at_100 = with_ends(make_record, **LAPTOP)
    models = runs(make_record, "gpt2", 0.6, 2500) + runs(make_record, "lstm", 0.4, 2500)
    without = cell_of(opened(build_board([*at_100, *models])), "gpt2")
    assert (without.score, without.place) == ("0.61", None)
    at_2500 = with_ends(make_record, size=2500, **LAPTOP)
    shared = cell_of(opened(build_board([*at_100, *at_2500, *models])), "gpt2")
    assert shared.place == pytest.approx((0.61 - 0.2) / 0.8)
    assert shared.score == "51%"
