"""No text acts, whatever it holds: the independent truth is a parser of each output."""

import csv
import io
import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from matplotlib import cbook
from rich.table import Table

from core import escaping, screen
from core.progress import progress
from reproduce.plotting.panels import Axis, Panel, Picture, Remark, Trace
from reproduce.plotting.renderer import render, saved

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PAYLOADS = [
    "a|b <i>*x*</i> _y_ [z](u) ![z](u) `c` ~~d~~ &amp; \\| snake_case \\",
    "__strong__ of x__y__ and (__z__)",
    "| a |\n|---|\n| b |",
    "# heading\n\n- list\n1. list\n===\n```\n~~~",
    "1. one",
    "- one",
    "+",
    ":--",
    "<!-- end of results --><script>alert(1)</script>",
    "https://evil.example and www.evil.example",
    "$\\frac$ and $x_{$",
    "\x1b[31mred\x1b[0m \x07\x9b2J\u202eturned\ud800\ufffe\x00",
    "[red]red[/red] [/] :smile: [link=file:///x]x[/link]",
    "=1+1",
    "\t=cmd|' /C calc'!A0",
    "",
]
texts = st.one_of(
    st.sampled_from(PAYLOADS),
    st.lists(st.sampled_from([*"|*_`~<>[]()#-=+:.$&!\\\n 1ab", "www.", "://"])).map("".join),
    st.text(),
)


def is_calm(text: str) -> bool:
    """Nothing in it moves a cursor, turns a direction or cannot be encoded."""
    return all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text)


def is_kept(text: str) -> bool:
    return all(c.isprintable() for c in text)


def inline(markdown: str) -> list[list[Token]]:
    return [t.children or [] for t in MARKDOWN.parse(markdown) if t.type == "inline"]


def shown(tokens: list[Token]) -> str:
    assert {token.type for token in tokens} <= {"text", "text_special"}
    return "".join(token.content for token in tokens)


@given(texts, texts)
def test_a_row_of_markdown_stays_one_row_with_its_cells(one: str, other: str) -> None:
    cells = [escaping.markdown(text) for text in (one, other)]
    document = MARKDOWN.parse(f"| a | b |\n|---|---|\n| {' | '.join(cells)} |\n")
    kinds = [token.type for token in document]
    assert (kinds.count("tr_open"), kinds.count("td_open"), kinds[-1]) == (2, 2, "table_close")
    found = [token.children for token in document if token.type == "inline"]
    for text, tokens in zip((one, other), found[2:], strict=True):
        words = " ".join(text.split())
        assert is_calm(read := shown(tokens or []))
        assert not is_kept(words) or read == words


@given(texts)
@example("12345678901. one")
def test_a_paragraph_of_markdown_stays_one_paragraph(text: str) -> None:
    line = escaping.markdown(text)
    tokens = MARKDOWN.parse(f"{line}\n")
    assert [t.type for t in tokens] in ([], ["paragraph_open", "inline", "paragraph_close"])
    words, read = " ".join(text.split()), "".join(map(shown, inline(line)))
    assert is_calm(read)
    assert not is_kept(words) or read == words
    # GitHub makes links of these, without brackets.
    assert not re.search(r"(?<!\\)://|www(?<!\\)\.", line, re.IGNORECASE)


@given(texts)
def test_several_lines_stay_lines_of_one_cell(text: str) -> None:
    [_, cell] = inline(f"| a |\n|---|\n| x{escaping.markdown_lines(text)} |\n")
    lines = [line.split() for line in text.splitlines() if line.strip()]
    breaks = [token for token in cell if token.type == "html_inline"]
    assert [token.content for token in breaks] == ["<br>"] * max(0, len(lines) - 1)
    assert is_calm(shown([token for token in cell if token.type != "html_inline"]))


@given(texts.filter(str.strip))
def test_code_of_markdown_stays_code(text: str) -> None:
    [_, cell] = inline(f"| a |\n|---|\n| {escaping.markdown_code(text)} |\n")
    kinds = [token.type for token in cell]
    assert kinds == ["code_inline"] or [t.content for t in cell if t.type == "html_inline"] == [
        "<code>",
        "</code>",
    ]
    assert set(kinds) <= {"code_inline", "html_inline", "text", "text_special"}


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.tags.append(data)


@given(texts)
def test_html_stays_text_in_elements_and_attributes(text: str) -> None:
    made = escaping.html(text)
    page = Page(f"<p title=\"{made}\" lang='{made}'>{made}</p>")
    assert page.tags == ["p"]
    assert page.attributes == [("title", page.text), ("lang", page.text)]
    assert is_calm(page.text.replace("\n", "").replace("\t", ""))
    assert not is_kept(text) or page.text == text


SIGNS = {
    "textbackslash": "\\",
    "textbraceleft": "{",
    "textbraceright": "}",
    "textasciicircum": "^",
    "textasciitilde": "~",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
    "textquotesingle": "'",
    "textasciigrave": "`",
    **{sign: sign for sign in "$&#_%"},
}
FORMULAS = {"$-$": "−", "$\\uparrow$": "↑", "$\\downarrow$": "↓", "$\\leq$": "≤"}
FORMULAS |= {"$\\geq$": "≥", "$\\approx$": "≈"}
TEX = re.compile(
    r"(?P<formula>\$[^$]*\$)|\\symbol\{(?P<code>\d+)\}|\\(?P<word>[a-z]+)\{\}|\\(?P<sign>[$&#_%])"
    r"|\{(?P<group>[^{}\\]?)\}|(?P<letter>[^\\{}$&#_%^~])",
    re.DOTALL,
)


def read_by_tex(line: str) -> str:
    """What a line of LaTeX shows, by the commands and groups that it may have; anything else of it
    would act."""
    place, shown = 0, ""
    while place < len(line):
        found = TEX.match(line, place)
        assert found, f"{line[place:]!r} acts"
        part = found.groupdict()
        if part["formula"]:
            shown += FORMULAS[part["formula"]]
        elif part["code"]:
            shown += chr(int(part["code"]))
        elif part["word"] or part["sign"]:
            shown += SIGNS[part["word"] or part["sign"]]
        else:
            shown += (part["group"] or "") + (part["letter"] or "")
        place = found.end()
    return shown


@given(texts)
@example("--- ,,a'' ?` !` [x]* {a}$b$ −1 ≤ 2 ↑ % comment \\\\")
def test_latex_shows_the_text_and_does_nothing(text: str) -> None:
    made = escaping.latex(text)
    assert not re.search(r"--|,,|``|''|<<|>>|[?!]`", made)  # two signs that TeX draws as one
    assert not re.match(r"[\[*]", made)  # what the end of the row before would take
    assert made.count("{") == made.count("}")  # BibTeX counts every brace
    assert "\n" not in made
    words, read = " ".join(text.split()), read_by_tex(made)
    assert is_calm(read)
    assert not is_kept(words) or read == words


@given(texts)
@example("</script><!--<script> \\u202e \u202e \\\\u003c é 😀")
def test_json_in_a_page_ends_no_element_and_holds_the_text(text: str) -> None:
    made = escaping.script({text: [text, 0.1, float("nan"), None]})
    page = Page(f'<script type="application/json">{made}</script><p title="&lt;"></p>')
    assert page.tags == ["script", "p"]
    assert page.text == made
    assert made.isascii()
    [[key, [value, number, missing, none]]] = json.loads(page.text).items()
    assert (key, number, missing, none) == (value, 0.1, None, None)
    assert is_calm("".join(c for c in key if c not in "\n\t\r\b\f"))
    assert not is_kept(text) or key == text


@given(texts, texts)
def test_a_row_of_csv_stays_one_row_and_computes_nothing(one: str, other: str) -> None:
    file = io.StringIO()
    csv.writer(file).writerow(map(escaping.spreadsheet, (one, other, 0.5)))
    [row] = csv.reader(io.StringIO(file.getvalue().encode().decode(), newline=""))
    assert row[2] == "0.5"
    for text, cell in zip((one, other), row[:2], strict=True):
        assert is_calm(cell)
        assert cell.strip()[:1] not in ("=", "+", "-", "@")
        assert not is_kept(text) or cell.removeprefix("'") == text.removeprefix("'")


@given(texts)
def test_a_terminal_gets_letters_and_no_commands(text: str) -> None:
    file = io.StringIO()
    terminal = screen._Screen(file=file, force_terminal=True, width=10_000, soft_wrap=True)
    terminal.print(text)
    table = Table(title=text)
    table.add_column(text)
    table.add_row(text)
    terminal.print(table)
    said = file.getvalue()
    for style in ("\x1b[0m", "\x1b[1m", "\x1b[3m"):  # of rich's own title and head
        said = said.replace(style, "")
    assert is_calm(said.replace("\n", "").replace("\t", ""))
    if is_kept(text):
        assert file.getvalue().startswith(f"{text}\n")


def test_what_runs_is_named_on_a_terminal_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    for file in (Terminal(), io.StringIO()):
        with progress(file) as report:
            report("[red]\x1b]0;title\x07 run", 0, 2)
            report("[red]\x1b]0;title\x07 run", 2, 2)
        said = file.getvalue()
        assert "\x1b]0" not in said
        assert "\x07" not in said
        assert file.isatty() or "[red]\\x1b]0;title\\x07 run" in said


@given(texts)
def test_a_drawing_shows_dollars(text: str) -> None:
    """The rule is matplotlib's own."""
    made = escaping.drawing(text)
    assert not cbook.is_math_text(made)
    drawn = made.replace(r"\$", "$")
    assert is_calm(drawn.replace("\n", "").replace("\t", ""))
    assert not is_kept(text) or drawn == text


def test_a_figure_of_any_texts_is_drawn_as_valid_svg() -> None:
    text = "$\\frac$ <i>&\x1b[31m\ud800\ufffe--> $x_{$"
    panel = Panel(
        text,
        x=Axis(text, categories=(text, "b")),
        y=Axis(text),
        traces=(Trace(f"_{text}", x=(0, 1), y=(1, 2), texts=(text, text), end=text),),
        remarks=(Remark(text, y=1.5),),
        legend="best",
    )
    picture = Picture(text, [[panel]], subtitle=text, note=text, foot=(text,))
    figure = render(picture)
    assert ElementTree.fromstring(saved(figure, salt="any")["svg"]).tag.endswith("svg")
    [axes] = figure.axes
    assert axes.get_legend() is not None
    assert len(axes.get_legend().get_texts()) == 1
