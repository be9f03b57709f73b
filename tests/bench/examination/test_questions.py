"""The questions of the examination stand once: engine and pages have those of the table."""

import ast
from string import Formatter
from typing import get_args

from bench.config.questions import QUESTIONS, REFUSALS, Asked
from tests.conftest import ROOT

FILLED_IN = {"mode", "state", "others", "time_first"}  # by ``unfit`` and ``Comparisons.unfit``


def refusals_of_the_engine() -> list[tuple[str, set[str]]]:
    """Each cause that the engine refuses a model for, and what it fills into the sentence."""
    found = []
    for path in sorted((ROOT / "bench").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            name = called.id if isinstance(called, ast.Name) else called
            if name == "unfit" and isinstance(node.args[0], ast.Constant):
                found.append((str(node.args[0].value), {str(k.arg) for k in node.keywords}))
    return found


def test_every_refusal_is_in_the_table_and_has_what_its_sentence_needs() -> None:
    raised = refusals_of_the_engine()
    assert {cause for cause, _ in raised} == REFUSALS.keys()
    assert len(REFUSALS) == sum(len(question.refusals) for question in QUESTIONS.values())
    assert {question.of for question in QUESTIONS.values()} == {*get_args(Asked)}
    for cause, given in raised:
        fields = {
            str(field).partition(".")[0]
            for _, field, _, _ in Formatter().parse(REFUSALS[cause])
            if field
        }
        assert fields - FILLED_IN <= given <= fields | FILLED_IN, cause


def test_the_page_has_a_row_for_each_question() -> None:
    page = (ROOT / "docs" / "add_a_model.md").read_text()
    _, _, rows = page.partition("| question | asked | what fails |\n|---|---|---|\n")
    names = [row.split("|")[1].strip() for row in rows.partition("\n\n")[0].splitlines()]
    assert names == [*QUESTIONS]
