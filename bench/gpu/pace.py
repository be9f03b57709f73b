"""Seconds of a training step of several models, in one process: ``python -m bench.gpu.pace``.

A child of the sweeps. A model at which it hangs, such as one whose kernels compile for minutes,
ends it; the seconds of those before are written by then.
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

from core.errors import OK, UserError, command
from core.files import write_atomically
from core.progress import silent

TIMED_STEPS = 6
SECONDS_EACH = 60  # of one model, its kernels' compilation included
OWN = ("models", "seconds_each", "output")  # its last words; the others are those of a run


def main(words: list[str]) -> int:
    """Write model -> seconds of a step, and ``start``, the seconds until the first was begun."""
    begin = time.monotonic()
    from bench.config.config import compose, parse

    own: dict[str, Any] = {o.key_or_group: o.value() for o in parse(words[-len(OWN) :])}
    rest = words[: -len(OWN)]
    from bench.timing.steps import seconds_of_a_step
    from bench.training.building import prepare_data
    from bench.training.numerics import set_numerics

    paces: dict[str, float | str] = {}
    for model in own["models"]:
        signal.alarm(own["seconds_each"])  # its default is to end the process, whatever holds it
        try:
            configuration = compose([*rest, f"models={model}"])
            set_numerics(configuration.training.threads)
            prepare_data(configuration, silent)
            paces.setdefault("start", time.monotonic() - begin)
            paces[model] = seconds_of_a_step(configuration, TIMED_STEPS)
        except (UserError, RuntimeError) as error:
            paces[model] = next(iter(str(error).splitlines()), type(error).__name__)
        write_atomically(Path(own["output"]), json.dumps(paces).encode())
    signal.alarm(0)
    return OK


if __name__ == "__main__":
    command(main)
