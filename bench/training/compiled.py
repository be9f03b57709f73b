"""A training step as one compiled computation, and batches of few lengths, each of which compiles.

PyTorch's compiler fuses what lies between two products into one loop over memory (on a GPU: into
one kernel), so that a step starts fewer operators and moves fewer bytes. Each shape of batch needs
a program, tens of seconds of work, so it pays in long trainings on sequences of one length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from core.errors import RUN_FAILED, UserError, first_line
from tasks.interface import IGNORED, Batch, Task

SHAPES = 8  # of batches, each with a program of its own
SEEN = 64  # batches whose shapes are looked at before the first is compiled

Loss = Callable[[nn.Module, Batch], Tensor]


def compiled(loss: Loss, device: torch.device) -> Loss:
    """``loss`` as one computation, backward pass included, that draws dropout as ``loss`` does.

    It is compiled when it is called, under :func:`compiler_in_sentences`. What this process has
    compiled before is forgotten: other trainings would count among the shapes of this one.
    """
    torch._dynamo.reset()
    # The compiler's own generator would draw other masks than the loss alone.
    options: dict[str, str | int | bool | Callable[..., Any]] = {"fallback_random": True}
    if device.type == "cpu":  # two programs or three: a pool of processes takes longer to start
        options["compile_threads"] = 1
    return torch.compile(loss, dynamic=False, fullgraph=True, options=options)


def refuse_many_shapes(batches: Iterable[Batch], size: int | None = None) -> None:
    """Before minutes of compiling, as far as the first batches tell.

    Args:
        size: sequences in one pass, where a batch is taken in several.

    Raises:
        UserError: they have more than ``SHAPES`` shapes.
    """
    first_batches = islice(batches, SEEN)
    shapes = set()
    for batch in first_batches:
        for part in batch.split(size) if size else [batch]:
            shapes.add(tuple(part.inputs.shape))
    if len(shapes) > SHAPES:
        raise _too_many_shapes()


def _too_many_shapes() -> UserError:
    return UserError(
        f"training.compile=true makes a program for each shape of batch, at most {SHAPES}, and "
        "here are more: leave it out, or have fewer lengths by training.pad_to_multiple_of",
        RUN_FAILED,
    )


@contextmanager
def compiler_in_sentences(programs: int = SHAPES) -> Iterator[None]:
    """Where a compiled loss is called. Nothing is left to run uncompiled in silence: what a program
    is made for would depend on the order of batches, and so would the last bits of a training that
    is taken up again.

    Raises:
        UserError: there is no compiler, it cannot take the whole loss as one graph (an LSTM, or
            what depends on numbers, as RegBench's on a CPU), or batches need more programs.
    """
    limits = {"recompile_limit": programs, "fail_on_recompile_limit_hit": True}
    try:
        with torch._dynamo.config.patch(limits):
            yield
    except torch._dynamo.exc.FailOnRecompileLimitHit:
        raise _too_many_shapes() from None
    except torch._dynamo.exc.TorchDynamoException as error:
        cause = getattr(error, "inner_exception", error)
        raise UserError(
            f"compile=true: PyTorch cannot compile this training ({first_line(cause):.200}). A CPU "
            "needs a C++ compiler for it, such as g++; no LSTM is compiled, and no loss that goes "
            "by numbers, as RegBench's does on a CPU: leave it out there",
            RUN_FAILED,
        ) from None


@lru_cache(maxsize=4)
def with_padded_batches(task: Task, multiple: int) -> Task:
    """The same task on the same data; its training batches are padded at their end to a multiple of
    so many positions, or to the longest sequence of the task. No target is at the positions that
    are added, so that losses and gradients of a causal model stay what they are where the loss of
    a task goes by its targets."""
    kind: Any = type(task)

    def training_batch(self: Task, seed: int, step: int, size: int) -> Batch:
        batch = kind.training_batch(self, seed, step, size)
        return _padded(batch, multiple, self.specification().maximum_length)

    def reduced(self: Task) -> tuple[Any, ...]:  # processes that share a training pickle its task
        return with_padded_batches, (task, multiple)

    body = {"training_batch": training_batch, "__reduce__": reduced, "__module__": kind.__module__}
    padding: Task = object.__new__(type(kind)(kind.__name__, (kind,), body))
    padding.__dict__ = task.__dict__  # data are made once, whichever of the two makes them
    return padding


def _padded(batch: Batch, multiple: int, longest: int) -> Batch:
    length = batch.inputs.shape[1]
    # To the next multiple, but no longer than the task's longest sequence: tables of positions end
    # there.
    more = min(length + -length % multiple, longest) - length
    if more <= 0:
        return batch
    of_positions = any(x.dim() > 1 and x.shape[1] == length for x in batch.extras.values())
    if batch.targets.is_floating_point() or of_positions:
        raise UserError(
            "training.pad_to_multiple_of is for targets that may be left out, which are classes or "
            "tokens, without more of each position: leave it out for this task"
        )
    last = batch.inputs[:, -1:].expand(-1, more, *batch.inputs.shape[2:])  # as padded as it was
    inputs = torch.cat([batch.inputs, last], 1)
    # Targets that are not asked leave the mean of the loss as it is.
    targets = functional.pad(batch.targets, (0, more), value=IGNORED)
    return Batch(inputs, targets, batch.tokens, batch.extras)
