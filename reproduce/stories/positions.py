"""Loss by position of runs on the encyclopedia: means over seeds, differences of models that were
measured on the same windows, intervals over seeds and documents, and where two models cross.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.ground.statistics import Interval
from bench.records.schema import RunRecord
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories import language
from reproduce.stories.language import GPT2, Documents

KINDS = {
    "stream": "articles in one stream",
    "article": "the beginning of each article",
    "stories": "stories (control)",
}
ARTICLES = ("stream", "article")
BIN = 8  # positions of one kept bootstrap sample; see tasks.wikipedia
SMOOTH = 2  # bins that the crossing is read from
CROSSING_RULE = (
    f"where the difference, averaged over {SMOOTH * BIN} positions and joined by straight lines, "
    "rises above 0 for good; 1 where it is never below; none where it ends below"
)

Band = tuple[int, int]  # positions from 1, both ends included
Losses = NDArray[np.float64]


def kinds_of(records: Sequence[RunRecord]) -> list[str]:
    """The kinds of windows that were measured, in the order of the panels."""
    return [kind for kind in KINDS if any(kind in record.arrays for record in records)]


def runs(records: Sequence[RunRecord], model: str) -> list[RunRecord]:
    """The runs of a model by seed, failed ones included."""
    found = [r for r in language.trained(records) if r.model == model]
    return sorted(found, key=lambda record: record.seed)


def by_position(record: RunRecord, kind: str) -> Losses:
    """Mean loss of each position, float64 (length,)."""
    return np.asarray(record.curves[f"{kind}_loss"].y)


def samples(record: RunRecord, kind: str) -> Losses:
    """The same with the documents drawn again, float64 (samples, bins). Every model is measured on
    the same draws, so the differences of two models' samples are those of a paired bootstrap."""
    return np.asarray(record.arrays[kind]["samples"])


def over_seeds(
    records: Sequence[RunRecord], model: str, read: Callable[[RunRecord], Losses]
) -> Losses | None:
    """Mean over the seeds that gave numbers; None if there is none."""
    found = [read(record) for record in runs(records, model) if record.outcome == "ok"]
    return np.mean(found, axis=0) if found else None


def band_loss(record: RunRecord, kind: str, band: Band) -> float | None:
    """Mean loss of the positions of a band that lie in the window."""
    if f"{kind}_loss" not in record.curves:
        return None
    first, last = band
    return float(by_position(record, kind)[first - 1 : last].mean())


def inside(records: Sequence[RunRecord], bands: Sequence[Band]) -> list[Band]:
    """The bands that begin inside of the windows, the last one cut to their end."""
    length = length_of(records[0])
    return [(first, min(last, length)) for first, last in bands if first <= length]


def binned(record: RunRecord, kind: str) -> Losses:
    """Mean loss of each bin, float64 (bins,); the last bin may be shorter."""
    found = by_position(record, kind)
    edges = np.arange(0, len(found), BIN)
    return np.add.reduceat(found, edges) / np.diff(np.append(edges, len(found)))


def centres(records: Sequence[RunRecord]) -> Losses:
    """The middle position of each bin, float64 (bins,)."""
    first = np.arange(1, length_of(records[0]) + 1, BIN)
    last = np.minimum(first + BIN - 1, length_of(records[0]))
    return np.asarray((first + last) / 2)


def spread(
    records: Sequence[RunRecord],
    kind: str,
    terms: Sequence[tuple[float, str, Band]],
) -> Documents | None:
    """How much a sum of (factor, model, band) varies with the documents that were drawn.

    A bin on the border of two bands counts for each with the positions that it has there: only the
    spread is taken from bins, the losses themselves are read from every position.
    """
    total: Losses | float = 0.0
    for factor, model, band in terms:
        found = over_seeds(records, model, lambda record: samples(record, kind))
        if found is None:
            return None
        total = total + factor * (found @ _weights(found.shape[1], length_of(records[0]), band))
    return over_documents(np.asarray(total), documents_of(records, kind))


def over_documents(drawn: Losses, count: int) -> Documents:
    """The variance of a mean over documents from its bootstrap samples, float64 (samples,).

    The variance over draws from n documents is on average (n − 1) / n of that over new documents
    (Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 5.3).
    """
    unbiased = count / (count - 1) if count > 1 else 1.0
    return Documents(unbiased * float(np.var(drawn, ddof=1)), count)


def documents_of(records: Sequence[RunRecord], kind: str) -> int:
    """How many documents the windows of a kind are from; the same for all runs."""
    return int(next(r.arrays[kind]["documents"] for r in records if kind in r.arrays))


def _weights(bins: int, length: int, band: Band) -> Losses:
    inside = np.zeros(bins * BIN)
    inside[band[0] - 1 : min(band[1], length)] = 1
    shares = inside.reshape(bins, BIN).sum(axis=1)
    return np.asarray(shares / shares.sum())


def crossing(found: Losses) -> float | None:
    """Where a difference (bins,) rises above zero for good, by ``CROSSING_RULE``."""
    smooth = np.convolve(found, np.full(SMOOTH, 1 / SMOOTH), mode="valid")
    below = np.flatnonzero(smooth <= 0)
    if not len(below):
        return 1.0
    last = int(below[-1])
    if last == len(smooth) - 1:
        return None
    step = smooth[last] / (smooth[last] - smooth[last + 1])
    return float(BIN * (last + step) + (SMOOTH * BIN + 1) / 2)


def crossings(records: Sequence[RunRecord], kind: str) -> dict[str, Any] | None:
    """The position from which on the Mosaic is better: of the mean over seeds, its 95 % range over
    documents (none for a single document), and of each pair of seeds; null: it is not better at the
    end."""
    ours, theirs = (
        {run.seed: run for run in runs(records, model) if kind in run.arrays}
        for model in (MOSAIC, GPT2)
    )
    if not ours or not theirs:
        return None
    means, drawn = (
        [np.mean([read(run, kind) for run in of.values()], axis=0) for of in (theirs, ours)]
        for read in (binned, samples)
    )
    places = [crossing(row) for row in drawn[0] - drawn[1]]
    ordered = sorted(places, key=lambda place: np.inf if place is None else place)
    tail = len(ordered) // 40  # 2.5 %
    several = documents_of(records, kind) > 1
    return {
        "position": _whole(crossing(means[0] - means[1])),
        "documents": [_whole(ordered[tail]), _whole(ordered[-1 - tail])] if several else None,
        "seeds": {
            str(seed): _whole(crossing(binned(theirs[seed], kind) - binned(ours[seed], kind)))
            for seed in sorted(ours.keys() & theirs.keys())
        },
    }


def _whole(position: float | None) -> int | None:
    return None if position is None else round(position)


def difference(records: Sequence[RunRecord], kind: str) -> list[tuple[float, Interval | None]]:
    """Of each bin the transformer's loss minus the Mosaic's, with an interval over seeds and
    documents; empty without runs of both."""
    measured = [[r for r in runs(records, model) if kind in r.arrays] for model in (GPT2, MOSAIC)]
    if not all(measured):
        return []
    theirs, ours = (np.stack([binned(run, kind) for run in of]) for of in measured)
    drawn = [np.mean([samples(run, kind) for run in of], axis=0) for of in measured]
    paired = drawn[0] - drawn[1]
    count = documents_of(measured[0], kind)
    return [
        language.interval(
            (theirs[:, place].tolist(), ours[:, place].tolist()),
            over_documents(paired[:, place], count),
        )
        for place in range(paired.shape[1])
    ]


def length_of(record: RunRecord) -> int:
    """Positions of a window."""
    return int(record.config["tasks"]["length"])


def band_name(band: Band) -> str:
    """ "51–150"."""
    return f"{band[0]}–{band[1]}"
