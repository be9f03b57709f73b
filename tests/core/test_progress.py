"""What a person reads while something runs, where there is no terminal."""

from __future__ import annotations

import io
import queue
from contextlib import suppress

import pytest

from core import progress

PATIENCE = 120.0  # seconds, of a machine with much other work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_parts_that_follow_each_other_are_not_silent_and_share_an_estimate(
    clock: list[float],
) -> None:
    """Each part is short; together they are not."""
    stream = io.StringIO()
    with progress.progress(stream) as report:
        for done in range(10):
            report(f"Kernel seed 0, test: part {done}", done, 10)
            clock[0] += 4
        report("Kernel seed 0, test: part 10", 10, 10)
    assert stream.getvalue().splitlines() == [
        "Kernel seed 0, test: part 3: 3/10, about 28 s left",
        "Kernel seed 0, test: part 6: 6/10, about 16 s left",
        "Kernel seed 0, test: part 9: 9/10, about 4 s left",
        "Kernel seed 0, test: part 10: 10/10, done in 40 s",
    ]


def test_no_line_tells_of_0_seconds(clock: list[float]) -> None:
    stream = io.StringIO()
    with progress.progress(stream) as report:
        report("reading", 1, 1)
        report("counting", 0, 1)
        clock[0] += 0.4
        report("counting", 1, 1)
        report("ranking", 0, 99)
        clock[0] += 11
        report("ranking", 98, 99)
    assert stream.getvalue().splitlines() == [
        "reading: 1/1, done",
        "counting: 1/1, done",
        "ranking: 98/99, about 1 s left",
    ]


def test_another_total_is_another_estimate(clock: list[float]) -> None:
    stream = io.StringIO()
    with progress.progress(stream) as report:
        report("run: first", 0, 2)
        clock[0] += 100
        report("run: second", 0, 400)
        clock[0] += 20
        report("run: second", 100, 400)
    assert stream.getvalue().splitlines() == [
        "run: second: 0/400, time left not known yet",
        "run: second: 100/400, about 60 s left",
    ]


def test_a_total_that_changes_on_the_way_keeps_the_time(clock: list[float]) -> None:
    stream = io.StringIO()
    with progress.progress(stream) as report:
        report("runs of the sweep", 0, 4)
        clock[0] += 60
        report("runs of the sweep", 2, 4)
        clock[0] += 2
        report("runs of the sweep", 2, 5)
        clock[0] += 20
        report("runs of the sweep", 5, 5)
    assert stream.getvalue().splitlines() == [
        "runs of the sweep: 2/4, about 60 s left",
        "runs of the sweep: 5/5, done in 82 s",
    ]


def test_a_phase_is_named_while_it_lasts_and_no_longer(clock: list[float]) -> None:
    stream = io.StringIO()
    with progress.progress(stream) as report:
        with progress.phase(report, "LSTM seed 0: examining the model"):
            clock[0] += 0.5
        with progress.phase(report, "LSTM seed 0: counting a step"):
            clock[0] += 12
            report("LSTM seed 0: counting a step", 0, 1)
        with suppress(KeyError), progress.phase(report, "LSTM seed 0: evaluating"):
            clock[0] += 30
            raise KeyError
    assert stream.getvalue().splitlines() == [
        "LSTM seed 0: counting a step: 0/1, time left not known yet",
        "LSTM seed 0: counting a step: 1/1, done in 12 s",
        "LSTM seed 0: evaluating: 1/1, done in 30 s",
    ]


def test_a_reader_of_a_file_is_never_left_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that reports nothing for long, as a worker in its evaluation does."""
    monkeypatch.setattr(progress, "SECONDS_OF_SILENCE", 0.1)
    said: queue.SimpleQueue[str] = queue.SimpleQueue()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if text.strip():
                said.put(text)
            return len(text)

    with progress.progress(Stream()) as report:
        assert said.get(timeout=PATIENCE) == "still at work, nothing to count yet"
        report("runs of the sweep", 3, 12)
        while (line := said.get(timeout=PATIENCE)).startswith("still"):  # said meanwhile
            pass
        assert line == "runs of the sweep: 3/12, time left not known yet"
        assert said.get(timeout=PATIENCE) == line
        report("a run", 1, 1)  # what has ended is not said again
        while (ended := said.get(timeout=PATIENCE)) == line:  # said again meanwhile
            pass
        assert ended.startswith("a run: 1/1, done")
        assert said.get(timeout=PATIENCE) == line
        report("runs of the sweep", 12, 12)
        while not (line := said.get(timeout=PATIENCE)).startswith("still"):
            pass  # what ends is said at once
        assert line == "still at work after: runs of the sweep, nothing to count yet"
    while not said.empty():
        said.get()
    with pytest.raises(queue.Empty):
        said.get(timeout=0.3)


def test_what_is_timed_tells_only_after_some_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = [0.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    look = progress.now_and_then(lambda: told.append(clock[0]), seconds=5.0)
    for second in range(13):
        clock[0] = float(second)
        look()
    assert told == [6.0, 12.0]


def test_what_is_counted_is_told_once_it_lasts(monkeypatch):
    clock, told = [0.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    report = lambda *said: told.append(said)  # noqa: E731
    assert list(progress.counted("abc", "quick", report)) == ["a", "b", "c"]
    assert told == []
    for _ in progress.counted("abcd", "slow", report):
        clock[0] += 0.6
    assert told == [("slow", 2, 4), ("slow", 3, 4), ("slow", 4, 4)]
