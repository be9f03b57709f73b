"""What is measured of a predictor of the next token (Bietti et al. 2023, "Birth of a Transformer",
arXiv 2306.00802, section 4, and its released scripts)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tasks.bigram.sequences import Sequences
from tasks.bigram.table import Table
from tasks.interface import Evaluation

MOST_OCCURRENCES = 16  # on the curve of accuracy by occurrence
POSITIONS_AT_ONCE = 2**14

Predictor = Callable[[Sequences], Tensor]  # log-probabilities (sequences, time, vocabulary)


def measure(predictor: Predictor, sequences: Sequences, table: Table) -> Evaluation:
    """All metrics of a predictor.

    * ``loss``: cross-entropy, in nats, of the outputs that the past tells (c_t >= 2);
      ``in_context_accuracy``: how often the most probable token is that output;
      ``accuracy_without_repeats``: the same where the output is not the trigger itself;
    * ``first_occurrence_accuracy``: where c_t = 1 and nothing tells the output;
    * ``global_loss``: cross-entropy after ordinary tokens (c_t = 0), and ``global_divergence``:
      mean Kullback-Leibler divergence of π_b(· | z_t) from the prediction there, in nats;
    * curves: accuracy by occurrence (from 1 on), and in-context accuracy by position (from 1 on).

    A number without any position, or that is not finite, is left out.
    """
    occurrences, targets = sequences.occurrences(), sequences.targets
    loss, right, divergence = _by_position(predictor, sequences, table)
    in_context, first, ordinary = occurrences >= 2, occurrences == 1, occurrences == 0
    # Where an output is its own trigger, repeating the input is right without looking back.
    moved = in_context & (targets != sequences.inputs)
    metrics = {
        "loss": _mean(loss, in_context),
        "in_context_accuracy": _mean(right, in_context),
        "accuracy_without_repeats": _mean(right, moved),
        "first_occurrence_accuracy": _mean(right, first),
        "global_loss": _mean(loss, ordinary),
        "global_divergence": _mean(divergence, ordinary),
    }
    # Intervals are over sequences, so each counts once, however often its triggers occur.
    scored_rows = in_context.any(1)
    share = (right * in_context).sum(1)[scored_rows] / in_context.sum(1)[scored_rows]
    counts = range(1, min(MOST_OCCURRENCES, int(occurrences.max())) + 1)
    places = np.flatnonzero(in_context.any(0))
    return Evaluation(
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
        per_sequence={"in_context_accuracy": share.tolist()},
        curves={
            "accuracy_by_occurrence": {
                "x": [float(count) for count in counts],
                "y": [_mean(right, occurrences == count) for count in counts],
            },
            "in_context_accuracy_by_position": {
                "x": (places + 1.0).tolist(),
                "y": [_mean(right[:, place], in_context[:, place]) for place in places],
            },
        },
    )


def in_context_loss(predictor: Predictor, sequences: Sequences, table: Table) -> float:
    """``loss`` of ``measure`` alone."""
    return _mean(_by_position(predictor, sequences, table)[0], sequences.occurrences() >= 2)


def _by_position(
    predictor: Predictor, sequences: Sequences, table: Table
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cross-entropy, whether it was right, and divergence of π_b: each (sequences, time)."""
    # Σ_j π_b log π_b of each row; the 1e-300 only spares the logarithm a zero that is not taken.
    entropy = -np.where(table.of_next > 0, table.of_next * np.log(table.of_next + 1e-300), 0).sum(1)
    of_next = torch.from_numpy(table.of_next).float()
    batches: list[tuple[np.ndarray, ...]] = []
    size = max(1, POSITIONS_AT_ONCE // sequences.inputs.shape[1])
    for start in range(0, len(sequences.tokens), size):
        rows = sequences.rows(start, start + size)
        predicted = predictor(rows).float().cpu()
        targets = torch.from_numpy(rows.targets)
        losses = -predicted.gather(-1, targets[..., None])[..., 0]
        hits = predicted.argmax(-1) == targets
        weights = of_next[torch.from_numpy(rows.inputs)]
        # 0 log 0 = 0: a token that cannot follow costs nothing, however sure a predictor is of it.
        cross = torch.where(weights > 0, weights * predicted, 0.0).sum(-1)
        # KL(π_b ‖ prediction) = −Σ π_b log p̂ − H(π_b).
        divergence = -cross.numpy() - entropy[rows.inputs]
        batches.append((losses.numpy().astype(np.float64), hits.numpy(), divergence))
    loss, right, divergence = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return loss, right, divergence


def _mean(values: np.ndarray, where: np.ndarray) -> float:
    return float(values[where].mean()) if where.any() else math.nan
