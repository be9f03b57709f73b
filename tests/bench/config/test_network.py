"""A corpus of the network where there is none."""

import os
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from bench.config import network
from bench.config.command_line import read
from bench.config.network import with_available_text
from bench.config.settings import Configuration
from tests import commands
from tests.configurations import compose

PATIENCE = 60.0  # seconds, of a machine with much other work
TINYSTORIES = ["tasks=babistories", "models=gpt2", "tasks.corpus=tinystories"]


def address_of(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "SECONDS_TO_ANSWER", 0.3)
    monkeypatch.setenv(network.OFFLINE, "")  # for it to be as before in the end
    monkeypatch.delenv(network.OFFLINE)


@pytest.mark.usefixtures("asked")
def test_a_server_that_does_not_answer_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", address_of(silent))
        begin = time.monotonic()
        network.note_if_offline(compose(TINYSTORIES))
        assert time.monotonic() - begin < PATIENCE
        assert os.environ[network.OFFLINE] == "1"


@pytest.mark.usefixtures("asked")
def test_only_what_is_downloaded_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        monkeypatch.setenv("HF_ENDPOINT", address_of(server))
        network.note_if_offline(compose(TINYSTORIES[:2]))
        with pytest.raises(TimeoutError):
            server.accept()
    assert network.OFFLINE not in os.environ


LAPTOP = ["tasks=wikipedia", "models=gpt2", "preset=laptop"]


@pytest.mark.usefixtures("asked")
def test_a_preset_takes_real_text_where_it_can_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/datasets/roneneldan/TinyStories" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    def corpus(*words: str) -> tuple[str, int | None]:
        found = Configuration.of(
            with_available_text(read([*LAPTOP, f"tasks.prepared={tmp_path}", *words]))
        ).tasks
        return found["corpus"], found["stories_size"]

    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", address_of(server.socket))
        assert corpus() == ("tinystories", 20_000)
        assert corpus("tasks.stories_size=7") == ("tinystories", 7)
        assert corpus("tasks.stories=there.txt") == ("local", None)
        assert corpus("tasks.corpus=grammar") == ("grammar", None)
        assert corpus("preset=smoke") == ("grammar", 2000)
        monkeypatch.setenv("HF_ENDPOINT", address_of(server.socket) + "/nothing")
        assert capsys.readouterr().err == ""
        assert corpus() == ("grammar", None)  # a server that has no such text
        assert capsys.readouterr().err.endswith("is out of reach: tasks.corpus=grammar\n")
        server.shutdown()
    for name in ("tinystories_20000-train-bpe-1", "simple_wikipedia_1000-articles-bpe-1"):
        assert corpus() == ("grammar", None)
        (tmp_path / name).mkdir()
    assert corpus() == ("tinystories", 20_000)  # prepared before, so that no network is needed


@pytest.mark.usefixtures("asked")
def test_generated_text_is_taken_within_seconds_where_nothing_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", address_of(silent))
        begin = time.monotonic()
        asked = read([*LAPTOP, f"tasks.prepared={tmp_path}"])
        assert with_available_text(asked) == asked
        assert time.monotonic() - begin < PATIENCE
    assert compose(LAPTOP).tasks["corpus"] == "grammar"  # no network is asked for a configuration


def test_a_corpus_out_of_reach_is_asked_for_once() -> None:
    """The client of the hub would ask six times, and wait 23 seconds between."""
    asked = []

    def hang_up(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                asked.append(connection)
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=hang_up, args=(server,), daemon=True).start()
        environment = {"HF_ENDPOINT": address_of(server), network.OFFLINE: ""}
        ended = commands.run("-m", "bench.prepare", *TINYSTORIES, env=environment)
    assert ended.returncode == 2
    assert len(asked) == 1
    # On a slow machine lines of progress come before the sentence.
    (line,) = [said for said in ended.stderr.splitlines() if said.startswith("error: ")]
    assert "roneneldan/TinyStories cannot be read from the Hugging Face hub" in line
