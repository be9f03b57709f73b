"""Child processes that end with the process that started them, however that one ends.

Run as a file it is such a child: ``python processes.py PARENT ROOT MODULE WORDS...``. For that
it imports nothing of the project: the module may be one of the older tree at ROOT.
"""

from __future__ import annotations

import ast
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
from types import FrameType
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


GUARD = 'if __name__ == "__main__":'


def unguarded_call() -> str | None:
    """The line of the running program that has called this, where a new process of
    ``multiprocessing`` would run it again, as "script.py, line 3": such a process imports the
    program's file, and the line does not stand below ``if __name__ == "__main__":``. None where it
    does, where the program has no file (a notebook, ``python -c``), where the new process leaves it
    (the ``__main__.py`` of a package), and in other threads."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    frame: FrameType | None = sys._getframe()
    line = None
    while frame is not None:
        if frame.f_globals is vars(main) and frame.f_code.co_name == "<module>":
            line = frame.f_lineno
        frame = frame.f_back
    if line is None or file is None:
        return None
    path = Path(file)
    named = main.__spec__.name if main.__spec__ else None  # by python -m
    if path.stem == "ipython" if named is None else named.endswith("__main__"):
        return None  # multiprocessing/spawn.py knows these
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # it has been edited or moved meanwhile
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or not _asks_for_main(node.test):
            continue
        if node.body[0].lineno <= line <= (node.body[-1].end_lineno or line):
            return None
    return f"{path.name}, line {line}"


def refuse_unguarded_program(setting: str, otherwise: str) -> None:
    """Refuse to start processes for a program that each of them would run again.

    Args:
        setting: what starts them, "workers=2".
        otherwise: what may be done in place of adding the line.

    Raises:
        UserError: the line of the program, and the one that it needs.
    """
    if place := unguarded_call():
        from core.errors import UserError  # not where this file is run by itself

        raise UserError(
            f"{setting} starts processes, and each would run {place}, again: put what stands there "
            f"below `{GUARD}`, or {otherwise}"
        )


def _asks_for_main(test: ast.expr) -> bool:
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    texts = {node.value for node in ast.walk(test) if isinstance(node, ast.Constant)}
    return "__name__" in names and "__main__" in texts


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
