"""What tables 4 and 5 share: continuations of the 24 prompts, counted by the check of the task.

The paper prints texts and colours, and counts nothing. The published counts here are this project's
own, by the same check on the continuations as printed, which their authors cut by hand. The words
of the check were chosen with these in view, so they say what it can see, not how good it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench.records.schema import RunRecord
from core import escaping
from core.statistics import mean_of
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import Drawn, Number, Records, Runs, metric, setting
from reproduce.claims.observations import Sample
from reproduce.drawing.frame import seed_names
from reproduce.drawing.tables import markdown
from reproduce.drawing.traces import over_seeds, published
from reproduce.experiment import Baselines, Experiment
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories import language
from reproduce.stories.language import GPT2, LABELS

TASK = "story_prompts"
MODELS = (GPT2, MOSAIC)
GROUPS = {"factual": 9, "reasoning": 9, "consistency": 6}  # in the order of the prompts
GROUP_OF = tuple(group for group, size in GROUPS.items() for _ in range(size))
PUBLISHED_LAYERS = 18
Counts = Mapping[str, Mapping[str, int]]
# Sensible continuations among those printed in tables 4 and 5.
PUBLISHED_DEEP: Counts = {
    GPT2: {"factual": 8, "reasoning": 6, "consistency": 6},
    MOSAIC: {"factual": 8, "reasoning": 7, "consistency": 4},
}
PUBLISHED_ONE_BLOCK: Counts = {
    GPT2: {"factual": 1, "reasoning": 2, "consistency": 1},
    MOSAIC: {"factual": 3, "reasoning": 2, "consistency": 1},
}
SENSIBLE = metric("sensible")
BY_US = "counted by this project's check, not by the paper"
OTHER_STORIES = Runs("sentences of other stories", TASK, baseline="another story")


def select(one_block: bool, records: Records) -> list[RunRecord]:
    """Runs of the two models, perhaps with those of one block, and the predictors without
    training."""
    compared = []
    for record in records:
        compares = record.role == "baseline" or record.model in MODELS
        if record.task == TASK and compares and (one_block or not is_shallow(record)):
            compared.append(record)
    return language.of_one_corpus(language.tuned(compared))


def is_shallow(record: RunRecord) -> bool:
    """Whether a model has a single block."""
    return record.role != "baseline" and setting(record, "models.layers") == 1


def of(model: str, shallow: bool, label: str = "") -> Runs:
    """The runs of a model with one block, or with more."""
    of_depth = lambda record: is_shallow(record) == shallow  # noqa: E731
    return Runs(label or LABELS[model], TASK, model, choose=of_depth)


def on(record: RunRecord, *groups: str) -> RunRecord:
    """The record as if the prompts of these groups were all."""
    passed = record.per_sequence.get("sensible", []) if record.outcome == "ok" else []
    chosen = [group in (groups or GROUPS) for group in GROUP_OF]
    values = [value for value, keep in zip(passed, chosen, strict=False) if keep]
    metrics = {"test": {"sensible": mean_of(values)}} if values else {}
    changes = {"metrics": metrics, "per_sequence": {"sensible": values}}
    return record.model_copy(update=changes)


def sensible(runs: Runs, *groups: str, diverged: float | None = None) -> Drawn:
    """The share of sensible continuations among the prompts of the groups, or of all: 24 of them
    are few, and seeds that agree on all say nothing about other prompts."""
    number = Number("share", "sensible", diverged=diverged).of(runs)

    def draw(records: Records) -> Sample:
        shares = number.sample([on(record, *groups) for record in runs.of(records)])
        return replace(shares, items=shares.items and replace(shares.items, name="prompts"))

    return Drawn(runs.label, draw)


COLUMNS = {**{group: (group,) for group in GROUPS}, "all": ()}
SIZES = {**GROUPS, "all": sum(GROUPS.values())}
CHECK = (
    "A continuation counts as sensible (✓) if its first sentence holds one of a few words: a crude "
    "check of this project, not the paper's, whose authors read the texts."
)


def experiment(
    title: str, source: str, depths: Mapping[bool, Counts], claims: Iterable[Claim], **others: Any
) -> Experiment:
    """A table of these depths (whether it is a single block), the first of them in full."""
    shallow, counts = next(iter(depths.items()))
    one_block = True in depths

    def cells(preset: str) -> list[tuple[Sequence[str], dict[str, Any]]]:
        deep = {"models.layers": PUBLISHED_LAYERS} if preset == "paper" else {}
        planned = [(MODELS, {"models.layers": 1})] if one_block else []
        return [*planned, (MODELS, deep)]

    return language.experiment(
        title,
        source,
        claims,
        baselines=[Baselines(TASK, [GPT2])],
        records=partial(select, one_block),
        panels=partial(picture, title=title, depths=depths),
        variant=is_shallow,
        table=partial(table, shallow=shallow, counts=counts),
        **language.trainings(TASK, cells),
        **others,
    )


def picture(records: Records, title: str, depths: Mapping[bool, Counts]) -> Picture:
    """Shares by group and model: one panel for each depth (whether it is a single block)."""
    panels = [_panel(records, shallow, counts) for shallow, counts in depths.items()]
    width = 5.4 * len(depths) + 0.4
    return Picture(title, [PanelRow(panels, shared=True)], width, legend="below", columns=2)


def _panel(records: Records, shallow: bool, counts: Counts) -> Panel:
    """Shares of both models, published ones beside them, and of sentences of other stories."""
    depths: set[int] = set()
    traces = [_shares(OTHER_STORIES.label, OTHER_STORIES.of(records), role="reference")]
    for aside, model in zip((-2, 1), MODELS, strict=True):
        name, runs = LABELS[model], of(model, shallow).of(records)
        depths |= {setting(run, "models.layers") for run in runs}
        legend = f"{name} (95 %, seeds and prompts)"
        traces.append(_shares(name, runs, colour=model, aside=aside, legend=legend))
        shares = np.divide(_with_all(counts[model]), list(SIZES.values())).tolist()
        look: dict[str, Any] = {"mark": "dots", "legend": "published texts, our check"}
        traces.append(published(f"{name}, published", enumerate(shares), aside=aside + 1, **look))
    depth_here = " and ".join(map(_blocks, sorted(depths))) or "no runs"
    depth_published = _blocks(1 if shallow else PUBLISHED_LAYERS)
    x = Axis(categories=[f"{group}\n({size} prompts)" for group, size in SIZES.items()])
    y = Axis("share of sensible continuations", limits=(-0.03, 1.03))
    return Panel(f"{depth_here} (published: {depth_published})", x, y, traces)


def _shares(name: str, runs: Records, **look: Any) -> Trace:
    by_group = {}
    for place, groups in enumerate(COLUMNS.values()):
        by_group[place] = [on(run, *groups) for run in runs]
    return over_seeds(name, by_group, "sensible", mark="dots", **look)


def _with_all(counts: Mapping[str, int]) -> list[int]:
    return [*counts.values(), sum(counts.values())]


def table(records: Records, shallow: bool, counts: Counts) -> str:
    """Counts of every seed, and the continuations of the first, as Markdown."""
    runs = {model: of(model, shallow).of(records) for model in MODELS}
    depth = _blocks(1 if shallow else PUBLISHED_LAYERS)
    rows = [_counted(_name(model, of_model), of_model) for model, of_model in runs.items()]
    for model in MODELS:
        rows.append([f"{LABELS[model]}, {depth}, published", *map(str, _with_all(counts[model]))])
    rows.append(_counted(f"{OTHER_STORIES.label}, on average", OTHER_STORIES.of(records), ".1f"))
    heads = ["sensible", *(f"{group} ({size})" for group, size in SIZES.items())]
    corpus = escaping.markdown(language.corpus_line(records))
    parts = (CHECK, corpus, markdown(heads, rows), _continuations(runs))
    return "\n\n".join(map(str.strip, parts)) + "\n"


def _counted(name: str, runs: Records, form: str = ".0f") -> list[str]:
    """A row of what each run passed."""
    row = [name]
    for size, groups in zip(SIZES.values(), COLUMNS.values(), strict=True):
        cells = []
        for run in runs:
            share = SENSIBLE(on(run, *groups))
            cells.append("✗" if share is None else format(share * size, form))
        row.append(", ".join(cells) or "none")
    return row


def _blocks(depth: int) -> str:
    return f"{depth} block{'s' if depth > 1 else ''}"


def _name(model: str, runs: Records) -> str:
    """A model's name with the depth and the seeds of its runs."""
    if not runs:
        return f"{LABELS[model]}, no seeds"
    seeds = seed_names([run.seed for run in runs])
    return f"{LABELS[model]}, {_blocks(setting(runs[0], 'models.layers'))}, {seeds}"


def _continuations(runs: Mapping[str, Records]) -> str:
    """A row for each prompt below the name of its group, and a column for each model."""
    by_model = {}
    for model, of_model in runs.items():
        if with_text := [run for run in of_model if "continuations" in run.arrays]:
            by_model[model] = with_text
    if not by_model:
        return "No run has continuations."
    rows: list[list[str]] = []
    group = ""
    for number, row in enumerate(next(iter(by_model.values()))[0].arrays["continuations"]):
        if row["group"] != group:
            group = row["group"]
            rows.append([f"**{escaping.markdown(group)}**", *[""] * len(by_model)])
        cells = [_continuation(of_model, number) for of_model in by_model.values()]
        rows.append([escaping.markdown_lines(row["prompt"]), *cells])
    heads = [_name(model, of_model[:1]) for model, of_model in by_model.items()]
    return markdown(["prompt", *heads], rows)


def _continuation(runs: Records, number: int) -> str:
    """The continuation that the first run wrote, and how many runs passed."""
    rows = [run.arrays["continuations"][number] for run in runs]
    text = escaping.markdown_lines(rows[0]["text"]) or "(the text ends)"
    passed = sum(row["sensible"] for row in rows)
    return f"{text} {'✓' if rows[0]['sensible'] else '✗'} ({passed}/{len(rows)} seeds)"
