"""Make the data of a task that lie on disk: ``python -m bench.prepare tasks=babistories``."""

from __future__ import annotations

from core.errors import OK, command
from core.words import wants_help

HELP = """\
usage: python -m bench.prepare tasks=TASK [key=value ...]

Make what a task keeps on disk, such as a tokenised corpus, and print the hash of each split.
Training does the same where it is missing; here it is seen and can be done before a long job.
What is there is checked and kept; after an interruption the same command goes on.

example: python -m bench.prepare tasks=babistories tasks.corpus=local tasks.stories=stories.txt"""


def main(words: list[str]) -> int:
    """Exit code 0 when the data are there."""
    if wants_help(words):
        print(HELP)
        return OK
    from bench.config.config import compose
    from bench.config.network import with_text
    from bench.search.plan import some_model
    from core.progress import progress

    # Data do not depend on the model, but a configuration has one.
    configuration = compose([f"models={some_model(words)}", *with_text(words)])
    from bench.training.building import data_hashes, prepare_data

    with progress() as report:
        prepare_data(configuration, report)
        hashes = data_hashes(configuration)
    for split, digest in hashes.items():
        print(f"{split:12} {digest}")
    return OK


if __name__ == "__main__":
    command(main)
