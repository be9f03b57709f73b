"""How much of an ideal associative memory a matrix recalls.

Source: Bietti et al., "Birth of a Transformer: A Memory Viewpoint" (2023, arXiv 2306.00802),
section 4: R(W, W*) = (1/M) Σ_i 1{i = argmax_j v_jᵀ W u_i} for W* = Σ_i v_i u_iᵀ.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Induction(Protocol):
    """A model of two layers whose memories can be read; see ``TwoLayerAttention``."""

    def output_scores(self) -> Tensor: ...
    def token_scores(self) -> Tensor: ...
    def position_scores(self) -> Tensor: ...


def recall(scores: Tensor) -> float:
    """The share of rows of scores (items, items) whose largest entry is on the diagonal."""
    return float((scores.argmax(1).cpu() == torch.arange(len(scores))).float().mean())


def output_recall(model: Induction) -> float:
    """W_O²: an attended token gives the same token as output."""
    return recall(model.output_scores())


def token_recall(model: Induction, among: Tensor | None = None) -> float:
    """W_K²: a token looks for the position that follows the same token; within some tokens, int64
    (number,), or within all."""
    scores = model.token_scores()
    return recall(scores if among is None else scores[among][:, among])


def position_recall(model: Induction, positions: int | None = None) -> float:
    """W_K¹: a position looks at the one before it; of the first ``positions``, or of all."""
    scores = model.position_scores()[:positions, :positions]
    # Row t + 1 and column t meet on the diagonal.
    return recall(scores[1:, :-1])
