"""``python -m evidence``: what is missing for which verdict, and the runs that decide the most."""

from __future__ import annotations

from evidence.command import main
from ground.errors import command
from reproduce.__main__ import reproductions

if __name__ == "__main__":
    command(lambda words: main(words, reproductions()))
