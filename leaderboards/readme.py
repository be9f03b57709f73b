"""``python -m leaderboards.readme``: the numbers of the README and the pages of docs/results.

All of them are written from the committed board, so that no number there can be anything but a
record's. The README has one table between two markers; the pages are written as a whole.
"""

from __future__ import annotations

from pathlib import Path

from ground.errors import OK, VERIFICATION_FAILED, UserError, command
from ground.files import write_atomically
from ground.words import wants_help
from leaderboards.arguments import read
from leaderboards.build import COMMITTED

ROOT = Path(__file__).resolve().parent.parent
START = "<!-- results: written by `python -m leaderboards.readme` from the committed records -->"
END = "<!-- end of results -->"

HELP = """\
usage: python -m leaderboards.readme [--check]

Write the README's table and the pages in docs/results from leaderboards/board.parquet. A page there
that belongs to no task of the board is removed.
  --check   write nothing; exit code 4 if one of them differs from what the board gives"""


def main(words: list[str]) -> int:
    """Write the results, or compare them with the board."""
    if wants_help(words):
        print(HELP)
        return OK
    arguments = read(words, settings=(), flags=("--check",))
    wanted = wanted_texts()
    folder = ROOT / "docs" / "results"
    strangers = [path for path in sorted(folder.glob("*")) if path not in wanted]
    differing = [path for path, text in wanted.items() if _read(path) != text]
    if "--check" in arguments.flags and (strangers or differing):
        raise UserError(_complaint(differing, strangers), VERIFICATION_FAILED)
    for path in differing:
        write_atomically(path, wanted[path].encode())
    for path in strangers:
        path.unlink()
    print(f"README.md and {len(wanted) - 1} pages of docs/results hold the committed board")
    return OK


def wanted_texts() -> dict[Path, str]:
    """What every file with results should hold.

    Raises:
        UserError: the README lacks a marker, or the board cannot be read.
    """
    from leaderboards.contents import read_board
    from leaderboards.markdown import pages, summary

    board = read_board(COMMITTED)
    readme = ROOT / "README.md"
    made = {ROOT / "docs" / "results" / name: text for name, text in pages(board).items()}
    return {readme: with_results(readme.read_text(), summary(board), readme.name), **made}


def with_results(text: str, section: str, name: str) -> str:
    """``text`` with everything between the markers replaced.

    Raises:
        UserError: a marker is missing.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.rpartition(END)
    if not start or not end:
        raise UserError(f"{name} must hold the lines {START!r} and {END!r}")
    return f"{before}{START}\n\n{section}\n{END}{after}"


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _complaint(differing: list[Path], strangers: list[Path]) -> str:
    again = "write them again with `python -m leaderboards.readme`"
    names = ", ".join(str(path.relative_to(ROOT)) for path in differing or strangers)
    if differing:
        return f"the results in {names} are not those of the committed board: {again}"
    return f"the committed board has no task with the page {names}: {again}"


if __name__ == "__main__":
    command(main)
