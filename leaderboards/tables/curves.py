"""The curves of one setting over its seeds, and those by training size over several settings."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from bench.records.numbers import by_data_seed, kind_of, over_seeds_by_data
from leaderboards.tables.grouping import Setting, SettingRecords
from leaderboards.tables.lines import ModelCurve, Row
from leaderboards.tables.rows import kind_of_row

LOSS_CURVES = ("training_loss", "validation_loss")  # against training steps


def lines_of(setting: Setting) -> list[ModelCurve]:
    """The curves of a setting, pointwise over its seeds."""
    finished = [record for record in setting.records if record.outcome == "ok"]
    # Seeds that failed have no curve: the legend says how many are left.
    seeds_left = (
        f"{len(finished)} of {len(setting.records)} seeds" if not setting.ended_well else ""
    )
    lines = []
    for name in sorted(set().union(*(record.curves for record in finished))):
        records = [record for record in finished if name in record.curves]
        # The y of all records that have a point at an x, by the seed of their data.
        points: dict[float, list[list[float]]] = defaultdict(list)
        for of_one_data_seed in by_data_seed(records):
            own_points: dict[float, list[float]] = defaultdict(list)
            for record in of_one_data_seed:
                curve = record.curves[name]
                for x, y in zip(curve.x, curve.y, strict=True):
                    own_points[x].append(y)
            for x, values in own_points.items():
                points[x].append(values)
        if not points:
            continue
        places = sorted(points)
        kind = kind_of(setting.first.task, name)
        # No record holds the items of a point.
        means = [over_seeds_by_data(points[x], kind) for x in places]
        lines.append(
            replace(
                _blank_line(setting.entry),
                setting=", ".join(part for part in (setting.entry.name, seeds_left) if part),
                metric=name,
                abscissa="training step" if name in LOSS_CURVES else "position",
                seeds=None if setting.is_reference else len(records),
                x=tuple(places),
                y=tuple(m.mean for m in means if m.mean is not None),
                y_low=tuple(m.interval.low if m.interval else None for m in means),
                y_high=tuple(m.interval.high if m.interval else None for m in means),
            )
        )
    return lines


def _blank_line(entry: SettingRecords) -> ModelCurve:
    first = entry.first
    return ModelCurve(
        task=first.task,
        preset=first.preset,
        variant=entry.variant,
        group=entry.group,
        model=first.model,
        label=first.label,
        setting=entry.name,
        kind=kind_of_row(entry),
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
        made_from=entry.made_from,
    )


SizedRow = tuple[SettingRecords, Row]  # a row with its entry, which has a training size


def has_size(entry: SettingRecords) -> bool:
    """Whether a setting has a place on a curve by training size."""
    return entry.first.size is not None and not entry.beside


def made_from(entries: Iterable[SettingRecords]) -> str:
    """Hash of all that the curves by size of these settings follow from."""
    texts = sorted(f"{entry.made_from} {entry.variant}" for entry in entries)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def lines_by_size(points: Iterable[SizedRow], made_from_hash: str) -> list[ModelCurve]:
    """For each model and metric of settings that differ in the training size the curve over it.

    At a size with several settings of a model, the curve takes the one that validation chose: a
    study's final setting, else the lowest validation loss. The test split decides nothing.

    Args:
        points: rows of settings that ended well.
        made_from_hash: that of all of these settings.
    """
    points_by_curve: dict[tuple[str, str, str], list[SizedRow]] = defaultdict(list)
    for entry, row in points:
        points_by_curve[row.metric, entry.first.label, entry.first.model].append((entry, row))
    lines = []
    for _, candidates in sorted(points_by_curve.items()):
        point_by_size: dict[int, SizedRow] = {}
        for entry, row in sorted(candidates, key=_as_chosen):
            point_by_size.setdefault(entry.first.size or 0, (entry, row))
        sizes = sorted(point_by_size)
        rows = [point_by_size[size][1] for size in sizes]
        smallest = point_by_size[sizes[0]][0]
        size_name = smallest.first.size_name or ""
        settings = [word for word in smallest.variant.split(", ") if word]
        others = [word for word in settings if not word.startswith(f"{size_name}=")]
        lines.append(
            replace(
                _blank_line(smallest),
                variant=", ".join(others),
                group=smallest.line_group,
                setting="",
                metric=rows[0].metric,
                direction=rows[0].direction,
                abscissa=size_name,
                by_size=True,
                seeds=min((row.seeds for row in rows if row.seeds is not None), default=None),
                x=tuple(map(float, sizes)),
                y=tuple(row.mean for row in rows if row.mean is not None),
                y_low=tuple(row.low for row in rows),
                y_high=tuple(row.high for row in rows),
                made_from=made_from_hash,
            )
        )
    return lines


def _as_chosen(point: SizedRow) -> tuple[bool, float, str]:
    entry = point[0]
    return entry.first.role != "final", entry.validation_loss(), entry.first.identity
