"""Whether a task of somebody else gives the same data whenever it is asked, targets that count, and
evaluations that a record can hold.

A run is named by hashes of its data and takes up its training at any step, so a batch is a function
of settings, seed and step alone. A draw from a global generator, from one that was made with the
task, or from state between calls looks right in one process and is another run in the next.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import nullcontext

import torch
from torch import Tensor

from bench.config.outside_tasks import fault_of_headline
from bench.config.settings import Configuration
from bench.examination.contract.faults import fault_of_batch
from bench.examination.contract.losses import fault_of_loss
from bench.examination.fresh_process import hashed_elsewhere
from bench.records.code import code_hash, is_own, modules_behind
from bench.training.building import data_hashes, new_task, task_of
from bench.training.mistakes import data_in_sentences
from bench.training.seeding import kept_random_state, seed_generators
from bench.training.unfit import UnfitModel
from core.errors import UserError
from tasks.interface import Batch, Task

STEPS, SIZE = 4, 8  # of the training that are made again
CPU = torch.device("cpu")
# What the global generators are seeded with before data are made: other numbers each time.
FIRST, SECOND = 1, 2
# What a source may import or call to have numbers that another process has otherwise.
MODULES = {"secrets", "uuid", "time", "datetime"}
CALLS = {
    *("hash", "id", "set", "frozenset", "getpid", "urandom", "getrandom", "SystemRandom"),
    *("Random", "default_rng", "RandomState", "SeedSequence"),
    # Addresses, of which the text of an object has one too.
    *("repr", "__hash__", "data_ptr", "get_ident"),
}


def examined_data_hashes(configuration: Configuration) -> dict[str, str]:
    """SHA-256 of every split of the configured task; one of another package or file is examined.

    Raises:
        UserError: the data cannot be used, or are others each time.
    """
    target = configuration.tasks["_target_"]
    if is_own(target):
        return data_hashes(configuration)
    with kept_random_state(CPU):
        seed_generators(FIRST, CPU)
        hashes = data_hashes(configuration)
    key = json.dumps(configuration.tasks, sort_keys=True), code_hash(target)
    if key not in _passed:
        # The first new process costs seconds, and each makes the data once more, so one is asked
        # only where a source names what differs there.
        elsewhere = hashed_elsewhere(configuration.tasks) if may_differ(target) else nullcontext()
        with elsewhere as hashes_elsewhere, data_in_sentences(target), kept_random_state(CPU):
            examine_task(configuration, hashes)
            if hashes_elsewhere is not None and (others := hashes_elsewhere()) is not None:
                _refuse_others(target, hashes, others, " in another process")
        _passed.add(key)
    return hashes


_passed: set[tuple[str, str]] = set()  # settings and code of tasks that were examined here
_first: dict[str, list[Batch]] = {}  # settings of a task -> its first batches, when it was examined


def examine_task(configuration: Configuration, hashes: dict[str, str]) -> None:
    """Make two tasks of one configuration, and compare what they give.

    Args:
        hashes: of the data of a third one.

    Raises:
        UserError: they differ, or no model could be trained on a batch.
    """
    name = f"tasks ({configuration.tasks['_target_']})"
    seed_generators(FIRST, CPU)
    task = task_of(configuration.tasks)
    if fault := fault_of_headline(getattr(task, "headline", None)):
        raise UserError(f"{name}: {fault}")
    if isinstance(task, Task):
        specification = task.specification()
        batches = [task.training_batch(0, step, SIZE) for step in range(STEPS)]
        for batch in batches:
            if fault := fault_of_batch(batch, specification):
                raise UserError(f"{name}: {fault}")
        if not any(batch.asked for batch in batches):
            raise UserError(
                f"{name}: the first {STEPS} batches of a training ask for nothing, since every "
                "target is -100: give targets that count"
            )
        device = _device(configuration) if configuration.trained_on is None else None
        if device and (fault := fault_of_loss(task, batches, specification, device)):
            raise UserError(f"{name}: {fault}")
        _first[json.dumps(configuration.tasks, sort_keys=True)] = batches
    seed_generators(SECOND, CPU)
    again = task_of(configuration.tasks)
    if isinstance(again, Task):
        # From the last step to the first: a generator that goes on from call to call, seeded or
        # not, gives others then.
        for step in reversed(range(STEPS)):
            other = again.training_batch(0, step, SIZE)
            if not _equal(batches[step], other):
                sequences = f"the sequences of training step {step}"
                raise UserError(_differs(configuration.tasks["_target_"], sequences))
    _refuse_others(configuration.tasks["_target_"], hashes, again.data_hashes())


def examine_task_again(
    configuration: Configuration, task: Task, hashes: Mapping[str, str], steps: int
) -> None:
    """Compare what a task gives at the end of a run with what it gave at first, and with what one
    that was just made gives.

    Args:
        task: of the run, which has made all of its batches.
        hashes: of the data of the run.
        steps: of the training.

    Raises:
        UnfitModel: they differ, so that no number of the run is a measurement.
    """
    target, seed = configuration.tasks["_target_"], configuration.seed
    first = _first.get(json.dumps(configuration.tasks, sort_keys=True), [])
    where = ", at the end of a run"
    with kept_random_state(CPU):
        fresh, unpadded = new_task(configuration), task_of(configuration.tasks)
        assert isinstance(fresh, Task)
        assert isinstance(unpadded, Task)
        try:
            for step, batch in enumerate(first):
                if not _equal(batch, unpadded.training_batch(0, step, SIZE)):
                    raise UserError(_differs(target, f"the sequences of step {step}", where))
            for step in sorted({0, steps // 2, max(0, steps - 1)}):
                batches = [each.training_batch(seed, step, SIZE) for each in (task, fresh)]
                if not _equal(*batches):
                    raise UserError(_differs(target, f"the sequences of step {step}", where))
            _refuse_others(target, hashes, task.data_hashes(), where)
            _refuse_others(target, hashes, fresh.data_hashes(), where)
        except UserError as error:
            raise UnfitModel(str(error)) from None


def _refuse_others(
    target: str, hashes: Mapping[str, str], others: Mapping[str, str], where: str = ""
) -> None:
    for split in sorted(hashes.keys() | others.keys()):
        if hashes.get(split) != others.get(split):
            raise UserError(_differs(target, f"the data of '{split}'", where))


def may_differ(target: str) -> bool:
    """Whether the source of a class of another package or file, or of what it imports from there,
    names a source of numbers that are others in another process."""
    for name, path in modules_behind(target).items():
        if is_own(name):
            continue
        if any(map(_names_a_source, ast.walk(ast.parse(path.read_bytes())))):
            return True
    return False


def _names_a_source(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in MODULES or any(alias.name in CALLS for alias in node.names)
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        return (called.id if isinstance(called, ast.Name) else called) in CALLS
    return isinstance(node, ast.Set | ast.SetComp)


def _differs(target: str, what: str, where: str = "") -> str:
    advice = (
        "in draw(self, generator, count) by that generator (generator.integers, "
        "generator.random), and from neither np.random, random, torch nor a generator or a count "
        "that is kept between calls"
    )
    if where.startswith(" in"):
        advice = (
            "and take the elements of a set by sorted(…), as their order, the hash of a string, "
            "addresses and the time are others in each process"
        )
    return (
        f"tasks ({target}): {what} are others when they are made again{where}, so that no run "
        f"could be repeated or taken up: make data from settings, seed and step alone, {advice}"
    )


def _equal(first: Batch, second: Batch) -> bool:
    pairs = [(first.inputs, second.inputs), (first.targets, second.targets)]
    if first.extras.keys() != second.extras.keys():
        return False
    pairs += [(value, second.extras[key]) for key, value in first.extras.items()]
    return all(a.shape == b.shape and _same_numbers(a, b) for a, b in pairs)


def _same_numbers(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors of one shape are equal, and NaN in the same places."""
    if not (first.is_floating_point() and second.is_floating_point()):
        return torch.equal(first, second)
    return bool(torch.isclose(first, second, rtol=0, atol=0, equal_nan=True).all())


def _device(configuration: Configuration) -> torch.device | None:
    """Where a loss is computed: a task may keep its numbers on a GPU. None: not here."""
    there = torch.cuda.is_available()
    if configuration.device == "cuda" and not there:
        return None
    return torch.device("cuda") if there and configuration.device != "cpu" else CPU
