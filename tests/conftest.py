"""Settings for all tests: one thread each, no network calls, real commands run as a user would."""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from core.errors import command

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Each worker collects, and many tests start processes: bytecode is kept for the next of them, also
# where the shell forbids it.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""
sys.dont_write_bytecode = False
gc.disable()  # until all tests are collected: what imports make is not garbage
atexit.register(gc.freeze)  # and at the end nobody needs to search what is left
# A job in the background of a shell ignores Ctrl-C, one under nohup the end of its terminal, and so
# would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# Token streams are made once for all tests of this machine; their names say what is in them.
PREPARED = Path(tempfile.gettempdir()) / "memory-bench-prepared"
os.environ.setdefault("MEMORY_BENCH_PREPARED", str(PREPARED))

# Timings of a shared machine say nothing about the code, so hypothesis has no deadline here. The
# same examples come every time; `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("MEMORY_BENCH_ROUNDING"):  # torch is imported for it alone
        from tests import rounding

        rounding.register(config)


def pytest_collection_finish() -> None:
    """What imports and the collection of tests made stays, and no search for garbage need see it.
    A process of thousands of records makes too many objects to search every 700 of them."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    gc.enable()


def told_by_a_process(script: str, *words: str) -> Any:
    """What a script prints as JSON in a process of its own, with other hashes than this one."""
    finished = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run_command() -> Command:
    """Run ``python WORDS...`` in the repository, as a user would; returns the finished process."""

    def run(
        *words: str, cwd: Path = ROOT, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        return subprocess.run(
            [sys.executable, *words],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture
def run_here(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same for the ``main`` of a command, in this process: all but what starting one costs.

    An exception that a user would see as a traceback leaves the call.
    """

    def run(main: Callable[[list[str]], int], *words: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["command", *words])
        for name in ("stdout", "stderr"):  # the command puts others in their place
            monkeypatch.setattr(sys, name, getattr(sys, name))
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            command(main)
        said = capfd.readouterr()
        return subprocess.CompletedProcess(words, int(end.value.code or 0), said.out, said.err)

    return run
