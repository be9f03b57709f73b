"""Which weighting scheme q a training has found: W − W₀ = Σ_z q(z) u_z v_f(z)^T + …"""

from __future__ import annotations

import torch
from torch import Tensor


def induced_weights(change: Tensor, embedding: Tensor, readout: Tensor, classes: Tensor) -> Tensor:
    """q(z): how much of the association of z with its own class a matrix has gained.

    With at least as many dimensions as tokens and as classes the embeddings are independent and
    the coefficients of all u_z v_k^T are unique; those of the other classes are left out.

    Args:
        change: (trials, d, d), W − W₀.
        embedding: (trials, tokens, d).
        readout: (trials, d, classes).
        classes: int64 (tokens,), the class of each token.

    Returns:
        (trials, tokens), float64.
    """
    left = torch.linalg.pinv(embedding.double())  # (trials, d, tokens)
    right = torch.linalg.pinv(readout.double())  # (trials, classes, d)
    # W − W₀ = Eᵀ Q Uᵀ for embeddings E and read-out U: pseudoinverses on both sides leave Q.
    coefficients = left.mT @ change.double() @ right.mT
    return coefficients[:, torch.arange(len(classes)), classes]


def exponents(weights: Tensor, counts: Tensor) -> Tensor:
    """Slope of log q(z) against log c_z over the tokens that were seen and have a positive weight.

    1 is the scheme that counts (q ~ p), 0 the one that only knows what was seen (q = 1).

    Args:
        weights: (trials, tokens).
        counts: (trials, tokens), how often each token was seen.

    Returns:
        (trials,) float64; NaN where fewer than two counts differ.
    """
    used = (counts > 0) & (weights > 0)
    x = torch.where(used, counts.double(), 1.0).log()
    y = torch.where(used, weights.double(), 1.0).log()
    number = used.sum(-1, keepdim=True)
    # Centred logs of counts: the slope of a straight line needs no centring of y.
    x = torch.where(used, x - x.sum(-1, keepdim=True) / number, 0.0)
    return (x * y).sum(-1) / (x**2).sum(-1)
