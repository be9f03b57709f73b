"""``python -m leaderboards.serve``: open the board in a browser."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from functools import partial
from pathlib import Path

from core.errors import OK, RUN_FAILED, UserError, command
from core.words import command_line
from leaderboards.arguments import Arguments, read
from leaderboards.build import FOLDER, default_board
from leaderboards.hosts import Guard, Hosts

SECONDS_BETWEEN_KNOCKS = 0.1

HELP = """\
usage: python -m leaderboards.serve [key=value ...]

  board=FOLDER   the board to show (default runs/board.parquet if there is one, else the committed
                 leaderboards/board.parquet)
  port=N         default 8501; 0 takes any free one
  address=NAME   default localhost, for this machine alone; 0.0.0.0 for every machine that reaches
                 this one
  hosts=NAMES    names by which visitors ask, such as board.example.org,board: beside localhost, or
                 with address=0.0.0.0 beside the addresses and names of this machine. A request
                 that names another host, or comes from a page of another site, is refused
Ctrl-C ends it. Nobody else is asked anything."""


SETTINGS = ("board", "port", "address", "hosts")
ELSEWHERE = {"store": "board=STORE/board.parquet is the board of a store"}


@command_line(HELP, partial(read, settings=SETTINGS, elsewhere=ELSEWHERE))
def main(arguments: Arguments) -> int:
    """Run Streamlit in this process, so that a signal to it ends the app."""
    board = arguments.place("board", default_board())
    from leaderboards.contents import OpenBoard

    OpenBoard(board).check()  # a sentence here rather than an empty page
    address = arguments.one("address", "localhost")
    port = free_port(address, arguments.one("port", "8501"))
    print(f"board {board}", flush=True)
    more = [name.strip() for name in arguments.one("hosts", "").split(",")]
    guard = Guard(Hosts(address, filter(None, more)))
    telling = threading.Thread(
        target=_say_when_it_listens, args=(address, port, guard), daemon=True
    )
    telling.start()
    return _run(streamlit_arguments(address, port, board), board.resolve(), guard)


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


def _run(arguments: list[str], board: Path, guard: Guard) -> int:
    from streamlit.web import cli

    guard.put_up()

    if str(FOLDER.parent) not in sys.path:
        sys.path.insert(0, str(FOLDER.parent))
    # Before the server listens, so that no visitor waits for it.
    from leaderboards.screens import overview, page  # noqa: F401

    page.prepare(board)
    return int(cli.main(arguments, prog_name="streamlit", standalone_mode=False) or OK)


def _say_when_it_listens(address: str, port: int, guard: Guard) -> None:
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
            break
        except OSError:
            time.sleep(SECONDS_BETWEEN_KNOCKS)
    if not guard.stands:  # another Streamlit, which makes its server in another way
        print(f"error: {guard.other_version()}", file=sys.stderr, flush=True)
        os._exit(RUN_FAILED)  # a sentence alone would leave an open door
    print(f"open http://{address}:{port}  (Ctrl-C ends it)", flush=True)


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


if __name__ == "__main__":
    command(main)
