"""What a fresh process spends until its first training step: imports, data, building the model."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from ground.errors import RUN_FAILED, UserError
from ground.files import ROOT
from ground.processes import module_command
from ground.words import word

LOOK_EVERY = 0.005  # seconds


def cpu_seconds_to_first_step(words: Sequence[str]) -> float:
    """CPU-seconds, user and system, of ``python -m bench.train WORDS`` when its first step is done
    and saved. The process is looked at from outside, and ended then.

    Raises:
        UserError: it ended before.
    """
    rest = [given for given in words if not given.startswith(("store=", "training.checkpoint_"))]
    with tempfile.TemporaryDirectory() as folder:
        own = [word("store", folder), "training.checkpoint_every=1"]
        command = module_command("bench.train", [*rest, *own])
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                while not any(Path(folder).glob("work/*/checkpoint-0.pt")):
                    if process.poll() is not None:
                        said = process.communicate()[1].strip().splitlines() or ["it ended"]
                        raise UserError(f"bench.train made no step to time: {said[-1]}", RUN_FAILED)
                    time.sleep(LOOK_EVERY)
                spent = psutil.Process(process.pid).cpu_times()
            finally:
                process.kill()
    return float(spent.user + spent.system)
