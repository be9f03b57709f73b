"""``python -m leaderboards.export``: the board as a folder of files that needs no server."""

from __future__ import annotations

from functools import partial

from core.amounts import amount
from core.errors import OK, UserError, command
from core.places import absolute, shown
from core.words import command_line
from leaderboards.arguments import Arguments, read
from leaderboards.build import COMMITTED

HELP = """\
usage: python -m leaderboards.export FOLDER [board=FOLDER]

Writes the board as a site: a page for each task, model, claim and record, with tables that sort,
charts, badges, LaTeX and BibTeX of each table, and the rows of each task as CSV and Parquet. It
opens from the folder, without a server and without a network, and on any host of files.

  board=FOLDER   the board to show (default leaderboards/board.parquet, the committed one)
A FOLDER with other files is refused. One that an export wrote is renewed: what the last export
wrote is replaced or removed, whatever else lies there stays.
example: python -m leaderboards.export site/"""


ELSEWHERE = {"store": "board=STORE/board.parquet is the board of a store"}


@command_line(HELP, partial(read, settings=("board",), takes_names=True, elsewhere=ELSEWHERE))
def main(arguments: Arguments) -> int:
    """Write the site."""
    if len(arguments.names) != 1:
        raise UserError("name the one folder that the site goes to, such as site/; --help explains")
    target = absolute(arguments.names[0])
    board = arguments.place("board", COMMITTED)
    from core.progress import progress
    from leaderboards.site.folder import listed, write
    from leaderboards.site.site import Site

    listed(target)  # refused at once, not after all pages are made
    with progress() as report:
        site = Site(board)
        count, changed = write(target, site.digest, site.files(report))
    board_name = site.digest[:12]
    print(
        f"{shown(target)}: {amount(count, 'file')} of board {board_name}, {changed} of them new or "
        "changed"
    )
    print(f"open {(target / 'index.html').resolve().as_uri()}")
    return OK


if __name__ == "__main__":
    command(main)
