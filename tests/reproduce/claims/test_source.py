"""The hash of a test knows its code, and no name that only the code itself sees."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from core.files import ROOT
from reproduce.claims.fingerprints.fingerprint import fingerprint
from reproduce.claims.frozen import SAME_TESTS
from reproduce.claims.grammar import Number, Runs, above, within
from tests.bench.records.renaming import at_random, names_of, renamed

HASHES = """
import json
from reproduce.__main__ import reproductions
found = reproductions().items()
print(json.dumps({name: [claim.hashes for claim in one.claims] for name, one in found}))
"""


def hashes_of(folder: Path, seed: int | None) -> Any:
    """Those of all claims, by a copy of the houses that judge in which local variables have names
    drawn at random; every statement on its own line, as ``ast.unparse`` writes it."""
    folder.mkdir()
    for house in ROOT.iterdir():
        if house.is_dir() and house.name not in ("reproduce", ".git"):
            (folder / house.name).symlink_to(house)
    for path in sorted((ROOT / "reproduce").rglob("*")):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".py":
            tree = ast.parse(source := path.read_bytes())
            if seed is not None:
                tree, _ = renamed(source, at_random(seed, names_of(tree)))
            target.write_text(ast.unparse(tree))
        elif path.suffix == ".yaml":
            target.write_bytes(path.read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", HASHES]
    made = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


@pytest.mark.long
def test_no_claim_depends_on_the_names_of_local_variables(tmp_path: Path) -> None:
    as_it_is, with_others = hashes_of(tmp_path / "a", None), hashes_of(tmp_path / "b", 0)
    differing = [
        (name, one[0])
        for name, claims in as_it_is.items()
        for one, other in zip(claims, with_others[name], strict=True)
        if one != other
    ]
    assert differing == []
    assert sum(map(len, as_it_is.values())) > 200


RULE = """
import math
from functools import cache

LEAST = 3
MOST = 5

def _far(x):
    return x > MOST

@cache
def _again(x):
    return _again(x - 1) if x else LEAST

def rule(low, high=None, *, step=1):
    width = low + 1
    height = low + 2
    def judge(found, level):
        # how many
        total = sum(len(run) for run in found if _far(run))
        return width - height > total + math.ceil(step) + _again(LEAST), high
    return judge

tests = [rule(1), rule(2), rule(1, 4), rule(4, 1), lambda found: [one for one in found if one]]
"""
ITS_OWN = {
    "local variables": [
        ("total", "length"),
        ("run", "record"),
        ("one", "row"),
        ("width", "height_"),
    ],
    "a variable that sorts differently": [("width", "a_width")],
    "variables that change names": [("width", "third"), ("height", "width"), ("third", "height")],
    "the parameter of a lambda": [
        ("lambda found: [one for one in found", "lambda x: [one for one in x")
    ],
    "a function of the module": [("_far", "_distant"), ("_again", "_repeated")],
    "constants of the module": [("MOST", "LARGEST"), ("LEAST", "SMALLEST")],
    "a comment and types": [
        ("# how many", "# how many there are"),
        ("(found, level)", "(found: list, level: float) -> bool"),
    ],
}
COUNTS = {
    "a constant": [("len(run)", "len(run) + 1")],
    "the value of a constant": [("MOST = 5", "MOST = 6")],
    "another constant": [("x > MOST", "x > LEAST")],
    "code of a function": [("x > MOST", "x >= MOST")],
    "the order of variables": [("width - height", "height - width")],
    "the value of a variable": [
        ("width = low + 1\n    height = low + 2", "width = low + 2\n    height = low + 1")
    ],
    "a parameter": [("found", "runs")],
    "a function of another package": [("math.ceil", "math.floor")],
    "a package": [("import math", "import cmath as math")],
    "a default value": [("step=1", "step=2")],
    "what a recursion begins with": [("else LEAST", "else MOST")],
}


def forms_of(tmp_path: Path, text: str) -> list[Any]:
    path = tmp_path / f"sample_{len([*tmp_path.iterdir()])}.py"
    path.write_text(text)
    module = ModuleType(path.stem)
    exec(compile(text, str(path), "exec"), vars(module))
    return [fingerprint(test) for test in module.tests]


def edited(edits: list[tuple[str, str]]) -> str:
    text = RULE
    for before, after in edits:
        assert before in text
        name = before.isidentifier()
        text = re.sub(rf"\b{before}\b", after, text) if name else text.replace(before, after)
    return text


@pytest.mark.parametrize("edits", ITS_OWN.values(), ids=ITS_OWN)
def test_what_only_the_code_itself_sees_does_not_count(tmp_path: Path, edits: Any) -> None:
    assert forms_of(tmp_path, edited(edits)) == forms_of(tmp_path, RULE)


@pytest.mark.parametrize("edits", COUNTS.values(), ids=COUNTS)
def test_whatever_else_is_changed_counts(tmp_path: Path, edits: Any) -> None:
    changed, before = forms_of(tmp_path, edited(edits)), forms_of(tmp_path, RULE)
    assert any(one != other for one, other in zip(changed, before, strict=True))


def test_the_same_code_with_other_values_is_another_test(tmp_path: Path) -> None:
    """A choice that was made stands in its own place, whatever was left out before it."""
    forms = [json.dumps(form) for form in forms_of(tmp_path, RULE)]
    assert len({*forms}) == len(forms)


def test_rules_of_the_shared_houses_know_their_values_by_place() -> None:
    """They are known by their names, and by what they were given, in its order."""
    accuracy = Number("accuracy", "accuracy")
    ours, theirs = (accuracy.of(Runs(name, model=name)) for name in "ab")
    assert fingerprint(above(ours, theirs).judge) != fingerprint(above(theirs, ours).judge)
    assert fingerprint(within(ours, low=0.5).judge) != fingerprint(within(ours, high=0.5).judge)
    assert fingerprint(within(ours, low=0.5).judge) == fingerprint(within(ours, low=0.5).judge)


def test_the_hashes_of_the_older_kind_were_written_once() -> None:
    """Entries may go; one that came later could excuse a test that was edited after its runs."""
    place = str(SAME_TESTS.relative_to(ROOT))
    git = ["git", "-C", str(ROOT)]
    made = subprocess.run(
        [*git, "log", "--diff-filter=A", "--format=%H", "--", place],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if not made:
        pytest.skip("there is no history here")
    first = subprocess.run(
        [*git, "show", f"{made[-1]}:{place}"], capture_output=True, text=True, check=True
    ).stdout
    assert yaml.safe_load(SAME_TESTS.read_text()).items() <= yaml.safe_load(first).items()
