"""A board and its tables to cite: CITATION.cff, BibTeX and LaTeX, each with the board's hash."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from core.escaping import latex
from core.files import ROOT
from leaderboards.contents import Row
from leaderboards.render import count, number, rank, with_arrow
from leaderboards.site.tasks import PageTable
from leaderboards.views.sentences import notes
from leaderboards.views.tables import unique_names

HEAD = ("model", "rank", "score", "95 % interval", "seeds", "parameters", "mark")
HASH = 12  # digits of the board's hash in a key


def cff(digest: str) -> bytes:
    """The project's CITATION.cff, with the hash of a board as an identifier."""
    content = yaml.safe_load((ROOT / "CITATION.cff").read_bytes())
    identifier = {"type": "other", "value": f"sha256:{digest}", "description": "hash of the board"}
    content["identifiers"] = [*content.get("identifiers", []), identifier]
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode()


def bibtex(digest: str, year: str, name: str = "", title: str = "") -> bytes:
    """An entry for the whole board, or for one table of it."""
    content = yaml.safe_load((ROOT / "CITATION.cff").read_bytes())
    full_title = f"{content['title']}: {title}" if title else content["title"]
    authors = " and ".join(f"{{{latex(author['name'])}}}" for author in content["authors"])
    key = "-".join(filter(None, ("memory-bench", name.replace("/", "-"), digest[:HASH])))
    fields = {
        "title": f"{{{latex(full_title)}}}",
        "author": authors,
        "year": latex(year),
        "version": latex(str(content["version"])),
        "note": latex(f"board sha256:{digest}"),
    }
    body = ",\n".join(f"  {field} = {{{value}}}" for field, value in fields.items())
    return f"% board {digest}\n@misc{{{key},\n{body}\n}}\n".encode()


def table(placed: PageTable, digest: str) -> bytes:
    """A table of a task for a paper; it needs no package."""
    ranked_table, rows = placed.table, placed.table.rows
    score = with_arrow(ranked_table.metric, rows[0].direction)
    head = [latex(score if word == "score" else word) for word in HEAD]
    cells = [_line(name, row) for name, row in zip(unique_names(rows), rows, strict=True)]
    caption = f"{ranked_table.place}. {notes(rows)[0]} Board {digest[:HASH]}."
    lines = [
        f"% board {digest}",
        "% written by `python -m leaderboards.export`",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex(caption)}}}",
        f"\\begin{{tabular}}{{l{'r' * (len(HEAD) - 2)}l}}",
        "\\hline",
        " & ".join(head) + r" \\",
        "\\hline",
        *(" & ".join(line) + r" \\" for line in cells),
        "\\hline",
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join([*lines, ""]).encode()


def _line(name: str, row: Row) -> Sequence[str]:
    well = row.outcome == "ok" and row.mean is not None
    has_interval = well and row.low is not None and row.high is not None
    texts = (
        name,
        rank(row) if row.rank_best else "",
        number(row.mean or 0.0) if well else row.cause or row.outcome,
        f"{number(row.low or 0.0)} to {number(row.high or 0.0)}" if has_interval else "",
        "" if row.seeds is None else f"{row.seeds} ({row.note})" if row.note else str(row.seeds),
        "" if row.parameters is None else count(row.parameters),
        row.mark,
    )
    return [latex(text) for text in texts]
