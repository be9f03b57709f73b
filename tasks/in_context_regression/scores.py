"""What answers to queries are worth, and which predictor's they are near."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tasks.in_context_regression.draws import Drawn, Numbers
from tasks.in_context_regression.predictors import STEPS, label_of
from tasks.interface import Evaluation

NEAR = {"ridge (oracle)": "from_ridge"} | {
    label_of(steps): f"from_{label_of(steps).replace(' gradient ', '_')}" for steps in STEPS
}


def measured(
    answers: Numbers, drawn: Drawn, known: Mapping[str, Numbers], **metrics: float
) -> Evaluation:
    """All metrics of answers (sequences, queries).

    ``error`` is the squared error against the value without its noise: its mean over all queries,
    ``error_at_dimension`` after as many pairs as the vectors have numbers, ``error_at_end`` after
    all pairs. ``from_ridge``, ``from_1_step`` … are mean squared differences from the answers of
    the predictors. The curves have one value for each number of pairs, from 0.

    Args:
        known: label -> answers of the predictors on the same sequences.
    """
    # Against the function itself: a noisy value has an error that nobody can avoid.
    squares = (answers - drawn.values) ** 2
    size = drawn.vectors.shape[-1]
    items = {
        "error": squares.mean(1),
        "error_at_dimension": squares[:, size],
        "error_at_end": squares[:, -1],
    }
    apart = {name: (answers - known[label]) ** 2 for label, name in NEAR.items()}
    items |= {name: difference.mean(1) for name, difference in apart.items()}
    pairs = np.arange(float(squares.shape[1])).tolist()
    return Evaluation(
        {**metrics, **{name: float(values.mean()) for name, values in items.items()}},
        per_sequence={name: values.tolist() for name, values in items.items()},
        curves={
            f"{name}_by_pairs": {"x": pairs, "y": values.mean(0).tolist()}
            for name, values in {"error": squares, **apart}.items()
        },
    )
