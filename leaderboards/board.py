"""Records, published numbers and verdicts → the board. Pure functions: equal input, equal board."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from bench.records.numbers import by_data_seed, components_of, items_of, over_seeds
from bench.records.schema import RunRecord
from ground.progress import Report, counted, silent
from ground.statistics import Direction, Interval, Mean, rank_ranges
from judging.fairness import marks
from leaderboards import published_rows as published
from leaderboards.contents import Board, Line, RecordLine, Row
from leaderboards.grouping import (
    OFF_THE_BOARD,
    Setting,
    collect,
    task_settings,
    training_size,
)
from leaderboards.standing.levels import Standings
from leaderboards.verdicts import VerdictFile, claim_lines
from published.numbers import PublishedFile, directions

MEASURED = "measured"
REFERENCE = "reference"

LOSS_CURVES = ("training_loss", "validation_loss")  # against training steps
BULK = {"curves", "arrays", "per_sequence"}  # not shown; the record's file has them

Directions = Mapping[tuple[str, str], Direction]


def build_board(
    records: Iterable[RunRecord],
    published_files: Sequence[PublishedFile] = (),
    verdicts: Sequence[VerdictFile] = (),
    report: Report = silent,
    standings: Standings | None = None,
) -> Board:
    """The whole board; ``report`` counts records as they come, then rows and curves.

    Args:
        standings: how far the records were checked; without it none was.

    Raises:
        UserError: a record occurs twice under two names.
    """
    kept = sorted(
        (r for r in records if r.role not in OFF_THE_BOARD), key=lambda record: record.run_id
    )
    settings = collect(kept)
    known = directions(published_files)
    groups = _groups(settings)
    checks = (standings or Standings({})).about(kept)
    ranking = counted(groups, "ranking rows", report)
    rows = [row for group in ranking for row in _rows(group, known, checks)]
    each = counted(settings, "averaging curves", report)
    lines = [line for setting in each for line in _lines(setting)]
    by_size = _lines_by_size(settings, rows)
    tables = [
        published.MeasuredTable(first.task, group[0].variant, task_settings(first))
        for group in groups
        if (first := group[0].first).preset == published.PRESET
    ]
    return Board(
        rows=(*rows, *published.rows(published_files, tables)),
        lines=(*lines, *by_size, *published.lines(published_files)),
        claims=tuple(claim_lines(verdicts)),
        records=tuple(map(_record_line, kept)),
    )


def _groups(settings: Sequence[Setting]) -> list[list[Setting]]:
    groups: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        groups[setting.group].append(setting)
    return list(groups.values())


def _rows(group: Sequence[Setting], known: Directions, checks: Standings) -> list[Row]:
    """The rows of one group, by metric, the headline first; best first within a metric."""
    task, headline = group[0].first.task, group[0].first.headline
    others = sorted({name for setting in group for name in setting.metrics} - {headline.name})
    standings = [checks.of_row(setting.records) for setting in group]
    rows = []
    for metric in (headline.name, *others):
        is_headline = metric == headline.name
        loss: Direction | None = "minimise" if metric == "loss" else None
        direction = headline.direction if is_headline else known.get((task, metric), loss)
        unit = headline.unit if is_headline else ""
        unranked = [
            replace(
                _row(setting, metric, direction, unit, is_headline),
                checked=standing.words,
                verified=standing.verified,
            )
            for setting, standing in zip(group, standings, strict=True)
            # A setting that ended well and lacks a metric does not have it (a reference has
            # no loss); one that did not shows its failure under every metric.
            if is_headline or metric in setting.metrics or not setting.ended_well
        ]
        ranked = _ranked(unranked)
        below = any(row.rank_best for row in ranked)  # what is not fair stands below what is
        some = any(row.verified and row.kind == MEASURED for row in ranked)

        def place(row: Row, below: bool = below, some: bool = some) -> tuple[Any, ...]:
            return some and not row.verified, below and not row.fair, *_best_first(row)

        rows += sorted(ranked, key=place)
    return rows


def _row(
    setting: Setting, metric: str, direction: Direction | None, unit: str, headline: bool
) -> Row:
    first = setting.first
    items, parts = items_of(setting.records, metric), components_of(setting.records, metric)
    summary = over_seeds(setting.records, setting.values(metric), metric)
    outcome, cause = setting.outcome(metric)
    costs = [r.cost for r in setting.records if r.outcome == "ok"] or [first.cost]
    flops = [cost.training_flops for cost in costs if cost.training_flops is not None]
    found = marks(setting.records)
    peaks = [c.peak_memory_bytes for c in costs if c.peak_memory_bytes is not None]
    return Row(
        task=first.task,
        preset=first.preset,
        variant=setting.variant,
        group=setting.group,
        model=first.model,
        label=first.label,
        setting=setting.name,
        kind=REFERENCE if setting.is_reference else MEASURED,
        source="",
        metric=metric,
        direction=direction,
        unit=unit,
        headline=headline,
        mean=summary.mean,
        low=summary.interval.low if summary.interval else None,
        high=summary.interval.high if summary.interval else None,
        reading_error=None,
        note="",
        seeds=None if setting.is_reference else len(setting.records),
        outcome=outcome,
        cause=cause,
        rank_best=None,
        rank_worst=None,
        # A measurement that says none has some that nobody counted; a reference has none.
        parameters=costs[0].parameters or (0 if setting.is_reference else None),
        position_parameters=costs[0].position_parameters,
        state_bytes=costs[0].state_bytes,
        state_length=costs[0].state_length,
        training_flops=sum(flops) / len(flops) if flops else None,
        training_tokens=costs[0].training_tokens,
        training_steps=costs[0].training_steps,
        trials=max(record.cost.tuning_trials for record in setting.records),
        wall_seconds=sum(cost.wall_seconds for cost in costs) / len(costs),
        peak_memory_bytes=max(peaks, default=None),
        device=", ".join(sorted({r.provenance.device for r in setting.records})),
        run_ids=tuple(record.run_id for record in setting.records),
        items=items.count if items and summary.interval else None,
        mark=found[0].word if found else "",
        marks=tuple(map(str, found)),
        share_of_items=parts.share_of_items if parts and items and summary.interval else None,
        data_seeds=len(by_data_seed(setting.records)),
    )


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """Ranks for the measured rows with an interval of which every seed ended well and which are
    tuned and converged; none where there are fewer than two.

    A mean over the seeds that survived would flatter, a reference is no contestant, and the unknown
    interval of a single seed, or of equal ones, would leave every other rank open. What was
    submitted and nobody has run again has no rank beside rows that are verified.
    """
    some = any(row.verified and row.kind == MEASURED for row in rows)
    contestants = [
        row
        for row in rows
        if row.kind == MEASURED
        and row.outcome == "ok"
        and row.direction
        and row.fair
        and (row.verified or not some)
        and _interval(row)
    ]
    if len(contestants) < 2:
        return list(rows)
    direction: Direction = "maximise" if contestants[0].direction == "maximise" else "minimise"
    ranges = rank_ranges([_interval(row) for row in contestants], direction)
    ranks = {row.run_ids: rank for row, rank in zip(contestants, ranges, strict=True)}
    return [
        replace(row, rank_best=ranks[row.run_ids].best, rank_worst=ranks[row.run_ids].worst)
        if row.run_ids in ranks
        else row
        for row in rows
    ]


def _interval(row: Row) -> Interval | None:
    if row.low is None or row.high is None:
        return None
    return Interval(row.low, row.high)


def _best_first(row: Row) -> tuple[bool, float, str, str, tuple[str, ...]]:
    mean = row.mean if row.mean is not None else 0.0
    signed = -mean if row.direction == "maximise" else mean
    return row.mean is None, signed, row.label, row.setting, row.run_ids


def _lines(setting: Setting) -> list[Line]:
    """The curves of a setting, pointwise over its seeds."""
    finished = [record for record in setting.records if record.outcome == "ok"]
    names = sorted({name for record in finished for name in record.curves})
    # Seeds that failed have no curve: the legend says how many are left.
    some = f"{len(finished)} of {len(setting.records)} seeds" if not setting.ended_well else ""
    described = ", ".join(part for part in (setting.name, some) if part)
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
                _blank_line(setting),
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


def _blank_line(setting: Setting) -> Line:
    first = setting.first
    return Line(
        task=first.task,
        preset=first.preset,
        variant=setting.variant,
        group=setting.group,
        model=first.model,
        label=first.label,
        setting=setting.name,
        kind=REFERENCE if setting.is_reference else MEASURED,
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
    )


def _lines_by_size(settings: Sequence[Setting], rows: Iterable[Row]) -> list[Line]:
    """For each model and metric the curve over training sizes, if the task has one.

    At a size with several settings of a model, the curve takes the one that validation chose: a
    study's final setting, else the lowest validation loss. The test split decides nothing.
    """
    by_runs = {(s.group, *(r.run_id for r in s.records)): s for s in settings}

    def key(pair: tuple[Setting, Row]) -> tuple[str, str, str, str, str, str]:
        setting, row = pair
        return (
            row.task,
            row.preset,
            setting.line_group,
            row.metric,
            row.label,
            row.model,
        )

    pairs = [(by_runs[row.group, *row.run_ids], row) for row in rows if row.outcome == "ok"]
    sized = [pair for pair in pairs if training_size(pair[0].first)]
    lines = []
    for _, members in groupby(sorted(sized, key=key), key=key):
        chosen: dict[int, tuple[Setting, Row]] = {}
        for setting, row in sorted(members, key=_choice):
            found = training_size(setting.first)
            assert found is not None
            name, size = found
            chosen.setdefault(size, (setting, row))
        picked = [chosen[size][1] for size in sorted(chosen)]
        setting = chosen[min(chosen)][0]
        lines.append(
            replace(
                _blank_line(setting),
                variant=_without(setting.variant, name),
                group=setting.line_group,
                setting="",
                metric=picked[0].metric,
                direction=picked[0].direction,
                abscissa=name,
                by_size=True,
                seeds=min((row.seeds for row in picked if row.seeds is not None), default=None),
                x=tuple(float(size) for size in sorted(chosen)),
                y=tuple(row.mean for row in picked if row.mean is not None),
                y_low=tuple(row.low for row in picked),
                y_high=tuple(row.high for row in picked),
            )
        )
    return lines


def _choice(pair: tuple[Setting, Row]) -> tuple[bool, float, str]:
    setting = pair[0]
    return setting.first.role != "final", setting.validation_loss(), setting.first.identity


def _without(variant: str, name: str) -> str:
    return ", ".join(p for p in variant.split(", ") if p and not p.startswith(f"{name}="))


def _record_line(record: RunRecord) -> RecordLine:
    shown = record.model_dump(mode="json", exclude=BULK)
    shown["content_sha256"] = record.content_hash()
    return RecordLine(
        run_id=record.run_id,
        task=record.task,
        preset=record.preset,
        model=record.model,
        label=record.label,
        role=record.role,
        seed=record.seed,
        outcome=record.outcome,
        content=json.dumps(shown, sort_keys=True),
    )
