"""Make the data of a task that lie on disk: ``python -m bench.prepare tasks=babistories``."""

from __future__ import annotations

from bench.config.command_line import read
from core.errors import command
from core.words import command_line

HELP = """\
usage: python -m bench.prepare tasks=TASK [key=value ...]

Make what a task keeps on disk, such as a tokenised corpus, and print the hash of each split.
Training does the same where it is missing; here it is seen and can be done before a long job.
What is there is checked and kept; after an interruption the same command goes on.

example: python -m bench.prepare tasks=babistories tasks.corpus=local tasks.stories=stories.txt"""


main = command_line(HELP, read, "bench.search.single:prepare")


if __name__ == "__main__":
    command(main)
