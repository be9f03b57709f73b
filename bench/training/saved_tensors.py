"""A model as it is now, to be put back after calls that may change it."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor, nn

# What every module has: its parts, hooks and mode, which are no notes of its own.
PARTS = frozenset(vars(nn.Module()))


def same_numbers(first: Tensor, second: Tensor) -> Tensor:
    """Where two tensors of one shape hold the same number, or both none (NaN), bool."""
    return (first == second) | ((first != first) & (second != second))


class SavedTensors:
    """The parameters and buffers of a model as they are now: a call may count what it has seen in a
    buffer, move an average of its weights, draw a projection anew, or limit weights. What a module
    notes beside a tensor goes with it: up to where a cache in a buffer is filled, for instance."""

    def __init__(self, model: nn.Module) -> None:
        self.saved: list[tuple[dict[str, Any], str, Tensor | None, Tensor | None]] = []
        self.names: list[str] = []
        self.versions: list[int] = []
        self.notes: list[_SavedNotes] = []
        for prefix, module in model.named_modules():
            notes = _SavedNotes(module)
            for tensors in (module._parameters, module._buffers):
                for name, tensor in tensors.items():
                    value = None if tensor is None else tensor.detach().clone()
                    self.saved.append((tensors, name, tensor, value))
                    self.names.append(f"{prefix}.{name}" if prefix else name)
                    self.versions.append(0 if tensor is None else tensor._version)
                    self.notes.append(notes)

    def changed(self) -> list[str]:
        """Names of those that calls since then have written into, were it the same numbers, or
        have replaced by other numbers. One that was made, or made larger, is a cache."""
        names = []
        for full_name, version, (tensors, name, tensor, value) in zip(
            self.names, self.versions, self.saved, strict=True
        ):
            now = _tensor_of(tensors, name)
            if tensor is None or value is None or now is None:
                continue
            if now.shape != value.shape or now.dtype != value.dtype:
                continue
            # What is written through ``.data`` has the version that it had.
            written = now is tensor and now._version != version
            if written or not bool(same_numbers(now, value).all()):
                names.append(full_name)
        return names

    def restore(self) -> None:
        """Give the model these tensors again, with the numbers that they had, and their modules
        what they noted beside them."""
        for (tensors, name, tensor, value), notes in zip(self.saved, self.notes, strict=True):
            other = _tensor_of(tensors, name) is not tensor
            if tensor is not None and value is not None and not torch.equal(tensor, value):
                tensor.data.copy_(value)
                other = True
            tensors[name] = tensor
            if other:
                notes.restore()


def _tensor_of(tensors: dict[str, Any], name: str) -> Any:
    """None where there is none; what torch.jit has in place of a dictionary has no ``get``."""
    return tensors[name] if name in tensors else None  # noqa: SIM401


class _SavedNotes:
    """What a module keeps as plain attributes: numbers, tensors, lists, dictionaries, sets."""

    def __init__(self, module: nn.Module) -> None:
        self.attributes = vars(module)
        self.saved = {
            name: (value, _content(value))
            for name, value in self.attributes.items()
            if name not in PARTS
        }

    def restore(self) -> None:
        """Give the module these again, with what was in them; what is new stays."""
        for name, (value, content) in self.saved.items():
            if isinstance(value, Tensor):
                if value.shape == content.shape and not torch.equal(value, content):
                    value.data.copy_(content)
            elif content is not None:
                value.clear()
                (value.extend if isinstance(value, list | deque) else value.update)(content)
            self.attributes[name] = value


def _content(value: Any) -> Any:
    """What is in a tensor or container, one level deep; None for all else."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, list | deque):
        return list(value)
    return (
        dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else None
    )
