"""How much a model carries from one position to the next, by what its ``step`` returns.

A model says by ``state_bytes`` what one sequence must keep. One of this project is held to that by
its tests; of a stranger's the state is looked at: every tensor that can be reached from what
``step`` returns, each place of memory once, without the weights. That this is all it carries shows
where a copy of the state, made anew from these tensors alone, goes on in a copy of the model that
has taken no step.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bench.examination.reader import as_parameters, in_steps
from bench.training.storage import count_numbers
from bench.training.unfit import unfit

MOST_STEPS = 2**12  # of both sequences
BYTES = 4  # of a number at most, in whatever type it is kept: ``state_bytes`` counts float32
SLACK, COUNTER = 1.1, 8  # a model may declare a tenth too little, and no counter of positions
# What a state may have beside tensors; no list or dictionary of floats, which are numbers as well.
PLAIN = (bool, int, float, str, type, torch.dtype, torch.device)
CONTAINERS = (list, tuple, deque, set, frozenset, Mapping)
AGREES = 1e-3  # of the largest output: what step and forward may differ by


def examine_state(model: nn.Module, inputs: Tensor, length: int, steps: int) -> bool:
    """Compare the bytes that a model declares after ``length`` positions with what it carries.

    Two sequences take their steps in turn, so that what a model keeps in itself, and not in the
    state, gives other outputs than ``forward``, and is not taken for a small state.

    Args:
        model: with a method ``state_bytes``, in eval mode from now on.
        inputs: (batch, time) or (batch, time, channels), on the device of the model.
        length: the longest sequence of its task.
        steps: how many may be taken, two for each position; never more than ``MOST_STEPS``. They
            are counted, not timed, so that a slow machine says what a fast one says.

    Returns:
        Whether the state was measured at that length; False where there is no ``step``, where it
        fails or gives other outputs than ``forward``, where so many steps do not lead that far,
        where its state holds no tensor, and where it goes on otherwise from a copy of its tensors.

    Raises:
        UnfitModel: it carries more than it declares.
    """
    asked: Any = model.eval()
    declared = int(asked.state_bytes(length))
    if not callable(getattr(model, "step", None)):
        return False
    positions = min(length, min(steps, MOST_STEPS) // 2)
    places = torch.arange(positions, device=inputs.device) % inputs.shape[1]
    sequence = as_parameters(inputs, model)[:1, places]
    try:
        unused = _deep_copy(model)
        outputs, state = in_steps(model, [sequence, sequence.flip(1)])[0]
    except Exception:  # a stranger's step may want anything else; the conformance tests say what
        return False
    held = carried_bytes(state, [*model.parameters(), *model.buffers()])
    if not held or not _agree(asked, sequence, outputs):
        return False
    if held > SLACK * declared + COUNTER:
        raise unfit(
            "state bytes",
            length=length,
            declared=declared,
            positions=positions,
            held=held,
            number=BYTES,
        )
    # At last, for a step may write into the state that it gets.
    return positions == length and _goes_on_from_copy(asked, unused, sequence[:, -1], state)


def _deep_copy(model: nn.Module) -> nn.Module | None:
    """A copy, or None of what cannot be copied, such as a model with a generator or a lock."""
    try:
        return copy.deepcopy(model)
    except Exception:  # of whatever kind its parts raise
        return None


def _goes_on_from_copy(model: Any, unused: Any, inputs: Tensor, state: Any) -> bool:
    """Whether a state, copied from its tensors alone, gives a copy of the model that has taken no
    step the output that the state itself gives the model."""
    if unused is None:
        return False
    try:
        copied = _copied(state, {})
        with torch.no_grad():
            expected, _ = model.step(inputs.clone(), state)
            output, _ = unused.step(inputs.clone(), copied)
        size = float(expected.abs().max())
        return torch.allclose(output, expected, rtol=AGREES, atol=AGREES * size)
    except Exception:  # the copy lacks what the state had, or holds what cannot be copied
        return False


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """A state whose tensors have memory of their own, which holds them and nothing else.

    Raises:
        TypeError: it holds what may hide more, such as a function or an array of another library.
    """
    if id(value) in copies:
        return copies[id(value)]
    if value is None or isinstance(value, PLAIN):
        return value
    items = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, CONTAINERS) and any(isinstance(item, float) for item in items):
        raise TypeError("a state with numbers that are no tensor")
    copied: Any
    if isinstance(value, Tensor):
        copied = value.detach().clone(memory_format=torch.contiguous_format)
    elif isinstance(value, list | deque | set | frozenset):
        copied = type(value)(_copied(item, copies) for item in value)
    elif isinstance(value, tuple):
        parts = [_copied(item, copies) for item in value]
        copied = type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    elif isinstance(value, Mapping):
        copied = copy.copy(value)
        for key in value:
            copied[key] = _copied(value[key], copies)
    elif dataclasses.is_dataclass(value) or (hasattr(value, "__dict__") and not callable(value)):
        copied = copies[id(value)] = copy.copy(value)  # what it holds may lead back to it
        fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        for name in {*getattr(value, "__dict__", ()), *(field.name for field in fields)}:
            object.__setattr__(copied, name, _copied(getattr(value, name), copies))
    else:
        raise TypeError(f"a state with {type(value).__name__}")
    copies[id(value)] = copied
    return copied


def carried_bytes(state: Any, weights: Iterable[Tensor] = ()) -> int:
    """Bytes of all numbers that can be reached from a state: wider types as float32, complex ones
    as two of it, and narrower ones, such as bfloat16, as they are.

    Args:
        weights: tensors that do not count, nor does what lies in their memory.
    """
    storages = {weight.untyped_storage()._cdata for weight in weights}
    by_type: dict[torch.dtype, list[Tensor]] = defaultdict(list)
    for tensor in _tensors_in(state, set()):
        if tensor.untyped_storage()._cdata not in storages:
            by_type[tensor.dtype].append(tensor.detach())
    total = 0
    for dtype, tensors in by_type.items():
        numbers = count_numbers(tensors)
        total += numbers * min(BYTES * (2 if dtype.is_complex else 1), dtype.itemsize)
    return total


def _tensors_in(value: Any, seen: set[int]) -> Iterator[Tensor]:
    """The tensors of a state, however it is nested; each object is looked at once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors_in(item, seen)
    elif isinstance(value, list | tuple | set | frozenset) or hasattr(value, "popleft"):
        for item in value:
            yield from _tensors_in(item, seen)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):  # one with slots has no dictionary
            yield from _tensors_in(getattr(value, field.name, None), seen)
    elif not isinstance(value, type | str | bytes) and hasattr(value, "__dict__"):
        yield from _tensors_in(vars(value), seen)


def _agree(model: Any, sequence: Tensor, outputs: Tensor) -> bool:
    """Whether ``forward`` gives the outputs of the steps."""
    try:
        with torch.no_grad():
            whole = model(sequence.clone())
        size = float(whole.abs().max())
        return torch.allclose(outputs.to(whole), whole, rtol=AGREES, atol=AGREES * size)
    except Exception:  # as of another shape
        return False
