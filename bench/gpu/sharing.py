"""One GPU for many processes: NVIDIA's Multi-Process Service, where it is asked for and works."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from core.children import describe, run_to_end
from core.processes import module_command

CONTROL = "nvidia-cuda-mps-control"
SECONDS_TO_START = 20.0
SECONDS_TO_CHECK = 60.0


@contextmanager
def shared_gpu(wanted: bool) -> Iterator[tuple[Mapping[str, str], str]]:
    """Environment of the processes that share the GPU, and a sentence about how they share it.

    The service is this call's own, in a folder of its own, and ends with it. Without it a GPU gives
    its processes time by turns.
    """
    control = shutil.which(CONTROL)
    if not wanted or control is None:
        missing = wanted and control is None
        yield {}, f"by turns, since {CONTROL} is not there" if missing else "by turns"
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        started = run_to_end([control, "-d"], SECONDS_TO_START, environment=places)
        try:
            check = module_command("bench.gpu.sharing", [])
            if started.code:
                yield {}, f"by turns, since its service {describe(started)}"
            elif (ended := run_to_end(check, SECONDS_TO_CHECK, environment=places)).code:
                yield {}, f"by turns, since a process under it failed ({ended.sentence})"
            else:
                yield places, "by the Multi-Process Service"
        finally:
            if not started.code:
                _stop(control, places)


def _stop(control: str, places: Mapping[str, str]) -> None:
    subprocess.run(
        [control],
        input=b"quit\n",
        env={**os.environ, **places},
        timeout=SECONDS_TO_START,
        check=False,
        capture_output=True,
    )


if __name__ == "__main__":
    import torch

    torch.ones(1, device="cuda").add_(1).cpu()
