"""Commands in processes of their own, whatever their code does."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from core.children import Child, Ended, run_to_end
from tests.bench.processes import wait_for
from tests.conftest import ROOT

pytestmark = pytest.mark.processes

# Prints without end of line, and leaves two processes behind that have its pipes: one in its group,
# and one that has gone to a session of its own.
LEAVES = """
import os, sys, time
print("{} " * 100000, end="", flush=True)
sys.stderr.write("x" * 1000000)
for session in (False, True):
    if os.fork() == 0:
        if session:
            os.setsid()
        open(sys.argv[1] + str(session), "w").write(str(os.getpid()))
        time.sleep(300)
while not (os.path.exists(sys.argv[1] + "True") and os.path.exists(sys.argv[1] + "False")):
    time.sleep(0.01)
"""
# A command of the project whose model has the last word on the screen.
REFUSES = """
import atexit, sys
from core.errors import UserError, command
def main(words):
    atexit.register(lambda: sys.stderr.write("goodbye\\n{}"))
    raise UserError("the width is 0: give at least 1")
command(main)
"""
SLEEPS = "import time; print(flush=True); time.sleep(300)"
TELLS = """
import sys, time
try:
    open(sys.argv[1], "w").close()
    time.sleep(300)
except KeyboardInterrupt:
    open(sys.argv[1], "w").write("saved")
"""


def running(process: int) -> bool:
    return psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE


def test_what_a_child_prints_and_leaves_behind_holds_nobody(tmp_path: Path) -> None:
    place = str(tmp_path / "left-")
    ended = run_to_end([sys.executable, "-c", LEAVES, place], 60)
    left = [int(Path(f"{place}{session}").read_text()) for session in (False, True)]
    assert (ended.code, ended.over_limit) == (0, False)
    assert len(ended.outlived_by) == 2
    assert all(any(f"({process})" in name for name in ended.outlived_by) for process in left)
    assert not any(map(running, left))


def test_the_sentence_of_a_command_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ended = run_to_end([sys.executable, "-c", REFUSES], 60)
    assert ended == Ended(2, "the width is 0: give at least 1")
    ended = run_to_end([sys.executable, "-c", "raise SystemExit('error: by other words')"], 60)
    assert ended == Ended(1, "by other words")  # of an older tree, say


def test_a_child_has_a_time_limit() -> None:
    ended = run_to_end([sys.executable, "-c", SLEEPS], 0.5)
    assert ended.over_limit
    assert ended.code == -signal.SIGTERM


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGHUP])
def test_a_stopped_command_tells_its_child_and_waits_for_it(
    tmp_path: Path, stop: signal.Signals
) -> None:
    note = tmp_path / "note"
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        Child([sys.executable, "-c", TELLS, str(note)]) as child,
    ):
        wait_for(note.exists)  # it can be interrupted now
        threading.Timer(0.2, os.kill, (os.getpid(), stop)).start()
        child.wait()
    assert note.read_text() == "saved"


def test_a_command_under_another_locale_prints_and_reads(tmp_path: Path) -> None:
    """Files are UTF-8 whatever the locale is, and a screen gets what its encoding has."""
    (tmp_path / "text").write_text("−1 é", encoding="utf-8")
    code = (
        "from core.errors import command; import pathlib\n"
        "command(lambda words: print(pathlib.Path(words[0]).read_text()) or 0)"
    )
    (tmp_path / "prints.py").write_text(code)
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, str(tmp_path / "prints.py"), str(tmp_path / "text")]
    for more, expected in (({}, "−1 é"), ({"PYTHONIOENCODING": "ascii"}, "-1 e")):
        done = subprocess.run(
            words,
            env={**os.environ, "PYTHONPATH": str(ROOT), **plain, **more},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.decode().strip() == expected
