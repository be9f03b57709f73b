"""The endpoint writer against a real HTTP server, whose stories a model makes that is trained here.

The model's answer follows from the question, so an interrupted collection must end with the same
bytes as one that was left in peace.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.text.recipe.__main__ import main
from tasks.text.recipe.filters import begins_with, clean
from tasks.text.recipe.prompts import draw_prompt, load_lists
from tests.tasks.text.chat_server import MODEL, ChatServer, Reply, StoryTeller, serving

KEY = "sk-very-secret-4711"
LISTS = load_lists()
FINAL = ("stories.jsonl", "prompts.jsonl", "report.json")
COUNT = 16


@pytest.fixture(scope="module")
def teller() -> StoryTeller:
    return StoryTeller()


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def words(server: ChatServer | str, out: Path, **changes: Any) -> list[str]:
    address = server if isinstance(server, str) else server.address
    settings = {"writer": "endpoint", "stories": COUNT, "out": out, "address": address}
    settings |= {"model": MODEL, "tokenizer": "grammar", "key_variable": "MY_KEY", "retries": 1}
    return [f"{key}={value}" for key, value in {**settings, **changes}.items()]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def final(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FINAL}


@pytest.fixture(scope="module")
def undisturbed(teller: StoryTeller, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    with serving(teller) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("MY_KEY", KEY)
        assert main(words(server, out, workers=1)) == 0
    return out


def test_the_model_has_learnt_something(teller: StoryTeller) -> None:
    # No predictor that ignores what came before gets below the entropy of single tokens.
    entropy = float(torch.special.entr(teller.unigrams).sum())
    assert max(teller.losses[-10:]) < entropy < teller.losses[0]


def test_the_questions_and_the_stories(teller: StoryTeller, tmp_path: Path) -> None:
    with serving(teller) as server:
        assert main(words(server, tmp_path)) == 0
    log = lines(tmp_path / "prompts.jsonl")
    prompts = [draw_prompt(LISTS, 0, index) for index in range(len(log))]
    asked = [prompt.instruction(LISTS, ask_for_opening=True) for prompt in prompts]
    assert sorted(server.answered) == sorted(asked)
    for request in server.requests:
        assert request["model"] == MODEL
        assert (request["temperature"], request["top_p"], request["max_tokens"]) == (1, 1, 512)
    assert set(server.authorisations) == {f"Bearer {KEY}"}
    # What was kept is what the model answers to these prompts, cleaned.
    kept = [index for index, line in enumerate(log) if line["verdict"] == "kept"]
    assert len(kept) == COUNT
    stories = lines(tmp_path / "stories.jsonl")
    for index, text in zip(kept, stories, strict=True):
        seed = sum(map(ord, asked[index]))
        assert text == clean(teller.tell(prompts[index].opening, seed, 40)[0])
        assert begins_with(text, prompts[index].opening)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["answers"] == COUNT + sum(report["dropped"].values()) == len(log)


def test_workers_change_nothing(teller: StoryTeller, undisturbed: Path, tmp_path: Path) -> None:
    with serving(teller) as server:
        address = server.address.removesuffix("/v1")  # which is added where there is no path
        assert main(words(address, tmp_path, workers=8)) == 0
    assert final(tmp_path) == final(undisturbed)


def test_the_key_goes_to_the_endpoint_alone(
    teller: StoryTeller, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def echo(number: int) -> Reply | None:
        body = {"error": {"message": f"{KEY} or sk-v****4711 is spent"}}
        return (401, json.dumps(body).encode()) if number > 2 else None

    with serving(teller, echo) as server:
        assert main(words(server, tmp_path)) == 1
    captured = capfd.readouterr()
    assert "status 401" in captured.err
    everything = captured.err + captured.out
    everything += "".join(path.read_text() for path in tmp_path.iterdir())
    assert KEY not in everything
    assert "4711" not in everything


def test_a_password_in_the_address_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"http://me:hunter2@127.0.0.1:{_free_port()}/v1?token=hunter3"
    assert main(words(address, tmp_path, retries=0)) == 1
    everything = capsys.readouterr().err
    everything += "".join(path.read_text() for path in tmp_path.iterdir())
    assert "cannot be reached" in everything
    assert "hunter" not in everything


def test_a_busy_or_broken_server_is_asked_again(
    teller: StoryTeller, undisturbed: Path, tmp_path: Path
) -> None:
    def hiccups(number: int) -> Reply | None:
        return {1: (503, b"{}"), 4: (429, b"{}"), 7: (0, b'{"choices": [')}.get(number)

    with serving(teller, hiccups) as server:
        assert main(words(server, tmp_path, retries=2, workers=3)) == 0
    assert final(tmp_path) == final(undisturbed)
    assert len(set(server.answered)) == len(server.answered)


def test_a_server_that_dies_in_the_middle(
    teller: StoryTeller, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = 9

    def die(number: int) -> Reply | None:
        return (0, b'{"id": "1", "cho') if number >= dead else None

    with serving(teller, die) as first:
        assert main(words(first, tmp_path, workers=3)) == 1
    sentence = capsys.readouterr().err
    assert sentence.startswith("error: the endpoint http://127.0.0.1:")
    assert sentence.count("\n") == 1
    assert f"of {COUNT} stories are kept" in sentence
    assert "the same command goes on" in sentence
    some = lines(tmp_path / "stories.jsonl")
    assert 0 < len(some) < COUNT
    assert some == lines(undisturbed / "stories.jsonl")[: len(some)]
    # Nobody is there at all.
    assert main(words(f"http://127.0.0.1:{_free_port()}", tmp_path, retries=0)) == 1
    assert "cannot be reached, tried once" in capsys.readouterr().err
    assert lines(tmp_path / "stories.jsonl") == some
    with serving(teller) as second:
        assert main(words(second, tmp_path, workers=3)) == 0
    assert final(tmp_path) == final(undisturbed)
    assert set(first.answered).isdisjoint(second.answered)


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ((404, b'{"error": {"message": "no such model"}}'), f"serves model={MODEL}"),
        ((400, b'{"error": {"message": "max_tokens?"}}'), "status 400"),
        ((500, b"<html>"), "status 500"),
        ((200, b"<html>hello</html>"), "not with a chat completion"),
        ((200, b'{"choices": []}'), "not with a chat completion"),
        ((200, b"[1]"), "not with a chat completion"),
    ],
)
def test_refusals_are_one_sentence(
    reply: Reply,
    sentence: str,
    teller: StoryTeller,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(teller, lambda number: reply) as server:
        assert main(words(server, tmp_path, retries=0)) == 1
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1
    # Nothing was answered, so the folder is free for another try with other settings.
    with serving(teller) as server:
        assert main(words(server, tmp_path, stories=1, seed=3)) == 0


def test_a_slow_server_runs_into_the_time_limit(
    teller: StoryTeller, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave = threading.Event()

    def sleep(number: int) -> Reply | None:
        leave.wait(10)
        return (500, b"{}")

    with serving(teller, sleep) as server:
        assert main(words(server, tmp_path, retries=0, timeout=1)) == 1
        leave.set()
    assert "gave no answer in time, tried once" in capsys.readouterr().err


def test_repeated_and_disobedient_answers(teller: StoryTeller, tmp_path: Path) -> None:
    texts = [None, "Once, a cat.", "Once a cat!", "once a cat.", "Well. Once a cow.", "Once a Cat"]

    def parrot(number: int) -> Reply | None:
        if number >= len(texts):
            return None
        text = texts[number]
        message = {"message": {"content": text}, "finish_reason": "stop"}
        return (200, json.dumps({"model": "parrot", "choices": [message]}).encode())

    openings = tmp_path / "openings"
    openings.write_text("Once a\n")
    out = tmp_path / "out"
    with serving(teller, parrot) as server:
        assert main(words(server, out, workers=1, openings=openings)) == 0
    verdicts = [line["verdict"] for line in lines(out / "prompts.jsonl")]
    near = "duplicate but for case and punctuation"
    # The first answer is null, which endpoints send for a refusal.
    assert verdicts[:6] == ["empty", "kept", near, near, "other opening", near]
    assert len(lines(out / "stories.jsonl")) == COUNT
    assert lines(out / "prompts.jsonl")[1]["model"] == "parrot"


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "ftp://a/v1", "http://", "http://[::1"])
def test_an_address_that_is_none(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(address, tmp_path)) == 2
    assert "http://127.0.0.1:8000/v1" in capsys.readouterr().err


@pytest.mark.processes
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_stop_the_process_and_go_on(
    stop: signal.Signals, teller: StoryTeller, undisturbed: Path, tmp_path: Path
) -> None:
    halfway, leave = threading.Event(), threading.Event()

    def pause(number: int) -> Reply | None:
        if number >= 6:
            halfway.set()
            leave.wait(60)
        return None

    with serving(teller, pause) as server:
        command = [sys.executable, "-m", "tasks.text.recipe", *words(server, tmp_path, workers=2)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert halfway.wait(60)
        answers = tmp_path / "answers.jsonl"
        while not (answers.exists() and answers.read_bytes().count(b"\n") >= 5):
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, stop)
        time.sleep(0.2)
        leave.set()
        _, printed = process.communicate(timeout=60)
        before = len(lines(answers))
        if stop == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
        else:
            assert process.returncode == 130
            assert "interrupted;" in printed
            assert printed.count("\n") == 1
            assert before == len(set(server.answered))  # those under way were kept as well
        asked_before = len(server.answered)
        assert main(words(server, tmp_path, workers=2)) == 0
        indices = [line["index"] for line in lines(answers)]
        assert len(set(indices)) == len(indices)
        assert len(server.answered) - asked_before >= len(indices) - before
    assert final(tmp_path) == final(undisturbed)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
