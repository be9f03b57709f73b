"""The loop beside the engine makes the same training, so that their times can be compared."""

import json
from pathlib import Path

import pytest

from bench.timing import steps
from bench.timing.steps import cpu_seconds_to_first_step
from bench.training_speed import main
from core.errors import UserError

WORDS = ["tasks=babistories", "models=gpt2", "models.width=16", "models.layers=1", "models.heads=2"]
SHORT = ["training.batch_size=2", "models.dropout=0.0", "rounds=2", "timed_steps=3"]


@pytest.mark.bitwise  # both loops make the same operations
def test_engine_and_plain_loop_end_with_the_same_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "speed.json"
    assert main([*WORDS, *SHORT, "starts=1", f"output={output}"]) == 0
    found = json.loads(output.read_text())
    assert found["largest_weight_difference"] < 1e-6
    assert len(found["engine_blocks"]) == len(found["plain_blocks"]) == 2
    assert found["tokens_per_second"] == pytest.approx(2 * 128 / found["engine_seconds"])
    assert 0 < found["batch_share"] < 1
    (start,) = found["start_cpu_seconds"]
    assert 0.5 < start < 60  # Python, PyTorch and Lightning, on whatever machine this is
    said = capsys.readouterr().out
    assert "engine / plain" in said
    assert f"its first step after {start:.2f} CPU-seconds" in said


def test_a_clock_that_counts_in_long_ticks_ends_in_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a process may be counted in hundredths of a second, and steps be shorter."""
    monkeypatch.setattr(steps, "clock", lambda device, threads: lambda: 1.0)
    output = tmp_path / "found.json"
    assert main([*WORDS, *SHORT, "starts=0", f"output={output}"]) == 0
    found = json.loads(output.read_text())
    assert found["engine_over_plain"] == 1
    assert found["tokens_per_second"] > 0


def test_a_process_that_makes_no_step_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"made no step to time: .*gpt3"):
        cpu_seconds_to_first_step({"tasks": "babistories", "models": "gpt3"})


@pytest.mark.parametrize(
    "word", ["rounds=0", "timed_steps=many", "rounds=true", "starts=-1", "round=2"]
)
def test_a_wrong_word_is_one_sentence(word: str) -> None:
    with pytest.raises(UserError, match=word.partition("=")[0]):
        main([*WORDS, word])
