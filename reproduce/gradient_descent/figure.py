"""How descent on associations is drawn: the grid, paths of descent, weights, a transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.records.schema import RunRecord
from core.statistics import SHARE, mean_interval
from reproduce.claims.grammar import Records, Runs
from reproduce.claims.trials import finished
from reproduce.drawing.traces import over_draws
from reproduce.drawing.traces import published as published_points
from reproduce.gradient_descent import runs
from reproduce.gradient_descent.descent import CORRELATED
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace

TITLE = "Associations by gradient steps: what optimiser, step and batch make of one matrix"
COLOURS = ("blue", "green", "orange", "vermillion", "purple")
TRAINED = ("the matrix alone", "rectified embeddings", "all")  # in the order of the models
LANDSCAPES = (-0.5, 0.5, 0.95)  # overlaps
WATCHED = {10.0: "vermillion", 1.0: "blue"}  # steps whose paths are drawn on them
POINTS = 60  # of a landscape's grid, along each axis
STEPS = Axis("steps")
ERROR, LOSS = Axis("error"), Axis("nats", scale="log")
Array = NDArray[np.float64]


def picture(records: Records) -> Picture:
    """The grid in the first row, the paths of descent in the next two, weights below. Without a
    run a panel keeps its title alone."""
    paths, schemes, learned, *transformers = (_first_run(runs_, records) for runs_ in runs.SINGLE)
    landscapes = [_landscape(paths, overlap) for overlap in LANDSCAPES]
    matrices = product(("output_2", "all"), ("loss", "margin"))
    rows = [
        _grid(records),
        _paths(paths),
        [*landscapes, _first_perfect(paths)],
        _weights(schemes),
        [
            _single_samples(schemes),
            _softmax(schemes, "p"),
            _softmax(schemes, "1"),
            _learned(learned),
        ],
        [_transformer(transformers, trained, quantity) for trained, quantity in matrices],
    ]
    return Picture(TITLE, [PanelRow(row, height=3.2) for row in rows], width=14)


def _first_run(wanted: Runs, records: Records) -> RunRecord | None:
    return next(iter(finished(wanted.of(records))), None)


def _grid(records: Records) -> list[Panel]:
    """Errors by dimension, and every measured error beside the published one."""
    by_step = {f"step {cell.lr:g}": cell for cell in runs.BY_RATE}
    by_optimiser = {cell.label.partition(" ")[0]: cell for cell in runs.LARGE_BATCH.values()}
    by_model = dict(zip(TRAINED, runs.BY_MODEL.values(), strict=True))
    published, measured = [], []
    for comparison in runs.comparisons(records):
        published.append(comparison.published)
        measured.append(comparison.measured)
    ends = [min(published), max(published)] if published else []
    equal = Trace("equal", ends, ends, role="reference", line="solid")
    cells = Trace("cells", published, measured, mark="dots")
    axes = Axis("published error", scale="log"), Axis("measured error", scale="log")
    return [
        _by_dimension(records, by_step, "step (SGD, batch 64)"),
        _by_dimension(records, by_optimiser, "optimiser (step 1, batch 1,024)"),
        _by_dimension(records, by_model, "what is trained (SGD, step 1, batch 16)"),
        Panel("every cell that was run", *axes, [equal, cells]),
    ]


def _by_dimension(records: Records, cells: Mapping[str, runs.Cell], changed: str) -> Panel:
    traces = []
    for (label, cell), colour in zip(cells.items(), COLOURS, strict=False):
        levels = runs.published(cell).items()
        trials, summarise = runs.by_dimension(records, cell), partial(mean_interval, kind=SHARE)
        measured = over_draws(label, trials, summarise, colour=colour)
        traces.append(replace(measured, seeds={}))  # ten random seeds hide each other
        look = {"colour": colour, "marker": "circle", "legend": "published"}
        traces.append(published_points(f"{label}, published", levels, **look))
    x, y = Axis("d", scale="log"), Axis(scale="log")
    return Panel(f"error by {changed}", x=x, y=y, traces=traces, legend="best")


def _lines(record: RunRecord | None, labels: Mapping[str, str], **look: Any) -> list[Trace]:
    """Curves of a record by label, in the order of colours."""
    traces = []
    for (label, name), colour in zip(labels.items(), COLOURS, strict=False):
        if record is not None and name in record.curves:
            curve = record.curves[name]
            traces.append(Trace(label, curve.x, curve.y, **{"colour": colour, **look}))
    return traces


def _by_number(record: RunRecord | None, beginning: str, label: str) -> dict[str, str]:
    """The same label with the number of each curve that is so called."""
    names = runs.numbered(record.curves if record else (), beginning)
    return {label.format(number): name for number, name in names.items()}


def _panel(title: str, traces: Sequence[Trace], y: Axis, x: Axis = STEPS, **look: Any) -> Panel:
    return Panel(title, x=x, y=y, traces=traces, **{"legend": "best", **look})


def _paths(record: RunRecord | None) -> list[Panel]:
    """Losses and margins of two tokens; errors by the size of the step; over-optimisation."""
    by_step = _by_number(record, f"loss/a={CORRELATED:g},lr=", "step {:g}")
    margins, laws = {}, {}
    for token, p in enumerate((_first(record), 1 - _first(record))):
        margins[f"p = {p:g}"] = f"margin/token={token}"
        laws[f"law, p = {p:g}"] = f"law/token={token}"
    growing = _lines(record, margins, role="emphasis")
    growing += _lines(record, laws, role="theory", colour="black", legend="ln(2 lr p t)")
    steps = {"small step": "error/small", "decreasing step": "error/decreasing"}
    steps["large step"] = "error/large"
    forgetting = _lines(record, {"loss": "forgetting/loss", "error": "forgetting/error"})
    fewest = {"fewest errors": "forgetting/fewest errors"}
    forgetting += _lines(record, fewest, role="reference", colour="grey")
    error, positive, log = Axis("error", scale="log"), Axis(limits=(0, None)), Axis("steps", "log")
    return [
        _panel(f"two tokens, overlap {CORRELATED:g}: loss", _lines(record, by_step), LOSS),
        _panel("orthogonal tokens: margins", growing, Axis("margin"), log),
        _panel("N = 10, d = 5, batch 1: error by step size", _lines(record, steps), error),
        _panel("N = 10, d = 2: the loss falls, the error rises", forgetting, positive),
    ]


def _first(record: RunRecord | None) -> float:
    """p_1 of the curves."""
    return float(record.config["tasks"]["first_probabilities"][0]) if record else 0.75


def landscape(across: Array, up: Array, overlap: float, first: float) -> Array:
    """Cross-entropy in nats over W_11 and W_12, of any shape, where W_2 = -W_1: the plane in which
    descent from zero stays, so that nothing of the landscape that it sees is left out."""
    second = overlap * across + np.sqrt(1 - overlap**2) * up
    loss = first * np.logaddexp(0, -2 * across) + (1 - first) * np.logaddexp(0, 2 * second)
    return np.asarray(loss)


def _landscape(record: RunRecord | None, overlap: float) -> Panel:
    """Levels of the loss by W, and the paths of two steps on them."""
    first, paths = _first(record), []
    for lr, colour in WATCHED.items():
        name = {f"step {lr:g}": f"path/a={overlap:g},lr={lr:g}"}
        paths += _lines(record, name, mark="both", role="faint", colour=colour)
    levels = []
    if paths:
        x = _around(np.concatenate([np.array(path.x, float) for path in paths]))
        y = _around(np.concatenate([np.array(path.y, float) for path in paths]))
        loss = landscape(*np.meshgrid(x, y), overlap, first)
        rounded = [[float(f"{value:.4g}") for value in row] for row in loss]
        levels = [Trace("loss", x.tolist(), y.tolist(), z=rounded, mark="contour")]
    title = f"overlap {overlap:g}, p = {first:g}: loss by W, and 35 steps"
    axes = Axis("W_11 = -W_21 (levels by equal factors)"), Axis("W_12 = -W_22")
    z = Axis(scale="log")
    return Panel(title, *axes, [*levels, *paths], z=z, legend="upper right")


def _around(values: Array) -> Array:
    low, high = values.min(), values.max()
    room = 0.15 * (high - low) + 0.5
    return np.linspace(low - room, high + room, POINTS).round(4)


def _first_perfect(record: RunRecord | None) -> Panel:
    """The layer of the map whose p_1 is nearest to that of the curves."""
    if record is None:
        return Panel("first step with both right")
    first, lrs, overlaps = record.arrays["map_axes"]
    layer = min(range(len(first)), key=lambda place: abs(first[place] - _first(record)))
    steps = record.arrays["first_perfect_map"][layer]
    places = range(len(overlaps)), range(len(lrs))
    return Panel(
        f"first step with both right, p = {first[layer]:.2f}",
        x=Axis("overlap (–: not in reach)", categories=[f"{a:.2f}" for a in overlaps]),
        y=Axis("learning rate", categories=[f"{lr:.2g}" for lr in lrs]),
        z=Axis(scale="log", limits=(1, 2000)),
        traces=[Trace("first step", *places, z=steps, mark="heat", numbers=".0f")],
    )


def _weights(record: RunRecord | None) -> list[Panel]:
    rules = {"SGD": "sgd", "sign": "sign", "direction": "normalised"}
    error = {label: f"population_error/{name}" for label, name in rules.items()}
    loss = {label: f"population_loss/{name}" for label, name in rules.items()}
    sizes = _by_number(record, "batch_error/B=", "batch {:,.0f}")
    closed_form = {"descent": "approximation/descent", "its weights": "approximation/weights"}
    samples = Axis("samples", scale="log")
    return [
        _panel("population's gradient: error by rule", _lines(record, error), ERROR),
        _panel("population's gradient: cross-entropy", _lines(record, loss), LOSS),
        _panel("N = 30, d = 30: error by batch", _lines(record, sizes), ERROR, samples),
        _panel("N = 100, d = 10: error of q in closed form", _lines(record, closed_form), ERROR),
    ]


def _single_samples(record: RunRecord | None) -> Panel:
    by_step = _by_number(record, "weights/lr=", "step {:g}")
    x, y = Axis("c", scale="log"), Axis("q", scale="log")
    return _panel("q after c single samples", _lines(record, by_step), y, x)


def _softmax(record: RunRecord | None, q: str) -> Panel:
    """Softmax of the scores, tokens by classes, each size on its own scale."""
    traces: list[Trace] = []
    columns: list[str] = []
    tokens = 0
    arrays = {} if record is None else record.arrays
    for d, name in runs.numbered(arrays, f"picture/q={q},d=").items():
        tokens, classes = len(arrays[name]), len(arrays[name][0])
        columns += [""] * bool(columns)
        x = range(len(columns), len(columns) + classes)
        columns += map(str, range(1, classes + 1))
        traces.append(Trace(f"d = {d:g}", x, range(tokens), z=arrays[name], mark="heat"))
    sizes = ", ".join(trace.name for trace in traces)
    rows = list(map(str, range(1, tokens + 1)))
    axes = Axis("class", categories=columns), Axis("token", categories=rows, inverted=True)
    return Panel(f"q = {q}: softmax of scores, {sizes}", *axes, traces)


def _learned(record: RunRecord | None) -> Panel:
    traces, largest = _lines(record, {"all trained": "error"}), 0.1
    for trace in traces:
        largest = max([largest, *filter(None, trace.y)])
    title = "learned embeddings, d = 2: error by classes"
    return _panel(title, traces, Axis("error", limits=(0, largest)), Axis("M"))


def _transformer(records: Sequence[RunRecord | None], trained: str, quantity: str) -> Panel:
    """Learning rates by colour, widths by line; margins of W_O² itself are dotted."""
    beginning, label = f"{quantity}/{trained},lr=", "step {:g}"
    narrow, wide = (_by_number(record, beginning, label) for record in records)
    traces, remarks = _lines(records[0], narrow), []
    if quantity == "margin":
        itself = {f"{step}, W_O² itself": f"memory_{name}" for step, name in narrow.items()}
        traces += _lines(records[0], itself, line="dotted", legend="W_O² itself")
        remarks.append(Remark(y=0, line="solid", colour="black"))
    wider = {f"{step}, {runs.WIDE.label}": name for step, name in wide.items()}
    traces += _lines(records[1], wider, line="dashed", legend=runs.WIDE.label)
    matrices = "W_O² alone" if trained == "output_2" else "all matrices"
    y = LOSS if quantity == "loss" else Axis("margin")
    return _panel(f"transformer, {matrices}: {quantity}", traces, y, remarks=remarks)
