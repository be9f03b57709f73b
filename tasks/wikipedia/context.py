"""What a model gets from its context, with everything else equal.

Loss by position mixes what is read with how much came before it. Two measurements separate them:

- *same targets*: the last tokens of each article window are scored with windows that begin earlier
  and earlier, and once with the context of another article, which can tell them nothing;
- *repeat*: random tokens, then the same tokens again. Only a model that looks up what followed a
  token before (an induction head; Olsson et al. 2022, arXiv 2209.11895) is better the second time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Losses = NDArray[np.float64]
Tokens = NDArray[np.int64]
Measure = Callable[[Tokens], Losses]  # windows (rows, length + 1) -> losses (rows, length)

TARGETS = 64  # tokens at the end of a window, and the step by which contexts grow
REPEATED = 64  # random sequences
REPEAT_SEED = 0


def contexts(length: int) -> list[int]:
    """Tokens of context before the targets, from none to all of a window."""
    targets = targets_of(length)
    return list(range(0, length - targets + 1, targets))


def targets_of(length: int) -> int:
    """How many tokens at the end of a window are scored."""
    return min(TARGETS, length // 2)


def same_targets(windows: Tokens, measure: Measure) -> dict[str, Losses]:
    """Losses of the same targets, float64 (windows,) each.

    Args:
        windows: int64 (windows, length + 1), each the beginning of another article.

    Returns:
        "context_64_loss" for 64 tokens of context, and so on; "other_context_loss" with as many as
        there are, of the article before it in the list.
    """
    length = windows.shape[1] - 1
    targets = targets_of(length)
    losses_by_name = {
        f"context_{context}_loss": measure(windows[:, length - targets - context :])
        for context in contexts(length)
    }
    # The context of the article before it in the list: real text, of the same length, about another
    # thing.
    swapped = windows.copy()
    swapped[:, : length - targets] = np.roll(windows[:, : length - targets], 1, axis=0)
    losses_by_name["other_context_loss"] = measure(swapped)
    return {name: losses[:, -targets:].mean(axis=1) for name, losses in losses_by_name.items()}


def repeated(length: int, vocabulary: int, measure: Measure) -> dict[str, Losses]:
    """Losses of random tokens and of the same tokens again, float64 (sequences,) each.

    The first token of the repetition is left out: nothing foretells where it begins.
    """
    half = length // 2
    # Raw numbers of Philox: the same in every version of NumPy.
    raw = np.random.Philox(key=REPEAT_SEED).random_raw(REPEATED * half)
    once = (raw % np.uint64(vocabulary)).astype(np.int64).reshape(REPEATED, half)
    losses = measure(np.concatenate((once, once), axis=1))
    return {
        # The same positions of both halves, without the last of the first: its target is where the
        # repetition begins.
        "repeat_first_loss": losses[:, : half - 1].mean(axis=1),
        "repeat_second_loss": losses[:, half:].mean(axis=1),
    }
