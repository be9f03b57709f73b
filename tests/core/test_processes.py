"""Children that end with their parent, and that no signal reaches too early."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.bench.processes import wait_for
from tests.conftest import ROOT, told_by_a_process

pytestmark = pytest.mark.processes

# Prints the masks, in hexadecimal, of signals that wait in the first two children of a process.
MASKS = """
import json, multiprocessing, re, signal, time
from pathlib import Path
from core.processes import start_with_blocked

said = []
for _ in range(2):
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    start_with_blocked(child, signal.SIGINT, signal.SIGTERM)
    status = Path(f"/proc/{child.pid}/status").read_text()
    said.append(int(re.search(r"SigBlk:\\s*(\\w+)", status)[1], 16))
    child.kill()
print(json.dumps(said))
"""
PARENT = """
import pathlib, subprocess, sys, time
from core.processes import module_command
subprocess.Popen(module_command("sleeper", sys.argv[1:], pathlib.Path.cwd()))
time.sleep(60)
"""
# A child that goes on has no death signal of the kernel any more, as where there is no prctl.
SLEEPER = """
import ctypes, os, sys, time
from pathlib import Path
if sys.platform == "linux" and sys.argv[1] == "goes":
    ctypes.CDLL(None).prctl(1, 0)
place = Path(__file__).with_name("said")
place.write_text(f"{os.getpid()} {sys.argv[1:]} {__name__}")
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux' /proc")
def test_signals_wait_in_the_first_child_as_in_the_others() -> None:
    waiting = sum(1 << (signum - 1) for signum in (signal.SIGINT, signal.SIGTERM))
    assert told_by_a_process(MASKS) == [waiting, waiting]


@pytest.mark.parametrize(
    "how",
    [
        "goes",  # ended by its own watch alone
        pytest.param(  # by the kernel alone
            "stopped", marks=pytest.mark.skipif(sys.platform != "linux", reason="no prctl")
        ),
    ],
)
def test_a_module_as_a_child_ends_with_its_killed_parent(tmp_path: Path, how: str) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PARENT, how, "on"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as parent:
        said = tmp_path / "said"
        wait_for(lambda: said.exists() and said.read_text().endswith("__main__"))
        pid, words = said.read_text().split(" ", 1)
        child = psutil.Process(int(pid))
        if how == "stopped":
            child.suspend()
        parent.kill()
    assert words == f"['{how}', 'on'] __main__"
    assert not psutil.wait_procs([child], timeout=60)[1]
