"""A job that says what its worker may see; light to import, as jobs are."""

import os
import time

from bench.config.limits import GPU_SHARE
from core.progress import Report

DIES = 0.25  # the seconds after which a job ends its worker


def visible_device(seconds: float, report: Report) -> tuple[str, str, int]:
    """After so many seconds: CUDA_VISIBLE_DEVICES, the part of the memory, the process."""
    time.sleep(seconds)
    if seconds == DIES:
        os._exit(9)
    return os.environ["CUDA_VISIBLE_DEVICES"], os.environ[GPU_SHARE], os.getpid()
