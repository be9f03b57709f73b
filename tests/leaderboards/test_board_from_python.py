"""The board as a data frame: its columns are explained, and what is no name is said."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bench
from core.errors import UserError
from leaderboards.build import COMMITTED
from leaderboards.contents import OpenBoard
from leaderboards.render import as_csv
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text().partition("## Columns of a board")[2]


def explained_by_docstring() -> dict[str, str]:
    """Column -> sentence."""
    text = str(bench.read_board.__doc__).partition("Returns:")[2].partition("Raises:")[0]
    joined = re.sub(r"\n {12}", " ", text).replace("``", "`")
    return dict(re.findall(r"^ {8}(\w+): (.*)\.$", joined, re.MULTILINE))


def test_every_column_is_explained_alike_in_the_docstring_and_on_the_page() -> None:
    rows = OpenBoard(COMMITTED).rows("regbench", preset="smoke")
    frame = bench.read_board(task="regbench", preset="smoke")
    on_page = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert list(on_page) == list(frame.columns)
    assert explained_by_docstring() == on_page
    assert next(csv.reader(io.StringIO(as_csv(rows)))) == list(frame.columns)


def test_no_two_columns_contradict_each_other() -> None:
    """How far runs were checked is one question, and whether that is enough for a rank another."""
    frame = bench.read_board(task="regbench", preset="laptop")
    assert frame["verified"].equals(frame["admitted"])
    assert frame[frame["checked"] == "reported"]["admitted"].all()
    assert len(bench.read_board(task="regbench", preset="laptop", verified=True)) == len(frame)
    assert bench.read_board(task="regbench", preset="laptop", admitted=False).empty
    (row, *_) = OpenBoard(COMMITTED).rows("regbench", preset="laptop")
    (line,) = csv.DictReader(io.StringIO(as_csv([replace(row, verified=False)])))
    assert line["admitted"] == "False"


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ({"task": "regbnch"}, "there is no task 'regbnch': did you mean 'regbench'"),
        ({"task": ["regbench"]}, "task is a name, such as 'regbench', and not a list"),
        ({"preset": "laptp"}, "there is no preset 'laptp': did you mean 'laptop'"),
        ({"preset": ["laptop", "gpo"]}, "there is no preset 'gpo': did you mean 'gpu'"),
        ({"model": "memory_mosaik"}, "no model 'memory_mosaik': did you mean 'memory_mosaic'"),
        ({"label": "GPT-2"}, "there is no label 'GPT-2': did you mean 'GPT2'"),
        ({"metric": "acuracy"}, "there is no metric 'acuracy': did you mean 'accuracy'"),
        ({"kind": "meassured"}, "there is no kind 'meassured': did you mean 'measured'"),
        ({"variant": "held_out"}, r"no variant 'held_out': those with it are '.*' and \d+ more"),
        ({"run_ids": "x"}, r"no run_ids 'x': those there are 'regbench-.*' and \d+ more"),
        ({"colour": 3}, "a board has no column 'colour'"),
        ({"headline": "true"}, "headline is True or False, and not 'true'"),
        ({"seeds": "3"}, "seeds is a number, and not '3'"),
        ({"model": dict}, "model is a name, a text, and not the class dict"),
    ],
)
def test_what_no_row_can_have_is_a_sentence(where: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        bench.read_board(**{"task": "regbench", **where})
    assert len(str(caught.value)) < 1000


def test_a_place_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"that is a task, read_board\(task='regbench'\)"):
        bench.read_board("regbench")
    with pytest.raises(UserError, match=r"place is the path of a folder, .* and not 5"):
        bench.read_board(5)  # type: ignore[arg-type]
    (tmp_path / "records").mkdir()
    assert bench.read_board(tmp_path, task="mad", model="gpt2", metric="accuracy").empty


def test_known_words_that_no_row_has_give_no_row() -> None:
    assert bench.read_board(task="regbench", preset="paper", kind="measured").empty
    assert bench.read_board(task="regbench", model="delta_product").empty
    unranked = bench.read_board(task="regbench", preset="smoke", headline=True, rank_best=None)
    assert len(unranked) == len(bench.read_board(task="regbench", preset="smoke", headline=True))
    one = unranked["run_ids"].iloc[0][0]
    assert len(bench.read_board(task="regbench", run_ids=one, headline=True)) == 1
