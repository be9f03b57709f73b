"""Ends of a command line, in real processes: readers that go away, closed and full streams."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.records.schema import read_record
from tests.conftest import ROOT

pytestmark = pytest.mark.processes

# Prints by print and by rich, with progress on stderr, and does its work after that.
WORK = """
import sys
from pathlib import Path
from core.errors import command
from core.progress import progress

def main(words):
    from rich.console import Console
    with progress() as report:
        for step in range(20):
            report(f"step {step}", 1, 1)
            print("line", "x" * 9000)
            Console().print("rich", "y" * 100)
    Path(words[0]).write_text("done")
    return 0

command(main)
"""


def shell(redirections: str, *words: str) -> tuple[int, str, str]:
    """Run ``python WORDS... REDIRECTIONS`` in bash; the code is that of python."""
    line = f'"$0" "$@" {redirections}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", line, sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "redirections", ["2>/dev/null | head -1", "2>&1 >/dev/null | true", "2>&1 | true", ">&- 2>&-"]
)
def test_work_is_done_whoever_reads(tmp_path: Path, redirections: str) -> None:
    code, _, errors = shell(redirections, "-c", WORK, str(tmp_path / "result"))
    assert code == 0, errors
    assert (tmp_path / "result").read_text() == "done"
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_results_that_are_not_printed_are_an_error_and_progress_is_not(tmp_path: Path) -> None:
    code, _, errors = shell(">/dev/full", "-c", WORK, str(tmp_path / "result"))
    assert code == 1
    assert errors.splitlines()[-1].startswith("error: No space left on device")
    assert "Traceback" not in errors
    code, _, _ = shell("2>/dev/full | cat", "-c", WORK, str(tmp_path / "result"))
    assert code == 0
    assert (tmp_path / "result").read_text() == "done"


def test_a_run_is_recorded_though_both_readers_have_gone(tmp_path: Path) -> None:
    words = ["tasks=regbench", "models=lstm", "tasks.training_automata=8", "tasks.test_size=4"]
    words += ["tasks.validation_size=4", "models.width=8", "training.steps=2", f"store={tmp_path}"]
    code, _, errors = shell("2>&1 | true", "-m", "bench.train", *words)
    assert (code, errors) == (0, "")
    (path,) = (tmp_path / "records").glob("*.json")
    assert read_record(path).outcome == "ok"


@pytest.mark.parametrize(
    "ask",
    [
        lambda: bytearray(1 << 62),
        lambda: np.empty(1 << 59),
        lambda: torch.empty(1 << 59, dtype=torch.uint8),
        lambda: torch.empty(1 << 40, 1 << 40),
    ],
    ids=["Python", "NumPy", "PyTorch", "PyTorch, beyond 64 bits"],
)
def test_too_little_memory_is_a_sentence(
    ask: Callable[[], object], run_here: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    ended = run_here(lambda words: bool(ask()))
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: this machine has too little memory for that (")


def test_other_errors_are_still_told_in_full(
    run_here: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    def mistake(words: list[str]) -> int:
        raise RuntimeError("a mistake of the program")

    with pytest.raises(RuntimeError, match="of the program"):
        run_here(mistake)
