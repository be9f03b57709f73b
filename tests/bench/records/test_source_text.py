"""Code as text: equal on every Python, and what this Python's own ``ast.unparse`` writes."""

import ast
import sys
from pathlib import Path

import pytest

from bench.records.code import code_hash
from bench.records.source_text import source_text
from core.files import ROOT

LATER = sys.version_info >= (3, 12)
# An f-string, what Python 3.11 writes, and what Python 3.12 writes; all run on both.
STRINGS = [
    ("""f"{', '.join(words)}!\"""", """f"{', '.join(words)}!\"""", """f'{', '.join(words)}!'"""),
    ("""f'{x!r:>{width}} of {{}}'""", """f'{x!r:>{width}} of {{}}'""", None),
    ("""f"it's {x}\"""", """f"it's {x}\"""", None),
    ("""f"{(a if b else c)} {(lambda: d)()}\"""", "f'{(a if b else c)} {(lambda: d)()}'", None),
    ("""f"{ {1: 2}[k]}\\n\"""", "f'{ {1: 2}[k]}\\n'", None),
    (
        """f"{x['it']}" + f'{f"{y}"}'""",
        """f"{x['it']}" + f"{f'{y}'}\"""",
        """f'{x['it']}' + f'{f'{y}'}'""",
    ),
]


@pytest.mark.parametrize(("code", "canonical", "later"), STRINGS)
def test_f_strings_are_written_as_python_3_11_writes_them(
    code: str, canonical: str, later: str | None
) -> None:
    tree = ast.parse(code)
    assert source_text(tree) == canonical
    assert source_text(tree, by_later_python=True) == (later or canonical)
    assert source_text(tree) == canonical  # the tree is as it was


def test_this_python_writes_all_sources_so() -> None:
    files = [path for name in ("models", "tasks", "bench") for path in (ROOT / name).rglob("*.py")]
    for path in files:
        tree = ast.parse(path.read_bytes())
        assert source_text(tree, by_later_python=LATER) == ast.unparse(tree), path


def test_both_hashes_of_a_class_are_known(tmp_path: Path) -> None:
    """They were printed by Python 3.11 and by Python 3.13 from one text with an f-string."""
    package = tmp_path / "tasks"
    package.mkdir()
    (package / "one.py").write_text("""def f(x):\n    return f"{', '.join(x)}"\n""")
    by_3_11 = "f489401364179a5a6f7df7d56750948b578b4ba6197d3e878857507b823e1649"
    by_3_13 = "0915bcfacec466bbf1c07feb8c95675b8d6efe0ebc1978fa75255923d83b3a0b"
    assert code_hash("tasks.one.f", tmp_path) == by_3_11
    assert code_hash("tasks.one.f", tmp_path, by_later_python=True) == by_3_13
