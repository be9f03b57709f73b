"""``python -m leaderboards.readme``: README's numbers and picture, and the pages of docs/results.

All of them are written from the committed board, so that no number there can be anything but a
record's. README has one section between two markers; the pages are written as a whole. The picture
carries the hash of what it shows, since other versions of a drawing library draw other pixels.
"""

from __future__ import annotations

import hashlib
import io
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import OK, VERIFICATION_FAILED, UserError, command
from core.files import write_atomically
from core.words import command_line
from leaderboards.arguments import Arguments, read
from leaderboards.build import COMMITTED

if TYPE_CHECKING:
    from leaderboards.contents import Board
    from reproduce.plotting.panels import Picture

ROOT = Path(__file__).resolve().parent.parent
PICTURE = "docs/abilities.png"
CONTENT = "content"  # the PNG's text that holds the hash of what it shows
START = "<!-- results: written by `python -m leaderboards.readme` from the committed records -->"
END = "<!-- end of results -->"

HELP = """\
usage: python -m leaderboards.readme [--check]

Write README's results, docs/abilities.png and the pages in docs/results from
leaderboards/board.parquet. A page there that belongs to no task of the board is removed.
  --check   write nothing; exit code 4 if one of them differs from what the board gives"""


@command_line(HELP, partial(read, flags=("--check",)))
def main(arguments: Arguments) -> int:
    """Write the results, or compare them with the board."""
    from leaderboards.contents import read_board

    board = read_board(COMMITTED)
    wanted = wanted_texts(board)
    drawing = ROOT / PICTURE
    differing = [path for path, text in wanted.items() if _read(path) != text]
    picture = _outdated_picture(board, drawing)
    strangers = [
        path for path in sorted((ROOT / "docs" / "results").glob("*")) if path not in wanted
    ]
    if "--check" in arguments.flags and (strangers or differing or picture):
        raise UserError(
            _complaint([*differing, *([drawing] if picture else [])], strangers),
            VERIFICATION_FAILED,
        )
    for path in differing:
        write_atomically(path, wanted[path].encode())
    if picture:
        write_atomically(drawing, png(picture))
    for path in strangers:
        path.unlink()
    print(f"README.md, {PICTURE} and {len(wanted) - 1} pages of docs/results hold the board")
    return OK


def wanted_texts(board: Board) -> dict[Path, str]:
    """What every file with results should hold.

    Raises:
        UserError: the README lacks a marker.
    """
    from leaderboards.markdown import pages
    from leaderboards.summary import summary

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


def png(picture: Picture) -> bytes:
    """The drawn picture, with the hash of what it shows."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    from reproduce.plotting.renderer import images

    information = PngInfo()
    information.add_text(CONTENT, _hash(picture))
    buffer = io.BytesIO()
    drawn = Image.open(io.BytesIO(images(picture, salt="abilities")["png"]))
    # A drawing of few colours: a quarter of the bytes, and no other look.
    drawn.convert("RGB").quantize(256).save(buffer, "PNG", pnginfo=information, optimize=True)
    return buffer.getvalue()


def _outdated_picture(board: Board, path: Path) -> Picture | None:
    """What the file should show, if that is not what it shows."""
    from PIL import Image

    from leaderboards.views.abilities.heat_map import picture

    wanted = picture(board)
    if path.exists():
        with Image.open(path) as drawn:
            if drawn.info.get(CONTENT) == _hash(wanted):
                return None
    return wanted


def _hash(picture: Picture) -> str:
    return hashlib.sha256(picture.to_json()).hexdigest()


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
