"""Child processes that end with the process that started them, however that one ends.

Run as a file it is such a child: ``python processes.py PARENT MODULE WORDS...``. For that it
imports nothing of the project: the module may be one of an older tree.
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
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

LOOK_EVERY = 1.0  # seconds
_PR_SET_PDEATHSIG = 1  # of Linux' prctl(2)


def end_with_parent(parent: int | None = None) -> None:
    """Kill this process once its parent is gone: every file here is written atomically.

    Args:
        parent: the parent's process id; None in a process of ``multiprocessing``, which knows it.
    """
    if parent is None:
        started_by = multiprocessing.parent_process()
        parent = started_by.pid if started_by else None
        assert parent is not None
    if sys.platform == "linux":  # at once, even where it hangs or is stopped
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


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


class SigtermIsCtrlC:
    """Between ``begin`` and ``end`` SIGTERM to this process is what Ctrl-C is, unless somebody else
    has taken it, or this is not the main thread."""

    def __init__(self) -> None:
        self._taken = False

    def begin(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        self._taken = main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._taken:
            signal.signal(signal.SIGTERM, signal.default_int_handler)

    def end(self) -> None:
        """A second one does not wait."""
        if self._taken:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def describe_end(code: int | None) -> str:
    """An exit code of a child in words that follow "ended"."""
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"with exit code {code}"


def module_command(module: str, words: Sequence[str]) -> list[str]:
    """The command line of ``python -m MODULE WORDS`` as a child that ends with this process."""
    return [sys.executable, "-P", __file__, str(os.getpid()), module, *words]


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    del sys.argv[:2]
    sys.path.insert(0, str(Path.cwd()))  # as python -m has it
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
