"""Memory of this process: its peak during a piece of work, and what it keeps."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

# Of mallopt(3) in glibc.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# Larger blocks, such as the logits of a large vocabulary, go back to the system at once as before.
LARGEST_KEPT_BLOCK = 2**25
LARGEST_FREE_TOP = 2**27


@dataclass
class Peak:
    """Bytes; None where the system does not tell."""

    peak: int | None = None


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Peak]:
    """Fill ``.peak`` at the end: the device's allocations on a GPU, else this process's resident
    memory, libraries included (Linux only)."""
    result, system = Peak(), Path("/proc/self")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield result
        result.peak = torch.cuda.max_memory_allocated(device)
        return
    with suppress(OSError):  # the peak is then that of the whole process, which is still a bound
        # 5 sets the highest resident size back to the present one (proc(5)).
        (system / "clear_refs").write_text("5")
    yield result
    with suppress(OSError):
        line = re.search(r"^VmHWM:\s*(\d+)", (system / "status").read_text(), re.MULTILINE)
        result.peak = int(line[1]) * 1024 if line else None


def keep_freed_memory() -> None:
    """Let the heap keep what a step frees, for the next step needs it again.

    By default glibc gives it back to the system, which has to find, clear and map some ten thousand
    pages again in every step: some twentieth of a small model's time, for 1 to 2 % more memory at
    the peak (docs/measurements/kept_memory.json). No number that is computed changes. Other C
    libraries have no such setting.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BLOCK)
        mallopt(M_TRIM_THRESHOLD, LARGEST_FREE_TOP)
