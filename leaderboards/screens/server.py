"""The app as ``leaderboards.serve`` starts it: Streamlit in this process, behind a guard."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

from streamlit.web import cli

from core.errors import OK, RUN_FAILED
from leaderboards.arguments import Arguments, board_place
from leaderboards.build import FOLDER, default_board
from leaderboards.contents import OpenBoard

# The first page is imported before the server listens, so that no visitor waits for it.
from leaderboards.screens import overview, page  # noqa: F401
from leaderboards.screens.hosts import Guard, Hosts
from leaderboards.serve import free_port, streamlit_arguments

SECONDS_BETWEEN_KNOCKS = 0.1


def serve(arguments: Arguments) -> int:
    """Run Streamlit in this process, so that a signal to it ends the app."""
    board = board_place(arguments, default_board())
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


def _run(arguments: list[str], board: Path, guard: Guard) -> int:
    guard.put_up()
    if str(FOLDER.parent) not in sys.path:
        sys.path.insert(0, str(FOLDER.parent))
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
