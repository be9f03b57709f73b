"""How close predictions are to the automata: accuracy and total variation distance by position.

Predictions are made at every input token but for the last token of a sequence, which is no input.
They are about the next letter given that the string goes on: a separator is never asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.interface import Evaluation
from tasks.regbench.automata import SEPARATOR, VOCABULARY
from tasks.regbench.counter import Integers
from tasks.regbench.generator import Sequences

CURVE_LENGTH = 300
"""Longest prefix, in tokens, of the curves by position (Akyürek et al. 2024)."""

Floats = NDArray[np.floating[Any]]


def input_positions(sequences: Sequences) -> Integers:
    """Places of the inputs in ``sequences.tokens``, int64 (inputs,); the target of each is the
    token after it."""
    is_input = np.ones(len(sequences.tokens), dtype=bool)
    # The last token of a sequence is only a target.
    is_input[sequences.offsets[1:] - 1] = False
    return np.flatnonzero(is_input)


def legal_distribution(sequences: Sequences) -> NDArray[np.float64]:
    """The true probabilities at every input, (inputs, vocabulary): uniform over the letters that
    leave the state of the automaton."""
    legal = sequences.legal[input_positions(sequences), None] >> np.arange(VOCABULARY) & 1
    return legal / legal.sum(axis=1, keepdims=True)


def measure(log_probabilities: Floats, sequences: Sequences) -> Evaluation:
    """The metrics of predictions on a whole split.

    Totals are over all positions of the split, divided by their number:

    - ``accuracy``: share of positions at which the most probable token is a legal letter, among
      those that a letter follows. The smallest token wins a tie.
    - ``tvd``: ½ Σ_c |p̂(c) − p(c)| against the true distribution p, at all inputs, ends of strings
      included.
    - ``token_accuracy`` and ``loss`` (cross-entropy, nats) against the letter that was sampled.
    - ``accuracy_last``, ``tvd_last``: at the last input of every sequence alone.

    Per sequence: accuracy, tvd, loss. Curves: accuracy and tvd against the number of tokens seen,
    up to 300, as a mean over the sequences that reach it.

    Args:
        log_probabilities: (inputs, 20), natural logarithms, in the order of ``input_positions``.
    """
    places = input_positions(sequences)
    targets = sequences.tokens[places + 1].astype(np.int64)
    in_string = targets != SEPARATOR
    truth = legal_distribution(sequences)
    rows = np.arange(len(places))
    guess = log_probabilities.argmax(axis=1)

    valid = truth[rows, guess] > 0
    # With the ½, as in the published figures; the released training script logs the sum without it.
    distance = 0.5 * np.abs(np.exp(log_probabilities) - truth).sum(axis=1)
    surprise = -log_probabilities[rows, targets].astype(np.float64)

    counts = sequences.lengths - 1
    starts = np.cumsum(counts) - counts
    everywhere = np.ones(len(places), dtype=bool)

    def by_sequence(values: NDArray[Any], where: NDArray[np.bool_]) -> NDArray[np.float64]:
        totals = np.add.reduceat(np.where(where, values, 0.0), starts)
        return totals / np.add.reduceat(where.astype(np.int64), starts)

    # Tokens that the prediction has seen, from 1.
    seen = rows - np.repeat(starts, counts) + 1
    last = starts + counts - 1
    return Evaluation(
        metrics={
            "accuracy": float(valid[in_string].mean()),
            "tvd": float(distance.mean()),
            "accuracy_last": float(valid[last].mean()),
            "tvd_last": float(distance[last].mean()),
            "token_accuracy": float((guess == targets)[in_string].mean()),
            "loss": float(surprise[in_string].mean()),
        },
        per_sequence={
            "accuracy": by_sequence(valid, in_string).tolist(),
            "tvd": by_sequence(distance, everywhere).tolist(),
            "loss": by_sequence(surprise, in_string).tolist(),
        },
        curves={
            "accuracy": _curve(seen, valid, in_string),
            "tvd": _curve(seen, distance, everywhere),
        },
    )


def _curve(
    seen: Integers, values: NDArray[Any], where: NDArray[np.bool_]
) -> dict[str, list[float]]:
    where = where & (seen <= CURVE_LENGTH)
    counts = np.bincount(seen[where], minlength=CURVE_LENGTH + 1)
    totals = np.bincount(seen[where], weights=values[where], minlength=CURVE_LENGTH + 1)
    reached = np.flatnonzero(counts)
    return {"x": reached.astype(float).tolist(), "y": (totals[reached] / counts[reached]).tolist()}
