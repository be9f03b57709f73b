"""``python -m leaderboards.export``: the board as a folder of files that needs no server."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from core.errors import UserError, command
from core.places import absolute
from core.words import command_line
from leaderboards.arguments import Arguments, board_place, read
from leaderboards.build import COMMITTED

HELP = """\
usage: python -m leaderboards.export FOLDER [board=FOLDER | store=FOLDER]

Writes the board as a site: a page for each task, model, claim and record, with tables that sort,
charts, badges, LaTeX and BibTeX of each table, and the rows of each task as CSV and Parquet. It
opens from the folder, without a server and without a network, and on any host of files.

  board=FOLDER   the board to show (default leaderboards/board.parquet, the committed one)
  store=FOLDER   the board of the runs in a store: board=FOLDER/board.parquet
A FOLDER with other files is refused. One that an export wrote is renewed: what the last export
wrote is replaced or removed, whatever else lies there stays.
example: python -m leaderboards.export site/"""


class ExportRequest(NamedTuple):
    """The folder of the site, and the board that it shows."""

    target: Path
    board: Path


def request_of(arguments: Arguments) -> ExportRequest:
    """What the arguments ask for.

    Raises:
        UserError: not one folder.
    """
    if len(arguments.names) != 1:
        raise UserError("name the one folder that the site goes to, such as site/; --help explains")
    return ExportRequest(absolute(arguments.names[0]), board_place(arguments, COMMITTED))


READ = partial(read, settings=("board", "store"), takes_names=True)
main = command_line(HELP, READ, request_of, "leaderboards.site.exporting:export")


if __name__ == "__main__":
    command(main)
