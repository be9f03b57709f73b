"""Two tokens at an angle, full-batch gradient descent from zero: what can be seen by eye.

N = M = d = 2, U the identity, e_1 = (1, 0), e_2 = (a, √(1 − a²)), p = (p_1, 1 − p_1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from tasks.measurement import Build
from tasks.optimisation.fixed import matrix_memory
from tasks.training_dynamics.descent import Trajectory, descend

Cell = tuple[float, float, float]  # overlap a, probability p_1, learning rate


def two_tokens(
    build: Build,
    cells: Sequence[Cell],
    steps: int,
    device: torch.device | str,
    dtype: torch.dtype = torch.float64,
) -> Trajectory:
    """Descent of all cells at once, each a trial.

    With equal frequencies both margins are equal at every step, but large steps amplify whatever
    rounding makes of that: what then happens is a matter of the float type, ``dtype``.
    """
    overlap, first, lr = torch.tensor(cells, dtype=dtype, device=device).T
    embedding = torch.zeros(len(cells), 2, 2, dtype=dtype, device=device)
    embedding[:, 0, 0] = 1
    embedding[:, 1] = torch.stack([overlap, (1 - overlap**2).sqrt()], -1)
    readout = torch.eye(2, dtype=dtype, device=device).expand(len(cells), 2, 2)
    model = matrix_memory(build, embedding, readout, torch.zeros_like(readout))
    probabilities = torch.stack([first, 1 - first], -1)
    classes = torch.arange(2, device=device)
    return descend(model, classes, probabilities, lr.expand(steps, -1))


def first_row(margins: Tensor, overlap: float) -> Tensor:
    """W_1 from its margins: as both rows of the gradient of W add up to zero, so do those of W, and
    2 W_1·e_1 and -2 W_1·e_2 are the margins.

    Args:
        margins: (..., 2), float64.
        overlap: a, between -1 and 1.

    Returns:
        (..., 2), W_11 and W_12: the plane that descent from zero never leaves.
    """
    # 2 W_1·e_1 = m_1 and −2 W_1·e_2 = m_2 with e_2 = (a, √(1 − a²)).
    along, across = margins[..., 0] / 2, -margins[..., 1] / 2
    return torch.stack([along, (across - overlap * along) / math.sqrt(1 - overlap**2)], -1)


def grid(points: int) -> tuple[list[float], list[float], list[float]]:
    """Axes of the published map: p_1 = sigmoid of 10^-0.5 … 10^0.5, learning rates 0.1 … 10, both
    by equal factors, and overlaps 0.5 … 1."""
    first = torch.sigmoid(torch.logspace(-0.5, 0.5, points, dtype=torch.float64))
    lr = torch.logspace(-1, 1, points, dtype=torch.float64)
    overlap = torch.linspace(0.5, 1, points, dtype=torch.float64)
    return first.tolist(), lr.tolist(), overlap.tolist()


def first_perfect_map(
    build: Build, points: int, horizon: int, device: torch.device | str
) -> list[list[list[int | None]]]:
    """First step with both answers right, [p_1][learning rate][overlap]; None: not within reach."""
    first, lrs, overlaps = grid(points)
    cells = [(a, p, lr) for p, lr, a in product(first, lrs, overlaps)]
    flat = two_tokens(build, cells, horizon, device).first_perfect()
    # In the order of ``product``: overlap runs fastest, p_1 slowest.
    rows = [flat[k : k + points] for k in range(0, len(flat), points)]
    return [rows[k : k + points] for k in range(0, len(rows), points)]


def margin_growth(
    build: Build, first: float, steps: int, device: torch.device | str
) -> tuple[list[int], Tensor, Tensor]:
    """Orthogonal tokens, step 1: margins against ln(2 · lr · p(x) · t).

    Returns:
        Steps t, about 20 for each factor of 10 from t = 10; measured and predicted margins, both
        (len(t), 2).
    """
    margins = two_tokens(build, [(0.0, first, 1.0)], steps, device).margins[:, 0]
    decades = math.log10(steps)
    count = max(2, round(20 * (decades - 1)) + 1)
    t = torch.logspace(1, decades, count, dtype=torch.float64).round().long().unique()
    p = torch.tensor([first, 1 - first], dtype=torch.float64)
    return t.tolist(), margins[t], (2 * p * t[:, None]).log()
