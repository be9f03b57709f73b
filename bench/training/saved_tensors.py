"""The parameters and buffers of a model at one moment: what calls change of them, and back again.

A model may count what it has seen in a buffer, move an average of its weights, draw a projection
anew, or limit weights, in a call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class SavedTensors:
    """The parameters and buffers of a model as they are now."""

    def __init__(self, model: nn.Module) -> None:
        self.saved: list[tuple[dict[str, Any], str, Tensor | None, Tensor | None]] = []
        self.names: list[str] = []
        self.versions: list[int] = []
        for prefix, module in model.named_modules():
            for tensors in (module._parameters, module._buffers):
                for name, tensor in tensors.items():
                    value = None if tensor is None else tensor.detach().clone()
                    self.saved.append((tensors, name, tensor, value))
                    self.names.append(f"{prefix}.{name}" if prefix else name)
                    self.versions.append(0 if tensor is None else tensor._version)

    def changed(self) -> list[str]:
        """Names of those that calls since then have written into, were it the same numbers, or
        have replaced by other numbers. One that was made, or made larger, is a cache."""
        names = []
        for full_name, version, (tensors, name, tensor, value) in zip(
            self.names, self.versions, self.saved, strict=True
        ):
            now = tensors.get(name)
            if tensor is None or value is None or now is None:
                continue
            if now.shape != value.shape or now.dtype != value.dtype:
                continue
            # What is written through ``.data`` has the version that it had.
            written = now is tensor and now._version != version
            if written or not bool(((now == value) | (now.isnan() & value.isnan())).all()):
                names.append(full_name)
        return names

    def restore(self) -> None:
        """Give the model these tensors again, with the numbers that they had."""
        for tensors, name, tensor, value in self.saved:
            if tensor is not None and value is not None and not torch.equal(tensor, value):
                tensor.data.copy_(value)
            tensors[name] = tensor
