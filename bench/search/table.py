"""Tables of sweeps on the console."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from bench.records.numbers import items_of, kind_of
from bench.records.schema import Headline, RunRecord
from bench.records.store import record_path
from bench.search.driver import ModelResult, SweepResult
from ground.screen import console
from ground.statistics import Mean, mean_interval


def print_sweep(result: SweepResult, store: Path) -> None:
    """Models and baselines by the headline on the test split, best first; failures with causes."""
    records = [record for model in result.models for record in model.records]
    everything = [*records, *result.baselines]
    screen = console()
    if everything:
        screen.print(_ranking(result, everything[0]))
    for model in result.models:
        if model.setting is not None and model.failures:
            screen.print(
                f"{model.label}: {len(model.failures)} of {model.trials} trials failed: "
                f"{model.failures[0]}",
            )
        if model.cause:
            screen.print(f"{model.label}: {model.cause}")
    for record in everything:
        if record.outcome != "ok":
            path = record_path(record, store)
            screen.print(f"record of a failure: {path}", soft_wrap=True)
    folders = Counter(record_path(record, store).parent for record in everything)
    for folder, number in folders.items():
        screen.print(f"{number} records in {folder}", soft_wrap=True)


def _ranking(result: SweepResult, example: RunRecord) -> Table:
    headline = example.headline
    unit = f" ({headline.unit})" if headline.unit else ""
    table = Table(
        title=f"{example.task}, preset {example.preset}: {headline.name}{unit} on test, "
        f"{headline.direction}d; mean and 95 % interval over seeds{_and_items(result.models)}",
        title_justify="left",
        caption=_budgets(result.models),
        caption_justify="left",
    )
    table.add_column("model")
    for column in (
        f"{headline.name}",
        "95 % interval",
        "seeds",
        "parameters",
        "trials",
        "seconds a run",
    ):
        table.add_column(column, justify="right")
    table.add_column("setting chosen on validation")
    rows = [(_summary(m.records).mean, _model_row(m)) for m in result.models]
    rows += [(_summary([r]).mean, _baseline_row(r)) for r in result.baselines]
    for _, row in sorted(rows, key=lambda row: _rank(row[0], headline)):
        table.add_row(*row)
    return table


def _budgets(models: Sequence[ModelResult]) -> str | None:
    """Who had how many trials, where that is not the same for all."""
    if len({model.trials for model in models}) < 2:
        return None
    each = ", ".join(f"{model.label} {model.trials}" for model in models)
    most = max(model.trials for model in models)
    return f"not the same number of trials ({each}): fewer than {most} are all of a smaller space"


def _summary(records: Sequence[RunRecord]) -> Mean:
    """Over seeds and test items; a run that did not end well has no number, whatever was measured
    before."""
    values = [r.headline.value if r.outcome == "ok" else None for r in records]
    if not records:
        return mean_interval(values)
    task, name = records[0].task, records[0].headline.name
    return mean_interval(values, kind_of(task, name), items_of(records, name))


def _and_items(models: Sequence[ModelResult]) -> str:
    known = [m for m in models if m.records and items_of(m.records, m.records[0].headline.name)]
    return " and test items" if known else ""


def _rank(mean: float | None, headline: Headline) -> float:
    if mean is None:
        return math.inf
    return -mean if headline.direction == "maximise" else mean


def _model_row(model: ModelResult) -> list[str]:
    worked = model.trials - len(model.failures)
    trials = f"{worked}/{model.trials}" if model.failures else f"{model.trials}"
    if not model.records:
        return [model.label, "failed", "", "", "", trials, "", ""]
    summary = _summary(model.records)
    interval = summary.interval
    seconds = statistics.fmean(record.cost.wall_seconds for record in model.records)
    return [
        model.label,
        "failed" if summary.mean is None else f"{summary.mean:.4f}",
        "" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}",
        f"{len(model.records) - summary.failures}/{len(model.records)}",
        f"{model.records[0].cost.parameters:,}",
        trials,
        f"{seconds:.0f}",
        ", ".join(f"{key}={value}" for key, value in (model.setting or {}).items()),
    ]


def _baseline_row(record: RunRecord) -> list[str]:
    value = record.headline.value
    shown = "none" if value is None else f"{value:.4f}"
    return [record.label, shown, "", "", "0", "", "", "predictor without training"]
