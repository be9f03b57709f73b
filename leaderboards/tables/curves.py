"""The curves of one setting over its seeds, and those by training size over several settings."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from bench.records.numbers import over_seeds
from bench.records.schema import RunRecord
from ground.statistics import Mean
from leaderboards.tables.grouping import Place, Setting
from leaderboards.tables.lines import Line, Row
from leaderboards.tables.rows import kind_of_row

LOSS_CURVES = ("training_loss", "validation_loss")  # against training steps


def lines_of(setting: Setting) -> list[Line]:
    """The curves of a setting, pointwise over its seeds."""
    finished = [record for record in setting.records if record.outcome == "ok"]
    names = sorted({name for record in finished for name in record.curves})
    # Seeds that failed have no curve: the legend says how many are left.
    some = f"{len(finished)} of {len(setting.records)} seeds" if not setting.ended_well else ""
    described = ", ".join(part for part in (setting.place.name, some) if part)
    lines = []
    for name in names:
        points: dict[float, dict[str, float]] = defaultdict(dict)
        curves = [(r, r.curves[name]) for r in finished if name in r.curves]
        for record, curve in curves:
            for x, y in zip(curve.x, curve.y, strict=True):
                points[x][record.run_id] = y
        if not points:
            continue
        xs = sorted(points)
        means = [_over_seeds([r for r, _ in curves], points[x], name) for x in xs]
        lines.append(
            replace(
                _blank_line(setting.place),
                setting=described,
                metric=name,
                abscissa="training step" if name in LOSS_CURVES else "position",
                seeds=None if setting.is_reference else len(curves),
                x=tuple(xs),
                y=tuple(m.mean for m in means if m.mean is not None),
                y_low=tuple(m.interval.low if m.interval else None for m in means),
                y_high=tuple(m.interval.high if m.interval else None for m in means),
            )
        )
    return lines


def _over_seeds(records: Sequence[RunRecord], found: Mapping[str, float], name: str) -> Mean:
    """A point of a curve, which some of the runs have; their records have no items of it."""
    own = [record for record in records if record.run_id in found]
    return over_seeds(own, [found[record.run_id] for record in own], name, curve=True)


def _blank_line(place: Place) -> Line:
    first = place.first
    return Line(
        task=first.task,
        preset=first.preset,
        variant=place.variant,
        group=place.group,
        model=first.model,
        label=first.label,
        setting=place.name,
        kind=kind_of_row(place),
        source="",
        metric="",
        direction=None,
        abscissa="",
        by_size=False,
        note="",
        seeds=None,
        x=(),
        y=(),
        y_low=(),
        y_high=(),
        origin=first.origin,
        made_from=place.made_from,
    )


class Point(NamedTuple):
    """One number of a setting, at its training size."""

    place: Place
    metric: str
    direction: str | None
    mean: float | None
    low: float | None
    high: float | None
    seeds: int | None

    @classmethod
    def of(cls, place: Place, row: Row) -> Point:
        """The point of a row."""
        return cls(place, row.metric, row.direction, row.mean, row.low, row.high, row.seeds)


def has_size(place: Place) -> bool:
    """Whether a setting has a place on a curve by training size."""
    return place.first.size is not None and not place.beside


def made_from(places: Iterable[Place]) -> str:
    """Hash of all that the curves by size of these settings follow from."""
    each = sorted(f"{place.made_from} {place.variant}" for place in places)
    return hashlib.sha256("\n".join(each).encode()).hexdigest()[:16]


def lines_by_size(points: Sequence[Point], made: str) -> list[Line]:
    """For each model and metric of settings that differ in the training size the curve over it.

    At a size with several settings of a model, the curve takes the one that validation chose: a
    study's final setting, else the lowest validation loss. The test split decides nothing.

    Args:
        points: of settings that ended well.
        made: the hash of all of these settings.
    """

    def key(point: Point) -> tuple[str, str, str]:
        return point.metric, point.place.first.label, point.place.first.model

    lines = []
    for _, members in groupby(sorted(points, key=key), key=key):
        chosen: dict[int, Point] = {}
        for point in sorted(members, key=lambda point: _choice(point.place)):
            chosen.setdefault(point.place.first.size or 0, point)
        picked = [chosen[size] for size in sorted(chosen)]
        place = picked[0].place
        name = place.first.size_name or ""
        lines.append(
            replace(
                _blank_line(place),
                variant=_without(place.variant, name),
                group=place.line_group,
                setting="",
                metric=picked[0].metric,
                direction=picked[0].direction,
                abscissa=name,
                by_size=True,
                seeds=min(
                    (point.seeds for point in picked if point.seeds is not None), default=None
                ),
                x=tuple(float(size) for size in sorted(chosen)),
                y=tuple(point.mean for point in picked if point.mean is not None),
                y_low=tuple(point.low for point in picked),
                y_high=tuple(point.high for point in picked),
                made_from=made,
            )
        )
    return lines


def _choice(place: Place) -> tuple[bool, float, str]:
    return place.first.role != "final", place.validation_loss(), place.first.identity


def _without(variant: str, name: str) -> str:
    return ", ".join(p for p in variant.split(", ") if p and not p.startswith(f"{name}="))
