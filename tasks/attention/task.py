"""Average attention of the last position of a window (Memory Mosaics, appendix D.4, Figures 14-16).

A transformer keeps a part of its attention on the first positions, whatever is there; the memories
of a Mosaic look at the whole context alike, but for a peak at the newest positions. Only the
weights with which the last position reads are computed: no map of time × time is ever held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tasks.babistories import BabiStories
from tasks.interface import Evaluation, Metric, Split
from tasks.text.stream import TokenStream
from tasks.text.windows import Positions, cut, evenly, windows_sha256

POSITIONS_AT_ONCE = 2**13
RECENT = 8  # the newest eighth of the context is left out of what is called flat
DIGITS = 8


class AttentionOfStories(BabiStories):
    """Attention of the last position on windows of the validation file, averaged over windows.

    Example: a window of 12 tokens, as one of ``BabiStories``. Nothing is predicted for the measure,
    which is of the weights with which the last position reads the whole window:

        window   e|pper| b|ar|ked| and| wa|g|g|ed| its| t
        weights  a_1, a_2, … a_12 of each head, which add up to 1

    A flat head has 1/12 everywhere, ``first_position`` 1 and ``unevenness`` 0; one that keeps its
    attention on the start of the window, whatever stands there, has ``first_position`` up to 12.

    Args:
        windows: so many of each length, at most one for each token of the file; they overlap where
            the file is short.
        extension: the longer windows have so many times the training length.
        training: arguments of :class:`tasks.babistories.BabiStories`.

    Raises:
        ValueError: an argument that cannot be used.
    """

    headline: ClassVar[Metric] = Metric("first_position", "minimise", "times uniform")

    def __init__(self, *, windows: int = 5000, extension: int = 3, **training: Any) -> None:
        super().__init__(**training)
        if windows < 1 or extension < 1:
            raise ValueError(
                f"windows and extension must be at least 1, got {windows} and {extension}"
            )
        self.windows = windows
        self.extension = extension

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the texts of BabiStories, and of the windows whose last position is looked at,
        of both lengths."""
        hashes = super().data_hashes()
        for name, factor in (("windows", 1), ("extended_windows", self.extension)):
            stream, starts = self.attention_windows(factor)
            hashes[name] = windows_sha256(stream, starts, self.length * factor)
        return hashes

    def attention_windows(self, factor: int) -> tuple[TokenStream, Positions]:
        """Windows of ``factor`` times the training length, spread evenly over the file."""
        stream = self.stream("valid")
        places = stream.manifest.tokens - self.length * factor
        if places < 1:
            raise ValueError(
                f"the validation file holds {stream.manifest.tokens:,} tokens, too few for a "
                f"window of {self.length * factor}: give more text, or a smaller tasks.extension"
            )
        # Over all starts, so that a few windows stand for the whole file, whatever its size.
        return stream, evenly(places, self.windows)

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """The protocol on "test"; "validation" gives the loss on held-out stories alone, as every
        task of stories does.

        Raises:
            ValueError: the model has no attention that could be shown.
        """
        if split == "validation":
            evaluation = super().evaluate(model, split, device)
            uniform = {self.headline.name: 1.0}  # not measured there, and nothing is chosen by it
            return Evaluation({**evaluation.metrics, **uniform}, evaluation.per_sequence)
        model_: Any = model
        if not hasattr(model, "attention_of_last"):
            raise ValueError(
                f"{type(model).__name__} has no method attention_of_last, so it has no attention "
                "to show: choose memory_mosaic or gpt2"
            )
        metrics = {"loss": self.validation_loss(model, device)}
        curves: dict[str, dict[str, list[float]]] = {}
        arrays: dict[str, Any] = {"corpus": self.corpus_facts()}
        for name, factor in (("trained", 1), ("extended", self.extension)):
            limit = getattr(model, "context_limit", None)
            if limit is not None and self.length * factor > limit:
                continue  # a learned table of positions ends with the training length
            attention, noise = self._average(model, factor, device)
            arrays[name] = attention.round(DIGITS).tolist()
            curves[f"{name}_attention"] = _curve(attention)
            suffix = "" if factor == 1 else "_extended"
            metrics[f"first_position{suffix}"] = first_position(attention)
            metrics[f"unevenness{suffix}"] = unevenness(attention, noise)
        if hasattr(model, "leaky_coefficients"):
            arrays["leaky_coefficients"] = model_.leaky_coefficients().cpu().tolist()
        return Evaluation(metrics, {}, curves, arrays)

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Equal weights on all positions, at the training length."""
        return {"uniform attention": self._uniform}

    def _uniform(self, split: Split) -> Evaluation:
        flat = np.full((1, 1, self.length), 1 / self.length)
        metrics = {"first_position": first_position(flat), "unevenness": unevenness(flat)}
        return Evaluation(metrics, curves={"trained_attention": _curve(flat)})

    def _average(
        self, model: nn.Module, factor: int, device: torch.device | str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean over windows and the variance of that mean, float64 (layers, heads, time)."""
        model_: Any = model
        stream, starts = self.attention_windows(factor)
        length = self.length * factor
        rows = max(1, POSITIONS_AT_ONCE // length)
        total: NDArray[np.float64] | float = 0.0
        squares: NDArray[np.float64] | float = 0.0
        for begin in range(0, len(starts), rows):
            window = cut(stream, starts[begin : begin + rows], length)[:, :-1]
            attention_rows = model_.attention_of_last(torch.from_numpy(window).to(device)).double()
            total = total + attention_rows.sum(dim=1).cpu().numpy()
            squares = squares + attention_rows.square().sum(dim=1).cpu().numpy()
        count = len(starts)
        # E[x²] − E[x]² over n − 1: the unbiased variance over windows, divided by n.
        mean = np.asarray(total) / count
        return mean, (squares / count - mean**2) / max(1, count - 1)


def first_position(attention: NDArray[np.float64]) -> float:
    """Attention to the first position, mean over layers and heads, in units of 1 / time."""
    return float(attention[..., 0].mean() * attention.shape[-1])


def unevenness(attention: NDArray[np.float64], noise: NDArray[np.float64] | None = None) -> float:
    """Spread over all but the newest eighth of the positions, over its mean; 0 where it is flat.

    Mean over layers and heads of the coefficient of variation. ``noise``, the variance of each
    mean over windows, is subtracted: a flat curve of few windows is not uneven.
    """
    keep = attention.shape[-1] - attention.shape[-1] // RECENT
    old = attention[..., :keep]
    variance = old.var(axis=-1)
    if noise is not None:
        # A mean of few windows is uneven by chance alone, by the variance of the mean.
        variance = np.maximum(variance - noise[..., :keep].mean(axis=-1), 0)
    return float((np.sqrt(variance) / old.mean(axis=-1)).mean())


def _curve(attention: NDArray[np.float64]) -> dict[str, list[float]]:
    """Mean over layers and heads against the distance to the last position."""
    time = attention.shape[-1]
    mean = attention.mean(axis=(0, 1))
    return {"x": [float(time - 1 - t) for t in range(time)], "y": mean.tolist()}
