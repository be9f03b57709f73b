"""The rows of one table: the numbers of each setting over its seeds, and their ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.records.numbers import by_data_seed, components_of, items_of, over_seeds_and_items
from core.statistics import Direction, Interval, rank_ranges
from leaderboards.tables.grouping import Setting, SettingRecords
from leaderboards.tables.lines import Row

MEASURED = "measured"
REFERENCE = "reference"
REPLICATION = "replication"  # runs of one's own of a setting that is on the board
UNVERIFIED = "unverified"  # seeds that were sent for one, and nobody has run again

Directions = Mapping[tuple[str, str], Direction]


def kind_of_row(entry: SettingRecords) -> str:
    """What a row is: measured, a predictor without training, or what stands beside such a row."""
    return entry.beside or (REFERENCE if entry.first.is_reference else MEASURED)


def rows_of(
    settings: Sequence[Setting], directions: Directions, kept_rows: Iterable[Row] = ()
) -> list[Row]:
    """The rows of one table, by metric, the headline first; best first within a metric.

    Args:
        settings: those whose rows are to be made.
        directions: which way is better, for metrics that are no headline.
        kept_rows: the rows of the other settings, as they were before.
    """
    by_metric: dict[str, list[Row]] = defaultdict(list)
    for row in kept_rows:
        ranked = row.rank_best is not None or row.rank_worst is not None
        unranked = replace(row, rank_best=None, rank_worst=None) if ranked else row
        by_metric[row.metric].append(unranked)
    names = set(by_metric).union(*(setting.metrics for setting in settings))
    for setting in settings:
        for metric in sorted({setting.first.headline.name, *names}):
            # A setting that ended well and lacks a metric does not have it (a reference has no
            # loss); one that did not shows its failure under every metric.
            headline = metric == setting.first.headline.name
            if headline or metric in setting.metrics or not setting.ended_well:
                by_metric[metric].append(_row(setting, metric, directions))
    rows = []
    for metric in sorted(by_metric, key=lambda name: (not by_metric[name][0].headline, name)):
        rows += _best_first(with_ranks(by_metric[metric]))
    return rows


def _best_first(rows: Sequence[Row]) -> list[Row]:
    """Best first; below stand rows that are not fair, and below these what was submitted and nobody
    has run again, where other rows are ranked, or verified."""
    some_verified, ranked = _some_are_verified(rows), any(row.rank_best for row in rows)

    def order(row: Row) -> tuple[Any, ...]:
        mean = row.mean if row.mean is not None else 0.0
        score = -mean if row.direction == "maximise" else mean
        standing = some_verified and not row.verified, ranked and not row.fair, row.mean is None
        return *standing, score, row.label, row.setting, row.run_ids, row.kind

    return sorted(rows, key=order)


def _row(setting: Setting, metric: str, directions: Directions) -> Row:
    first, entry = setting.first, setting.entry
    headline = metric == first.headline.name
    loss: Direction | None = "minimise" if metric == "loss" else None
    direction = first.headline.direction if headline else directions.get((first.task, metric), loss)
    items, parts = items_of(setting.records, metric), components_of(setting.records, metric)
    summary = over_seeds_and_items(setting.records, setting.values(metric), metric, items)
    outcome, cause = setting.outcome(metric)
    costs = [r.cost for r in setting.records if r.outcome == "ok"] or [first.cost]
    flops = [cost.training_flops for cost in costs if cost.training_flops is not None]
    marks = setting.marks
    peaks = [c.peak_memory_bytes for c in costs if c.peak_memory_bytes is not None]
    return Row(
        task=first.task,
        preset=first.preset,
        variant=entry.variant,
        group=entry.group,
        model=first.model,
        label=first.label,
        setting=entry.name,
        kind=kind_of_row(entry),
        source="",
        metric=metric,
        direction=direction,
        unit=first.headline.unit if headline else "",
        headline=headline,
        mean=summary.mean,
        low=summary.interval.low if summary.interval else None,
        high=summary.interval.high if summary.interval else None,
        note=setting.note,
        seeds=None if setting.is_reference else len(setting.records),
        outcome=outcome,
        cause=cause,
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
        mark=marks[0].word if marks else "",
        marks=tuple(map(str, marks)),
        share_of_items=parts.share_of_items if parts and items and summary.interval else None,
        data_seeds=len(by_data_seed(setting.records)),
        origin=entry.origin,
        made_from=entry.made_from,
        checked=entry.status.words,
        verified=entry.status.verified,
    )


def with_ranks(rows: Sequence[Row]) -> list[Row]:
    """Ranks for the measured rows with an interval of which every seed ended well and which are
    tuned and converged; none where there are fewer than two.

    A mean over the seeds that survived would flatter, a reference is no contestant, and the unknown
    interval of a single seed, or of equal ones, would leave every other rank open. What was
    submitted and nobody has run again has no rank beside rows that are verified.
    """
    some_verified = _some_are_verified(rows)
    contestants: list[Row] = []
    intervals: list[Interval | None] = []
    for row in rows:
        may_rank = row.kind == MEASURED and row.outcome == "ok" and row.direction and row.fair
        has_interval = row.low is not None and row.high is not None
        if may_rank and has_interval and (row.verified or not some_verified):
            contestants.append(row)
            intervals.append(Interval(row.low, row.high))  # type: ignore[arg-type]
    if len(contestants) < 2:
        return list(rows)
    direction: Direction = "maximise" if contestants[0].direction == "maximise" else "minimise"
    ranges = rank_ranges(intervals, direction)
    ranks = {row.made_from: rank for row, rank in zip(contestants, ranges, strict=True)}
    ranked_rows = []
    for row in rows:
        if rank := ranks.get(row.made_from):
            row = replace(row, rank_best=rank.best, rank_worst=rank.worst)
        ranked_rows.append(row)
    return ranked_rows


def _some_are_verified(rows: Iterable[Row]) -> bool:
    return any(row.verified and row.kind == MEASURED for row in rows)
