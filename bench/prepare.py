"""Make the data of a task that lie on disk: ``python -m bench.prepare tasks=babistories``."""

from __future__ import annotations

from bench.config.command_line import Settings, read
from core.errors import OK, command
from core.progress import progress
from core.words import command_line

HELP = """\
usage: python -m bench.prepare tasks=TASK [key=value ...]

Make what a task keeps on disk, such as a tokenised corpus, and print the hash of each split.
Training does the same where it is missing; here it is seen and can be done before a long job.
What is there is checked and kept; after an interruption the same command goes on.

example: python -m bench.prepare tasks=babistories tasks.corpus=local tasks.stories=stories.txt"""


@command_line(HELP, read)
def main(settings: Settings) -> int:
    """Exit code 0 when the data are there."""
    from bench.search.single import configuration_for_data
    from bench.training.building import data_hashes, prepare_data

    configuration = configuration_for_data(settings)
    with progress() as report:
        prepare_data(configuration, report)
        hashes = data_hashes(configuration)
    for split, digest in hashes.items():
        print(f"{split:12} {digest}")
    return OK


if __name__ == "__main__":
    command(main)
