"""Outputs of a computation with the gradients of all that went in, to compare two of them."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tests.closeness import assert_near


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


def assert_derivatives_near(
    actual: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    leaves: Mapping[str, Tensor],
    **options: Any,
) -> None:
    """Two results of :func:`with_gradients` are near, each relative to what was summed in it.

    A gradient is a sum over all ways from its leaf θ to the outputs y, and a sum may be 0, as that
    of a key is where a softmax has one score. Its terms are not: a relative change of θ makes one
    of y that is ``condition`` times as large at most, in each of the ways, so that a term of
    θ dL/dθ is as large as ``condition`` times y. ``condition`` is a factor of every tolerance, and
    what is left for the gradient is the size of y over that of θ.

    Args:
        options: as of :func:`tests.closeness.assert_near`, but ``largest``.
    """
    outputs = float(expected["outputs"].abs().max())
    sizes = {"outputs": outputs}
    for name, leaf in leaves.items():
        gradient = float(expected[name].abs().max())
        size = float(leaf.detach().square().mean().sqrt())  # the typical size, of many elements
        sizes[name] = max(gradient, outputs / size) if size > 0 else gradient
    assert_near(actual, expected, largest=sizes, **options)


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
