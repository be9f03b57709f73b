"""Exit codes, and the one kind of exception that a user sees as a sentence."""

from __future__ import annotations

import difflib
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from ground.escaping import terminal
from ground.files import ROOT

OK = 0
RUN_FAILED = 1
USAGE = 2
CLAIM_CONTRADICTED = 3
VERIFICATION_FAILED = 4
INTERRUPTED = 130

# PyTorch's words where an allocation fails or its size in bytes is no number of 64 bits.
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "size calculation")


class UserError(Exception):
    """One clear sentence: what was wrong, what was expected, how to go on."""

    def __init__(self, sentence: str, exit_code: int = USAGE) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def nearest(name: str, valid: Iterable[str]) -> str:
    """A clause that names the closest valid spelling, or lists the valid ones."""
    known = sorted(valid)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "valid names: " + (", ".join(known) if known else "none")


def place_of(error: BaseException) -> str:
    """Where an error arose, in the innermost file that is of no library: "models/mine.py, line 7";
    "" if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return _line(error.filename, error.lineno)
    paths = sysconfig.get_paths()
    libraries = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_file() and not any(path.is_relative_to(place) for place in libraries):
            return _line(frame.filename, frame.lineno)
    return ""


def _line(file: str, number: int | None) -> str:
    path = Path(file)
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return f"{shown}, line {number}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: a MemoryError, or what PyTorch raises in its place."""
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    return any(words in str(error) for words in OUT_OF_MEMORY)


def describe_memory_error(error: BaseException) -> str:
    """What was asked for and how to ask for less, as one sentence."""
    asked = (str(error).strip() or "no more to be had").splitlines()[0]
    return (
        f"this machine has too little memory for that ({asked}): lower the sizes, such as the "
        "numbers of sequences and items, lengths, widths or training.batch_size"
    )


class _Forgiving:
    """A text stream that falls silent at its first failure of a kind: what is printed about a run
    must not decide whether the run is finished."""

    def __init__(self, stream: TextIO, forgiven: type[OSError]) -> None:
        self._stream, self._forgiven = stream, forgiven

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except self._forgiven:
            self._fall_silent()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except self._forgiven:
            self._fall_silent()

    def _fall_silent(self) -> None:
        # In place of the pipe, so that what is still buffered and C libraries go there too.
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


def _forgiving(stream: TextIO | None, forgiven: type[OSError]) -> TextIO:
    """``stream``, forgiving; None is one that was closed before Python started."""
    return cast(TextIO, _Forgiving(stream or Path(os.devnull).open("w"), forgiven))


def _forget_working_directory() -> None:
    """Take the working directory off the import path, where ``python -m`` put it first: a file that
    lies beside a stranger's record must not stand in for a library."""
    here = Path.cwd()
    if not sys.flags.safe_path and sys.path[:1] in ([""], [str(here)]) and here.resolve() != ROOT:
        del sys.path[0]


def command(main: Callable[[list[str]], int]) -> NoReturn:
    """Run a command line: user errors become one sentence on stderr and their exit code.

    A command whose reader goes away, such as `head`, does all its work. Results that a full disk
    does not take are an error; progress and errors have no other place to go than stderr.
    """
    _forget_working_directory()
    sys.stdout = _forgiving(sys.stdout, BrokenPipeError)
    sys.stderr = _forgiving(sys.stderr, OSError)
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except UserError as error:
        print(terminal(f"error: {error}"), file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from where it stopped", file=sys.stderr)
        code = INTERRUPTED
    except OSError as error:
        print(terminal(f"error: {describe_os_error(error)}"), file=sys.stderr)
        code = RUN_FAILED
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"error: {describe_memory_error(error)}", file=sys.stderr)
        code = RUN_FAILED
    sys.exit(code)


def describe_os_error(error: OSError) -> str:
    """An operating-system failure (full disk, no permission) as one sentence."""
    place = f" at {error.filename}" if error.filename else ""
    reason = error.strerror or str(error)
    return (
        f"{reason}{place}: nothing that was already saved is lost; "
        "make room or access there, then give the same command again"
    )
