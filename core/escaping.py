"""Texts on their way out, one function for each output.

A record, a verdict or a file name may have been written by others. Whatever such a text holds, its
reader sees those characters and nothing acts: no markup, no formula, no command of a terminal.
Example: ``markdown("a|b <i>")`` is ``a\\|b \\<i\\>``.
"""

from __future__ import annotations

import html as library
import json
import re
import unicodedata

# Within a word an underscore is no emphasis. A link needs no brackets where "://" or "www." is.
_MARKDOWN = re.compile(
    r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.|^[-+=#:](?!\w)", re.IGNORECASE
)
_NUMBERED = re.compile(r"^(\d+)([.)])(?!\S)")
_INERT_CODE = re.compile(r"[\w .,:;=+/()-]+")
_UNSHOWN = re.compile(r"[^ -~]")  # perhaps: each is looked at
_UNSHOWN_IN_LINES = re.compile(r"[^\n\t -~]")
_IN_SCRIPT = re.compile(r"\\u(d[89ab]..)\\u(d[c-f]..)|\\(?:u(....)|.)|[<>&]")
# What LaTeX obeys, and what its fonts have in formulas alone. Braces are commands, since BibTeX
# counts escaped ones too; a bracket or star that begins a row would belong to the end of the last.
_LATEX = {
    **{sign: f"\\{sign}" for sign in "$&#_%"},
    **{sign: f"{{{sign}}}" for sign in "[]*"},
    "\\": r"\textbackslash{}",
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "−": "$-$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
}
_LATEX_SIGNS = re.compile(r"-(?=-)|,(?=,)|" + "|".join(re.escape(s) for s in _LATEX if len(s) == 1))
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def terminal(text: str) -> str:
    """Lines for a terminal: what would move its cursor, set its colours or turn the direction of
    the text is spelled out, such as ``\\x1b``; line breaks and tabs stay."""
    return _UNSHOWN_IN_LINES.sub(_spelled_if_unshown, text)


def html(text: str) -> str:
    """HTML, inside an element or a quoted attribute."""
    return library.escape(terminal(text))


def script(value: object) -> str:
    """A tree as JSON that may stand in HTML, in a ``<script>`` element too: ``<`` is ``\\u003c``.
    What has no place in a text is spelled out, and numbers that JSON has not are null."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
        text = json.dumps(finite, separators=(",", ":"))
    return _IN_SCRIPT.sub(_in_script, text)


def _in_script(match: re.Match[str]) -> str:
    whole, code = match[0], match[3]
    if whole in "<>&":
        return f"\\u{ord(whole):04x}"
    return f"\\{whole}" if code and not _is_shown(chr(int(code, 16))) else whole


def latex(text: str) -> str:
    """LaTeX on one line, in a paragraph, a cell of a table or a field of BibTeX."""
    line = terminal(" ".join(text.split()))
    return _LATEX_SIGNS.sub(lambda sign: _LATEX.get(sign[0], f"{sign[0]}{{}}"), line)


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
    return "'" * formula + _UNSHOWN.sub(_spelled_if_unshown, value)


def _spelled_if_unshown(character: re.Match[str]) -> str:
    """The matched character, or its escape where a terminal would act on it or show nothing."""
    return character[0] if _is_shown(character[0]) else _spelled(character[0])


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
