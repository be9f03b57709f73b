"""What figures 14, 15 and 16 share: models of one block, by how they know positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench.records.schema import RunRecord
from core.statistics import COUNT, Kind
from reproduce.attention.heads import EXTENDED, Heads, heads, highest
from reproduce.claims.grammar import Measured, Number, Records, Rule, Runs, setting, within
from reproduce.claims.observations import Read
from reproduce.drawing.frame import failures
from reproduce.experiment import Experiment
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace
from reproduce.stories import language
from reproduce.stories.language import GPT2, PAPER

SOURCE = f"{PAPER}, appendix D.4"

MOSAIC, LEARNED, ROPE, ALIBI = "memory_mosaic", "learned", "rope", "alibi"
POSITIONS = {LEARNED: "learned positions", ROPE: "RoPE", ALIBI: "ALiBi"}  # of a transformer
LABELS = {MOSAIC: label(MOSAIC)} | {k: f"{label(GPT2)}, {name}" for k, name in POSITIONS.items()}
# Small presets need more heads than they have by themselves, so that heads can be ranked; with so
# few tokens and one block, the smallest also needs more steps before a head looks anywhere.
SCALE = {
    "smoke": {"models.heads": 8, "training.steps": 1000},
    "laptop": {"models.heads": 8},
}


def experiment(
    title: str,
    figure: str,
    kinds: Sequence[str],
    panels: Callable[[Records], Picture],
    **others: Any,
) -> Experiment:
    """A figure of the paper about one-block models of these kinds."""

    def cells(preset: str) -> list[tuple[list[str], dict[str, Any]]]:
        planned = []
        for kind in kinds:
            settings: dict[str, Any] = {"models.layers": 1, **SCALE.get(preset, {})}
            if kind != MOSAIC:
                settings["models.positions"] = kind
            planned.append(([MOSAIC if kind == MOSAIC else GPT2], settings))
        return planned

    return language.experiment(
        title,
        f"{SOURCE}, {figure}",
        records=partial(select, kinds),
        panels=panels,
        variant=kind_of,
        varied=("models.layers", "models.positions"),
        **language.trainings("attention", cells),
        **others,
    )


def kind_of(record: RunRecord) -> str:
    """The positions of a transformer, or the name of a model that has none."""
    return str(setting(record, "models.positions", record.model))


def select(kinds: Sequence[str], records: Records) -> list[RunRecord]:
    """Runs of one-block models of these kinds, measured on the same windows."""

    def belongs(record: RunRecord) -> bool:
        shallow = setting(record, "models.layers") == 1
        return record.task == "attention" and shallow and kind_of(record) in kinds

    tuned = language.tuned(filter(belongs, language.trained(records)))
    return language.of_one_corpus(tuned, lambda record: record.provenance.data.get("windows"))


def of(kind: str) -> Runs:
    """The models of a kind."""
    return Runs(LABELS[kind], "attention", choose=lambda record: kind_of(record) == kind)


def measured(
    kind: str, name: str, read: str | Read, of_kind: Kind = COUNT, diverged: float | None = None
) -> Measured:
    """A number of the models of a kind, mean over heads. Most are from 0 on, without an upper end,
    so that a run that gave none may have had any."""
    return Number(name, read, of_kind, diverged=diverged).of(of(kind), f"{LABELS[kind]}, {name}")


ATTENDS = 2.0  # times uniform attention, as where a recent peak ends
IS_JUDGED_WHERE = (
    "judged where {}: a head gives the position that it attends to most "
    f"{ATTENDS:g} times uniform attention or more, mean over heads, with its whole 95 % interval "
    "over seeds"
)


def attends(kind: str) -> Rule:
    """The models of a kind attend to some positions more than to others.

    Claims about where attention goes are judged where this holds alone: attention that is still as
    uniform as before training goes nowhere.
    """
    return within(measured(kind, "most attended position", highest), low=ATTENDS)


# How attention is drawn

X = Axis("position in the window; the last one reads")
Y = Axis("average attention, times uniform", "log", ticks=(0.01, 0.1, 1, 10, 100, 1000))
LOWEST = 0.01  # of the attention axis: ALiBi's falls exponentially
NO_RESULT = Remark("no result")
DIGITS = 5


def picture(title: str, records: Records, panels: Sequence[Panel]) -> Picture:
    """The panels beside each other; runs that failed are named with their kind of positions."""
    labelled = [r.model_copy(update={"label": LABELS[kind_of(r)]}) for r in records]
    return Picture(title, [PanelRow(panels)], 2.4 + 3.2 * len(panels), foot=failures(labelled))


def by_position(title: str, records: Records, kinds: Sequence[str], windows: str) -> Picture:
    """A panel for each kind of models, on one scale."""
    panels = [_by_position(records, kind, windows) for kind in kinds]
    drawn = [y for panel in panels for trace in panel.traces for y in trace.y if y is not None]
    limits = (max(LOWEST, min(drawn) / 1.2), max(drawn) * 1.2) if drawn else (LOWEST, 1.0)
    panels = [replace(panel, y=replace(Y, limits=limits)) for panel in panels]
    whole = picture(title, records, panels)
    return replace(whole, rows=[PanelRow(panels, shared=True)], legend="below")


def _by_position(records: Records, kind: str, windows: str) -> Panel:
    """Heads of one seed thin, the mean over heads of each seed dotted, uniform attention grey, and
    a line where a training window would begin."""
    runs = of(kind).finished(records)
    if not runs:
        return Panel(LABELS[kind], X, remarks=[NO_RESULT])
    first, traces = heads(runs[0], windows), []
    legend = f"{len(first)} heads of {runs[0].label}, seed {runs[0].seed}"
    for number, head in enumerate(first):
        name = f"head {number}"
        traces.append(line(name, head, role="faint", colour=runs[0].model, legend=legend))
    look: dict[str, Any] = {
        "colour": "black",
        "line": "dotted",
        "legend": "mean over heads, every seed",
    }
    for run in runs:
        mean = heads(run, windows).mean(axis=0)
        traces.append(line(f"mean over heads, seed {run.seed}", mean, **look))
    reach, remarks = setting(runs[0], "tasks.length"), [Remark(y=1.0)]
    if windows == EXTENDED:
        text = f"training reaches {reach} tokens back"
        remarks.append(Remark(text, x=first.shape[-1] - reach, side="left"))
    return Panel(LABELS[kind], X, traces=traces, remarks=remarks)


def line(name: str, curve: Heads, first: int = 0, **look: Any) -> Trace:
    """A curve without zeros, for which a logarithmic axis has no place; from position ``first``."""
    rounded = curve.round(DIGITS)
    rounded[rounded <= 0] = np.nan  # is not drawn
    return Trace(name, range(first, first + len(curve)), rounded.tolist(), **look)
