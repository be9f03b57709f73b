"""Where the runs of a search are made: which executor the settings ask for."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from bench.executors.interface import Executor
from bench.executors.processes import InProcess, Pool
from bench.search.exchange import open_exchange
from bench.search.jobs import execute
from bench.search.sharing import SharedRuns
from ground.errors import UserError
from ground.progress import Report
from settings.settings import Configuration


@contextmanager
def open_executor(
    configurations: Sequence[Configuration], report: Report, at_most: int | None = None
) -> Iterator[Executor]:
    """The executor of the settings, which all these configurations share, while it is open. With a
    database that other drivers share, it makes no run that one of them makes.

    Args:
        configurations: of all models, whose code goes with the jobs.
        at_most: jobs that there are.

    Raises:
        UserError: a cluster or a database that cannot be had.
    """
    first = configurations[0]
    exchange = open_exchange(first.sweep.storage, first.store)
    with _alone(configurations, report, at_most) as executor:
        if exchange is None:
            yield executor
            return
        with SharedRuns(executor, exchange, report) as shared:
            yield shared


@contextmanager
def _alone(
    configurations: Sequence[Configuration], report: Report, at_most: int | None
) -> Iterator[Executor]:
    first = configurations[0]
    workers = min(first.sweep.workers, at_most or first.sweep.workers)
    if first.sweep.executor == "ray":
        with _cluster(configurations, workers, report) as cluster:
            yield cluster
        return
    local = Pool(execute, _shares(workers, first.device), report) if workers else None
    with local or InProcess(execute, report) as executor:
        yield executor


def _shares(workers: int, device: str) -> list[dict[str, str]]:
    """The environment of each worker: one thread, or one of the GPUs in turn."""
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return [{"OMP_NUM_THREADS": "1"}] * workers
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = listed.split(",") if listed else [str(i) for i in range(torch.cuda.device_count())]
    gpus = itertools.islice(itertools.cycle(visible), workers)
    return [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus]


@contextmanager
def _cluster(
    configurations: Sequence[Configuration], workers: int, report: Report
) -> Iterator[Executor]:
    from bench.executors.cluster import Cluster
    from bench.runs.obtain import devices_elsewhere
    from bench.search.luggage import RunLuggage

    first = configurations[0]
    settings = first.sweep.ray
    if first.device == "cuda" and not settings.num_gpus:
        raise UserError("device=cuda on a cluster needs ray.num_gpus=1, or a part of one")
    on_gpu = settings.num_gpus > 0 and first.device != "cpu"
    luggage = RunLuggage.of_this_process("cuda" if on_gpu else "cpu")
    code = sorted(set(_packages(configurations)))
    with (
        Cluster(execute, luggage, settings, workers, report, code) as cluster,
        devices_elsewhere(cluster.device_class if on_gpu else "cpu"),
    ):
        yield cluster


def _packages(configurations: Iterable[Configuration]) -> Iterator[str]:
    """Folders of the packages of others that models and tasks come from, but those that are
    installed, which the nodes have too."""
    from bench.records.code import home, is_own

    targets = {c.models["_target_"] for c in configurations}
    targets |= {c.tasks["_target_"] for c in configurations}
    for target in targets:
        module = target.rpartition(".")[0]
        for _, package in [] if is_own(target) else home(module):
            if "site-packages" not in package.parts:
                yield str(package)
