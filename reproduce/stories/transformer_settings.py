"""The settings of table 2, and runs by setting: first those of the preset, then six in each of
which one is scaled by the factor that lies between the published ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.records.schema import RunRecord
from reproduce.judging import presets
from reproduce.judging.grammar import Measured, Runs
from reproduce.stories import language
from reproduce.stories.language import GPT2, METRICS, PUBLISHED_METRICS, UNINFORMED

PUBLISHED = "Memory Mosaics, Table 2"
VARIED = (
    "training.lr",
    "training.minimum_lr_fraction",
    "models.dropout",
    "training.weight_decay",
    "training.warmup_steps",
    "training.steps",
)


@dataclass(frozen=True, eq=False)
class Row:
    """One setting.

    Attributes:
        name: what is changed of the first row.
        label: of its published losses.
        changes: factors of settings of the preset, such as those between the published settings.
    """

    name: str
    label: str
    changes: Mapping[str, float]


FIRST = Row("first setting", "GPT2", {})
SLOWER = Row(
    "a fifth of the learning rate",
    "GPT2, lr 1e-3",
    # The schedule ends at the same learning rate in all rows.
    {"training.lr": 1 / 5, "training.minimum_lr_fraction": 5},
)
NO_DROPOUT = Row("no dropout", "GPT2, no dropout", {"models.dropout": 0})
LESS_DECAY = Row(
    "a tenth of the weight decay", "GPT2, weight decay 0.01", {"training.weight_decay": 1 / 10}
)
SHORT_WARMUP = Row(
    "a tenth of the warm-up", "GPT2, 200 warm-up steps", {"training.warmup_steps": 1 / 10}
)
HALF = Row("half the steps", "GPT2, 40,000 steps", {"training.steps": 1 / 2})
TWICE = Row("twice the steps", "GPT2, 160,000 steps", {"training.steps": 2})
ROWS = (FIRST, SLOWER, NO_DROPOUT, LESS_DECAY, SHORT_WARMUP, HALF, TWICE)


@cache
def settings(preset: str, row: Row) -> dict[str, Any]:
    """The varied settings of a row at a preset."""
    own = presets.preset_settings("babistories", GPT2, preset)
    values = {}
    for key in VARIED:
        section, _, name = key.partition(".")
        value = own[section][name]
        scaled = float(f"{value * row.changes.get(key, 1):.12g}")
        values[key] = max(1, round(scaled)) if isinstance(value, int) else scaled
    return values


def words_of(preset: str, row: Row) -> tuple[str, ...]:
    """What the row changes, as words of the command line."""
    found = settings(preset, row)
    return tuple(f"{key}={json.dumps(found[key])}" for key in row.changes)


def row_of(record: RunRecord) -> Row | None:
    """The row that a run belongs to; what its record is older than was as in the preset."""
    actual = {key: presets.setting(record, record.preset, key) for key in VARIED}
    return next((row for row in ROWS if settings(record.preset, row) == actual), None)


def of_row(row: Row) -> Runs:
    """The runs of a row."""
    return Runs(row.name, choose=lambda record: row_of(record) == row)


def loss(row: Row, name: str, measured: str | None = None) -> Measured:
    """A loss of a row. A diverged run counts as a model that knows nothing: that a setting is bad
    is a result."""
    number = language.loss(name, measured, diverged=UNINFORMED)
    return number.of(of_row(row), f"{row.name}: {METRICS[name]} loss")


def published(row: Row, metric: str) -> float | None:
    """The published loss; None where training failed."""
    return language.published_number(PUBLISHED, PUBLISHED_METRICS[metric], row.label)
