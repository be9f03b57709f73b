"""Code as text, the same text on every Python that this project runs on.

Hashes of code are in the identity of every run, so the text must not depend on who reads it. From
Python 3.12 on ``ast.unparse`` writes f-strings in other quotes, since an f-string's own quotes may
stand inside its braces there: ``f"{', '.join(words)}"`` becomes ``f'{', '.join(words)}'``. Here
f-strings are written as Python 3.11 writes them; everything else is left to ``ast.unparse``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from operator import is_
from typing import Any

QUOTES = ("'", '"', '"""', "'''")  # in the order in which they are tried
# Names that stand for strings until these are written. Private characters, which no program has.
_OPEN, _CLOSE = "\ue000", "\ue001"
_CONDITION = f" if {_OPEN}c{_CLOSE} else {_OPEN}d{_CLOSE}"


def source_text(tree: ast.AST, *, by_later_python: bool = False) -> str:
    """A tree of code as text, as Python 3.11 writes it.

    Args:
        tree: what ``ast.parse`` gave, or a part of it.
        by_later_python: as Python 3.12 and 3.13 write it. Hashes that were made there before texts
            were made equal are of this text.
    """
    return _Writer(by_later_python).write(tree)


class _Writer:
    """Puts names in the place of f-strings, writes the rest, and puts the strings back. The tree is
    afterwards as it was: copying it would take longer than all else."""

    def __init__(self, by_later_python: bool, between_braces: bool = False) -> None:
        self.by_later_python, self.between_braces = by_later_python, between_braces
        self.strings: list[str] = []
        self._before: list[tuple[ast.AST, str, Any]] = []  # node, its field, what stood there

    def write(self, tree: ast.AST) -> str:
        try:
            text = ast.unparse(self._written(tree))
        finally:
            for node, field, value in reversed(self._before):
                setattr(node, field, value)
        for number, string in enumerate(self.strings):
            text = text.replace(f"{_OPEN}{number}{_CLOSE}", string)
        return text

    def _written(self, node: Any) -> Any:
        """What stands for a node, or for what a field of a node holds beside nodes."""
        if isinstance(node, ast.JoinedStr):
            return self._joined(node)
        if isinstance(node, ast.Constant):
            return self._constant(node)
        for field in node._fields if isinstance(node, ast.AST) else ():
            value: Any = getattr(node, field, None)
            if isinstance(value, ast.AST):
                written = self._written(value)
                unchanged = written is value
            elif isinstance(value, list):
                written = [self._written(item) for item in value]
                unchanged = all(map(is_, written, value))
            else:  # a name or a value, as most fields hold
                continue
            if not unchanged:
                self._before.append((node, field, value))
                setattr(node, field, written)
        return node

    def _joined(self, node: ast.JoinedStr) -> ast.Name:
        parts = [(self._part(value), isinstance(value, ast.Constant)) for value in node.values]
        if self.between_braces and not self.by_later_python:
            parts = [("".join(text for text, _ in parts), False)]
        return self._name("f" + _quoted(parts, in_any_quotes=self.by_later_python))

    def _constant(self, node: ast.Constant) -> ast.expr:
        if not self.between_braces or self.by_later_python or not isinstance(node.value, str):
            return node
        return self._name(_quoted([(node.value, False)], in_any_quotes=False))

    def _name(self, string: str) -> ast.Name:
        self.strings.append(string)
        return ast.Name(f"{_OPEN}{len(self.strings) - 1}{_CLOSE}", ast.Load())

    def _part(self, node: ast.expr) -> str:
        """What stands between the quotes of an f-string: text, an expression in its braces, or the
        parts of a format specification."""
        if isinstance(node, ast.Constant):
            return str(node.value).replace("{", "{{").replace("}", "}}")
        if isinstance(node, ast.JoinedStr):
            return "".join(self._part(value) for value in node.values)
        assert isinstance(node, ast.FormattedValue), node
        # In the place of this condition's value it gets the brackets that it has between braces.
        test, other = (ast.Name(f"{_OPEN}{name}{_CLOSE}", ast.Load()) for name in "cd")
        within = _Writer(self.by_later_python, between_braces=True)
        text = within.write(ast.IfExp(test, node.value, other)).removesuffix(_CONDITION)
        space = " " if text.startswith("{") else ""
        conversion = "" if node.conversion == -1 else f"!{chr(node.conversion)}"
        specification = f":{self._part(node.format_spec)}" if node.format_spec else ""
        return f"{{{space}{text}{conversion}{specification}}}"


def _quoted(parts: Sequence[tuple[str, bool]], in_any_quotes: bool) -> str:
    """The parts of a string in the first quotes that stand in none of them.

    Args:
        parts: each with whether it is text, whose line breaks may be escaped.
        in_any_quotes: whether quotes within braces do not matter.
    """
    quotes, escaped = list(QUOTES), []
    for text, is_text in parts:
        if in_any_quotes and not is_text:
            quotes = [q for q in quotes if "\n" not in text or len(q) == 3]
        else:
            text, quotes = _escaped(text, quotes, escape_breaks=is_text)
            if not quotes:
                break
        escaped.append(text)
    if not quotes:  # none: as ``repr`` writes them, which a double quote before them makes single
        escaped = [
            text if in_any_quotes and not is_text else repr('"' + text)[2:-1]
            for text, is_text in parts
        ]
        quotes = ["'''"]
    return f"{quotes[0]}{''.join(escaped)}{quotes[0]}"


def _escaped(text: str, quotes: list[str], escape_breaks: bool) -> tuple[str, list[str]]:
    """A part with what cannot be printed escaped, and the quotes that it may stand in; none if it
    holds each of them."""

    def escape(character: str) -> str:
        is_break = character in "\n\t" and not escape_breaks
        if is_break or (character.isprintable() and character != "\\"):
            return character
        return character.encode("unicode_escape").decode("ascii")

    escaped = "".join(map(escape, text))
    possible = [q for q in quotes if len(q) == 3 or "\n" not in escaped]
    possible = [q for q in possible if q not in escaped]
    if not possible:
        literal = repr(text)
        return literal[1:-1], [q for q in quotes if literal[0] in q][:1]
    if escaped:
        possible.sort(key=lambda q: q[0] == escaped[-1])  # not '""""', if it can be avoided
        if possible[0][0] == escaped[-1]:
            escaped = f"{escaped[:-1]}\\{escaped[-1]}"
    return escaped, possible
