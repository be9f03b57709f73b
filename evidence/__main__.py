"""``python -m evidence``: what is missing for which verdict, and the runs that decide the most."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.usage import HELP
from ground.errors import OK, command
from ground.words import wants_help


def main(words: Sequence[str]) -> int:
    """What is said of the command, or what it does; its exit code."""
    if wants_help(words):
        print(HELP)
        return OK
    from evidence.command import main
    from reproduce.__main__ import reproductions

    return main(words, reproductions())


if __name__ == "__main__":
    command(main)
