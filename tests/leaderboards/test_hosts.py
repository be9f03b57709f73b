"""The app answers to its own hosts alone, and asks nobody."""

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leaderboards.screens.hosts import Hosts
from leaderboards.tables.builder import build_board
from tests.conftest import ROOT
from tests.leaderboards.boards import write_board
from tests.leaderboards.conftest import samples

# Writes every address that a process looks up or connects to in a file; a socket of any kind tells.
AUDIT = """
import os, sys

def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"):
        place = arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0]
        line = f"{event} {place!r}\\n".encode()
        handle = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, line)
        os.close(handle)

sys.addaudithook(hook)
"""
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
SWITCHING, OK, FORBIDDEN = 101, 200, 403
FOREIGN = "rebound.example"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of the app, started as a user starts it, and the file of its connections."""
    folder = tmp_path_factory.mktemp("served")
    board, audit = folder / "board.parquet", folder / "audit"
    write_board(build_board(samples(), [], []), board)
    (folder / "sitecustomize.py").write_text(AUDIT)
    path = os.pathsep.join((str(folder), str(ROOT)))
    server = subprocess.Popen(
        [sys.executable, "-m", "leaderboards.serve", f"board={board}", "port=0"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "AUDIT": str(audit), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        lines = []
        port = None
        for line in server.stdout:
            lines.append(line)
            if port := re.search(r"open http://localhost:(\d+)", line):
                break
        assert port, lines
        yield int(port[1]), audit
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def status(port: int, path: str, host: str, **headers: str) -> int:
    """What the app answers to one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for key, value in {"Host": host, **headers}.items():
            connection.putheader(key, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


STREAM = "/_stcore/stream"


def test_a_request_by_another_name_is_refused(app: tuple[int, Path]) -> None:
    port, _ = app
    for path in ("/", "/task", "/_stcore/health", "/_stcore/host-config"):
        assert status(port, path, f"localhost:{port}") == OK, path
        assert status(port, path, f"127.0.0.1:{port}") == OK, path
        for host in (FOREIGN, f"{FOREIGN}:{port}", f"localhost.{FOREIGN}", "10.0.0.7", ""):
            assert status(port, path, host) == FORBIDDEN, (path, host)


def test_what_a_board_sends_goes_to_its_own_pages_alone(app: tuple[int, Path]) -> None:
    port, _ = app
    own = f"localhost:{port}"
    assert status(port, STREAM, own, Origin=f"http://{own}", **UPGRADE) == SWITCHING
    for host, origin in (
        (f"{FOREIGN}:{port}", f"http://{FOREIGN}:{port}"),  # DNS rebinding
        (own, f"http://{FOREIGN}"),  # a page of another site
        (own, "http://localhost:1"),  # another server of this machine
        (own, "null"),
    ):
        assert status(port, STREAM, host, Origin=origin, **UPGRADE) == FORBIDDEN, (host, origin)
        assert status(port, "/_stcore/health", host, Origin=origin) == FORBIDDEN, (host, origin)


def test_the_app_asks_nobody(app: tuple[int, Path]) -> None:
    """Also after a foreign page has connected, where Streamlit asks for its own address."""
    port, audit = app
    status(port, STREAM, f"localhost:{port}", Origin=f"http://{FOREIGN}", **UPGRADE)
    status(port, STREAM, f"localhost:{port}", Origin=f"http://localhost:{port}", **UPGRADE)
    said = audit.read_text().splitlines()
    assert said, "the hook saw nothing, not even how the app looks for a free port"
    abroad = [line for line in said if not re.search(r"localhost|127\.0\.0\.1|'::1'", line)]
    assert not abroad


def test_a_server_for_all_machines_answers_to_addresses_and_to_names_that_were_given() -> None:
    local = Hosts("localhost")
    assert local.allow("LOCALHOST:8501")
    assert local.allow("[::1]:8501")
    assert not local.allow("192.168.0.7:8501")
    assert not local.allow("localhost@rebound.example")
    assert not local.allow("localhost:port")
    everywhere = Hosts("0.0.0.0", ["Board.example.org"])
    assert everywhere.allow("192.168.0.7:8501")  # no name, so nobody can change where it leads
    assert everywhere.allow("board.example.org")
    assert not everywhere.allow(FOREIGN)
    assert everywhere.allow_origin("https://board.example.org", "localhost:8501")  # a proxy
    assert not everywhere.allow_origin("http://192.168.0.8", "192.168.0.7")
    one = Hosts("192.168.0.7")
    assert one.allow("192.168.0.7")
    assert not one.allow("localhost")
