"""What any renderer asks of a trace: how it looks, and where its points and cells lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from reproduce.plotting import models
from reproduce.plotting.panels import Axis, Panel, Trace
from reproduce.plotting.style import ASIDE, LOOKS, Look


def look_of(trace: Trace) -> Look:
    """How a trace is drawn, by its role, its model's card and what it says itself; the colour as
    #rrggbb."""
    role = LOOKS[trace.role]
    model = models.resolve(trace.colour, role.colour)
    own_line = model.line if role.line == "solid" else ""  # a role that is dashed stays so
    return replace(
        role,
        colour=model.colour,
        line=trace.line or own_line or role.line,
        marker=trace.marker or model.marker or role.marker,
        hollow=role.hollow if trace.hollow is None else trace.hollow,
    )


def moved(panel: Panel, trace: Trace) -> list[float]:
    """The x of a trace, moved sideways by as many steps as it says."""
    if panel.x.categories:
        return [x + ASIDE["category"] * trace.aside for x in trace.x]
    if panel.x.scale in ("log", "log2"):
        return [x * ASIDE["log"] ** trace.aside for x in trace.x]
    all_x: list[float] = []
    for other in panel.traces:
        all_x += other.x
    step = ASIDE["linear"] * (max(all_x) - min(all_x)) if all_x else 0.0
    return [x + step * trace.aside for x in trace.x]


def edges(values: Sequence[float | None], axis: Axis) -> list[float]:
    """The edges of cells around these places: halfway between them; half a step from a lone one."""
    logarithmic = axis.scale in ("log", "log2") and not axis.categories
    numbers = [value for value in values if value is not None]
    places = [math.log(value) for value in numbers] if logarithmic else numbers
    middle = [(a + b) / 2 for a, b in pairwise(places)]
    if not middle:
        ends = [places[0] - 0.5, places[0] + 0.5]
    else:
        ends = [2 * places[0] - middle[0], *middle, 2 * places[-1] - middle[-1]]
    return [math.exp(end) for end in ends] if logarithmic else ends


def points(panel: Panel, trace: Trace) -> list[tuple[float, float]]:
    """(x, y) of the points that have a number."""
    pairs = zip(moved(panel, trace), trace.y, strict=True)
    return [(x, y) for x, y in pairs if y is not None]
