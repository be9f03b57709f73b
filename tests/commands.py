"""Commands in processes of their own that are forked from one which has imported what they need.

``python -m bench.train`` spends four seconds of its start on imports. Here a server imports once,
and each command is a fork of it: with its own process id, session, folder, environment, standard
streams and exit code, and with the end that Python has. What Python or a library reads before the
first line of a command (PYTHONHASHSEED, a locale, OMP_NUM_THREADS), what a command imports, and a
limit or a signal that must be there from the start are tested with ``subprocess`` instead.
"""

import atexit
import gc
import importlib
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from multiprocessing import Pipe, forkserver, process, reduction, resource_tracker, util
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 300.0  # seconds
HOUSES = {"core", "models", "tasks", "bench", "reproduce", "leaderboards", "tests"}
# What a training and a search import, and no module that is itself a command.
IMPORTED = (
    "bench.training.trainer",
    "bench.runs.fresh",
    "bench.search.jobs",
    "bench.search.driver",
    "hydra.utils",
    "torch.nn.modules.linear_cross_entropy",  # since PyTorch 2.13
)


class Started:
    """A command that was started: what tests use of ``subprocess.Popen``. What it prints goes to
    files, so that nobody needs to read while it runs."""

    def __init__(
        self, words: tuple[str, ...], status: Connection, streams: Sequence[IO[str]]
    ) -> None:
        self.args = words
        self.pid: int = status.recv()
        self.returncode: int | None = None
        self._status, self._streams = status, streams

    def poll(self, seconds: float = 0) -> int | None:
        """The exit code, as ``subprocess`` counts; None of a command that still runs."""
        if self.returncode is None and self._status.poll(seconds):
            self.returncode = self._status.recv()
            self._status.close()
        return self.returncode

    def wait(self, timeout: float = PATIENCE) -> int:
        """The exit code, once there is one.

        Raises:
            subprocess.TimeoutExpired: after ``timeout`` seconds.
        """
        code = self.poll(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def printed(self) -> tuple[str, str]:
        """What it has printed until now: its results and its errors."""
        for stream in self._streams:
            stream.seek(0)
        out, err = (stream.read() for stream in self._streams)
        return out, err

    def communicate(self, timeout: float = PATIENCE) -> tuple[str, str]:
        """What it has printed, once it has ended."""
        self.wait(timeout)
        return self.printed()


def start(
    *words: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None, pool: bool = False
) -> Started:
    """Start ``python WORDS...``, which are ``-m MODULE ...`` or ``-c CODE ...``.

    Args:
        env: what its environment has beside that of this process and the path of the repository.
        pool: whether it opens a pool of workers, whose server is then a fork of it as well.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    streams = [tempfile.TemporaryFile("w+", errors="replace") for _ in ("out", "err")]  # noqa: SIM115
    status, reported = Pipe()
    server = _server()
    server.send((words, str(cwd), environment, pool))
    with reported, socket.fromfd(server.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        files = [*(stream.fileno() for stream in streams), reported.fileno()]
        reduction.sendfds(channel, files)
    return Started(words, status, streams)


def run(
    *words: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS...`` to its end; see ``start``."""
    command = start(*words, cwd=cwd, env=env)
    try:
        out, err = command.communicate()
    finally:
        command.kill()
    return subprocess.CompletedProcess(words, command.wait(), out, err)


@cache
def _server() -> Connection:
    """The connection to this process' server, which ends with it."""
    ours, theirs = Pipe()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.commands", str(theirs.fileno())],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C in the terminal is for the tests
        )
    atexit.register(server.wait)
    atexit.register(ours.close)  # before it waits
    return ours


def _serve(channel: Connection) -> tuple[list[str], str, dict[str, str], bool]:
    """Fork a process for each request. Returns in such a process alone, with the words, the folder
    and the environment of its command, and whether it opens a pool."""
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # not ignored: then it wakes the loop
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    running: dict[int, Connection] = {}
    while True:
        ready = wait([channel, ended])
        if ended in ready:
            os.read(ended, 512)
            _tell_who_ended(running)
        if channel not in ready:
            continue
        try:
            request = channel.recv()
        except EOFError:  # the tests are over
            os._exit(0)
        with socket.fromfd(channel.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as sent:
            out, err, reported = reduction.recvfds(sent, 3)
        status = Connection(reported)
        pid = os.fork()
        if pid == 0:
            os.dup2(out, 1)
            os.dup2(err, 2)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for connection in (channel, status, *running.values()):
                connection.close()
            for file in (ended, wake, out, err):
                os.close(file)
            return request
        os.close(out)
        os.close(err)
        status.send(pid)
        running[pid] = status


def _tell_who_ended(running: dict[int, Connection]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as connection, suppress(BrokenPipeError):  # a test has left it alone
            connection.send(os.waitstatus_to_exitcode(status))


def _become(words: list[str], folder: str, environment: dict[str, str], path: list[str]) -> None:
    """What a new Python would find in place of what the server has.

    Args:
        path: where Python and its packages lie.
    """
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [folder, *environment["PYTHONPATH"].split(os.pathsep), *path]
    importlib.invalidate_caches()
    if str(ROOT) not in sys.path:  # the command of another checkout
        for name in [name for name in sys.modules if name.partition(".")[0] in HOUSES]:
            del sys.modules[name]
    tempfile.tempdir = None  # by TMPDIR of this environment
    process.ORIGINAL_DIR = folder  # type: ignore[attr-defined]  # of multiprocessing's children
    sys.argv, sys.orig_argv = [words[0], *words[2:]], [sys.executable, *words]
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # Python's own numbers are drawn anew after a fork


def _start_pool_server() -> None:
    """The server of this process' pools, by a fork in place of a Python that has to import."""
    resource_tracker.ensure_running()  # by a new Python, as ever
    by_new_python = util.spawnv_passfds
    util.spawnv_passfds = _forked  # type: ignore[assignment]
    try:
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = by_new_python


def _forked(_: object, words: Sequence[str | bytes], files: Sequence[int]) -> int:
    """What ``multiprocessing.util.spawnv_passfds`` does, for ``python -c CODE``."""
    pid = os.fork()
    if pid == 0:
        passed = sorted({0, 1, 2, *files})
        for low, high in pairwise([*passed, os.sysconf("SC_OPEN_MAX")]):
            os.closerange(low + 1, high)
        try:
            exec(words[-1], {})
        finally:  # without what the end of the forked command would do
            os._exit(0)
    return pid


def _run(how: str, what: str) -> None:
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        assert how == "-c", f"python {how} has no warm start"
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), vars(main))


if __name__ == "__main__":
    places = [place for place in sys.path if place != str(ROOT)]
    for name in IMPORTED:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    gc.freeze()  # a collection in a fork would copy all that the server has
    words, folder, environment, opens_pool = _serve(Connection(int(sys.argv[1])))
    _become(words, folder, environment, places)
    if opens_pool:
        _start_pool_server()
    _run(*words[:2])
