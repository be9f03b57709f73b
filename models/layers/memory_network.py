"""The perceptron that a neural memory is: its reading, and its gradient in closed form.

Layers without biases and an activation between them (Behrouz, Zhong and Mirrokni 2025, "Titans:
learning to memorize at test time", arXiv 2501.00663, section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Activation = Literal["silu", "gelu"]
Weights = tuple[Tensor, ...]


def initial_weights(key_size: int, value_size: int, depth: int, width: int) -> Weights:
    """Weights (outputs, inputs) of each layer: N(0, 2/inputs), the last layer 0.

    So an empty memory reads zeros, and its first gradients are not zero.

    Args:
        key_size: inputs of the first layer.
        value_size: outputs of the last layer.
        depth: number of layers; 1 is a matrix.
        width: outputs of all layers but the last.

    Raises:
        ValueError: a size below 1.
    """
    if depth < 1 or width < 1:
        raise ValueError(
            f"a memory of depth={depth} and width={width} has no weights; set both to 1 or more"
        )
    sizes = [key_size, *[width] * (depth - 1)]
    hidden = (
        torch.randn(outputs, inputs) * math.sqrt(2 / inputs) for inputs, outputs in pairwise(sizes)
    )
    return (*hidden, torch.zeros(value_size, sizes[-1]))


def read_memory(weights: Weights, queries: Tensor, activation: Activation) -> Tensor:
    """M(q): queries (*batch, time, key size) -> (*batch, time, value size)."""
    return forward(queries, [times(layer) for layer in weights], activation)


def surprise(
    weights: Weights, keys: Tensor, values: Tensor, activation: Activation
) -> list[tuple[Tensor, Tensor]]:
    """Gradient of ‖M(k) − v‖² in the weights of each layer, at each position: the outer product of
    the errors (*batch, time, outputs) with the inputs (*batch, time, inputs) of that layer.

    Returns:
        (inputs, errors) of each layer.
    """
    inputs, outputs = [keys], [keys @ weights[0].mT]
    for layer in weights[1:]:
        inputs.append(getattr(functional, activation)(outputs[-1]))
        outputs.append(inputs[-1] @ layer.mT)
    # The loss is ‖·‖² without ½ (equation 12), hence the 2.
    errors = [2 * (outputs[-1] - values)]
    # From the last layer to the second; the slopes are those of the layer before.
    for layer, preceding in zip(weights[:0:-1], outputs[-2::-1], strict=True):
        errors.append((errors[-1] @ layer) * _slope(preceding, activation))
    return list(zip(inputs, reversed(errors), strict=True))


def times(layer: Tensor) -> Callable[[Tensor], Tensor]:
    """A layer as a function of its inputs."""
    return lambda x: x @ layer.mT


def forward(x: Tensor, layers: list[Callable[[Tensor], Tensor]], activation: Activation) -> Tensor:
    """The perceptron: layers with the activation between them."""
    for layer in layers[:-1]:
        x = getattr(functional, activation)(layer(x))
    return layers[-1](x)


def _slope(x: Tensor, activation: Activation) -> Tensor:
    """Derivative of the activation."""
    if activation == "silu":
        sigmoid = torch.sigmoid(x)
        return sigmoid * (1 + x * (1 - sigmoid))
    # Of the exact GELU, x Φ(x); MLPs in the residual wrapper have the tanh form.
    density = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
    return torch.special.ndtr(x) + x * density
