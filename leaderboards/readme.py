"""``python -m leaderboards.readme``: README's numbers and picture, and the pages of docs/results.

All of them are written from the committed board, so that no number there can be anything but a
record's. README has one section between two markers; the pages are written as a whole. The picture
carries the hash of what it shows, since other versions of a drawing library draw other pixels.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from core.errors import OK, VERIFICATION_FAILED, UserError, command
from core.files import write_atomically
from core.words import command_line
from leaderboards.arguments import Arguments, read
from leaderboards.build import COMMITTED
from leaderboards.contents import Board, read_board
from leaderboards.markdown import pages
from leaderboards.summary import summary
from leaderboards.views.abilities.heat_map import is_drawn_in, picture, png

ROOT = Path(__file__).resolve().parent.parent
PICTURE = "docs/abilities.png"
START = "<!-- results: written by `python -m leaderboards.readme` from the committed records -->"
END = "<!-- end of results -->"

HELP = """\
usage: python -m leaderboards.readme [--check]

Write README's results, docs/abilities.png and the pages in docs/results from
leaderboards/board.parquet. A page there that belongs to no task of the board is removed.
  --check   write nothing; exit code 4 if one of them differs from what the board gives"""


def write_results(arguments: Arguments) -> int:
    """Write the results, or compare them with the board."""
    board = read_board(COMMITTED)
    wanted = wanted_texts(board)
    differing = []
    for path, text in wanted.items():
        if not path.exists() or path.read_text() != text:
            differing.append(path)
    drawing, heat_map = ROOT / PICTURE, picture(board)
    outdated = differing if is_drawn_in(drawing, heat_map) else [*differing, drawing]
    written = sorted((ROOT / "docs" / "results").glob("*"))
    strangers = [path for path in written if path not in wanted]
    if "--check" in arguments.flags and (outdated or strangers):
        remedy = "write them again with `python -m leaderboards.readme`"
        names = ", ".join(str(path.relative_to(ROOT)) for path in outdated or strangers)
        problem = f"the results in {names} are not those of the committed board"
        if not outdated:
            problem = f"the committed board has no task with the page {names}"
        raise UserError(f"{problem}: {remedy}", VERIFICATION_FAILED)
    for path in differing:
        write_atomically(path, wanted[path].encode())
    if drawing in outdated:
        write_atomically(drawing, png(heat_map))
    for path in strangers:
        path.unlink()
    print(f"README.md, {PICTURE} and {len(wanted) - 1} pages of docs/results hold the board")
    return OK


def wanted_texts(board: Board) -> dict[Path, str]:
    """What every file with results should hold.

    Raises:
        UserError: the README lacks a marker.
    """
    readme = ROOT / "README.md"
    texts = {readme: with_results(readme.read_text(), summary(board), readme.name)}
    for name, text in pages(board).items():
        texts[ROOT / "docs" / "results" / name] = text
    return texts


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


main = command_line(HELP, partial(read, flags=("--check",)), write_results)


if __name__ == "__main__":
    command(main)
