"""Memory of this process: what a model needs of it, its peak during a piece of work, and what it
keeps."""

from __future__ import annotations

import ctypes
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from bench.config.limits import gpu_share, memory_here
from bench.training.seeding import kept_random_state
from bench.training.storage import count_numbers
from core.errors import UserError

COPIES_IN_TRAINING = 4  # weights, gradients and the two moments of Adam
# Of mallopt(3) in glibc.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# Larger blocks, such as the logits of a large vocabulary, go back to the system at once as before.
LARGEST_KEPT_BLOCK = 2**25
LARGEST_FREE_TOP = 2**27


class TooLarge(UserError):
    """More weights than the memory holds."""


def check_fits(
    build: Callable[[], nn.Module],
    name: str,
    device: torch.device,
    copies: int = COPIES_IN_TRAINING,
) -> None:
    """Count a model's weights from its shapes alone, before anything is allocated.

    Raises:
        TooLarge: ``device`` has less memory than so many copies of them.
    """
    try:
        with kept_random_state(torch.device("cpu")), torch.device("meta"):
            by_size: dict[int, list[Tensor]] = defaultdict(list)
            for parameter in build().parameters():
                # Numbers of one size together: models may mix float32 and other types.
                by_size[parameter.element_size()].append(parameter)
            weights = sum(size * count_numbers(parameters) for size, parameters in by_size.items())
    except Exception:  # it is refused, or looks at values: building it says why
        return
    _refuse_if_too_large(weights, name, _memory_of(device), copies)


@contextmanager
def checked_as_it_is_built(
    name: str, device: torch.device, copies: int = COPIES_IN_TRAINING
) -> Iterator[None]:
    """Count the weights of a model that is built in this context, each as its module gets it.

    For classes of others: they may keep tensors for the next model, in a cache or a class, and
    would keep those of :func:`check_fits`, which have no content.

    Raises:
        TooLarge: ``device`` has less memory than so many copies of them.
    """
    weights, memory = 0, _memory_of(device)
    counted: dict[int, Tensor] = {}  # they live until the end, so that no two have one place

    def count(module: nn.Module, parameter_name: str, parameter: Tensor | None) -> None:
        nonlocal weights
        if parameter is None or is_lazy(parameter) or id(parameter) in counted:
            return
        counted[id(parameter)] = parameter
        weights += parameter.untyped_storage().nbytes()
        _refuse_if_too_large(weights, name, memory, copies)

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _memory_of(device: torch.device) -> int:
    """Bytes that this process can have there."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory * gpu_share())
    return memory_here()


def _refuse_if_too_large(weights: int, name: str, memory: int, copies: int) -> None:
    """Refuse so many bytes of weights if copies of them are more than the memory."""
    held = copies * weights
    if held <= memory:
        return
    training = (
        f", and training holds {held / 2**30:,.1f} GiB with their gradients and moments"
        if copies > 1
        else ""
    )
    raise TooLarge(
        f"{name} has {weights / 2**30:,.1f} GiB of weights{training}, but there are "
        f"{memory / 2**30:,.1f} GiB of memory here: lower models.layers or models.width"
    )


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
