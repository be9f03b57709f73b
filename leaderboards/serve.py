"""``python -m leaderboards.serve``: open the board in a browser."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path

from core.errors import UserError, command
from core.words import command_line
from leaderboards.arguments import read
from leaderboards.build import FOLDER

HELP = """\
usage: python -m leaderboards.serve [key=value ...]

  board=FOLDER   the board to show (default runs/board.parquet if there is one, else the committed
                 leaderboards/board.parquet)
  store=FOLDER   the board of the runs in another store: board=FOLDER/board.parquet
  port=N         default 8501; 0 takes any free one
  address=NAME   default localhost, for this machine alone; 0.0.0.0 for every machine that reaches
                 this one
  hosts=NAMES    names by which visitors ask, such as board.example.org,board: beside localhost, or
                 with address=0.0.0.0 beside the addresses and names of this machine. A request
                 that names another host, or comes from a page of another site, is refused
Ctrl-C ends it. Nobody else is asked anything."""


def streamlit_arguments(address: str, port: int, board: Path) -> list[str]:
    """The command line of the app."""
    options = {
        "server.headless": "true",
        "server.address": address,
        "server.port": str(port),
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        # Streamlit would print addresses of this machine, one of which it asks a server abroad for.
        "logger.hideWelcomeMessage": "true",
        "server.enableCORS": "true",  # whatever the visitor's own configuration of Streamlit says
        "server.enableXsrfProtection": "true",
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        # A control goes with its default when another one changes that (screens.address).
        "global.disableWidgetStateDuplicationWarning": "true",
        # One for each: a common one would fix the theme, which is the reader's.
        "theme.light.primaryColor": "#1f5f8b",
        "theme.dark.primaryColor": "#2b7ab8",
    }
    flags = [f"--{key}={value}" for key, value in options.items()]
    app = str(FOLDER / "app.py")
    return ["run", app, *flags, "--", str(board.resolve())]


def free_port(address: str, wanted: str) -> int:
    """The wanted port if nobody listens there; for 0 any free one.

    Raises:
        UserError: it is taken, or is no port.
    """
    if not wanted.isdecimal() or int(wanted) > 65535:
        raise UserError(f"port={wanted} is not a port: give a number from 0 to 65535")
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, int(wanted)))
        except (OSError, ValueError, TypeError) as error:  # the last two: no name of a machine
            raise UserError(
                f"cannot listen at {address}:{wanted} ({getattr(error, 'strerror', '') or error}): "
                "give another port, such as port=0 for any free one"
            ) from None
        return int(trial.getsockname()[1])


SETTINGS = ("board", "store", "port", "address", "hosts")
READ = partial(read, settings=SETTINGS)
main = command_line(HELP, READ, "leaderboards.screens.server:serve")


if __name__ == "__main__":
    command(main)
