"""What is known without training: least squares, and a few steps of gradient descent towards it."""

from __future__ import annotations

import numpy as np

from tasks.in_context_regression.draws import Drawn, Functions, Numbers

STEPS = (1, 4, 16)


def label_of(steps: int) -> str:
    """ "1 gradient step", "4 gradient steps"."""
    return f"{steps} gradient step{'s' if steps > 1 else ''}"


def ridge(drawn: Drawn, penalty: float) -> Numbers:
    """Answers (sequences, queries), each by the least squares of the pairs before it.

    Args:
        penalty: on |w|². With 0 of all solutions the shortest. The noise variance over that of a
            weight gives the mean of Bayes, than which no predictor is better (Akyürek et al. 2022,
            arXiv 2211.15661, section 4).
    """
    count, queries, size = drawn.vectors.shape
    answers = np.zeros((count, queries))
    rows = np.broadcast_to(penalty**0.5 * np.eye(size), (count, size, size)) if penalty else None
    for k in range(1, queries):
        system, seen = drawn.vectors[:, :k], drawn.observed[:, :k, None]
        if rows is not None:
            # Ridge as least squares: d more rows √penalty · I with values 0.
            system = np.concatenate([system, rows], axis=1)
            seen = np.concatenate([seen, np.zeros((count, size, 1))], axis=1)
        # The pseudoinverse takes the shortest of all solutions while k < d.
        weights = np.linalg.pinv(system) @ seen
        answers[:, k] = (drawn.vectors[:, k, None] @ weights)[:, 0, 0]
    return answers


def descent(drawn: Drawn, noise: float, steps: int) -> Numbers:
    """Answers (sequences, queries) after so many gradient steps from w = 0.

    The loss is half the sum of squares over the pairs before a query. For k of them the step size
    is 1 / (k + d + 1 + d·noise²), with which one step has the smallest expected error for standard
    normal vectors: the expectation of (XᵀX)² is k (k + d + 1). More steps keep it but where it is
    not stable, at 2 over the largest eigenvalue of XᵀX and above: there the size is 1 over that.
    """
    count, queries, size = drawn.vectors.shape
    answers = np.zeros((count, queries))
    for k in range(1, queries):
        seen, values = drawn.vectors[:, :k], drawn.observed[:, :k, None]
        rate = np.full((count, 1, 1), 1 / (k + size + 1 + size * noise**2))
        if steps > 1:
            # The largest eigenvalue of XᵀX is the square of the largest singular value of X.
            largest = np.linalg.norm(seen, ord=2, axis=(1, 2), keepdims=True) ** 2
            rate = np.where(rate * largest < 2, rate, 1 / largest)
        weights = np.zeros((count, size, 1))
        for _ in range(steps):
            # w ← w + rate Xᵀ (y − X w), of all sequences at once.
            weights = weights + rate * seen.swapaxes(1, 2) @ (values - seen @ weights)
        answers[:, k] = (drawn.vectors[:, k, None] @ weights)[:, 0, 0]
    return answers


def references(functions: Functions, drawn: Drawn) -> dict[str, Numbers]:
    """Label -> answers (sequences, queries) of all predictors that need no training."""
    steps = {label_of(count): descent(drawn, functions.noise, count) for count in STEPS}
    # Noise variance over the variance 1/d of a weight.
    best = ridge(drawn, functions.dimension * functions.noise**2)
    return {"zero": np.zeros_like(best), **steps, "ridge (oracle)": best}
