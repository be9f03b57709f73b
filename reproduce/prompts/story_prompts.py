"""What tables 4 and 5 share: continuations of the 24 prompts, counted by the check of the task.

The paper prints texts and colours, and counts nothing. The published counts here are this project's
own, by the same check on the continuations as printed, which their authors cut by hand. The words
of the check were chosen with these in view, so they say what it can see, not how good it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.ground.statistics import mean_interval
from bench.records.schema import RunRecord
from bench.writing.side_by_side import markdown_cell
from reproduce.drawing.frame import seed_names
from reproduce.drawing.style import GREY, new_figure, quiet
from reproduce.judging.claims import CONTRADICTED, REPRODUCED, UNDECIDED, Finding, Test
from reproduce.judging.observations import Sample, latest, observe
from reproduce.judging.reproduction import Plan, View
from reproduce.regbench.regbench import COLOURS, LABELS, MOSAIC
from reproduce.stories import language
from reproduce.stories.language import GPT2, Documents

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASK = "story_prompts"
MODELS = (GPT2, MOSAIC)
CHANCE = "another story"
ALL = "all"
GROUPS = {"factual": 9, "reasoning": 9, "consistency": 6}
SIZES = {**GROUPS, ALL: 24}
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
BY_US = "counted by this project's check, not by the paper"
CHECK = (
    "A continuation counts as sensible (✓) if its first sentence holds one of a few words: a crude "
    "check of this project, not the paper's, whose authors read the texts."
)


def deep_runs(preset: str, seeds: int | None) -> tuple[tuple[str, ...], ...]:
    """At the depth of the preset, or the published one."""
    words = (f"models.layers={PUBLISHED_LAYERS}",) if preset == "paper" else ()
    return language.runs_of(MODELS, seeds, f"tasks={TASK}", *words)


def plan_with(runs: tuple[tuple[str, ...], ...]) -> Plan:
    """These runs, and what chance gives."""
    return Plan(runs, baselines=((f"tasks={TASK}", f"models={GPT2}"),))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs of the two models on the prompts, and the predictors without training."""
    return language.of_one_corpus(
        record
        for record in records
        if record.task == TASK and (record.role == "baseline" or record.model in MODELS)
    )


def layers_of(record: RunRecord) -> int:
    """Depth of a model, in blocks."""
    return int(record.config["models"]["layers"])


def is_shallow(record: RunRecord) -> bool:
    """Whether a model has a single block."""
    return record.role != "baseline" and layers_of(record) == 1


def at(records: Sequence[RunRecord], model: str, shallow: bool) -> list[RunRecord]:
    """The runs of a model with one block, or with more, by seed."""
    found = [
        record
        for record in language.trained(records)
        if record.model == model and is_shallow(record) == shallow
    ]
    return sorted(found, key=lambda record: record.seed)


def share(record: RunRecord, *groups: str) -> float | None:
    """The share of sensible continuations among the prompts of the groups, or of all."""
    count = 0.0
    for group in groups or GROUPS:
        found = language.metric(record, f"sensible_{group}")
        if found is None:
            return None
        count += found * GROUPS[group]
    return count / sum(GROUPS[group] for group in groups or GROUPS)


def sample(
    records: Sequence[RunRecord],
    model: str,
    shallow: bool,
    *groups: str,
    diverged: float | None = None,
    label: str | None = None,
) -> Sample:
    """The share over seeds; ``diverged`` as in :func:`reproduce.judging.observations.observe`."""
    return observe(
        label or LABELS[model],
        at(records, model, shallow),
        lambda record: share(record, *groups),
        diverged=diverged,
    )


def over_prompts(
    records: Sequence[RunRecord], terms: Sequence[tuple[float, str, bool]], *groups: str
) -> Documents | None:
    """How much a sum of (factor, model, whether it has a single block) varies with the prompts: 24
    of them are few, and seeds that agree on all say nothing about other prompts.

    The variance of a mean over prompts, paired between the models: that of a bootstrap over
    prompts, made unbiased, which needs no draws since the number is a mean. None where no run gave
    a number.
    """
    chosen = [group in (groups or GROUPS) for group, size in GROUPS.items() for _ in range(size)]
    total = np.zeros(sum(chosen))
    measured = False
    for factor, model, shallow in terms:
        runs = latest(at(records, model, shallow), lambda record: record.seed)
        found = [r.per_sequence["sensible"] for r in runs if share(r) is not None]
        if found:
            measured = True
            total += factor * np.mean(found, axis=0)[chosen]
    variance = float(np.var(total, ddof=1)) / len(total)
    return Documents(variance, len(total), "prompts") if measured else None


def chance(records: Sequence[RunRecord], group: str = ALL) -> float | None:
    """The share of sentences from other stories that the check lets pass."""
    name = "sensible" if group == ALL else f"sensible_{group}"
    found = [r for r in records if r.role == "baseline" and r.label == CHANCE]
    return language.metric(found[0], name) if found else None


def difference(
    records: Sequence[RunRecord],
    shallow: bool,
    low: float,
    high: float,
    *groups: str,
    diverged: float | None = None,
) -> Finding:
    """Is the share of the Mosaic minus that of the transformer between ``low`` and ``high``?"""
    samples = [
        sample(records, MOSAIC, shallow, *groups, diverged=diverged),
        sample(records, GPT2, shallow, *groups),
    ]
    prompts = over_prompts(records, [(1, MOSAIC, shallow), (-1, GPT2, shallow)], *groups)
    return language.difference_within(samples, prompts, low, high)


def where_passed(test: Test, models: Sequence[str], shallow: bool) -> Test:
    """A test of models that come out alike, which shows nothing where they fail alike: their mean
    share of all prompts has to lie surely above the number ``floor`` of the tolerance, or above
    what chance gives where there is none."""

    def guarded(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        finding = test(records, numbers)
        if finding.verdict == CONTRADICTED:
            return finding
        floor = numbers.get("floor", chance(records))
        for model in models:
            shares = sample(records, model, shallow)
            prompts = over_prompts(records, [(1, model, shallow)])
            if (
                floor is None
                or language.difference_within([shares], prompts, low=floor).verdict != REPRODUCED
            ):
                at_least = "what chance gives" if floor is None else f"{floor:.3f}"
                reason = f"{LABELS[model]} is not surely above {at_least}"
                evidence = f"{finding.evidence}; but {reason}, and to fail alike shows nothing"
                return dataclasses.replace(
                    finding, verdict=UNDECIDED, evidence=evidence, seeds_needed=None
                )
        return finding

    return guarded


def draw(
    records: Sequence[RunRecord], view: View, title: str, depths: Mapping[bool, Counts]
) -> Figure:
    """Shares by group and model: one panel for each depth (whether it is a single block)."""
    figure = new_figure(5.4 * len(depths) + 0.4, 4.4)
    panels = figure.subplots(1, len(depths), squeeze=False, sharey=True)[0]
    for axes, (shallow, published) in zip(panels, depths.items(), strict=True):
        quiet(axes)
        for column, group in enumerate(SIZES):
            _column(axes, records, shallow, published, column, group)
        depth = "1 block" if shallow else f"{PUBLISHED_LAYERS} blocks"
        names = [f"{group}\n({size} prompts)" for group, size in SIZES.items()]
        axes.set_xticks(range(len(SIZES)), names, fontsize=8)
        axes.set_ylim(-0.03, 1.03)
        axes.set_title(f"{_depth(records, shallow)} (published: {depth})", fontsize=9.5)
    panels[0].set_ylabel("share of sensible continuations", fontsize=8.5)
    below: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, -0.13), "ncols": 2}
    panels[0].legend(handles=_styles(), fontsize=7.5, frameon=False, **below)
    language.frame(figure, title, records, view)
    return figure


def _column(
    axes: Axes,
    records: Sequence[RunRecord],
    shallow: bool,
    published: Counts,
    column: int,
    group: str,
) -> None:
    for model, side in zip(MODELS, (-0.18, 0.18), strict=True):
        values = sample(records, model, shallow, *_groups(group)).values
        place, colour = column + side, COLOURS[model]
        axes.plot([place] * len(values), values, "_", color=colour, markersize=9, alpha=0.6)
        found = mean_interval(values)
        if found.interval is not None:
            axes.vlines(place, *found.interval, color=colour, linewidth=2)
        if found.mean is not None:
            axes.plot(place, found.mean, "o", color=colour, markersize=6)
        level = _published(published, model, group) / SIZES[group]
        axes.plot(place + 0.1, level, "D", color=GREY, markersize=4.5)
    level_of_chance = chance(records, group)
    if level_of_chance is not None:
        ends = (column - 0.38, column + 0.38)
        axes.hlines(level_of_chance, *ends, color=GREY, linewidth=1, linestyle="dotted")


def _styles() -> list[Any]:
    from matplotlib.lines import Line2D

    ours = [
        Line2D([], [], color=COLOURS[model], marker="o", label=f"{LABELS[model]} (95 %, seeds)")
        for model in MODELS
    ]
    none: dict[str, Any] = {"color": GREY, "linestyle": ""}
    return [
        *ours,
        Line2D([], [], marker="D", markersize=4.5, label="published texts, our check", **none),
        Line2D([], [], color=GREY, linestyle="dotted", label="sentences of other stories"),
    ]


def _depth(records: Sequence[RunRecord], shallow: bool) -> str:
    depths = sorted({layers_of(r) for model in MODELS for r in at(records, model, shallow)})
    if not depths:
        return "no runs"
    return " and ".join(map(str, depths)) + (" block" if depths == [1] else " blocks")


def _groups(group: str) -> tuple[str, ...]:
    return () if group == ALL else (group,)


def _published(counts: Counts, model: str, group: str) -> int:
    return sum(counts[model].values()) if group == ALL else counts[model][group]


def curves(records: Sequence[RunRecord], depths: Mapping[bool, Counts]) -> dict[str, Any]:
    """Shares by depth, model, group and seed, the published counts, and what chance gives."""
    shown: dict[str, Any] = {"chance": {group: chance(records, group) for group in SIZES}}
    for shallow, published in depths.items():
        shown["one block" if shallow else "deep"] = {
            LABELS[model]: {
                group: {
                    "seeds": {
                        str(run.seed): share(run, *_groups(group))
                        for run in at(records, model, shallow)
                    },
                    "published": _published(published, model, group) / SIZES[group],
                }
                for group in SIZES
            }
            for model in MODELS
        }
    return shown


def table(records: Sequence[RunRecord], shallow: bool, published: Counts) -> str:
    """Counts of every seed, and the continuations of the first, as Markdown."""
    heads = " | ".join(f"{group} ({size})" for group, size in SIZES.items())
    lines = [f"{CHECK}\n", f"{language.corpus_line(records)}\n"]
    lines += [f"| sensible | {heads} |", "|---" * (len(SIZES) + 1) + "|"]
    runs = {model: at(records, model, shallow) for model in MODELS}
    for model in MODELS:
        seeds = seed_names([run.seed for run in runs[model]]) if runs[model] else "no seeds"
        cells = [_counts(runs[model], group) for group in SIZES]
        lines.append(f"| {_name(model, runs[model])}, {seeds} | {' | '.join(cells)} |")
    for model in MODELS:
        cells = [str(_published(published, model, group)) for group in SIZES]
        depth = "1 block" if shallow else f"{PUBLISHED_LAYERS} blocks"
        lines.append(f"| {LABELS[model]}, {depth}, published | {' | '.join(cells)} |")
    levels = {group: chance(records, group) for group in SIZES}
    cells = ["" if level is None else f"{level * SIZES[g]:.1f}" for g, level in levels.items()]
    lines.append(f"| sentences of other stories, on average | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_continuations(runs)]) + "\n"


def _counts(runs: Sequence[RunRecord], group: str) -> str:
    found = [share(run, *_groups(group)) for run in runs]
    return ", ".join("✗" if s is None else f"{s * SIZES[group]:.0f}" for s in found) or "none"


def _name(model: str, runs: Sequence[RunRecord]) -> str:
    depth = layers_of(runs[0]) if runs else 0
    return LABELS[model] + (f", {depth} block{'s' if depth > 1 else ''}" if depth else "")


def _continuations(runs: Mapping[str, Sequence[RunRecord]]) -> list[str]:
    done = {m: [run for run in of if "continuations" in run.arrays] for m, of in runs.items()}
    shown = {model: of[0] for model, of in done.items() if of}
    if not shown:
        return ["No run has continuations."]
    names = [f"{_name(model, [run])}, seed {run.seed}" for model, run in shown.items()]
    lines = [f"| prompt | {' | '.join(names)} |", "|---" * (len(shown) + 1) + "|"]
    group = ""
    for number, row in enumerate(next(iter(shown.values())).arrays["continuations"]):
        if row["group"] != group:
            group = row["group"]
            lines.append(f"| **{group}** |" + " |" * len(shown))
        cells = [markdown_cell(row["prompt"])]
        for model, run in shown.items():
            own = run.arrays["continuations"][number]
            passed = sum(r.arrays["continuations"][number]["sensible"] for r in done[model])
            mark = "✓" if own["sensible"] else "✗"
            text = markdown_cell(own["text"]) or "(the text ends)"
            cells.append(f"{text} {mark} ({passed}/{len(done[model])} seeds)")
        lines.append(f"| {' | '.join(cells)} |")
    return lines
