"""Score against cost: what a model pays, and which ones nobody beats for less."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leaderboards.contents import Row
from leaderboards.render import name, rank, with_arrow
from leaderboards.views.charts import (
    GREY,
    Spec,
    colour_of,
    data,
    layer,
    layered,
    nominal,
    quantitative,
    zoom,
)

COSTS: Mapping[str, Callable[[Row], float | None]] = {
    "training FLOPs": lambda row: row.training_flops,
    "parameters": lambda row: row.parameters,
    "state bytes": lambda row: row.state_bytes,
    "seconds": lambda row: row.wall_seconds,
}
HEIGHT = 420
AXIS = {"format": "~s", "grid": False}  # 1.2M
TOWARDS_THE_MIDDLE = (("left", 8), ("right", -8))
NAMED = 12  # points that all have their names; of more only those on the frontier


@dataclass(frozen=True)
class Point:
    """One row with its cost.

    Attributes:
        frontier: whether no other row is as good for as little; "possible" where the intervals
            leave it open, "" where one is surely better for no more.
    """

    row: Row
    cost: float
    frontier: str


def points(rows: Sequence[Row], cost: str) -> list[Point]:
    """The measured rows whose cost is known and above 0, the cheapest first."""
    paid_rows: list[tuple[Row, float]] = []
    for row in rows:
        has_score = row.kind == "measured" and row.outcome == "ok" and row.mean is not None
        if has_score and (paid := COSTS[cost](row)):
            paid_rows.append((row, paid))
    paid_rows.sort(key=lambda pair: pair[1])
    return [Point(row, paid, _frontier(row, paid, paid_rows)) for row, paid in paid_rows]


def _frontier(row: Row, paid: float, paid_rows: Sequence[tuple[Row, float]]) -> str:
    sign = 1 if row.direction != "minimise" else -1
    rivals = [rival for rival, price in paid_rows if price <= paid and rival is not row]
    own_score = sign * (row.mean or 0.0)
    if all(sign * (rival.mean or 0.0) < own_score for rival in rivals):
        return "frontier"
    best = max(_end(row, sign, 1), own_score)
    surely = any(_end(rival, sign, -1) > best for rival in rivals)
    return "" if surely else "possible"


def _end(row: Row, sign: int, side: int) -> float:
    """The best (side 1) or worst (side -1) end of a row's interval; its mean where it has none."""
    ends = [sign * end for end in (row.low, row.high, row.mean) if end is not None]
    return max(ends) if side > 0 else min(ends)


def lines(shown_points: Sequence[Point], cost: str) -> list[dict[str, Any]]:
    """One dictionary for each point, for a table that sorts."""
    return [
        {
            "model": name(point.row),
            cost: point.cost,
            "score": point.row.mean,
            "low": point.row.low,
            "high": point.row.high,
            "rank": "" if point.row.rank_best is None else rank(point.row),
            "frontier": point.frontier,
            "mark": point.row.mark,
        }
        for point in shown_points
    ]


def cost_chart(shown_points: Sequence[Point], cost: str, dark: bool = False) -> Spec:
    """Dots with whiskers over a logarithmic cost, the frontier as steps with a band."""
    first = shown_points[0].row
    title = with_arrow(first.metric, first.direction)
    middle = math.sqrt(shown_points[0].cost * shown_points[-1].cost)
    values: list[Spec] = []
    edge: list[Spec] = []
    for point in shown_points:
        row, colour = point.row, colour_of(point.row.model, dark)
        numbers = {"cost": point.cost, "score": row.mean, "low": row.low, "high": row.high}
        words = {
            "name": name(row),
            "colour": colour,
            "fill": colour if point.frontier else "transparent",
            "frontier": point.frontier or "no",
            "said": name(row) if point.frontier or len(shown_points) <= NAMED else "",
            "side": "left" if point.cost <= middle else "right",
        }
        values.append(numbers | words)
        if point.frontier == "frontier":
            edge.append(numbers)
    if edge:
        edge.append({**edge[-1], "cost": shown_points[-1].cost})
    x = quantitative("cost", title=cost, scale={"type": "log", "nice": True}, axis=AXIS)
    y = quantitative("score", title=title, scale={"zero": False, "padding": 14})
    span = {"x": x, "y": quantitative("low", title=title), "y2": "high"}
    base = {"x": x, "color": nominal("colour", scale=None)}
    tooltip = [nominal("name"), quantitative("cost", title=cost, format=".3s")]
    tooltip += [quantitative(key, format=".4f") for key in ("score", "low", "high")]
    tooltip.append(nominal("frontier"))
    steps = {"interpolate": "step-after", "color": GREY}
    fill = nominal("fill", scale=None)
    layers = [
        layer("area", span, opacity=0.12, **steps) | {"data": data(edge), "name": "band"},
        layer("line", {"x": x, "y": y}, strokeDash=[4, 3], **steps) | {"data": data(edge)},
        layer("rule", {**span, **base}),
        layer("point", {**base, "y": y, "fill": fill, "tooltip": tooltip}, size=90, strokeWidth=2),
    ]
    for side, aside in TOWARDS_THE_MIDDLE:
        label = layer(
            "text", {**base, "y": y, "text": nominal("said")}, align=side, dx=aside, dy=-7
        )
        layers.append(label | {"transform": [{"filter": f"datum.side == '{side}'"}]})
    return layered(layers, data=data(values), height=HEIGHT, params=[zoom("band")])
