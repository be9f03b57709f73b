"""The panels of figure 8: losses by position, and the difference of the two models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.records.schema import RunRecord
from reproduce.drawing.style import BLACK, GREY, LIGHT
from reproduce.regbench.regbench import COLOURS, LABELS, MODELS, MOSAIC
from reproduce.stories import positions
from reproduce.stories.positions import ARTICLES, length_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def losses(axes: Axes, records: Sequence[RunRecord], kind: str) -> None:
    """Each seed thin, means over seeds wide, with their 95 % over documents."""
    for model in MODELS:
        colour = COLOURS[model]
        shown = [r for r in positions.runs(records, model) if kind in r.arrays]
        if not shown:
            continue
        x = positions.centres(records)
        drawn = positions.over_seeds(shown, model, lambda r: positions.samples(r, kind))
        low, high = np.percentile(np.asarray(drawn), [2.5, 97.5], axis=0)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        for run in shown:
            axes.plot(x, positions.binned(run, kind), color=colour, linewidth=0.6, alpha=0.5)
        mean = positions.over_seeds(shown, model, lambda r: positions.binned(r, kind))
        axes.plot(x, np.asarray(mean), color=colour, linewidth=2, label=LABELS[model])
    for record in records:
        if record.role == "baseline" and record.label == "unigram" and kind in record.arrays:
            level = float(positions.by_position(record, kind).mean())
            axes.axhline(level, color=GREY, linewidth=0.9, linestyle=":", label="unigram, mean")
    if kind in ARTICLES:
        end = min(150, length_of(records[0]))
        axes.axvspan(100, end, color=LIGHT, alpha=0.5, linewidth=0)
        _note(axes, end, "published: GPT2 flat from here", ha="right")


def _note(axes: Axes, x: float, text: str, ha: str, y: float = 0.01) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1}
    look: dict[str, Any] = {"fontsize": 7, "color": GREY, "ha": ha, "va": "bottom", "bbox": box}
    axes.text(x, y, text, transform=axes.get_xaxis_transform(), **look)


def difference(axes: Axes, records: Sequence[RunRecord], kind: str) -> None:
    """The transformer's loss minus the Mosaic's, with its interval over seeds and documents."""
    axes.axhline(0, color=GREY, linewidth=0.8)
    if kind in ARTICLES:
        axes.axvline(50, color=GREY, linewidth=0.8, linestyle="--")
        _note(axes, 50, "published: Mosaic ahead from here", ha="left", y=1.0)
    x = positions.centres(records)
    found = positions.difference(records, kind)
    if not found:
        return
    means = [mean for mean, _ in found]
    bounds = [interval for _, interval in found if interval is not None]
    if len(bounds) == len(found):
        low, high = zip(*bounds, strict=True)
        axes.fill_between(
            x, low, high, color=BLACK, alpha=0.15, linewidth=0, label="95 %, seeds and documents"
        )
    axes.plot(x, means, color=BLACK, linewidth=1.6, label="mean over seeds")
    place = (positions.crossings(records, kind) or {}).get("position")
    if place is not None:
        axes.plot(
            place, 0, "v", color=COLOURS[MOSAIC], markersize=7, label="Mosaic ahead from here"
        )
