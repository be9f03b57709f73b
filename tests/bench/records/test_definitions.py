"""Definitions that moved are the same, and whatever else changed is not."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from bench.records.equality.definitions import Moves
from bench.records.equality.renames import Renames
from bench.records.equality.statements import Source
from core.errors import UserError

NET = "models.net.Net"
OLD = {
    "models/net.py": '''
        """A network."""
        from dataclasses import dataclass
        from functools import cache
        import torch
        from models.shared import scale

        BASE = 10.0

        def rotate(x):
            """Turn it."""
            return turned(x, BASE) if x is None else rotate(None)

        def turned(x, base):
            return torch.cos(x / base)

        @cache
        def kept(x):
            return x

        @dataclass(frozen=True)
        class State:
            keys: list

        class Net:
            def forward(self, x):
                from models.later import late
                return scale(rotate(x)) + late(kept(x)), State([x])
        ''',
    "models/other.py": """
        from models import net
        BASE = 20.0

        class Other:
            def forward(self, x):
                return net.rotate(x) / BASE
        """,
    "models/shared.py": """
        def scale(x):
            return x * 2
        """,
    "models/twice.py": """
        def scale(x):
            return x * 3
        """,
    "models/later.py": """
        def late(x):
            return x
        """,
}


def source(root: Path, files: dict[str, str], *renamed: str) -> Source:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    for name in ("models", "tasks"):
        (root / name).mkdir(exist_ok=True)
        (root / name / "__init__.py").touch()
    return Source(root, Renames.read(renamed))


def changed(*edits: tuple[str, str, str], **more: str) -> dict[str, str]:
    """OLD with parts of files replaced, and further files of models."""
    files = dict(OLD)
    for name, before, after in edits:
        assert before in files[name]
        files[name] = files[name].replace(before, after)
    return files | {f"models/{name}.py": text for name, text in more.items()}


def moves(
    tmp_path: Path, new: dict[str, str], old: dict[str, str] | None = None, *renamed: str
) -> Moves:
    return Moves(source(tmp_path / "old", old or OLD, *renamed), source(tmp_path / "new", new))


def part(first: str, last: str) -> str:
    """The lines of the old network from one to before another."""
    text = OLD["models/net.py"]
    return text[text.index(first) : text.index(last)]


ROTATE = part("        def rotate", "        def turned")
TURNED = part("        def turned", "        @cache")
STATE = part("        @dataclass(", "        class Net")
IMPORTED = "from models.shared import scale\n"


def imports(line: str) -> tuple[str, str, str]:
    return "models/net.py", IMPORTED, f"{IMPORTED}        {line}\n"


def without(text: str) -> tuple[str, str, str]:
    return "models/net.py", text, ""


def moved_rotation() -> dict[str, str]:
    """rotate and what it needs in a file of its own."""
    base = "        BASE = 10.0\n"
    rotary = f"        import torch\n{base}{ROTATE}{TURNED}"
    edits = [without(base), without(ROTATE), without(TURNED)]
    return changed(*edits, imports("from models.rotary import rotate"), rotary=rotary)


def test_a_tree_is_the_same_as_itself_and_explanations_do_not_count(tmp_path: Path) -> None:
    new = changed(("models/net.py", '"""Turn it."""', '"""Turn it about."""  # by an angle'))
    found = moves(tmp_path, new)
    assert found.today(NET) == NET
    assert found.moved_behind(NET) == {}


def test_definitions_that_moved_are_followed_wherever_they_are_used(tmp_path: Path) -> None:
    found = moves(tmp_path, moved_rotation())
    assert found.today(NET) == NET
    names = ("BASE", "rotate", "turned")
    assert found.moved_behind(NET) == {f"models.net.{n}": f"models.rotary.{n}" for n in names}
    # Another module reaches them through the first, as a thing, which has one name less now.
    assert found.today("models.other.Other") is None
    assert "net" in found.why_not("models.other.Other")


def test_a_module_that_was_renamed_gives_the_class_its_new_name(tmp_path: Path) -> None:
    new = dict(OLD)
    new["models/web.py"] = new.pop("models/net.py")
    del new["models/other.py"]
    assert moves(tmp_path, new).today(NET) == "models.web.Net"


def test_a_class_that_is_reached_through_its_package_is_found(tmp_path: Path) -> None:
    package = {"tasks/one/__init__.py": "from tasks.one.task import One"}
    task = "from models.shared import scale\nclass One:\n    by = scale"
    old = {**OLD, **package, "tasks/one/task.py": task}
    new = {
        **OLD,
        "tasks/one/__init__.py": "from tasks.one.two import One",
        "tasks/one/two.py": task,
    }
    found = moves(tmp_path, new, old)
    assert found.today("tasks.one.One") == "tasks.one.One"
    assert found.moved_behind("tasks.one.One") == {"tasks.one.task.One": "tasks.one.two.One"}


OTHER_BASE = moved_rotation()
OTHER_BASE["models/rotary.py"] = OTHER_BASE["models/rotary.py"].replace("10.0", "20.0")
LEFT_BEHIND = changed(
    without(ROTATE),
    without(TURNED),
    imports("from models.rotary import rotate"),
    rotary=f"        import torch\n        from models.other import BASE\n{ROTATE}{TURNED}",
)
COPIED = changed(imports("from models.copy import State as Twin"), copy=STATE)
REFUSED = {
    "a constant changed": changed(("models/net.py", "BASE = 10.0", "BASE = 10.5")),
    "a constant changed on the way": OTHER_BASE,
    "a name leads to another constant": LEFT_BEHIND,
    "an import leads to another function": changed(
        ("models/net.py", IMPORTED, "from models.twice import scale\n")
    ),
    "an import inside of a function leads to another": changed(
        (
            "models/later.py",
            "def late",
            "from models.shared import scale as late\n\n        def early",
        )
    ),
    "another package under the same name": changed(
        ("models/net.py", "import torch", "import numpy as torch")
    ),
    "a built-in name is taken": changed(
        ("models/shared.py", "def scale", "None_ = 1\n        def scale"),
        ("models/net.py", "BASE = 10.0", "BASE = 10.0\n        list = tuple"),
    ),
    "a default of a class": changed(("models/net.py", "frozen=True", "frozen=False")),
    "annotations are evaluated": changed(
        (
            "models/net.py",
            "from dataclasses",
            "from __future__ import annotations\n        from dataclasses",
        )
    ),
    "something runs at import": changed(
        (
            "models/shared.py",
            "def scale",
            "import torch\n        torch.manual_seed(1)\n        def scale",
        )
    ),
    "a registering decorator moved": changed(
        without(part("        @cache", "        @dataclass(")),
        imports("from models.kept import kept"),
        kept="from models.later import late as cache\n@cache\ndef kept(x):\n    return x\n",
    ),
}


@pytest.mark.parametrize("new", REFUSED.values(), ids=REFUSED)
def test_whatever_else_changed_is_refused_with_a_reason(
    tmp_path: Path, new: dict[str, str]
) -> None:
    found = moves(tmp_path, new)
    assert found.today(NET) is None
    assert found.why_not(NET)


def test_what_nobody_uses_may_come_and_go(tmp_path: Path) -> None:
    found = moves(tmp_path, COPIED)
    assert found.today(NET) == NET
    assert moves(tmp_path / "back", OLD, COPIED).today(NET) == NET


def test_one_class_that_became_two_is_not_the_same(tmp_path: Path) -> None:
    """Equal text, but an instance of one is none of the other."""
    user = ("models/other.py", "from models import net", "from models.net import State")
    used = ("models/other.py", "net.rotate(x) / BASE", "isinstance(x, State)")
    old = changed(user, used)
    copy = ("models/other.py", "from models import net", "from models.copy import State")
    found = moves(tmp_path, changed(copy, used, copy=STATE), old)
    assert found.today(NET) == NET
    assert found.today("models.other.Other") is None


def test_two_of_one_text_that_both_moved_cannot_be_told_apart(tmp_path: Path) -> None:
    old = changed(
        a="from models.shared import scale as f\ndef g(x):\n    return f(x)\n",
        b="from models.twice import scale as f\ndef g(x):\n    return f(x)\n",
        user="from models.a import g\nclass User:\n    by = g\n",
    )
    new = {**old, "models/c.py": old["models/a.py"], "models/d.py": old["models/b.py"]}
    del new["models/a.py"], new["models/b.py"]
    new["models/user.py"] = new["models/user.py"].replace("models.a", "models.d")
    assert moves(tmp_path, new, old).today("models.user.User") is None


@pytest.mark.parametrize("word", ["__name__", "globals()", "x.__module__"])
def test_code_that_knows_its_place_does_not_move(tmp_path: Path, word: str) -> None:
    here = f"def where(x):\n    return {word}\n"
    user = "from models.{} import where\nclass User:\n    by = where\n"
    old = changed(here=here, user=user.format("here"))
    new = changed(there=here, user=user.format("there"))
    assert moves(tmp_path, new, old).today("models.user.User") is None


def test_an_import_of_everything_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"imports everything of models\.shared: name what it takes"
    ):
        source(tmp_path, {"models/a.py": "from models.shared import *"})


LOCALS = "def late(x):\n    {a} = x\n    return [{b} for {b} in {a}]\n"


def test_names_of_local_variables_do_not_count(tmp_path: Path) -> None:
    """Nor does what else has such a name at the top of the module."""
    old = {**OLD, "models/later.py": "item = 1\n" + LOCALS.format(a="found", b="one")}
    new = {**OLD, "models/later.py": "item = 2\n" + LOCALS.format(a="items", b="item")}
    assert moves(tmp_path, new, old).today(NET) == NET
    moved = {**changed(("models/net.py", "models.later", "models.last")), "models/last.py": ""}
    moved["models/last.py"] = new["models/later.py"]
    assert moves(tmp_path / "moved", moved, old).today(NET) is None  # by its import's text
    swapped = {**OLD, "models/later.py": LOCALS.format(a="items", b="item").replace("=", "= 0 +")}
    assert moves(tmp_path / "other", swapped, old).today(NET) is None


@pytest.mark.parametrize(
    "beside",
    [
        "import sys\ndef look():\n    return sys._getframe(1).f_locals\n",
        "from traceback import extract_stack\n",
    ],
)
def test_names_count_where_code_looks_them_up(tmp_path: Path, beside: str) -> None:
    in_file = {"models/later.py": LOCALS.format(a="found", b="one") + beside}
    old = {**OLD, **in_file}
    new = {**OLD, "models/later.py": LOCALS.format(a="items", b="item") + beside}
    found = moves(tmp_path, new, old)
    assert found.today(NET) is None
    assert "models.later.late" in found.why_not(NET)
    assert moves(tmp_path / "same", old, old).today(NET) == NET


def test_a_word_that_begins_to_be_a_keyword_makes_no_old_lambda_another(tmp_path: Path) -> None:
    old = {**OLD, "models/later.py": "late = lambda at: at\n"}
    new = {**old, "models/other.py": "def f(g):\n    return g(at=1)\n"}
    assert moves(tmp_path, new, old).today(NET) == NET
    other = {**new, "models/later.py": "late = lambda place: place\n"}
    assert moves(tmp_path / "renamed", other, new).today(NET) is None


def test_what_a_dotted_import_leads_to_is_looked_at(tmp_path: Path) -> None:
    user = {"models/user.py": "import models.shared\nclass User:\n    by = models.shared.scale\n"}
    old = {**OLD, **user}
    assert moves(tmp_path, old, old).today("models.user.User") == "models.user.User"
    new = {**old, "models/shared.py": "def scale(x):\n    return x * 3\n"}
    assert moves(tmp_path / "other", new, old).today("models.user.User") is None
    package = {"models/user.py": "import models as m\nclass User:\n    by = m.shared.scale\n"}
    old, new = {**OLD, **package}, {**new, **package}
    assert moves(tmp_path / "package", new, old).today("models.user.User") is None
