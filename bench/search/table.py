"""Tables of sweeps on the console."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from bench.records.numbers import items_of, over_seeds
from bench.records.report import how_to_be_ranked, in_full, table_of
from bench.records.schema import Cost, RunRecord
from bench.records.store import record_path
from bench.search.driver import SweepResult
from bench.search.model_search import ModelResult
from core.amounts import amount
from core.places import readable
from core.privacy import DETAILS
from core.screen import console


def print_sweep(result: SweepResult, store: Path) -> None:
    """Models and baselines by the headline on the test split, best first; failures with causes."""
    records = [record for model in result.models for record in model.records]
    everything = [*records, *result.baselines]
    screen = console()
    if everything:
        screen.print(_ranking(result, everything[0]))
    for model in result.models:
        causes = causes_of(model.failures)
        if causes and (model.setting is not None or len(causes) > 1):
            sentences = []
            for cause, count in causes.items():
                how_often = f"{count} by: " if len(causes) > 1 else ""
                sentences.append(how_often + in_full(cause, store))
            screen.print(
                f"{model.label}: {len(model.failures)} of {amount(model.trials, 'trial')} failed: "
                f"{'; '.join(sentences)}",
                soft_wrap=True,
            )
        if model.cause:
            screen.print(f"{model.label}: {in_full(model.cause, store)}")
    paths = [record_path(record, store) for record in everything]
    for record, path in zip(everything, paths, strict=True):
        if record.outcome != "ok":
            screen.print(f"record of a failure: {readable(path)}", soft_wrap=True)
    for folder, number in Counter(path.parent for path in paths).items():
        screen.print(
            f"{amount(number, 'record')} of this sweep in {readable(folder)}", soft_wrap=True
        )
    if records and (sentence := how_to_be_ranked(records[0].preset)):
        screen.print(sentence, soft_wrap=True)


def causes_of(failures: Sequence[str]) -> dict[str, int]:
    """The first failure of each cause, and how many there are of it. Causes that differ in numbers
    alone, or in where their details lie, are one."""
    firsts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for failure in failures:
        kind = re.sub(r"\d+|inf|nan", "N", DETAILS.sub("", failure))
        counts[firsts.setdefault(kind, failure)] += 1
    return dict(counts)


def _ranking(result: SweepResult, example: RunRecord) -> Table:
    models, headline = result.models, example.headline
    unit = f" ({headline.unit})" if headline.unit else ""
    of_items = any(items_of(m.records, headline.name) for m in models)
    table = table_of(
        ["model"],
        [headline.name, "95 % interval", "seeds", "parameters", "trials", "seconds a run"],
        title=f"{example.task}, preset {example.preset}: {headline.name}{unit} on test, "
        f"{headline.direction}d; mean and 95 % interval over seeds"
        f"{' and test items' if of_items else ''}",
        caption=_budgets(models),
    )
    table.add_column("setting chosen on validation")
    rows = [_model_row(model) for model in models] + [_baseline_row(r) for r in result.baselines]
    sign = -1 if headline.direction == "maximise" else 1
    for _, row in sorted(rows, key=lambda row: math.inf if row[0] is None else sign * row[0]):
        table.add_row(*row)
    return table


def _budgets(models: Sequence[ModelResult]) -> str | None:
    """A line that says which model had how many trials, where that is not the same for all."""
    if len({model.trials for model in models}) < 2:
        return None
    each = ", ".join(f"{model.label} {model.trials}" for model in models)
    most = max(model.trials for model in models)
    return f"not the same number of trials ({each}): fewer than {most} are all of a smaller space"


def _model_row(model: ModelResult) -> tuple[float | None, list[str]]:
    """What it is ranked by, and its cells."""
    worked = model.trials - len(model.failures)
    trials = f"{worked}/{model.trials}" if model.failures else f"{model.trials}"
    if not model.records:
        return None, [model.label, "failed", "", "", "", trials, "", ""]
    # A run that did not end well has no number, whatever was measured before.
    values = [r.headline.value if r.outcome == "ok" else None for r in model.records]
    summary = over_seeds(model.records, values, model.records[0].headline.name)
    interval = summary.interval
    seconds = statistics.fmean(record.cost.wall_seconds for record in model.records)
    return summary.mean, [
        model.label,
        "failed" if summary.mean is None else f"{summary.mean:.4f}",
        "" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}",
        f"{len(values) - values.count(None)}/{len(values)}",
        _size(model.records[0].cost),
        trials,
        f"{seconds:.0f}",
        ", ".join(f"{key}={value}" for key, value in (model.setting or {}).items()),
    ]


def _size(cost: Cost) -> str:
    """Parameters, and what else training has changed."""
    size = f"{cost.parameters:,}"
    return f"{size} + {cost.changed_buffers:,} in buffers" if cost.changed_buffers else size


def _baseline_row(record: RunRecord) -> tuple[float | None, list[str]]:
    value = record.headline.value
    number = "none" if value is None else f"{value:.4f}"
    return value, [record.label, number, "", "", "0", "", "", "predictor without training"]
