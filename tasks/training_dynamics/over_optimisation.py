"""A matrix of two dimensions that cannot hold all tokens: the lowest loss is not the fewest errors.

Tokens are points on the circle, labels alternate, and the answer is the sign of e·δ, where δ is the
difference of the two columns of W. Directions δ are all that the error depends on.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

NEWTON_STEPS = 100
HALVINGS = 30


def fewest_errors(points: Tensor, signs: Tensor, probabilities: Tensor) -> Tensor:
    """(draws,) the lowest probability of a wrong answer over all δ, exactly: the answers change
    only where δ is orthogonal to a point, so that one direction in each arc between is enough.

    Args:
        points: (draws, tokens, 2), float64.
        signs: (tokens,), +1 or −1.
        probabilities: (tokens,).
    """
    angles = torch.atan2(points[..., 1], points[..., 0])
    # An answer changes sign where δ is orthogonal to its point: two edges for each.
    edges = torch.cat([angles + torch.pi / 2, angles - torch.pi / 2], -1) % (2 * torch.pi)
    edges = edges.sort(-1).values
    following = torch.cat([edges[:, 1:], edges[:, :1] + 2 * torch.pi], -1)
    # The middle of an arc stands for it: answers are the same all over it.
    middle = (edges + following) / 2
    directions = torch.stack([middle.cos(), middle.sin()], -1)  # (draws, arcs, 2)
    answers = directions @ points.mT * signs
    return ((answers <= 0) * probabilities).sum(-1).amin(-1)


def lowest_loss(points: Tensor, signs: Tensor, probabilities: Tensor) -> Tensor:
    """(draws, 2) δ with the lowest cross-entropy, by Newton's method with halved steps.

    Where all answers can be right there is no minimum, and a long δ with all of them right comes
    out. Arguments as :func:`fewest_errors`.
    """
    signed = points * signs[:, None]
    delta = torch.zeros_like(points[:, 0])

    def loss(delta: Tensor) -> Tensor:
        margins = (signed @ delta[..., None])[..., 0]
        return (functional.softplus(-margins) * probabilities).sum(-1)

    for _ in range(NEWTON_STEPS):
        # 1 − p of the right answer, by which each point pulls.
        doubt = torch.sigmoid(-(signed @ delta[..., None])[..., 0])
        gradient = -((doubt * probabilities)[..., None] * signed).sum(-2)
        curvature = (signed.mT * (doubt * (1 - doubt) * probabilities)[:, None]) @ signed
        # Far out on separable points the curvature vanishes before the loss does.
        curvature = curvature + 1e-12 * torch.eye(2, dtype=points.dtype, device=points.device)
        step = torch.linalg.solve(curvature, gradient)
        scale = torch.ones(len(points), 1, dtype=points.dtype, device=points.device)
        before = loss(delta)
        for _ in range(HALVINGS):
            # ``~(… <= …)`` is true of NaN too: a step into overflow is halved as well.
            worse = ~(loss(delta - scale * step) <= before)
            scale = torch.where(worse[:, None], scale / 2, scale)
        # Where thirty halvings were not enough the old δ stays.
        delta = torch.where(
            (loss(delta - scale * step) <= before)[:, None], delta - scale * step, delta
        )
    return delta


def errors(delta: Tensor, points: Tensor, signs: Tensor, probabilities: Tensor) -> Tensor:
    """(draws,) probability of a wrong answer. Arguments as :func:`fewest_errors`."""
    answers = (points @ delta[..., None])[..., 0] * signs
    return ((answers <= 0) * probabilities).sum(-1)


def orthogonal_points(draws: int, tokens: int, generator: torch.Generator) -> Tensor:
    """(draws, tokens, tokens) float64: as many random directions as dimensions, each orthogonal to
    the others, so that what is learned of one leaves the others as they are."""
    drawn = torch.randn(draws, tokens, tokens, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(drawn)
    # The signs in r are LAPACK's choice. With a positive diagonal every orientation is as likely.
    return q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None]
