"""Peak memory of a piece of work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch


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
