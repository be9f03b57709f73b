"""Where the runs of a search are made: which executor the settings ask for."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from bench.config.limits import GPU_SHARE, LARGEST_THREADS
from bench.config.settings import Configuration
from bench.config.source_files import names_file
from bench.executors.cluster import Cluster
from bench.executors.interface import Executor
from bench.executors.processes import InProcess, Pool
from bench.executors.served import ServedFirst
from bench.records.code import home, imported_modules, is_own
from bench.runs.get_or_run import make_data
from bench.runs.serving import devices_elsewhere
from bench.search.jobs import execute, served
from bench.search.payload import JobPayload
from bench.search.sharing import SharedRuns, open_coordinator
from core.collector import resume_collector
from core.errors import UserError
from core.processes import GUARD, refuse_unguarded_program, unguarded_call
from core.progress import Report

FEW_AT_SMOKE = 10  # runs of a second or two; a pool is there after some five


@contextmanager
def open_executor(
    configurations: Sequence[Configuration],
    report: Report,
    at_most: int | None = None,
    prepare: bool = False,
    before_first: Callable[[], None] = lambda: None,
) -> Iterator[Executor]:
    """The executor of the settings, which all these configurations share, while it is open. A run
    whose record is there is served; processes are started for the first that has to be made. With
    a database that other drivers share, it makes no run that one of them makes.

    Args:
        configurations: of all models, whose code goes with the jobs.
        at_most: jobs that there are.
        prepare: whether to make what the task keeps on disk before the first run is made.
        before_first: is called before that; never where all runs are served, but on a cluster.

    Raises:
        UserError: a cluster or a database that cannot be had.
    """
    first = configurations[0]
    coordinator = open_coordinator(first.sweep.storage, first.store)
    with _alone(configurations, report, at_most, prepare, before_first) as executor:
        if coordinator is None:
            yield executor
            return
        with SharedRuns(executor, coordinator, report) as shared:
            yield shared


@contextmanager
def _alone(
    configurations: Sequence[Configuration],
    report: Report,
    at_most: int | None,
    prepare: bool,
    before_first: Callable[[], None],
) -> Iterator[Executor]:
    first = configurations[0]

    def open_local() -> Executor:
        _say_what_the_program_lacks(first, at_most)
        resume_collector()
        before_first()
        if prepare:
            make_data(first, report)
        workers = workers_at_once(first, at_most)
        return Pool(execute, _shares(workers, first.device), report) if workers else in_process

    in_process = InProcess(execute, report)
    if first.sweep.executor == "ray":
        refuse_unguarded_program("executor=ray", "leave that setting out")
        resume_collector()
        before_first()
        make_data(first, report)
        workers = workers_at_once(first, at_most)
        with _cluster(configurations, workers, report) as cluster:
            yield cluster
        return
    with ServedFirst(served, open_local) as executor:
        yield executor


def _say_what_the_program_lacks(first: Configuration, at_most: int | None) -> None:
    """Before the first run: that a program which new processes would run again gets none.

    Raises:
        UserError: it asks for some.
    """
    if first.sweep.workers:
        refuse_unguarded_program(f"workers={first.sweep.workers}", "give workers=0")
    elif (place := unguarded_call()) and _places_at_once(first, at_most) > 1:
        print(
            f"note: runs are made one at a time: {place}, is not below `{GUARD}`, so that each "
            "worker would run it again",
            file=sys.stderr,
        )


def workers_at_once(configuration: Configuration, at_most: int | None = None) -> int:
    """Processes for the runs of a sweep; 0: they are made in this one, or on all of a cluster.

    Without a number it is one for each GPU, or each CPU core, that this process may use; and 0
    where a cluster or the processes of each training take them, where TPE would propose others,
    where a few runs at smoke would have ended before a worker is there, or where each worker would
    run the program again that asks for them.

    Args:
        at_most: jobs that there are.
    """
    if configuration.sweep.workers is None and unguarded_call():
        return 0
    return _places_at_once(configuration, at_most)


def _places_at_once(configuration: Configuration, at_most: int | None) -> int:
    """As :func:`workers_at_once`, whatever program asks."""
    sweep, training = configuration.sweep, configuration.training
    if sweep.workers is not None:
        return min(sweep.workers, at_most or sweep.workers)
    if sweep.executor == "ray" or training.devices > 1 or sweep.sampler == "tpe":
        return 0
    if configuration.preset == "smoke" and (at_most or 0) < FEW_AT_SMOKE:
        return 0
    import joblib  # where runs are made: what is served needs no count

    places = len(_gpus(configuration.device)) or joblib.cpu_count() // training.threads
    workers = min(places, at_most or places, LARGEST_THREADS)
    return workers if workers > 1 else 0


def _gpus(device: str) -> list[str]:
    """The GPUs that runs may take, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return []
    count = torch.cuda.device_count()
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in listed.split(",") if name.strip()]
    # CUDA ends its list at the first name that it does not know.
    return names[:count] or [str(number) for number in range(count)]


def _shares(workers: int, device: str) -> list[dict[str, str]]:
    """The environment of each worker: one thread, or one of the GPUs in turn, with an equal part
    of its memory where several workers have it."""
    if not (gpus := _gpus(device)):
        return [{"OMP_NUM_THREADS": "1"}] * workers
    in_turn = list(itertools.islice(itertools.cycle(gpus), workers))
    environments = []
    for gpu in in_turn:
        share = 1 / in_turn.count(gpu)
        environments.append({"CUDA_VISIBLE_DEVICES": gpu, GPU_SHARE: repr(share)})
    return environments


@contextmanager
def _cluster(
    configurations: Sequence[Configuration], workers: int, report: Report
) -> Iterator[Executor]:
    first = configurations[0]
    settings = first.sweep.ray
    if first.device == "cuda" and not settings.num_gpus:
        raise UserError("device=cuda on a cluster needs ray.num_gpus=1, or a part of one")
    if not settings.num_cpus and not settings.num_gpus:
        raise UserError(
            "ray.num_cpus=0 with ray.num_gpus=0 asks for nothing, so that any number of runs would "
            "have room on a node: give ray.num_cpus=1, or ray.num_gpus=1 or a part of one"
        )
    on_gpu = settings.num_gpus > 0 and first.device != "cpu"
    payload = JobPayload.of_this_process("cuda" if on_gpu else "cpu", configurations)
    code = sorted(set(_packages(configurations)))
    with (
        Cluster(execute, payload, settings, workers, report, code) as cluster,
        devices_elsewhere(cluster.device_class if on_gpu else "cpu"),
    ):
        yield cluster


def _packages(configurations: Iterable[Configuration]) -> Iterator[str]:
    """Folders of the packages of others that models and tasks come from, or their files where they
    are in no package; but those that are installed, which the nodes have too."""
    targets = set()
    for configuration in configurations:
        targets |= {configuration.models["_target_"], configuration.tasks["_target_"]}
    for target in targets:
        if names_file(target):  # JobPayload has it
            continue
        module = target.rpartition(".")[0]
        for folder, package in [] if is_own(target) else home(module):
            if "site-packages" in package.parts:
                continue
            if folder != package:
                yield str(package)
                continue
            files = imported_modules(module).values()  # beside it, in the same folder
            yield from (str(path) for path in files if path.resolve().is_relative_to(folder))
