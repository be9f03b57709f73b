"""``python -m leaderboards.serve``: open the board in a browser."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import NoReturn

from ground.errors import OK, UserError, command
from ground.words import wants_help
from leaderboards.arguments import read
from leaderboards.build import COMMITTED, FOLDER, LOCAL

HELP = """\
usage: python -m leaderboards.serve [key=value ...]

  board=FILE     the board to show (default runs/board.parquet if there is one, else the committed
                 leaderboards/board.parquet)
  port=N         default 8501; 0 takes any free one
  address=NAME   default localhost, for this machine alone; 0.0.0.0 for every machine that reaches
                 this one
Ctrl-C ends it."""


def main(words: list[str]) -> int:
    """Become the Streamlit process, so that a signal to this process ends it."""
    if wants_help(words):
        print(HELP)
        return OK
    given = read(words, settings=("board", "port", "address"))
    board = Path(given.one("board", str(default_board())))
    from leaderboards.contents import read_board

    read_board(board)  # a sentence here rather than an empty page
    address = given.one("address", "localhost")
    port = free_port(address, given.one("port", "8501"))
    print(f"board {board}\nopen http://{address}:{port}  (Ctrl-C ends it)", flush=True)
    return _become(streamlit_arguments(address, port, board))


def default_board() -> Path:
    """The board of one's own runs if there is one, else the committed one."""
    return LOCAL if LOCAL.exists() else COMMITTED


def streamlit_arguments(address: str, port: int, board: Path) -> list[str]:
    """The command line of the app; nothing is sent to anybody."""
    options = {
        "server.headless": "true",
        "server.address": address,
        "server.port": str(port),
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "theme.base": "light",
        "theme.primaryColor": "#1f5f8b",
    }
    flags = [f"--{key}={value}" for key, value in options.items()]
    app = str(FOLDER / "app.py")
    return [sys.executable, "-m", "streamlit", "run", app, *flags, "--", str(board.resolve())]


def _become(arguments: list[str]) -> NoReturn:
    root = str(FOLDER.parent)
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    os.execve(arguments[0], arguments, {**os.environ, "PYTHONPATH": path})


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
        except OSError as error:
            raise UserError(
                f"cannot listen at {address}:{wanted} ({error.strerror or error}): "
                "give another port, such as port=0 for any free one"
            ) from None
        return int(trial.getsockname()[1])


if __name__ == "__main__":
    command(main)
