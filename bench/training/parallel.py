"""Data parallelism: the processes that share each batch of one training.

Every process has the whole model and takes a part of each batch; gradients are added up before the
step, so that all of them go on with equal weights. The leader, rank 0, is the process of the run:
it alone validates, saves and reports. The others only make steps and end with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch import Tensor, distributed

from core.errors import RUN_FAILED, UserError
from core.processes import (
    STOPS,
    describe_end,
    end_with_parent,
    refuse_unguarded_program,
    start_with_blocked,
    stops_taken,
)

LOCAL = "127.0.0.1"  # no other machine reaches what listens there
SECONDS_BETWEEN_LOOKS = 0.05
SECONDS_TO_DIE = 5.0  # between the end of a process's connections and its own
SECONDS_TO_SAVE = 10.0  # for the leader, after which a process that was told to end does so alone


@dataclass(frozen=True)
class Ranks:
    """This process among those of a training."""

    rank: int = 0
    size: int = 1

    def share(self, sequences: int) -> tuple[int, int]:
        """First and last + 1 of the sequences of a batch that are this process's own."""
        # Shares that differ by one sequence at most, and none twice.
        return sequences * self.rank // self.size, sequences * (self.rank + 1) // self.size

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor, in place, by its sum over all processes."""
        if self.size > 1:
            # All sums are under way before the first is waited for.
            for waiting in [distributed.all_reduce(t, async_op=True) for t in tensors]:
                waiting.wait()


@contextmanager
def leading(
    size: int, device: torch.device, follow: Callable[..., None], *arguments: Any
) -> Iterator[Ranks]:
    """Start ``size`` - 1 processes that run ``follow(ranks, device, *arguments)`` beside this one.

    They are ended when the block is left, however it is left. ``arguments`` are pickled.

    Raises:
        UserError: one of them was killed, or each would run the program again that starts them.
    """
    if size == 1:
        yield Ranks()
        return
    refuse_unguarded_program(f"training.devices={size}", "leave that setting out")
    with socket.create_server((LOCAL, 0)) as meeting:  # a file would outlive a killed leader
        port = meeting.getsockname()[1]
        store = _store(port, size, master_listen_fd=meeting.detach())
    context = multiprocessing.get_context("spawn")
    others = []
    for rank in range(1, size):
        of_follower = (port, Ranks(rank, size), device.type, follow, arguments)
        others.append(context.Process(target=_follow, args=of_follower))
    try:
        for process in others:
            # Signals from the terminal are for the leader, which ends them when it has saved.
            start_with_blocked(process, signal.SIGINT, *stops_taken())
        while not store.check([str(rank) for rank in range(1, size)]):
            _refuse_the_dead(others)  # PyTorch would wait half an hour for them
            time.sleep(SECONDS_BETWEEN_LOOKS)
        _join(store, Ranks(0, size), device.type)
        yield Ranks(0, size)
    except RuntimeError:  # among others what PyTorch raises when a connection breaks
        for sentinel in wait([process.sentinel for process in others], SECONDS_TO_DIE):
            (dead,) = [process for process in others if process.sentinel == sentinel]
            dead.join()  # its connections end before it has an exit code
            if (dead.exitcode or 0) < 0:  # an error of its own is most likely the leader's too
                _refuse_the_dead([dead])
        raise
    finally:
        for process in others:
            if process.pid is not None:
                process.kill()
                process.join()
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _refuse_the_dead(others: Sequence[BaseProcess]) -> None:
    for process in others:
        if process.exitcode is not None:
            raise UserError(
                f"a process that shares this training died ({describe_end(process.exitcode)}): "
                "the same command goes on from the last checkpoint",
                RUN_FAILED,
            )


def _store(port: int, size: int, **options: Any) -> distributed.TCPStore:
    leads = "master_listen_fd" in options
    return distributed.TCPStore(LOCAL, port, size, leads, wait_for_workers=False, **options)


def _join(store: distributed.Store, ranks: Ranks, kind: str) -> None:
    if kind == "cuda":
        torch.cuda.set_device(ranks.rank)
    backend = "nccl" if kind == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=ranks.rank, world_size=ranks.size)


def _follow(
    port: int, ranks: Ranks, kind: str, follow: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    end_with_parent()
    threading.Thread(target=_pass_on, daemon=True).start()
    store = _store(port, ranks.size)
    store.set(str(ranks.rank), "is there")
    _join(store, ranks, kind)
    follow(ranks, torch.device(f"cuda:{ranks.rank}" if kind == "cuda" else kind), *arguments)
    signal.pause()  # leaving the group first would break the leader's last sums


def _pass_on() -> None:
    """One of STOPS to one process of a training, or to all, ends it as SIGTERM to its leader."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    signal.sigwait(blocked & {*STOPS})  # no handler: in a sum of PyTorch's it would have to wait
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_SAVE)
    os.kill(os.getpid(), signal.SIGKILL)
