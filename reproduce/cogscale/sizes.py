"""What CogScale's code makes of a budget of parameters, without the package: widths of its
baselines, by the inputs and outputs of each task."""

from __future__ import annotations

import math

BUDGET = 100_000
LSTM, GRU, MAMBA, DECODER = (f"cogscale_{name}" for name in ("lstm", "gru", "mamba", "decoder"))
MODELS = (LSTM, GRU, MAMBA, DECODER)
LAYERS, HEADS = 2, 2  # of the transformer and of Mamba
# At the budget of 100,000, for all inputs and outputs of the package's tasks.
WIDTH_OF_MAMBA = 80
# Channels in and out, small and medium. First comes what takes seconds, then what tells baselines
# apart by most, then short sequences before long ones: what is stopped early has whole tasks.
CHANNELS: dict[str, dict[str, tuple[int, int]]] = {
    "sinus_forecasting": {"small": (1, 1), "medium": (1, 1)},
    "chaotic_forecasting": {"small": (3, 3), "medium": (3, 3)},
    "sorting_problem": {"small": (14, 3), "medium": (29, 8)},
    "adding_problem": {"small": (5, 5), "medium": (10, 15)},
    "associative_recall": {"small": (5, 5), "medium": (16, 16)},
    "cross_situation": {"small": (13, 18), "medium": (19, 28)},
    "induction_heads": {"small": (3, 3), "medium": (8, 8)},
    "discrete_postcasting": {"small": (3, 3), "medium": (8, 8)},
    "continuous_postcasting": {"small": (1, 1), "medium": (1, 1)},
    "simple_copy": {"small": (4, 3), "medium": (9, 8)},
    "selective_copy": {"small": (5, 3), "medium": (10, 8)},
    "bracket_matching": {"small": (3, 2), "medium": (3, 2)},
    "discrete_pattern_completion": {"small": (4, 3), "medium": (9, 8)},
    "continuous_pattern_completion": {"small": (1, 1), "medium": (1, 1)},
}
FORECASTING = ("sinus_forecasting", "chaotic_forecasting")  # one sequence: a batch, and an epoch


def width_of(model: str, task_name: str, difficulty: str) -> int:
    """The width of a baseline: the largest whose estimated count is within the budget.

    Their code counts one bias for each gate of an LSTM where torch has two, and no biases or norms
    of the transformer, so that the true counts are 96,000 to 102,000.
    """
    inputs, outputs = CHANNELS[task_name][difficulty]
    if model == MAMBA:
        return WIDTH_OF_MAMBA
    if model == DECODER:
        width = _root(12 * LAYERS, inputs + outputs, -BUDGET)
        return width - width % HEADS
    gates, biases = (4, 4) if model == LSTM else (3, 6)
    return _root(gates, gates * inputs + biases + outputs, outputs - BUDGET)


def _root(a: int, b: int, c: int) -> int:
    """The larger root of a x² + b x + c, rounded down."""
    return int((-b + math.sqrt(b * b - 4 * a * c)) / (2 * a))
