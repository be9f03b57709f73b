"""A language model in the loop behind a real HTTP server on loopback that fails, stalls and answers
nonsense at times."""

import json
import re
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.runs.get_or_run import get_or_run
from bench.training.building import build_measurement, model_builder
from core.errors import UserError
from core.progress import silent
from tasks.interface import Evaluation
from tasks.measurement import Refused
from tasks.memory_in_the_loop import MemoryInTheLoop, endpoint
from tests.configurations import compose
from tests.tasks.memory_in_the_loop import chat_server
from tests.tasks.memory_in_the_loop.chat_server import CAUTIOUS, Reply, cautious

KEY = "sk-very-secret-4711"
MODEL = "cautious"
ITEMS = 6
completion = partial(chat_server.completion, model=CAUTIOUS)
serving = partial(chat_server.serving, cautious)


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(endpoint.KEY_VARIABLE, KEY)
    monkeypatch.setattr(endpoint, "FIRST_WAIT", 0.01)


def words(address: str, folder: Path, **changes: Any) -> list[str]:
    settings: dict[str, Any] = {"answerer": "endpoint", "endpoint": address}
    settings |= {"endpoint_model": MODEL, "answers": folder, "items": ITEMS, "size": 16}
    settings |= {"retries": 2, "timeout": 5.0}
    told = [f"tasks.{key}={value}" for key, value in {**settings, **changes}.items()]
    # 16 numbers for each key are too few for this memory: some of its answers are wrong.
    return ["tasks=memory_in_the_loop", "models=outer_product", "preset=smoke", "device=cpu", *told]


def measured(address: str, folder: Path, report: Any = silent, **changes: Any) -> Evaluation:
    configuration = compose(words(address, folder, **changes))
    build = model_builder(configuration, torch.device("cpu"))
    return build_measurement(configuration).measure(build, "validation", 0, "cpu", report)


def lines(evaluation: Evaluation) -> list[dict[str, Any]]:
    table = evaluation.arrays["answers"]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def kept(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines() if line]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    with serving() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        return measured(server.address, tmp_path_factory.mktemp("undisturbed"))


def test_metrics_follow_from_the_answers(undisturbed: Evaluation) -> None:
    metrics, told = undisturbed.metrics, lines(undisturbed)
    assert undisturbed.arrays["answered_by"] == ["cautious-2026"]
    assert len(told) == 5 * ITEMS

    def share(condition: str, holds: Callable[[dict[str, Any]], bool]) -> float:
        these = [line for line in told if line["condition"] == condition]
        return sum(map(holds, these)) / len(these)

    assert metrics["accuracy_before"] == 0
    assert metrics["unknown_before"] == 1
    for part in ("seen", "unseen"):
        # The server uses every note, and with a confidence those that are rather right.
        assert metrics[f"used_{part}"] == 1
        sure = share(f"{part}_confidence", lambda line: line["confidence"] >= 50)
        assert (
            metrics[f"used_{part}_confidence"] == sure == 1 - metrics[f"unknown_{part}_confidence"]
        )
        assert metrics[f"confidence_effect_{part}"] == pytest.approx(sure - 1)
    recalled = share("seen", lambda line: line["note"] == line["sequence"].split()[-1])
    assert metrics["accuracy_after"] == metrics["recall_seen"] == recalled > 0
    assert metrics["accuracy_unseen"] == metrics["recall_unseen"] == 0
    assert metrics["failed_calls"] == 0
    for level, used in zip(*undisturbed.curves["used_by_confidence"].values(), strict=True):
        assert used == (level >= 0.5)


def test_what_the_server_is_sent(tmp_path: Path) -> None:
    with serving() as server:
        address = server.address.removesuffix("/v1")  # which is added where there is no path
        found = measured(address, tmp_path, workers=1)
    assert len(server.requests) == len(set(server.answered)) == len(kept(tmp_path))
    for request in server.requests:
        assert request["model"] == MODEL
        assert (request["temperature"], request["max_tokens"]) == (0, 256)
        assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert set(server.authorisations) == {f"Bearer {KEY}"}
    line = lines(found)[3 * ITEMS - 1]  # the last one that was seen, with confidence
    expected = (
        f"Sequence: {line['sequence'].rpartition(' ')[0]} ?\nNote: {line['note']}\n"
        f"Confidence: {line['confidence']} %\nLast number:"
    )
    assert expected in server.answered


def test_a_server_that_fails_stalls_and_babbles_at_times(
    undisturbed: Evaluation, tmp_path: Path
) -> None:
    leave = threading.Event()

    def moody(number: int) -> Reply | None:
        if number == 9:
            leave.wait(20)
        trouble = {1: (503, b"{}"), 3: (429, b"{}"), 5: (0, b'{"choices": ['), 6: (200, b"<html>")}
        more = {7: (200, b'{"choices": []}'), 8: (200, b"[1]"), 11: (-1, completion("1" * 300))}
        return {**trouble, **more}.get(number)

    with serving(moody) as server:
        found = measured(server.address, tmp_path, workers=3, retries=4, timeout=2.0)
        leave.set()
    assert len(server.requests) == len(set(server.answered)) + 8
    assert (found.metrics, found.arrays) == (undisturbed.metrics, undisturbed.arrays)


def test_each_kind_of_failure_has_its_row(undisturbed: Evaluation, tmp_path: Path) -> None:
    leave = threading.Event()
    echo = json.dumps({"error": {"message": f"{KEY} or sk-v****4711 is spent"}}).encode()

    asked = len(undisturbed.arrays["answers"]["rows"])
    twice = (0, 2, 8)  # are asked once more; they fail as before, which ends our patience

    def hook(number: int) -> Reply | None:
        number = dict(enumerate(twice, asked)).get(number, number)
        if number == 2:
            leave.wait(20)
        kinds = {0: (500, b"{}"), 2: (200, b"{}"), 4: (401, echo), 6: (404, b"{}")}
        more = {8: (0, b"{"), 10: (200, b"{}"), 12: (200, b"<html>"), 14: (200, b'{"choices": 3}')}
        texts = {1: "purple", 3: None, 5: "7 or 8", 7: ["?"], 9: "\ud800 \0" + "x" * 10_000}
        said = {number: (200, completion(text)) for number, text in texts.items()}
        return {**kinds, **more, **said}.get(number)

    with serving(hook) as server:
        found = measured(server.address, tmp_path, workers=1, retries=0, timeout=1.5, patience=3)
        leave.set()
        metrics = found.metrics
        counts = {k: v for k, v in metrics.items() if k.startswith("failed_")}
        assert counts == {
            "failed_calls": 8,
            "failed_busy": 1,
            "failed_timed_out": 1,
            "failed_refused": 2,
            "failed_unreachable": 1,
            "failed_no_completion": 3,
        }
        # Of the first six questions three were answered, of the next six again three.
        assert metrics["unreadable_before"] == 1
        assert metrics["unreadable_seen"] == pytest.approx(2 / 3)
        assert metrics["used_unseen"] == undisturbed.metrics["used_unseen"]
        json.dumps(found.arrays, ensure_ascii=False).encode()
        # What failed is asked again by the same command; what was answered is not, nonsense or not.
        before = len(server.requests)
        again = measured(server.address, tmp_path, workers=1, retries=0)
        assert len(server.requests) == before + 8
    assert again.metrics["failed_calls"] == 0
    assert again.metrics["unreadable_before"] == 0.5
    everything = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "[key]" in everything
    assert "4711" not in everything


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ((500, b"{}"), "status 500"),
        ((429, b"{}"), "status 429"),
        ((200, b"<html>Welcome</html>"), "no chat completion: <html>Welcome</html>"),
        ((200, b"nothing"), "no chat completion: Expecting value"),
        (
            (200, b'{"error": {"message": "no such model"}}'),
            'no chat completion: {"error":{"message":"no such model"}}',
        ),
        ((200, b'{"choices": {"0": 1}}'), "no chat completion"),
        ((200, b"[" * 200_000), "no chat completion"),
        ((0, b"{"), "closed connection"),
        ((401, b"{}"), f"a key is read from the environment variable {endpoint.KEY_VARIABLE}"),
    ],
)
def test_a_server_that_is_no_help_is_told_in_a_sentence(
    reply: Reply, told: str, tmp_path: Path
) -> None:
    with (
        serving(lambda number: reply if number >= 3 else None) as server,
        pytest.raises(endpoint.EndpointStopped, match=re.escape(told)) as stopped,
    ):
        measured(server.address, tmp_path, workers=1, retries=1, patience=2)
    assert ".. The answers" not in str(stopped.value)
    assert sum("answer" in line for line in kept(tmp_path)) == 3


def test_an_outage_shorter_than_the_patience_leaves_no_hole(
    undisturbed: Evaluation, tmp_path: Path
) -> None:
    with serving(lambda number: (503, b"{}") if 3 <= number < 8 else None) as server:
        found = measured(server.address, tmp_path, workers=1, retries=0, patience=9)
    assert (found.metrics, found.arrays) == (undisturbed.metrics, undisturbed.arrays)


def test_a_server_that_answers_nothing_makes_no_result(tmp_path: Path) -> None:
    """However patient we are: a row that counts as finished would never be measured again."""
    with (
        serving(lambda number: (503, b"{}")) as server,
        pytest.raises(endpoint.EndpointStopped, match="status 503") as stopped,
    ):
        measured(server.address, tmp_path, workers=1, retries=0, patience=1000)
    assert server.address not in str(stopped.value)
    assert str(tmp_path) not in str(stopped.value)


def test_a_key_that_a_server_repeats_is_kept_nowhere(tmp_path: Path) -> None:
    told = chat_server.completion(f"331 {KEY}", model=f"model of {KEY}")
    with serving(lambda number: (200, told)) as server:
        found = measured(server.address, tmp_path)
    assert found.arrays["answered_by"] == ["model of [key]"]
    everything = json.dumps(found.arrays) + "".join(p.read_text() for p in tmp_path.iterdir())
    assert "331 [key]" in everything
    assert KEY not in everything


def test_a_server_that_says_when_is_asked_then(tmp_path: Path) -> None:
    assert endpoint._seconds("3", 0.5) == 3
    assert endpoint._seconds("3600", 0.5) == endpoint.LONGEST_WAIT
    assert endpoint._seconds("nan", 0.5) == 0.5
    assert endpoint._seconds("Wed, 21 Oct 2065 07:28:00 GMT", 0.5) == 0.5


def test_a_model_that_is_no_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Linear is none: choose one of models/memories"):
        MemoryInTheLoop(size=8, items=4).measure(
            lambda *sizes, seed=0: torch.nn.Linear(*sizes), "test", 0, "cpu", silent
        )


def test_a_server_that_dies_is_gone_on_with(undisturbed: Evaluation, tmp_path: Path) -> None:
    with (
        serving(lambda number: (0, b"{") if number >= 11 else None) as first,
        pytest.raises(endpoint.EndpointStopped, match="the same command goes on") as stopped,
    ):
        measured(first.address, tmp_path, workers=2, retries=1, patience=3)
    assert "failed 3 times in a row" in str(stopped.value) or "failed 4" in str(stopped.value)
    assert sum("answer" in line for line in kept(tmp_path)) == 11
    # The process died as well, in the middle of a line.
    (file,) = tmp_path.glob("*.jsonl")
    with file.open("ab") as end:
        end.write(b'{"question": "Sequence: 1 2 3 ?')
    with serving() as second:
        found = measured(second.address, tmp_path)
        assert set(first.answered).isdisjoint(second.answered)
        asked = len(second.requests)
        # Nothing is left to ask, as after the answers of another command.
        assert measured(second.address, tmp_path).arrays == found.arrays
        assert len(second.requests) == asked
    assert (found.metrics, found.arrays) == (undisturbed.metrics, undisturbed.arrays)


def test_an_interrupted_run_is_gone_on_with(undisturbed: Evaluation, tmp_path: Path) -> None:
    def stop(description: str, done: int, total: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with serving() as server:
        with pytest.raises(KeyboardInterrupt):
            measured(server.address, tmp_path, stop, workers=1)
        assert len(kept(tmp_path)) == 7
        found = measured(server.address, tmp_path, workers=1)
    assert len(server.answered) == len(set(server.answered))
    assert found.arrays == undisturbed.arrays


def test_its_record_says_what_happened_and_not_where(tmp_path: Path) -> None:
    store = f"store={tmp_path / 'store'}"
    with serving(lambda number: (401, b"{}") if number >= 4 else None) as first:
        told = words(first.address, tmp_path / "answers", workers=1, patience=2)
        record = get_or_run(compose([*told, store]))
    assert record.outcome == "failed"
    assert "status 401" in str(record.cause)
    with serving() as second:
        record = get_or_run(
            compose([*words(second.address, tmp_path / "answers", patience=2), store])
        )
        notes = tmp_path / "store" / "work" / record.run_id / "locations.json"
        assert json.loads(notes.read_text())["endpoint"] == second.address
    assert record.outcome == "ok"
    assert set(record.metrics) == {"validation", "test"}
    assert record.arrays["answered_by"] == ["cautious-2026"]
    assert "127.0.0.1" not in record.model_dump_json()
    assert KEY not in record.model_dump_json()
    # Its saved answers make the same numbers again, server or not.
    found = measured(second.address, tmp_path / "answers", patience=2)
    assert found.metrics == record.metrics["validation"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"endpoint": "null"}, "needs endpoint="),
        ({"endpoint": "127.0.0.1:8000"}, "http://127.0.0.1:8000/v1"),
        ({"endpoint": "http://me:hunter2@127.0.0.1/v1"}, endpoint.KEY_VARIABLE),
        ({"endpoint_model": "null"}, "needs endpoint_model="),
        ({"answers": "/dev/null/answers"}, "tasks.answers="),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(
    changes: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    told = words("http://127.0.0.1:9/v1", tmp_path / "answers", **changes)
    with pytest.raises(UserError, match=sentence) as error:
        get_or_run(compose([*told, f"store={tmp_path / 'store'}"]))
    assert "hunter" not in str(error.value)


def test_nobody_there(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(endpoint.EndpointStopped, match="failed 1 times in a row"):
            measured(address, tmp_path, retries=0, patience=1, workers=1)
