"""Texts on their way out, one function for each output.

A record, a verdict or a file name may have been written by others. Whatever such a text holds, its
reader sees those characters and nothing acts: no markup, no formula, no command of a terminal.
Example: ``markdown("a|b <i>")`` is ``a\\|b \\<i\\>``.
"""

from __future__ import annotations

import html as library
import re
import unicodedata

# Within a word an underscore is no emphasis. A link needs no brackets where "://" or "www." is.
_MARKDOWN = re.compile(
    r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|^[-+=#:](?!\w)", re.IGNORECASE
)
_NUMBERED = re.compile(r"^(\d+)([.)])(?!\S)")
_INERT_CODE = re.compile(r"[\w .,:;=+/()-]+")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def terminal(text: str) -> str:
    """Lines for a terminal: what would move its cursor, set its colours or turn the direction of
    the text is spelled out, such as ``\\x1b``; line breaks and tabs stay."""
    return "".join(c if c in "\n\t" or _is_shown(c) else _spelled(c) for c in text)


def html(text: str) -> str:
    """HTML, inside an element or a quoted attribute."""
    return library.escape(terminal(text))


def markdown(text: str) -> str:
    """GitHub's Markdown on one line, anywhere in a paragraph or a cell of a table."""
    line = terminal(" ".join(text.split()))
    return _NUMBERED.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\g<0>", line))


def markdown_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines of one cell."""
    return "<br>".join(markdown(line) for line in text.splitlines() if line.strip())


def markdown_code(text: str) -> str:
    """A span of code in Markdown, in a cell of a table too."""
    return f"`{text}`" if _INERT_CODE.fullmatch(text) else f"<code>{markdown(text)}</code>"


def drawing(text: str) -> str:
    """A text that matplotlib draws, as PNG or SVG: a dollar sign begins no formula."""
    return terminal(text).replace("$", r"\$")


def spreadsheet(value: object) -> object:
    """The value of a cell for the ``csv`` module, on one line; a text that a spreadsheet would
    compute as a formula gets an apostrophe."""
    if not isinstance(value, str):
        return value
    formula = value.lstrip(" ").startswith(_FORMULA)
    return "'" * formula + "".join(c if _is_shown(c) else _spelled(c) for c in value)


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
