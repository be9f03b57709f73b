"""Table 2: the transformer's settings on stories, one changed at a time.

The first setting is that of the preset; in six others one is scaled by the factor that lies between
the published ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.records.schema import RunRecord
from core import escaping
from core.statistics import SHARE
from reproduce.claims import presets
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import (
    Measured,
    Number,
    Records,
    Rule,
    Runs,
    above,
    each,
    once,
    share_of,
    trained_for,
    within,
)
from reproduce.drawing.tables import cell, markdown
from reproduce.drawing.traces import over_seeds, summary
from reproduce.experiment import OverSeeds
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace
from reproduce.stories import language
from reproduce.stories.language import GPT2, METRICS, PUBLISHED_METRICS, UNINFORMED

TITLE = "Table 2. The transformer's settings on stories, one changed at a time"
SOURCE = f"{language.PAPER}, appendix C, table 2"
PUBLISHED = "Memory Mosaics, Table 2"
TOLERANCE = 0.02  # nats, of a published loss
NO_GAIN = 0.01  # nats: a validation loss that is lower by less is not clearly lower
FULL_LENGTH = 80_000  # steps
WARMUP_SEEDS = 4  # as few as can be surely above 0.3 by the exact interval of a share
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
SHORT = (FIRST, SLOWER, HALF)  # what a training of hundreds or thousands of steps can tell


@cache
def settings(preset: str, row: Row) -> dict[str, Any]:
    """The varied settings of a row at a preset."""
    usual, values = presets.of_preset("babistories", GPT2, preset), {}
    for key in VARIED:
        scaled = float(f"{usual[key] * row.changes.get(key, 1):.12g}")
        values[key] = max(1, round(scaled)) if isinstance(usual[key], int) else scaled
    return values


def row_of(record: RunRecord) -> Row | None:
    """The row that a run belongs to; what its record is older than was as in the preset."""
    settings_of_run = presets.settings_of(record, record.preset)
    actual = {key: settings_of_run.get(key) for key in VARIED}
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


def changed(preset: str, row: Row) -> dict[str, Any]:
    """The settings of a row that are not those of the preset."""
    usual = presets.of_preset("babistories", GPT2, preset)
    return {key: v for key, v in settings(preset, row).items() if v != usual[key]}


def runs(preset: str) -> list[OverSeeds]:
    """Each setting over seeds; of a preset that trains for less than the paper those alone that
    some claim can be judged by there."""
    steps = presets.of_preset("babistories", GPT2, preset)["training.steps"]
    planned = []
    for row in ROWS if steps >= FULL_LENGTH else SHORT:
        seeds = WARMUP_SEEDS if row == SHORT_WARMUP else language.SEEDS
        planned.append(OverSeeds("babistories", [GPT2], changed(preset, row), seeds=seeds))
    return planned


def select(records: Records) -> list[RunRecord]:
    """The transformer's runs with the settings of a row."""
    return language.chosen_runs(records, (GPT2,), lambda record: row_of(record) is not None, VARIED)


def picture(records: Records) -> Picture:
    """One line for each setting: losses here, and the published ones on their own axis."""
    measured, remarks = [], []
    for place, row in enumerate(ROWS):
        measured += [_measured(records, place, row, metric) for metric in METRICS]
        if published(row, "loss") is None:
            at = published(FIRST, "loss")
            remarks.append(Remark("training failed", x=place, y=at, side="center"))
    rows = Axis(categories=[_tick(row, records) for row in ROWS])
    axis = Axis("loss, nats per token (lower is better)")
    title = "measured here: mean, 95 % interval, seeds"
    left = Panel(title, rows, axis, measured, sideways=True, legend="best")
    title = "published (BabiStories, 12 blocks)"
    right = Panel(title, rows, axis, list(map(_published, METRICS)), remarks, sideways=True)
    return Picture(TITLE, [PanelRow([left, right], 3.8, shared=True)], width=10.5)


LEGEND = {"loss": "validation", "train_loss": "training, without dropout"}


def _measured(records: Records, place: int, row: Row, metric: str) -> Trace:
    name, by_place = f"{row.name}, {METRICS[metric]}", {place: of_row(row).of(records)}
    look: dict[str, Any] = {"mark": "dots", "colour": GPT2, "legend": LEGEND[metric]}
    return over_seeds(name, by_place, metric, **look, **_kind(metric))


def _kind(metric: str) -> dict[str, Any]:
    """What tells the losses apart."""
    return {"hollow": metric == "train_loss", "aside": 1 if metric == "train_loss" else -1}


def _published(metric: str) -> Trace:
    levels = [published(row, metric) for row in ROWS]
    look: dict[str, Any] = {"mark": "dots", "role": "published"}
    return Trace(METRICS[metric], range(len(ROWS)), levels, **look, **_kind(metric))


def _tick(row: Row, records: Records) -> str:
    """The name of a row, with the values of what it changes at the preset of the records."""
    values = settings(records[0].preset, row) if records else {}
    details = []
    for key in row.changes:
        if key in values and not key.endswith("fraction"):
            name = key.partition(".")[2].removesuffix("_steps").replace("_", " ")
            details.append(f"{name} {values[key]:g}")
    return f"{row.name}\n({', '.join(details)})" if details else row.name


def table(records: Records) -> str:
    """The table with its settings here, ours beside the published losses."""
    heads = ["learning rate", "dropout", "weight decay", "warm-up", "steps"]
    keys = [key for key in VARIED if not key.endswith("minimum_lr_fraction")]
    for name in METRICS.values():
        heads += [f"{name} loss", "published"]
    lines = []
    for row in ROWS:
        values, runs_of_row = settings(records[0].preset, row), of_row(row).of(records)
        line = [f"{values[key]:g}" for key in keys]
        for metric in METRICS:
            level = published(row, metric)
            line.append(cell(summary(runs_of_row, metric)))
            line.append("failed" if level is None else f"{level:.3f}")
        lines.append(line)
    return f"{markdown(heads, lines)}\n{escaping.markdown(language.corpus_line(records))}\n"


def _worse(*rows: Row, by: float = 0.0, lower_training: bool = False) -> Rule:
    """The validation loss of each row is higher than the first's, and its training loss lower."""
    rules = [above(loss(row, "loss"), loss(FIRST, "loss"), by) for row in rows]
    if lower_training:
        rules += [above(loss(FIRST, "train_loss"), loss(row, "train_loss"), by) for row in rows]
    return each(rules)


def _as_published() -> Rule:
    losses = [
        (loss(row, metric, of_windows), level)
        for row in ROWS
        for metric, of_windows in PUBLISHED_METRICS.items()
        if (level := published(row, metric)) is not None
    ]
    return each(
        within(loss_of_row, level - TOLERANCE, level + TOLERANCE) for loss_of_row, level in losses
    )


HIGHER = (
    "the validation loss minus that of the first setting lies above {by:g} with its whole 95 % "
    "interval; a run that diverged counts as one that knows nothing"
)
BOTH = (
    "the validation loss is higher and the training loss lower than that of the first setting, "
    "each by more than {by:g} with the whole 95 % interval"
)
# What is asked is whether training fails: a run that diverged is a success here.
DIVERGED = Number("", lambda record: 0.0, SHARE, diverged=1.0)
# Overfitting, the end of what longer training helps, and a warm-up too short are matters of 80,000
# steps: a training of hundreds, in which nothing is seen twice, says nothing of them.
AT_FULL_LENGTH = trained_for(FULL_LENGTH, "paper", "what 80,000 steps leave")
CLAIMS = (
    Claim(
        "the first setting is the best",
        "No change of one setting gives a clearly lower validation loss.",
        once(AT_FULL_LENGTH, _worse(*ROWS[1:], by=-NO_GAIN)),
        "for each of the other settings the validation loss minus that of the first lies above "
        "{by:g} with its whole 95 % interval (published: 0.003 at the least); a run "
        "that diverged counts as one that knows nothing",
    ),
    Claim(
        "a smaller learning rate is worse",
        "A fifth of the learning rate gives a higher validation loss.",
        _worse(SLOWER),
        HIGHER,
    ),
    Claim(
        "without dropout it overfits",
        "Without dropout the training loss is lower and the validation loss higher.",
        once(AT_FULL_LENGTH, _worse(NO_DROPOUT, lower_training=True)),
        BOTH,
    ),
    Claim(
        "with less weight decay it overfits",
        "With a tenth of the weight decay the training loss is lower and the validation loss "
        "higher.",
        once(AT_FULL_LENGTH, _worse(LESS_DECAY, lower_training=True)),
        BOTH,
    ),
    Claim(
        "a short warm-up fails",
        "With a tenth of the warm-up training diverges.",
        once(
            AT_FULL_LENGTH,
            share_of(DIVERGED.of(of_row(SHORT_WARMUP), "training diverged"), 0.8, certain=0.3),
        ),
        "in at least {at_least:.0%} of the seeds, and surely in more than {certain:.0%}, the "
        "training diverged",
    ),
    Claim(
        "half the steps are too few",
        "Half the steps give a higher validation loss.",
        _worse(HALF),
        HIGHER,
    ),
    Claim(
        "twice the steps only fit the training better",
        "Twice the steps lower the training loss, but not the validation loss.",
        once(
            AT_FULL_LENGTH,
            each(
                [
                    above(loss(FIRST, "train_loss"), loss(TWICE, "train_loss")),
                    above(loss(TWICE, "loss"), loss(FIRST, "loss"), by=-NO_GAIN),
                ]
            ),
        ),
        f"the training loss is lower than that of the first setting, and the validation loss not "
        f"by more than {NO_GAIN:g}, each with the whole 95 % interval",
    ),
    Claim(
        "losses of table 2",
        "The losses of all settings that did not fail are the published ones.",
        once(language.at_published_scale("published losses", of=of_row(FIRST).of), _as_published()),
        f"each mean over seeds, of random windows as published, lies within {TOLERANCE:g} nats of "
        "it with its whole 95 % interval; on BabiStories only",
        asked_with=language.ON_BABISTORIES,
    ),
)

EXPERIMENT = language.experiment(
    TITLE,
    SOURCE,
    CLAIMS,
    runs=runs,
    records=select,
    panels=picture,
    table=table,
    variant=lambda record: (row_of(record) or FIRST).name,
    varied=VARIED,
)
