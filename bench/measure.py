"""Measure one model by a task that builds it itself: ``python -m bench.measure``."""

from __future__ import annotations

from bench.ground.errors import OK, UserError, command
from bench.ground.words import SETTINGS_HELP, wants_help

HELP = f"""\
usage: python -m bench.measure tasks=TASK models=MODEL [key=value ...]

Measure a memory, or another model that a task builds and trains within its own protocol, and write
a run record. The same command again serves the record.

{SETTINGS_HELP}

example: python -m bench.measure tasks=capacity models=delta_rule preset=smoke seed=0"""


def main(words: list[str]) -> int:
    """Exit code 0, or 1 when the run diverged or failed (its record says why)."""
    if wants_help(words):
        print(HELP)
        return OK
    from bench.settings.config import compose
    from bench.train import make_one, refuse_words_of_sweeps

    refuse_words_of_sweeps(words, "bench.measure")
    configuration = compose(words)
    if configuration.takes is None:
        raise UserError(
            f"{configuration.task} has models that the engine trains: python -m bench.train makes "
            "its runs, with the same words"
        )
    return make_one(configuration)


if __name__ == "__main__":
    command(main)
