"""Watch what code does beside its answer: Python's audit events and a clock.

``python -m tests.watching FOLDER MODULE WORDS...`` runs a command so, in a process of its own.
"""

import io
import os
import runpy
import signal
import site
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unicodedata import category

from core import progress
from core.errors import INTERRUPTED, OK, USAGE, command
from core.files import ROOT
from tests.conftest import PREPARED

LONGEST = 20.0  # seconds
ASLEEP = 60.0  # seconds of any clock: on a busy machine work takes longer than its own seconds
AT_WORK = 1.0  # seconds after which a command that counts its progress has been watched enough
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Event -> which of its arguments are places that change, and which are the folders they are in.
CHANGES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "os.mkdir": ((0,), (2,)),
    "os.rename": ((0, 1), (2, 3)),
    "os.remove": ((0,), (1,)),
    "os.rmdir": ((0,), (1,)),
    "os.symlink": ((1,), (2,)),
    "os.link": ((1,), (3,)),
    "os.truncate": ((0,), ()),
    "os.chmod": ((0,), (2,)),
    "shutil.rmtree": ((0,), ()),
}
SOCKETS = {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"}
STARTS = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn"}
LIBRARIES = [Path(place).resolve() for place in {*sysconfig.get_paths().values(), sys.base_prefix}]
LIBRARIES += [ROOT, *(Path(place).resolve() for place in site.getsitepackages())]
# Where nothing stays, and the folder of token streams that all stores share.
HARMLESS = [Path("/dev"), Path("/proc"), PREPARED.resolve()]


class Hang(BaseException):
    """Nothing was said for too long."""


class Enough(BaseException):
    """The command is at work, and says so: it would go on for as long as the work takes."""


@dataclass
class Watch:
    """What happened that must not, in words."""

    folder: Path
    seen: list[str] = field(default_factory=list)

    def event(self, name: str, given: tuple[Any, ...]) -> None:
        """Raises PermissionError: it must not happen, and does not."""
        why = self._why(name, given)
        if why:
            self.seen.append(why)
            raise PermissionError(1, f"watched: {why}")

    def _why(self, name: str, given: tuple[Any, ...]) -> str:
        if name in SOCKETS:
            return f"{name} {given[1:]!r}"
        if name == "open":
            path, mode, flags = given
            writes = (flags or 0) & WRITING or (mode and set(mode) & set("wax+"))
            return self._outside("written", path) if writes else ""
        if name in CHANGES:
            places, folders = CHANGES[name]
            if any(given[k] not in (-1, None) for k in folders):
                return ""  # inside a folder that was opened: shutil.rmtree tells which
            return next((why for k in places if (why := self._outside(name, given[k]))), "")
        if name == "exec":
            return self._foreign(getattr(given[0], "co_filename", "<none>"))
        if name == "import":
            return self._foreign(given[1] or "<none>")
        if name in STARTS:
            return f"{name} {given!r}"
        if name == "subprocess.Popen":
            words = given[1] if isinstance(given[1], list | tuple) else [given[1]]
            return "" if Path(words[0]).name == "git" else f"started {words!r}"
        return f"unpickled {given!r}" if name == "pickle.find_class" else ""

    def _outside(self, what: str, path: Any) -> str:
        if isinstance(path, int) or path is None:
            return ""
        place = Path(os.path.realpath(os.fsdecode(path)))
        inside = any(place.is_relative_to(own) for own in (self.folder, *HARMLESS))
        return "" if inside or "__pycache__" in place.parts else f"{what} outside: {place}"

    def _foreign(self, name: str) -> str:
        if name.startswith("<") or not Path(name).is_absolute():
            return ""
        place = Path(os.path.realpath(name))
        known = any(place.is_relative_to(own) for own in LIBRARIES)
        return "" if known else f"imported from outside: {place}"


_watching: list[Watch] = []
_hooks: list[Callable[[str, tuple[Any, ...]], None]] = []


def _hook(name: str, given: tuple[Any, ...]) -> None:
    if _watching:
        _watching[-1].event(name, given)


@contextmanager
def watched(folder: Path) -> Iterator[Watch]:
    """Inside, nothing is written outside ``folder``, and so on; what was tried is noted."""
    if not _hooks:  # an audit hook stays for good
        _hooks.append(_hook)
        sys.addaudithook(_hook)
    watch = Watch(folder.resolve())
    old = tempfile.tempdir
    tempfile.tempdir = str(folder)
    _watching.append(watch)
    try:
        yield watch
    finally:
        _watching.pop()
        tempfile.tempdir = old


@contextmanager
def time_limit() -> Iterator[None]:
    """Raises Hang inside after ``LONGEST`` seconds of work, or ``ASLEEP`` seconds of any kind."""

    def ring(*_: object) -> None:
        raise Hang

    before = {name: signal.signal(name, ring) for name in (signal.SIGPROF, signal.SIGALRM)}
    _wind_up(LONGEST, ASLEEP)
    try:
        yield
    finally:
        _wind_up(0, 0)
        for name, handler in before.items():
            signal.signal(name, handler)


def _wind_up(working: float, asleep: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, working)
    signal.setitimer(signal.ITIMER_REAL, asleep)


@contextmanager
def _counted() -> Iterator[Callable[[str, int, int], None]]:
    begun = time.monotonic()

    def report(description: str, done: int, total: int) -> None:
        if time.monotonic() - begun > AT_WORK:
            raise Enough
        _wind_up(LONGEST, ASLEEP)

    yield report


def watch_door(main: Callable[[list[str]], int], words: list[str], folder: Path) -> str:
    """What is wrong with how a command behaves; empty if nothing is."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", e) for e in ("strict", "backslashreplace"))
    before = (Path.cwd(), sys.argv, progress.progress, list(sys.path))
    sys.argv, progress.progress = ["command", *words], _counted  # type: ignore[assignment]
    code, trouble = OK, ""
    try:
        with watched(folder) as watch, redirect_stdout(out), redirect_stderr(err):
            try:
                with time_limit():
                    command(main)
            except SystemExit as end:
                code = int(end.code or 0)
            except Enough:
                code = INTERRUPTED
            except Hang:
                trouble = f"it hangs for {LONGEST:.0f} s:\n{traceback.format_exc()}"
            except BaseException:
                trouble = traceback.format_exc()
    finally:
        os.chdir(before[0])
        sys.argv, progress.progress, sys.path[:] = before[1:]
        for module in list(sys.modules.values()):  # one that the command was the first to import
            if vars(module).get("progress") is _counted:
                module.progress = before[2]  # type: ignore[attr-defined]
    err.flush()
    said = err.buffer.getvalue().decode()
    return trouble or "; ".join(watch.seen) or _wrong_with(code, said)


def _wrong_with(code: int, said: str) -> str:
    if "Traceback (most" in said:
        return said
    errors = [line for line in said.split("\n") if line.startswith("error: ")]
    if code == USAGE and (
        len(errors) != 1 or any(category(c) == "Cc" for c in errors[0].replace("\t", ""))
    ):
        return f"exit code {code} with {said!r}"
    return "" if code in (0, 1, 2, 3, 4, INTERRUPTED) else f"exit code {code} with {said!r}"


def main(words: list[str]) -> None:
    """A command in this process, watched; what must not happen is said at its end."""
    folder, module, *rest = words
    sys.argv = [module, *rest]
    with watched(Path(folder)) as watch:
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        finally:
            if watch.seen:
                print("Traceback (most of what was watched):", *watch.seen, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
