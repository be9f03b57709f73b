"""Outputs of a computation with the gradients of all that went in, to compare two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


def with_gradients(
    compute: Callable[[], Tensor], leaves: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Outputs, and the gradients of a sum of them that weights every one differently.

    What an output does not depend on has the gradient zero.
    """
    outputs = compute()
    weights = torch.arange(outputs.numel(), dtype=torch.float64).cos()
    weights = weights.view(outputs.shape).to(outputs)
    found = torch.autograd.grad((outputs * weights).sum(), list(leaves.values()), allow_unused=True)
    gradients = {
        name: torch.zeros_like(leaf) if gradient is None else gradient
        for (name, leaf), gradient in zip(leaves.items(), found, strict=True)
    }
    return {"outputs": outputs.detach(), **gradients}


def disturbed(module: nn.Module, size: float = 0.3) -> nn.Module:
    """In float64, with no parameter at its initial value."""
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(size * torch.randn_like(parameter))
    return module


def leaves_of(module: nn.Module, **inputs: Tensor) -> dict[str, Tensor]:
    """Inputs and parameters by name."""
    return {**inputs, **dict(module.named_parameters())}
