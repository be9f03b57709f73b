"""Local variables may have other names in code that is the same, and in no other code."""

import ast
import copy
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.config.files import group_file
from bench.config.groups import choices
from bench.records.code import imported_modules
from bench.records.equality.definitions import Moves
from bench.records.equality.local_names import LocalNames, keywords_of
from bench.records.equality.statements import Source
from core.files import ROOT
from tests.bench.records.renaming import (
    assert_same_code,
    at_random,
    files_of,
    in_place,
    names_in_order,
    names_of,
    normal_forms,
    renamed,
    variables_of,
)

HOUSES = ("models", "tasks", "reproduce")
FILES = files_of(*HOUSES, root=ROOT)


def compiled(tree: ast.Module | str) -> Any:
    return compile(tree, "module", "exec", dont_inherit=True)


@pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="from Python 3.12 on a variable of a comprehension takes the place of one outside",
)
def test_every_local_variable_of_the_project_may_have_another_name() -> None:
    """The compiler makes the same of the code under new names, and most of the variables that it
    knows have one."""
    free = known = 0
    for path in FILES[::2]:
        tree = ast.parse(source := path.read_bytes())
        other, older = renamed(source, in_place(tree))
        code = compiled(other)
        assert_same_code(compiled(tree), code, older)
        names_of_code = [*variables_of(code)]
        free += sum(name in older for name in names_of_code)
        known += len(names_of_code)
    assert len(FILES) > 300
    assert free > 0.9 * known > 3500


def test_the_normal_form_has_no_names_of_local_variables() -> None:
    """They are drawn at random; some are those of built-in functions. All of models and tasks are
    renamed below."""
    for seed, path in enumerate(files_of("reproduce", root=ROOT)[::3]):
        tree = ast.parse(source := path.read_bytes())
        other, _ = renamed(source, at_random(seed, names_of(tree)))
        assert names_in_order(other) == names_in_order(tree), path


def functions(path: Path) -> Iterator[tuple[str, str]]:
    """Text and normal form of every function of a file."""
    tree = ast.parse(path.read_bytes())
    local_names = LocalNames(tree, keywords_of(tree))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    texts = [ast.unparse(node) for node in nodes]
    yield from zip(texts, map(local_names.text, nodes), strict=True)


def test_no_two_functions_of_the_project_fall_together() -> None:
    """Lambdas may: two of them differ by nothing but the names of their parameters."""
    together = []
    for path in FILES[1::2]:
        by_form: dict[str, set[str]] = defaultdict(set)
        for text, form in functions(path):
            by_form[form].add(text)
        for texts in by_form.values():
            if len(texts) > 1 and not all(text.startswith("lambda") for text in texts):
                together.append((path, texts))
    assert together == []


def changes(function: ast.AST) -> Iterator[tuple[str, Any, str, Any]]:
    """What an edit of a function could change: its kind, node, attribute and new value."""
    names = sorted({node.id for node in ast.walk(function) if isinstance(node, ast.Name)})
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield "constant", node, "value", node.value + 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield "text", node, "value", f"{node.value}x"
        elif isinstance(node, ast.BinOp):
            yield "operator", node, "op", ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        elif isinstance(node, ast.Compare):
            yield "comparison", node, "ops", [ast.Is() for _ in node.ops]
        elif isinstance(node, ast.Attribute):
            yield "attribute", node, "attr", f"{node.attr}x"
        elif isinstance(node, ast.keyword) and node.arg:
            yield "keyword", node, "arg", f"{node.arg}x"
        elif isinstance(node, ast.FunctionDef):
            yield "function", node, "name", f"{node.name}x"
        elif isinstance(node, ast.Name):
            yield "one use", node, "id", f"{node.id}_of_nothing"
            other = names[(names.index(node.id) + 1) % len(names)]
            if other != node.id:
                yield "use of another", node, "id", other


def test_whatever_else_changes_is_seen() -> None:
    """One of each kind in a definition of every other file; a name changes in one place."""
    draws = random.Random(0)
    seen: dict[str, int] = defaultdict(int)
    for path in FILES[::2]:
        definitions = [
            statement
            for statement in ast.parse(path.read_bytes()).body
            if isinstance(statement, ast.FunctionDef | ast.ClassDef)
            if sum(1 for _ in ast.walk(statement)) < 300
        ]
        if not definitions:
            continue
        source = ast.Module([draws.choice(definitions)], type_ignores=[])
        before = normal_forms(source)
        for kind in sorted({kind for kind, *_ in changes(source)}):
            tree = copy.deepcopy(source)
            every = [change for change in changes(tree) if change[0] == kind]
            _, node, attribute, value = draws.choice(every)
            setattr(node, attribute, value)
            if normal_forms(tree) == before:
                assert only_renames(source, tree), (path, kind, ast.unparse(node), value)
            else:
                seen[kind] += 1
    assert len(seen) == 9
    assert min(seen.values()) > 20, seen


def only_renames(before: ast.Module, after: ast.Module) -> bool:
    """Whether what was changed is the only place of its variable, as the compiler sees it: both
    give the same instructions."""

    def instructions(code: Any) -> Any:
        parts = (instructions(x) if hasattr(x, "co_code") else repr(x) for x in code.co_consts)
        return code.co_code, code.co_names, code.co_name, (*parts,)

    return bool(instructions(compiled(before)) == instructions(compiled(after)))


@pytest.mark.long
def test_every_task_and_model_is_proven_after_all_local_variables_were_renamed(
    tmp_path: Path,
) -> None:
    """So that no record becomes stale by it; one operator makes the classes behind it unproven."""
    files = files_of("models", "tasks", root=ROOT)
    trees = [ast.parse(path.read_bytes()) for path in files]
    keywords = frozenset[str]().union(*map(keywords_of, trees))
    for seed, (path, tree) in enumerate(zip(files, trees, strict=True)):
        new_names = at_random(seed, names_of(tree) | keywords)
        other, _ = renamed(path.read_bytes(), new_names, keywords)
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(ast.unparse(other))
    cards = [yaml.safe_load(path.read_text()) for path in (ROOT / "models").glob("*.yaml")]
    targets = {card["_target_"] for card in cards if "_target_" in card}
    targets |= {
        str(group_file("tasks", task)["_target_"])
        for task in choices("tasks")
        if "_target_" in group_file("tasks", task)
    }
    changed = tmp_path / "models" / "gpt2.py"
    changed.write_text(changed.read_text().replace(" + ", " - ", 1))
    moves = Moves(Source(ROOT), Source(tmp_path))
    unproven = {target for target in targets if moves.today(target) != target}
    behind = {target: imported_modules(target.rpartition(".")[0]) for target in unproven}
    assert len(targets) > 40
    assert "models.gpt2.GPT2" in unproven
    assert all("models.gpt2" in modules for modules in behind.values())
