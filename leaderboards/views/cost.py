"""Score against cost: what a model pays, and which ones nobody beats for less."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt

from leaderboards.contents import Row
from leaderboards.render import ARROWS, name, rank
from leaderboards.views.charts import Chart, colour_of, unchecked

COSTS: Mapping[str, Callable[[Row], float | None]] = {
    "training FLOPs": lambda row: row.training_flops,
    "parameters": lambda row: row.parameters,
    "state bytes": lambda row: row.state_bytes,
    "seconds": lambda row: row.wall_seconds,
}
HEIGHT = 420
AXIS = alt.Axis(format="~s", grid=False)  # 1.2M
TOWARDS_THE_MIDDLE: tuple[tuple[Literal["left", "right"], int], ...] = (("left", 8), ("right", -8))
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
    paid_rows = [
        (row, paid)
        for row in rows
        if row.kind == "measured" and row.outcome == "ok" and row.mean is not None
        if (paid := COSTS[cost](row))
    ]
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


@unchecked
def cost_chart(shown_points: Sequence[Point], cost: str, dark: bool = False) -> Chart:
    """Dots with whiskers over a logarithmic cost, the frontier as steps with a band."""
    first = shown_points[0].row
    title = f"{first.metric} {ARROWS.get(first.direction or '', '')}".strip()
    middle = math.sqrt(shown_points[0].cost * shown_points[-1].cost)
    values = tuple(
        {
            "name": name(point.row),
            "cost": point.cost,
            "score": point.row.mean,
            "low": point.row.low,
            "high": point.row.high,
            "colour": colour_of(point.row.model, dark),
            "fill": colour_of(point.row.model, dark) if point.frontier else "transparent",
            "frontier": point.frontier or "no",
            "said": name(point.row) if point.frontier or len(shown_points) <= NAMED else "",
            "side": "left" if point.cost <= middle else "right",
        }
        for point in shown_points
    )
    x = alt.X("cost:Q", title=cost, scale=alt.Scale(type="log", nice=True), axis=AXIS)
    y = alt.Y("score:Q", title=title, scale=alt.Scale(zero=False, padding=14))
    base = alt.Chart(alt.Data(values=values)).encode(x=x, color=alt.Color("colour:N", scale=None))
    edge = tuple(
        {"cost": p.cost, "score": p.row.mean, "low": p.row.low, "high": p.row.high}
        for p in shown_points
        if p.frontier == "frontier"
    )
    if edge:
        edge = (*edge, {**edge[-1], "cost": shown_points[-1].cost})
    along = alt.Chart(alt.Data(values=edge)).encode(x=x)
    grey = "#808080"
    tooltip = [
        alt.Tooltip("name:N"),
        alt.Tooltip("cost:Q", title=cost, format=".3s"),
        *(alt.Tooltip(f"{key}:Q", format=".4f") for key in ("score", "low", "high")),
        alt.Tooltip("frontier:N"),
    ]
    low = alt.Y("low:Q", title=title)
    return (
        alt.layer(
            along.mark_area(interpolate="step-after", opacity=0.12, color=grey).encode(
                y=low, y2="high:Q"
            ),
            along.mark_line(interpolate="step-after", color=grey, strokeDash=[4, 3]).encode(y=y),
            base.mark_rule().encode(y=low, y2="high:Q"),
            base.mark_point(size=90, strokeWidth=2).encode(
                y=y, fill=alt.Fill("fill:N", scale=None), tooltip=tooltip
            ),
            *(
                base.mark_text(align=side, dx=aside, dy=-7)
                .encode(y=y, text="said:N")
                .transform_filter(f"datum.side == '{side}'")
                for side, aside in TOWARDS_THE_MIDDLE
            ),
        )
        .properties(height=HEIGHT)
        .interactive()
    )
