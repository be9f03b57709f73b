"""Definitions and files under other names are the same where the names are told, and only there."""

import re
from pathlib import Path

import pytest

from core.errors import UserError
from tests.bench.records.test_definitions import NET, OLD, moves


def in_all(before: str, after: str, files: dict[str, str]) -> dict[str, str]:
    return {name: re.sub(rf"\b{before}\b", after, text) for name, text in files.items()}


def without_other(files: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in files.items() if name != "models/other.py"}


ALONE = without_other(OLD)


def test_other_names_of_definitions_are_told_and_proven(tmp_path: Path) -> None:
    words = (
        "models/net.py:rotate=turn",
        "models/net.py:BASE=ROTARY_BASE",
        "models/shared.py:scale=by",
    )
    new = in_all("rotate", "turn", in_all("BASE", "ROTARY_BASE", in_all("scale", "by", ALONE)))
    new["models/twice.py"] = OLD["models/twice.py"]
    found = moves(tmp_path, new, ALONE, *words)
    assert found.today(NET) == NET
    assert found.moved_behind(NET) == {
        "models.net.rotate": "models.net.turn",
        "models.net.BASE": "models.net.ROTARY_BASE",
        "models.shared.scale": "models.shared.by",
    }
    assert moves(tmp_path / "untold", new, ALONE).today(NET) is None
    # What imports its module as a whole is not proven.
    user = {**new, "models/other.py": OLD["models/other.py"].replace("rotate", "turn")}
    whole = moves(tmp_path / "whole", user, OLD, *words)
    assert whole.today("models.other.Other") is None


def test_a_class_and_its_file_get_other_names(tmp_path: Path) -> None:
    new = in_all("Net", "Web", ALONE)
    new["models/web.py"] = new.pop("models/net.py")
    found = moves(tmp_path, new, ALONE, "models/net.py:Net=Web", "models/net.py=models/web.py")
    assert found.today(NET) == "models.web.Web"
    assert found.moved_behind(NET)[NET] == "models.web.Web"


def test_a_name_is_followed_through_packages_and_imports_in_functions(tmp_path: Path) -> None:
    files = {
        "tasks/one/__init__.py": "from tasks.one.task import One",
        "tasks/one/task.py": "from tasks.one.part import read\nclass One:\n    by = read\n",
        "tasks/one/part.py": "def read(x):\n    from tasks.two import help\n    return help(x)\n",
        "tasks/two.py": "def help(x):\n    return x\n",
    }
    new = in_all("One", "Single", in_all("help", "assist", files))
    words = ("tasks/one/task.py:One=Single", "tasks/two.py:help=assist")
    found = moves(tmp_path, new, files, *words)
    assert found.today("tasks.one.One") == "tasks.one.Single"
    other = {**new, "tasks/two.py": new["tasks/two.py"].replace("return x", "return -x")}
    assert moves(tmp_path / "other", other, files, *words).today("tasks.one.One") is None


def test_a_name_that_leads_to_something_else_is_refused(tmp_path: Path) -> None:
    """Told names are no proof: turned and rotate change places."""
    new = in_all("third", "turned", in_all("turned", "rotate", in_all("rotate", "third", ALONE)))
    words = ("models/net.py:rotate=turned_about",)
    assert moves(tmp_path, new, ALONE, *words).today(NET) is None


def test_a_class_whose_name_is_read_keeps_it(tmp_path: Path) -> None:
    read = "def late(x):\n    return len(type(x).__name__)\n"
    old = {**ALONE, "models/later.py": read}
    found = moves(tmp_path, in_all("State", "Part", old), old, "models/net.py:State=Part")
    assert found.today(NET) is None
    assert "models.later.late reads the names" in found.why_not(NET)
    said = {**ALONE, "models/later.py": "def late(x):\n    raise ValueError(type(x).__name__)\n"}
    found = moves(
        tmp_path / "said", in_all("State", "Part", said), said, "models/net.py:State=Part"
    )
    assert found.today(NET) == NET


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("models/net.py:rotated=turn", r"models\.net of the older code has no rotated: .*rotate"),
        ("models/nte.py:rotate=turn", r"the older code has no models\.nte: .*models\.net"),
        ("models/net.py:rotate=turned", r"models\.net of the older code already has a name turned"),
        ("models/net.py:rotate=a-b", "a-b is no name for a definition"),
        ("rotate=turn", r"renamed=rotate=turn is no new name: write models/net\.py:Name=New"),
        ("models/net.py=models/web", r"models/web is no file of Python"),
    ],
)
def test_a_word_that_renames_nothing_is_one_sentence(tmp_path: Path, word: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        moves(tmp_path, OLD, OLD, word)
