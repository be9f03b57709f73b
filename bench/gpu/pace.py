"""Seconds of a training step of several models, in one process: ``python -m bench.gpu.pace``.

A child of the sweeps. A model at which it hangs, such as one whose kernels compile for minutes,
ends it; the seconds of those before are written by then.
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from bench.config.command_line import Settings, read
from core.errors import OK, UserError, command, first_line
from core.files import write_atomically
from core.words import command_line

TIMED_STEPS = 6
SECONDS_EACH = 60  # of one model, its kernels' compilation included
KEYS = ("models", "seconds_each", "output")  # the others are settings of a run
HELP = (
    "usage: python -m bench.gpu.pace models=[MODEL,...] seconds_each=N output=FILE [key=value ...]"
)


def measure(settings: Settings) -> int:
    """Write model -> seconds of a step, and ``start``, the seconds until the first was begun."""
    begin = time.monotonic()
    models, seconds_each, output = (settings.pop(key) for key in KEYS)
    from bench.timing.steps import prepared, seconds_of_a_step  # its imports count

    paces: dict[str, float | str] = {}
    for model in models:
        signal.alarm(seconds_each)  # its default is to end the process, whatever holds it
        try:
            configuration = prepared({**settings, "models": model})
            paces.setdefault("start", time.monotonic() - begin)
            paces[model] = seconds_of_a_step(configuration, TIMED_STEPS)
        except (UserError, RuntimeError) as error:
            paces[model] = first_line(error)
        write_atomically(Path(output), json.dumps(paces).encode())
    signal.alarm(0)
    return OK


main = command_line(HELP, read, measure)


if __name__ == "__main__":
    command(main)
