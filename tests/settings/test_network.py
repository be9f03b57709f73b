"""A corpus of the network where there is none."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress

import pytest

from settings import network
from settings.config import compose
from tests.conftest import Command

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
        assert time.monotonic() - begin < 5
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


def test_a_corpus_out_of_reach_is_asked_for_once(run_command: Command) -> None:
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
        ended = run_command("-m", "bench.prepare", *TINYSTORIES, env=environment)
    assert ended.returncode == 2
    assert len(asked) == 1
    (line,) = ended.stderr.splitlines()
    assert "roneneldan/TinyStories cannot be read from the Hugging Face hub" in line
