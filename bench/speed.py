"""Speed of models, interleaved on one machine: ``python -m bench.speed``."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from bench.config.command_line import Settings, read_with_lists
from bench.config.problems import first_problem
from bench.config.yaml_files import read_yaml
from bench.timing.settings import SpeedSettings
from core.errors import UserError, command, nearest
from core.words import command_line

DEFAULTS = Path(__file__).with_suffix(".yaml")

HELP = """\
usage: python -m bench.speed [models=[MODEL,...]] [key=value ...]

Time passes of models on random tokens, one of each in turn, so that a change of the machine meets
all of them: training, forward alone, a prompt, and one token more. Medians over rounds; times
against the reference are medians of the ratios within a round. One thread of a CPU is timed by what
it spends, anything else by the clock. Nothing else should run on the machine meanwhile.

settings, with their defaults:
{settings}

With before=FOLDER the models of this checkout are timed beside those of another one instead, each
in a process of its own, a pass of either in turn. With peers=true they are timed beside the public
packages of their kind that are installed, with equally many parameters where a package allows it.

example: python -m bench.speed models=[lstm] width=64 layers=2 length=128 vocabulary=[512]"""


def settings_of(overrides: Settings) -> SpeedSettings:
    """The defaults with what a command line sets.

    Raises:
        UserError: an unknown key or a value that cannot be used.
    """
    values = read_yaml(DEFAULTS)
    for key, value in overrides.items():
        if key not in values:
            raise UserError(f"there is no setting '{key}': {nearest(key, map(str, values))}")
        one_of_a_list = isinstance(values[key], list) and not isinstance(value, list)
        values[key] = [value] if one_of_a_list else value
    try:
        return SpeedSettings.model_validate(values)
    except ValidationError as error:
        raise UserError(first_problem(error)) from None


def _help() -> str:
    lines = DEFAULTS.read_text().splitlines()[1:]
    return HELP.format(settings="\n".join(f"  {line}" for line in lines))


main = command_line(_help, read_with_lists, settings_of, "bench.timing.measuring:measure_and_print")


if __name__ == "__main__":
    command(main)
