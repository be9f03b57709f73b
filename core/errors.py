"""Exit codes, and the one kind of exception that a user sees as a sentence."""

from __future__ import annotations

import atexit
import codecs
import difflib
import errno
import gc
import io
import locale
import os
import re
import sys
import sysconfig
import traceback
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from core.escaping import terminal
from core.files import ROOT, fixed_working_directory

# Environment variable: the file that takes a command's error, for the command that started it. What
# a process writes to stderr may be anybody's words.
ERROR_FILE = "MEMORY_BENCH_ERROR_FILE"

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
        super().__init__(_without_long_lists(sentence))
        self.exit_code = exit_code


MOST_SHOWN = 12  # names of a list that nobody reads to its end
A_LONG_LIST = re.compile(r"(?:[\w.+/-]+, ){60,}[\w.+/-]+")


def _without_long_lists(sentence: str) -> str:
    """What libraries say may list hundreds of names; of such a list the first."""

    def begin(match: re.Match[str]) -> str:
        names = match[0].split(", ")
        return f"{', '.join(names[:MOST_SHOWN])} and {len(names) - MOST_SHOWN} more"

    return A_LONG_LIST.sub(begin, sentence)


def nearest(name: str, valid: Iterable[str]) -> str:
    """A clause that names the closest valid spelling, or lists the valid ones."""
    names = sorted(valid)
    spellings = (name, name.lower())  # names here are written in small letters
    matches = [difflib.get_close_matches(text, names, n=1, cutoff=0.6) for text in spellings]
    close = matches[0] or matches[1]
    if close:
        return f"did you mean '{close[0]}'?"
    return "valid names: " + (", ".join(names) if names else "none")


def first_line(error: BaseException) -> str:
    """The first line of what an error says; the name of its class where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def place_of(error: BaseException) -> str:
    """Where an error arose, in the innermost file that is of no library: "models/mine.py, line 7";
    "" if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return _line(error.filename, error.lineno)
    libraries = library_folders()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_file() and not any(path.is_relative_to(place) for place in libraries):
            return _line(frame.filename, frame.lineno)
    return ""


def library_folders() -> set[str]:
    """Where Python and its packages lie."""
    paths = sysconfig.get_paths()
    return {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}


def _line(file: str, number: int | None) -> str:
    path = Path(file)
    relative = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return f"{relative}, line {number}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: a MemoryError, or what PyTorch raises in its place."""
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    return any(words in str(error) for words in OUT_OF_MEMORY)


def describe_memory_error(error: BaseException) -> str:
    """What was asked for and how to ask for less, as one sentence."""
    request = (str(error).strip() or "no more to be had").splitlines()[0]
    return (
        f"this machine has too little memory for that ({request}): lower the sizes, such as the "
        "numbers of sequences and items, lengths, widths or training.batch_size"
    )


class _Forgiving:
    """A text stream that falls silent at its first failure of a kind: what is printed about a run
    must not decide whether the run is finished."""

    def __init__(self, stream: TextIO, forgives: Callable[[OSError], bool]) -> None:
        self._stream, self._forgives = stream, forgives

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._fall_silent(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._fall_silent(error)

    def _fall_silent(self, error: OSError) -> None:
        if not self._forgives(error):
            raise error
        # In place of the pipe, so that what is still buffered and C libraries go there too.
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


def _forgiving(stream: TextIO | None, forgives: Callable[[OSError], bool]) -> TextIO:
    """``stream``, forgiving; None is one that was closed before Python started."""
    return cast(TextIO, _Forgiving(stream or Path(os.devnull).open("w"), forgives))


def _reader_is_gone(error: OSError) -> bool:
    """Whether nobody reads any more: a pipe whose reader ended, or a terminal that was closed. A
    file on a broken disk gives EIO too, but no terminal is one, and its results lie in files."""
    return isinstance(error, BrokenPipeError) or (error.errno == errno.EIO and _was_terminal)


_was_terminal = False  # whether results went to a terminal when the command began


def _use_utf8() -> None:
    """Start this command again in Python's UTF-8 mode where the locale has another encoding.

    Files of the project and of its libraries are UTF-8 whatever the locale says, and many libraries
    open theirs without saying so. The process and its id stay, and children have the mode too.
    """
    if sys.flags.utf8_mode or codecs.lookup(locale.getencoding()).name == "utf-8":
        return
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _print_for_locale() -> None:
    """A screen gets the encoding of its locale, also in UTF-8 mode; what an encoding lacks is spelt
    nearly, and stops nothing."""
    codecs.register_error("nearly", _nearly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            on_screen = stream.isatty() and "PYTHONIOENCODING" not in os.environ
            encoding = locale.getencoding() if on_screen else stream.encoding
            stream.reconfigure(encoding=encoding, errors="nearly")


_SPELT = {"−": "-", "–": "-", "×": "x", "·": ".", "…": "...", "“": '"', "”": '"', "’": "'"}


def _nearly(error: UnicodeError) -> tuple[str, int]:
    """An error handler: é as e, a minus sign as -, and ? for what has no such form."""
    assert isinstance(error, UnicodeEncodeError)
    spelt = ""
    for character in error.object[error.start : error.end]:
        letters = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
        spelt += _SPELT.get(character) or letters or "?"
    return spelt, error.end


def _forget_working_directory() -> None:
    """Take the working directory off the import path, where ``python -m`` put it first: a file that
    lies beside a stranger's record must not stand in for a library."""
    cwd = Path.cwd()
    if not sys.flags.safe_path and sys.path[:1] in ([""], [str(cwd)]) and cwd.resolve() != ROOT:
        del sys.path[0]


def command(main: Callable[[list[str]], int]) -> NoReturn:
    """Run a command line: user errors become one sentence on stderr and their exit code.

    A command whose reader goes away, such as `head`, does all its work. Results that a full disk
    does not take are an error; progress and errors have no other place to go than stderr.

    Relative places are those of the working directory as it is now.
    """
    global _was_terminal
    _use_utf8()
    # What is left at the end goes with the process: Python's last search through it for cycles
    # takes a third of the time of a short training.
    atexit.register(gc.freeze)
    error_file = os.environ.pop(ERROR_FILE, None)  # children of this command have their own
    _print_for_locale()
    _was_terminal = sys.stdout is not None and sys.stdout.isatty()
    sys.stdout = _forgiving(sys.stdout, _reader_is_gone)
    sys.stderr = _forgiving(sys.stderr, lambda error: True)
    sentence = ""
    try:
        with fixed_working_directory():
            _forget_working_directory()
            code = main(sys.argv[1:])
        sys.stdout.flush()
    except UserError as error:
        sentence, code = str(error), error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from where it stopped", file=sys.stderr)
        code = INTERRUPTED
    except OSError as error:
        sentence, code = describe_os_error(error), RUN_FAILED
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sentence, code = describe_memory_error(error), RUN_FAILED
    if sentence:
        print(terminal(f"error: {sentence}"), file=sys.stderr)
        if error_file is not None:
            with suppress(OSError):
                Path(error_file).write_text(sentence, encoding="utf-8")
    sys.exit(code)


def describe_os_error(error: OSError) -> str:
    """An operating-system failure (full disk, no permission) as one sentence."""
    place = f" at {error.filename}" if error.filename else ""
    reason = error.strerror or str(error)
    return (
        f"{reason}{place}: nothing that was already saved is lost; "
        "make room or access there, then give the same command again"
    )
