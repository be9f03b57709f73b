"""Python files as text: their code without explanations, and what they import. Nothing is run."""

from __future__ import annotations

import ast
import importlib.util
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from ground.errors import UserError

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def read_source(path: Path, package: str) -> tuple[str, set[str]]:
    """The code of a file without comments, docstrings and layout, and the names of all that it may
    import.

    Args:
        package: of the module, to which relative imports are relative; "" for none.

    Raises:
        UserError: the file is no Python.
    """
    return parse_source(path, path.read_bytes(), package)


def parse_source(path: Path, content: bytes, package: str) -> tuple[str, set[str]]:
    """As :func:`read_source`, of what was read already at ``path``.

    Raises:
        UserError: it is no Python.
    """
    try:
        return _parsed(content, package)
    except SyntaxError as error:
        place = f"{path}, line {error.lineno}," if error.lineno else f"{path}"
        raise UserError(f"{place} is no Python ({error.msg}): mend that file") from None
    except ValueError as error:  # a zero byte
        raise UserError(f"{path} is no Python ({error}): mend that file") from None


@lru_cache(maxsize=512)  # by content: most tasks share most of their modules
def _parsed(content: bytes, package: str) -> tuple[str, set[str]]:
    tree = ast.parse(content)
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # a relative import that leaves its package finds nothing
                base = "." * node.level + (node.module or "")
                base = importlib.util.resolve_name(base, package)
                names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree), names
