"""Data parallelism: the processes that share each batch of one training.

Every process has the whole model and takes a part of each batch; gradients are added up before the
step, so that all of them go on with equal weights. The leader, rank 0, is the process of the run:
it alone validates, saves and reports. The others only make steps and end with it.
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed


@dataclass(frozen=True)
class Ranks:
    """This process among those of a training."""

    rank: int = 0
    size: int = 1

    def share(self, sequences: int) -> tuple[int, int]:
        """First and last + 1 of the sequences of a batch that are this process's own."""
        return sequences * self.rank // self.size, sequences * (self.rank + 1) // self.size

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, in place, by its sum over all processes."""
        if self.size > 1:
            for waiting in [distributed.all_reduce(t, async_op=True) for t in tensors]:
                waiting.wait()


@contextmanager
def leading(
    size: int, device: torch.device, follow: Callable[..., None], *arguments: Any
) -> Iterator[Ranks]:
    """Start ``size`` - 1 processes that run ``follow(ranks, device, *arguments)`` beside this one.

    They are ended when the block is left, however it is left. ``arguments`` are pickled.
    """
    if size == 1:
        yield Ranks()
        return
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        others = [
            context.Process(
                target=_follow, args=(meeting, Ranks(rank, size), device.type, follow, arguments)
            )
            for rank in range(1, size)
        ]
        for process in others:
            process.start()
        try:
            _join(meeting, Ranks(0, size), device.type)
            yield Ranks(0, size)
        finally:
            for process in others:
                process.kill()
                process.join()
            if distributed.is_initialized():
                distributed.destroy_process_group()


def _join(meeting: str, ranks: Ranks, kind: str) -> None:
    if kind == "cuda":
        torch.cuda.set_device(ranks.rank)
    backend = "nccl" if kind == "cuda" else "gloo"
    distributed.init_process_group(
        backend, init_method=f"file://{meeting}", rank=ranks.rank, world_size=ranks.size
    )


def _follow(
    meeting: str, ranks: Ranks, kind: str, follow: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    for signum in (signal.SIGINT, signal.SIGTERM):  # the leader ends us when it has saved
        signal.signal(signum, signal.SIG_IGN)
    _join(meeting, ranks, kind)
    follow(ranks, torch.device(f"cuda:{ranks.rank}" if kind == "cuda" else kind), *arguments)
    signal.pause()  # leaving the group first would break the leader's last sums
