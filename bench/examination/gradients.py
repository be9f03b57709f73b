"""Gradients of outputs with respect to what comes in, position by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

LOOK_UPS = (functional.embedding, torch.embedding, Tensor.__getitem__)


class _Embedded(TorchFunctionMode):
    """Notes the vectors that tokens are looked up as, whichever module does it.

    Args:
        tokens: int64 (batch, time); only what is looked up by these very tokens counts.
    """

    def __init__(self, tokens: Tensor) -> None:
        super().__init__()
        self.tokens, self.vectors = tokens, list[Tensor]()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in LOOK_UPS and any(map(self._is_tokens, [*args, *(kwargs or {}).values()])):
            if result.is_leaf and not result.requires_grad and result.is_floating_point():
                result.requires_grad_()
            if result.requires_grad:
                self.vectors.append(result)
        return result

    def _is_tokens(self, value: Any) -> bool:
        return (
            isinstance(value, Tensor)
            and value.shape == self.tokens.shape
            and not value.is_floating_point()
            and torch.equal(value.to(self.tokens.dtype), self.tokens)
        )


def gradients_of(
    call: Callable[[Tensor], Tensor],
    inputs: Tensor,
    weights: Callable[[Tensor], Tensor],
    parameters: Sequence[Tensor],
) -> tuple[Tensor, list[Tensor], list[Tensor | None]]:
    """Outputs, and gradients of a weighted sum of them.

    Args:
        call: inputs -> outputs.
        inputs: int64 (batch, time), or real (batch, time, channels).
        weights: outputs -> their weights, of the same shape.
        parameters: whose gradients are asked for too.

    Returns:
        The outputs; the gradients by the inputs, (batch, time, width): by the channels, or by the
        vectors of the tokens, once for each table that they are looked up in, and not at all where
        none was seen; and by ``parameters``, None where the outputs do not lead to one.
    """
    with torch.enable_grad():
        outputs, vectors = _outputs_and_vectors(call, inputs)
        if not outputs.requires_grad:
            return outputs, [], [None] * len(parameters)
        total = (outputs * weights(outputs.detach())).sum()
        try:
            gradients: Sequence[Tensor | None] = torch.autograd.grad(
                total, [*vectors, *parameters], allow_unused=True
            )
        except RuntimeError as error:
            if "use_reentrant" not in str(error):
                raise
            # Checkpoints of that kind know backward() alone, as a training calls it.
            outputs, vectors = _outputs_and_vectors(call, inputs)
            total = (outputs * weights(outputs.detach())).sum()
            gradients = _by_backward(total, [*vectors, *parameters])
    by_inputs = []
    for gradient in gradients[: len(vectors)]:
        if gradient is not None and gradient.shape[:2] == inputs.shape[:2]:
            by_inputs.append(gradient.reshape(*inputs.shape[:2], -1))
    return outputs.detach(), by_inputs, list(gradients[len(vectors) :])


def _outputs_and_vectors(
    call: Callable[[Tensor], Tensor], inputs: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and what of the inputs has gradients: channels, or vectors of tokens."""
    if inputs.is_floating_point():
        leaf = inputs.detach().clone().requires_grad_()
        return call(leaf), [leaf]
    with _Embedded(inputs) as watch:
        outputs = call(inputs)
    return outputs, watch.vectors


def _by_backward(total: Tensor, tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """Gradients of a number by tensors, whose ``grad`` is as before afterwards."""
    before = [tensor.grad if tensor.is_leaf else None for tensor in tensors]
    for tensor in tensors:
        if tensor.is_leaf:
            tensor.grad = None
        else:
            tensor.retain_grad()
    total.backward()
    gradients = [tensor.grad for tensor in tensors]
    for tensor, gradient in zip(tensors, before, strict=True):
        tensor.grad = gradient
    return gradients


def without_gradient(model: nn.Module, gradients: Sequence[Tensor | None]) -> list[str]:
    """The names of trained parameters whose gradient is missing or zero everywhere.

    Args:
        gradients: of the parameters that need one, in the order of the model.
    """
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    pairs = zip(names, gradients, strict=True)
    return [name for name, gradient in pairs if gradient is None or not bool(gradient.any())]
