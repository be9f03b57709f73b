"""Child processes that end with the process that started them, however that one ends.

Run as a file it is such a child: ``python processes.py PARENT ROOT MODULE WORDS...``. For that
it imports nothing of the project: the module may be one of the older tree at ROOT.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

LOOK_EVERY = 1.0  # seconds
_ROOT = Path(__file__).resolve().parents[1]  # of this checkout
_PR_SET_PDEATHSIG = 1  # of Linux' prctl(2)


def end_with_parent(parent: int | None = None) -> None:
    """Kill this process once its parent is gone: every file here is written atomically.

    Args:
        parent: the parent's process id; None in a process of ``multiprocessing``, which knows it.
    """
    if parent is None:
        started_by = multiprocessing.parent_process()
        assert started_by is not None
        parent = os.getppid()
        if parent != started_by.pid:  # a server has forked this process, and ends with that parent
            _let_go_of_server()
    if sys.platform == "linux":  # at once, even where it hangs or is stopped
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _let_go_of_server() -> None:
    """Close what a child of multiprocessing's server has to keep that server alive: the process
    that started the server has it too, and shall be the only one."""
    server: Any = forkserver._forkserver
    os.close(server._forkserver_alive_fd)
    server._forkserver_alive_fd = None  # a pool of this process gets a server of its own


def _watch(parent: int) -> None:
    while os.getppid() == parent:  # of an orphan it is another's
        time.sleep(LOOK_EVERY)
    os.kill(os.getpid(), signal.SIGKILL)


def start_with_blocked(process: BaseProcess, *blocked: signal.Signals) -> None:
    """Start a child in which these signals wait, from its first moment, until it takes them."""
    resource_tracker.ensure_running()  # or the first start() would start it, which unblocks them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# What ends a job: a scheduler's or a system's end, a closed terminal or a lost ssh, and the warning
# that SLURM sends before its time limit (--signal=USR1).
STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def stops_taken() -> list[signal.Signals]:
    """The signals of STOPS that end this process. One that is ignored stays ignored: ``nohup`` says
    that the job goes on when the terminal is closed."""
    return [number for number in STOPS if signal.getsignal(number) != signal.SIG_IGN]


class StopIsCtrlC:
    """Between ``begin`` and ``end`` each of STOPS to this process is what Ctrl-C is, unless
    somebody else has taken it, or this is not the main thread."""

    def __init__(self) -> None:
        self._taken: list[signal.Signals] = []

    def begin(self) -> None:
        """Let each of STOPS that nobody handles raise KeyboardInterrupt."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._taken = [s for s in STOPS if signal.getsignal(s) is signal.SIG_DFL]
        for number in self._taken:
            signal.signal(number, signal.default_int_handler)

    def end(self) -> None:
        """A second one does not wait."""
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)
        self._taken = []


def describe_end(code: int | None) -> str:
    """An exit code of a child in words that follow "ended"."""
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"with exit code {code}"


def module_command(module: str, arguments: Sequence[str], root: Path = _ROOT) -> list[str]:
    """The command line of ``python -m MODULE ARGUMENTS`` as a child that ends with this process.

    Args:
        root: the checkout of the module. The working directory is not on the path: a file that
            lies there stands in for no library.
    """
    return [sys.executable, "-P", __file__, str(os.getpid()), str(root), module, *arguments]


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    sys.path.insert(0, sys.argv[2])
    del sys.argv[:3]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
