"""Loss by position of runs on the encyclopedia: means over seeds, how much they and their
differences vary with the documents, and where two models cross.

All models are measured on the same windows and on the same draws of documents, so the difference of
two models' samples is that of a paired bootstrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.records.schema import RunRecord
from core.statistics import LOSS, Interval, Items, difference_interval
from reproduce.claims.grammar import Records, Runs, setting
from reproduce.plotting import models
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories.language import GPT2

KINDS = {
    "stream": "articles in one stream",
    "article": "the beginning of each article",
    "stories": "stories (control)",
}
ARTICLES = ("stream", "article")
BIN = 8  # positions of one kept bootstrap sample; see tasks.wikipedia
SMOOTH = 2  # bins that the crossing is read from

Band = tuple[int, int]  # positions from 1, both ends included
Losses = NDArray[np.float64]


class Stretch(NamedTuple):
    """The mean loss over a band of positions, or with ``last`` its fall from there to that band."""

    kind: str
    first: Band
    last: Band | None = None

    @property
    def bands(self) -> list[Band]:
        """One or both."""
        return [self.first] if self.last is None else [self.first, self.last]

    def __str__(self) -> str:
        names = [f"{first}–{last}" for first, last in self.bands]
        return f"{self.kind}, {'from ' if self.last else ''}positions {' to '.join(names)}"

    def read(self, record: RunRecord) -> float | None:
        """The mean loss of a run over the first band, minus that over the other if there is one; a
        band ends where the windows of the run do."""
        if f"{self.kind}_loss" not in record.curves:
            return None
        losses = by_position(record, self.kind)
        means = [float(losses[first - 1 : last].mean()) for first, last in self.bands]
        return means[0] - sum(means[1:])

    def spread(self, records: Records, model: str, minus: str = "") -> Items | None:
        """How much it varies with the documents that were drawn, of a model or of a difference.

        A bin on the border of two bands counts for each with the positions that it has there: only
        the spread is taken from bins, the losses themselves are read from every position.
        """
        drawn = []
        for name in filter(None, (model, minus)):
            runs = measured(records, name, self.kind)
            if not runs:
                return None
            drawn.append(mean_samples(runs, self.kind))
        length, bins = length_of(records[0]), drawn[0].shape[1]
        first, *last = [_weights(bins, length, band) for band in self.bands]
        total = (drawn[0] - sum(drawn[1:])) @ (first - sum(last))
        return over_documents(np.asarray(total), documents_of(records, self.kind))


def _weights(bins: int, length: int, band: Band) -> Losses:
    inside = np.zeros(bins * BIN)
    inside[band[0] - 1 : min(band[1], length)] = 1
    shares = inside.reshape(bins, BIN).sum(axis=1)
    return np.asarray(shares / shares.sum())


def over_documents(drawn: Losses, count: int) -> Items:
    """The variance of a mean over documents from its bootstrap samples, float64 (samples,).

    The variance over draws from n documents is on average (n − 1) / n of that over new documents
    (Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 5.3).
    """
    unbiased = count / (count - 1) if count > 1 else 1.0
    return Items(count, unbiased * float(np.var(drawn, ddof=1)), name="documents")


def documents_of(records: Records, kind: str) -> int:
    """How many documents the windows of a kind are from; the same for all runs."""
    return int(next(r.arrays[kind]["documents"] for r in records if kind in r.arrays))


def kinds_of(records: Records) -> list[str]:
    """The kinds of windows that were measured, in the order of the panels."""
    measured_kinds = set().union(*(record.arrays for record in records))
    return [kind for kind in KINDS if kind in measured_kinds]


def of_model(model: str) -> Runs:
    """The runs of a model."""
    return Runs(models.label(model), "wikipedia", model)


def measured(records: Records, model: str, kind: str) -> list[RunRecord]:
    """Those that gave losses of this kind of windows, by seed."""
    return [record for record in of_model(model).of(records) if kind in record.arrays]


def length_of(record: RunRecord) -> int:
    """Positions of a window."""
    return int(setting(record, "tasks.length"))


def inside(records: Records, bands: Sequence[Band]) -> list[Band]:
    """The bands that begin inside of the windows, the last one cut to their end."""
    length = length_of(records[0])
    return [(first, min(last, length)) for first, last in bands if first <= length]


def by_position(record: RunRecord, kind: str) -> Losses:
    """Mean loss of each position, float64 (length,)."""
    return np.asarray(record.curves[f"{kind}_loss"].y)


def binned(record: RunRecord, kind: str) -> Losses:
    """Mean loss of each bin, float64 (bins,); the last bin may be shorter."""
    losses = by_position(record, kind)
    edges = np.arange(0, len(losses), BIN)
    return np.add.reduceat(losses, edges) / np.diff(np.append(edges, len(losses)))


def samples(record: RunRecord, kind: str) -> Losses:
    """The same with the documents drawn again, float64 (samples, bins)."""
    return np.asarray(record.arrays[kind]["samples"])


def mean_samples(runs: Records, kind: str) -> Losses:
    """Their mean over runs."""
    return np.mean([samples(run, kind) for run in runs], axis=0)


def centres(records: Records) -> Losses:
    """The middle position of each bin, float64 (bins,)."""
    first = np.arange(1, length_of(records[0]) + 1, BIN)
    last = np.minimum(first + BIN - 1, length_of(records[0]))
    return np.asarray((first + last) / 2)


class Difference(NamedTuple):
    """The transformer's mean loss over seeds minus the Mosaic's.

    Attributes:
        means, intervals: of each bin, over seeds and documents.
        crossing: from which position on the Mosaic is better; None: not at the end.
        crossings: the 95 % range of this over documents; None for a single document.
    """

    means: list[float]
    intervals: list[Interval | None]
    crossing: int | None
    crossings: tuple[int | None, int | None] | None

    def __str__(self) -> str:
        if self.crossing is None:
            return "at the end of the window the Mosaic is not ahead"
        if self.crossings is None:
            return f"ahead from position {self.crossing} on (of a single document)"
        low, high = ("never" if place is None else place for place in self.crossings)
        return f"ahead from position {self.crossing} on (95 % over documents {low} to {high})"


def difference(records: Records, kind: str) -> Difference | None:
    """The difference of two models on one kind of windows; None without runs of both."""
    theirs, ours = (measured(records, model, kind) for model in (GPT2, MOSAIC))
    if not theirs or not ours:
        return None
    losses = np.stack([binned(run, kind) for run in theirs])
    our_losses = np.stack([binned(run, kind) for run in ours])
    # With the documents drawn again: a mean over seeds of each draw.
    drawn = mean_samples(theirs, kind) - mean_samples(ours, kind)
    count = documents_of(records, kind)
    intervals = []
    for place, column in enumerate(drawn.T):
        pair = losses[:, place].tolist(), our_losses[:, place].tolist()
        together = over_documents(column, count)
        intervals.append(difference_interval(*pair, LOSS, together=together))
    means = losses.mean(axis=0) - our_losses.mean(axis=0)
    crossings = sorted(map(crossing, drawn), key=lambda x: np.inf if x is None else x)
    tail = len(crossings) // 40  # 2.5 %
    ends = (_whole(crossings[tail]), _whole(crossings[-1 - tail])) if count > 1 else None
    return Difference(means.tolist(), intervals, _whole(crossing(means)), ends)


def crossing(differences: Losses) -> float | None:
    """Where a difference (bins,), averaged over 16 positions and joined by straight lines, rises
    above 0 for good; 1 where it is never below, None where it ends below."""
    smooth = np.convolve(differences, np.full(SMOOTH, 1 / SMOOTH), mode="valid")
    below = np.flatnonzero(smooth <= 0)
    if not len(below):
        return 1.0
    last = int(below[-1])
    if last == len(smooth) - 1:
        return None
    step = smooth[last] / (smooth[last] - smooth[last + 1])
    return float(BIN * (last + step) + (SMOOTH * BIN + 1) / 2)


def _whole(position: float | None) -> int | None:
    return None if position is None else round(position)
