"""Peak memory of a piece of work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
    result = Peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        _reset_resident_peak()
    yield result
    if device.type == "cuda":
        result.peak = torch.cuda.max_memory_allocated(device)
    else:
        result.peak = _resident_peak()


def _reset_resident_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # the peak is then that of the whole process, which is still a bound


def _resident_peak() -> int | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
