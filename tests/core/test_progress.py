"""What a person reads while something runs, where there is no terminal."""

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


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        pytest.param(  # each part is short; together they are not
            [
                *((4 * n, f"Kernel seed 0, test: part {n}", n, 10) for n in range(10)),
                (40, "Kernel seed 0, test: part 10", 10, 10),
            ],
            [
                "Kernel seed 0, test: part 3: 3/10, about 28 s left",
                "Kernel seed 0, test: part 6: 6/10, about 16 s left",
                "Kernel seed 0, test: part 9: 9/10, about 4 s left",
                "Kernel seed 0, test: part 10: 10/10, done in 40 s",
            ],
            id="parts that follow each other are not silent and share an estimate",
        ),
        pytest.param(
            [
                (0, "reading", 1, 1),
                (0, "counting", 0, 1),
                (0.4, "counting", 1, 1),
                (0.4, "ranking", 0, 99),
                (11.4, "ranking", 98, 99),
            ],
            ["reading: 1/1, done", "counting: 1/1, done", "ranking: 98/99, about 1 s left"],
            id="no line tells of 0 seconds",
        ),
        pytest.param(
            [(0, "run: first", 0, 2), (100, "run: second", 0, 400), (120, "run: second", 100, 400)],
            [
                "run: second: 0/400, time left not known yet",
                "run: second: 100/400, about 60 s left",
            ],
            id="another total is another estimate",
        ),
        pytest.param(
            [(0, "sweep", 0, 4), (60, "sweep", 2, 4), (62, "sweep", 2, 5), (82, "sweep", 5, 5)],
            ["sweep: 2/4, about 60 s left", "sweep: 5/5, done in 82 s"],
            id="a total that changes on the way keeps the time",
        ),
    ],
)
def test_lines_come_now_and_then_with_an_estimate(
    clock: list[float], said: list[tuple[float, str, int, int]], lines: list[str]
) -> None:
    stream = io.StringIO()
    with progress.progress(stream) as report:
        for second, *work in said:
            clock[0] = second
            report(*work)
    assert stream.getvalue().splitlines() == lines


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
    assert list(progress.with_progress("abc", "quick", report)) == ["a", "b", "c"]
    assert told == []
    for _ in progress.with_progress("abcd", "slow", report):
        clock[0] += 0.6
    assert told == [("slow", 2, 4), ("slow", 3, 4), ("slow", 4, 4)]
