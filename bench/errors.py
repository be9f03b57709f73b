"""Exit codes, and the one kind of exception that a user sees as a sentence."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

OK = 0
RUN_FAILED = 1
USAGE = 2
CLAIM_CONTRADICTED = 3
VERIFICATION_FAILED = 4
INTERRUPTED = 130


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


def command(main: Callable[[list[str]], int]) -> NoReturn:
    """Run a command line: user errors become one sentence on stderr and their exit code."""
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from where it stopped", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    except OSError as error:
        print(f"error: {describe_os_error(error)}", file=sys.stderr)
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
