"""The gradient of cross-entropy in closed form, as a sum of associations.

Bietti et al. 2023, Birth of a Transformer (arXiv 2306.00802), and the slides "Associative memories
as a tractable building block in transformers". Here a matrix acts on row vectors, x W, so that an
association of an input x with class k is the outer product x v_k^T.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.associative.embedded import EmbeddedMemory


def clean_gradient(weight: Tensor, inputs: Tensor, outputs: Tensor, joint: Tensor) -> Tensor:
    """Σ_k E_z[(p̂_W(k|z) − p(k|z)) u_z v_k^T], the lemma without noise.

    Args:
        weight: (trials, d, d).
        inputs: (trials, tokens, d), u_z.
        outputs: (trials, classes, d), v_k.
        joint: (tokens, classes), p(z, k).

    Returns:
        (trials, d, d).
    """
    predicted = (inputs @ weight @ outputs.mT).softmax(-1)
    p_of_z = joint.sum(-1, keepdim=True)
    # p(z) p̂(k|z) − p(z, k) = p(z) (p̂ − p)(k|z), summed as outer products u_z v_kᵀ.
    return inputs.mT @ (p_of_z * predicted - joint) @ outputs


def noisy_gradient(weight: Tensor, inputs: Tensor, outputs: Tensor, joint: Tensor) -> Tensor:
    """Σ_k p(k) (μ̂_k − μ_k) v_k^T with μ_k = E[x|k] and μ̂_k = E[p̂_W(k|x) x] / p(k), the lemma for
    inputs that vary beside what they stand for.

    Args:
        weight: (trials, d, d).
        inputs: (trials, inputs, d), the values x that occur.
        outputs: (trials, classes, d), v_k.
        joint: (inputs, classes), p(x, k), where every class occurs.

    Returns:
        (trials, d, d).
    """
    p_of_k = joint.sum(0)
    predicted = (inputs @ weight @ outputs.mT).softmax(-1)
    means = inputs.mT @ (joint / p_of_k)  # (trials, d, classes)
    # The divisions by p(k) cancel in the product below; they are there to test the lemma as stated.
    believed = inputs.mT @ (joint.sum(-1, keepdim=True) * predicted / p_of_k)
    return ((believed - means) * p_of_k) @ outputs


def autograd_gradient(model: EmbeddedMemory, inputs: Tensor, joint: Tensor) -> Tensor:
    """The same by automatic differentiation of the population's cross-entropy.

    Args:
        model: a matrix memory with one trained tensor.
        inputs: (trials, inputs, d).
        joint: (inputs, classes).

    Returns:
        (trials, d, d), the gradient of its only parameter.
    """
    (parameter,) = model.parameters()
    loss = -(model.read(inputs).log_softmax(-1) * joint).sum()
    return torch.autograd.grad(loss, parameter)[0]
