"""Training steps of a task under the engine, against a plain loop: ``bench.training_speed``."""

from __future__ import annotations

import json
from typing import Any

from bench.config.command_line import Settings, read
from core.errors import OK, UserError, command
from core.files import write_atomically
from core.places import absolute
from core.words import command_line

DEFAULTS: dict[str, Any] = {"rounds": 5, "timed_steps": 8, "starts": 0, "together": 1}
DEFAULTS |= {"output": None, "device_like": None}

HELP = """\
usage: python -m bench.training_speed tasks=TASK models=MODEL [key=value ...]

Time training steps of one model on one task, as bench.train makes them, in turn with a loop on one
page: the same model, batches and optimiser, all outputs at once (as nanoGPT does), no engine. The
ratio is the median over pairs of neighbouring blocks; with training.compile=true it says what a
compiled step gains, since the loop compiles nothing. Also which share of a step the making of the
batch takes. One thread of a CPU is timed by what it spends, anything else by the clock. Nothing
else should run on the machine meanwhile.

  rounds=5        pairs of blocks
  timed_steps=8   of each block
  starts=0        fresh processes of which the CPU-seconds until their first step are taken too
  together=1      N: instead, N trainings computed as one (bench.sweep stack=N) against each alone
  device_like=here  instead, the estimate of bench.sweep dry_run=true device_like=here against
                  steps under the engine; "models=[a,b]" takes several in turn
  output=FILE     JSON with every block
  any other word  as for bench.train

example: python -m bench.training_speed tasks=babistories models=gpt2 preset=laptop"""


@command_line(HELP, read)
def main(settings: Settings) -> int:
    """Measure, print, and save where ``output=`` says."""
    request = {key: settings.pop(key, default) for key, default in DEFAULTS.items()}
    for key, least in (("rounds", 1), ("timed_steps", 1), ("starts", 0), ("together", 1)):
        if (
            not isinstance(request[key], int)
            or isinstance(request[key], bool)
            or request[key] < least
        ):
            raise UserError(f"{key}={request[key]} is not a number of at least {least}")
    if request["device_like"] is not None:
        _refuse_other_device(request["device_like"])
    from bench.timing.training_speed import time_training

    measurement = time_training(settings, request)
    if request["output"] is not None:
        content = json.dumps(measurement, indent=1) + "\n"
        write_atomically(absolute(str(request["output"])), content.encode())
    return OK


def _refuse_other_device(name: Any) -> None:
    from bench.roofline.devices import HERE, checked

    if checked(name) != HERE:
        raise UserError(
            f"device_like={name} cannot be measured here: device_like={HERE} can, "
            "and bench.sweep dry_run=true estimates the others"
        )


if __name__ == "__main__":
    command(main)
