"""The paths of descent drawn: losses and margins, landscapes, and how soon all is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.records.schema import Curve, RunRecord
from reproduce.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from reproduce.gradient_descent import descent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (BLUE, GREEN, ORANGE, VERMILLION, PURPLE)
SMALL: dict[str, Any] = {"fontsize": 6.5, "frameon": False}
LANDSCAPES = (-0.5, 0.5, 0.95)  # overlaps
WATCHED = {1.0: BLUE, 10.0: VERMILLION}  # steps whose paths are drawn on them
POINTS = 120  # of a landscape's grid, along each axis


def draw(panels: Sequence[Axes], records: Sequence[RunRecord]) -> None:
    """Eight panels; without a run they stay empty."""
    for record in descent.of_descent(records)[:1]:
        _two_tokens(panels[0], record)
        _margins(panels[1], record)
        _step_sizes(panels[2], record)
        _over_optimisation(panels[3], record)
        for axes, overlap in zip(panels[4:7], LANDSCAPES, strict=True):
            _landscape(axes, record, overlap)
        _first_perfect(panels[7], record)


def _two_tokens(axes: Axes, record: RunRecord) -> None:
    overlap = descent.CORRELATED
    curves = _by_step(record, "loss", overlap)
    for (lr, curve), colour in zip(sorted(curves.items()), COLOURS, strict=False):
        axes.plot(curve.x, curve.y, color=colour, linewidth=1.2, label=f"step {lr:g}")
    axes.set_yscale("log")
    axes.set_title(f"two tokens, overlap {overlap:g}: cross-entropy", fontsize=8.5)
    axes.set_xlabel("steps", fontsize=8)
    if curves:
        axes.legend(**SMALL)


def _by_step(record: RunRecord, what: str, overlap: float) -> dict[float, Curve]:
    return {
        float(name.rpartition("=")[2]): curve
        for name, curve in record.curves.items()
        if name.startswith(f"{what}/a={overlap:g},")
    }


def _margins(axes: Axes, record: RunRecord) -> None:
    first = _first(record)
    for token, (p, colour) in enumerate(((first, BLUE), (1 - first, ORANGE))):
        measured, law = (record.curves[f"{name}/token={token}"] for name in ("margin", "law"))
        axes.plot(measured.x, measured.y, color=colour, linewidth=2, label=f"p = {p:g}")
        axes.plot(law.x, law.y, color=BLACK, linestyle=":", linewidth=1)
    axes.set_xscale("log")
    axes.set_title("orthogonal tokens: margin, and ln(2 lr p t) dotted", fontsize=8.5)
    axes.set_xlabel("steps", fontsize=8)
    axes.legend(**SMALL)


def _first(record: RunRecord) -> float:
    """p_1 of the curves."""
    first: float = record.config["tasks"]["first_probabilities"][0]
    return first


def _step_sizes(axes: Axes, record: RunRecord) -> None:
    for name, colour in (("large", VERMILLION), ("small", BLUE), ("decreasing", GREEN)):
        curve = record.curves[f"error/{name}"]
        axes.plot(curve.x, curve.y, color=colour, linewidth=1.2, label=f"{name} step")
    axes.set_yscale("log")
    axes.set_title("N = 10, d = 5, batch 1: error by step size", fontsize=8.5)
    axes.set_xlabel("steps", fontsize=8)
    axes.legend(**SMALL)


def _over_optimisation(axes: Axes, record: RunRecord) -> None:
    for name, colour, style in (
        ("loss", BLUE, "-"),
        ("error", VERMILLION, "-"),
        ("fewest errors", GREY, "--"),
    ):
        curve = record.curves[f"forgetting/{name}"]
        axes.plot(curve.x, curve.y, style, color=colour, linewidth=1.2, label=name)
    axes.set_title("N = 10, d = 2: the loss falls, the error rises", fontsize=8.5)
    axes.set_xlabel("steps", fontsize=8)
    axes.legend(**SMALL)


def landscape(
    across: np.ndarray[Any, Any], up: np.ndarray[Any, Any], overlap: float, first: float
) -> np.ndarray[Any, Any]:
    """Cross-entropy in nats over W_11 and W_12, of any shape, where W_2 = -W_1: the plane in which
    descent from zero stays, so that nothing of the landscape that it sees is left out."""
    second = overlap * across + np.sqrt(1 - overlap**2) * up
    loss = first * np.logaddexp(0, -2 * across) + (1 - first) * np.logaddexp(0, 2 * second)
    return np.asarray(loss)


def _landscape(axes: Axes, record: RunRecord, overlap: float) -> None:
    first = _first(record)
    axes.set_title(f"overlap {overlap:g}, p = {first:g}: loss by W, and 35 steps", fontsize=8.5)
    axes.set_xlabel("W_11 = -W_21 (levels by equal factors)", fontsize=8)
    axes.set_ylabel("W_12 = -W_22", fontsize=8)
    paths = {lr: c for lr, c in _by_step(record, "path", overlap).items() if lr in WATCHED}
    if not paths:
        return
    x, y = (
        _around([value for curve in paths.values() for value in getattr(curve, axis)])
        for axis in ("x", "y")
    )
    across, up = np.meshgrid(x, y)
    loss = landscape(across, up, overlap, first)
    axes.contourf(x, y, np.log(loss), levels=20, cmap="Greys", alpha=0.7)
    for lr, curve in sorted(paths.items(), reverse=True):
        style: dict[str, Any] = {"color": WATCHED[lr], "linewidth": 1, "markersize": 2}
        axes.plot(curve.x, curve.y, "o-", label=f"step {lr:g}", **style)
    axes.legend(**SMALL)


def _around(values: Sequence[float]) -> np.ndarray[Any, Any]:
    low, high = min(values), max(values)
    room = 0.15 * (high - low) + 0.5
    return np.linspace(low - room, high + room, POINTS)


def _first_perfect(axes: Axes, record: RunRecord) -> None:
    """The layer of the map whose p_1 is nearest to that of the curves."""
    first, lrs, overlaps = record.arrays["map_axes"]
    layer = min(range(len(first)), key=lambda place: abs(first[place] - _first(record)))
    steps = record.arrays["first_perfect_map"][layer]
    shades = [[np.nan if step is None else np.log(step) for step in row] for row in steps]
    axes.imshow(shades, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=np.log(2000))
    for place, row in enumerate(steps):
        for column, step in enumerate(row):
            text = "" if step is None else str(step)
            axes.text(column, place, text, ha="center", va="center", fontsize=5.5)
    axes.set_title(f"first step with both right, p = {first[layer]:.2f}", fontsize=8.5)
    axes.set_xlabel("overlap (empty: not in reach)", fontsize=8)
    axes.set_ylabel("learning rate", fontsize=8)
    axes.set_xticks(range(len(overlaps)), [f"{a:.2f}" for a in overlaps], fontsize=6, rotation=45)
    axes.set_yticks(range(len(lrs)), [f"{lr:.2g}" for lr in lrs], fontsize=6)
