"""What tables 4 and 5 share: continuations of the 24 prompts, counted by the check of the task.

The paper prints texts and colours, and counts nothing. The published counts here are this project's
own, by the same check on the continuations as printed, which their authors cut by hand. The words
of the check were chosen with these in view, so they say what it can see, not how good it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bench.records.schema import RunRecord
from core import escaping
from core.statistics import mean_of
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import Drawn, Number, Records, Runs, metric, setting
from reproduce.claims.observations import Sample
from reproduce.drawing.frame import seed_names
from reproduce.drawing.tables import markdown
from reproduce.drawing.traces import over_seeds, published
from reproduce.plotting.panels import Axis, Panel, Picture, Row, Trace
from reproduce.regbench.regbench import MOSAIC
from reproduce.reproduction import Plan, Reproduction
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


def plan(one_block: bool, preset: str, seeds: int | None) -> Plan:
    """Both models over seeds at the depth of the preset, or the published one; before them those
    of one block where they are wanted; and what chance gives."""
    deep = (f"models.layers={PUBLISHED_LAYERS}",) if preset == "paper" else ()
    depths = [("models.layers=1",), deep] if one_block else [deep]
    found = language.plan_of(preset, seeds, MODELS, [(f"tasks={TASK}", *one) for one in depths])
    return replace(found, baselines=((f"tasks={TASK}", f"models={GPT2}"),))


def select(one_block: bool, records: Records) -> list[RunRecord]:
    """Runs of the two models, perhaps with those of one block, and the predictors without
    training."""
    own = [r for r in records if r.task == TASK and (r.role == "baseline" or r.model in MODELS)]
    shown = [r for r in own if one_block or not is_shallow(r)]
    return language.of_one_corpus(language.tuned(shown))


def is_shallow(record: RunRecord) -> bool:
    """Whether a model has a single block."""
    return record.role != "baseline" and setting(record, "models.layers") == 1


def of(model: str, shallow: bool, label: str = "") -> Runs:
    """The runs of a model with one block, or with more."""
    own = lambda record: is_shallow(record) == shallow  # noqa: E731
    return Runs(label or LABELS[model], TASK, model, choose=own)


def on(record: RunRecord, *groups: str) -> RunRecord:
    """The record as if the prompts of these groups were all."""
    passed = record.per_sequence.get("sensible", []) if record.outcome == "ok" else []
    chosen = [group in (groups or GROUPS) for group in GROUP_OF]
    kept = [value for value, keep in zip(passed, chosen, strict=False) if keep]
    metrics = {"test": {"sensible": mean_of(kept)}} if kept else {}
    changes = {"metrics": metrics, "per_sequence": {"sensible": kept}}
    return record.model_copy(update=changes)


def sensible(runs: Runs, *groups: str, diverged: float | None = None) -> Drawn:
    """The share of sensible continuations among the prompts of the groups, or of all: 24 of them
    are few, and seeds that agree on all say nothing about other prompts."""
    number = Number("share", "sensible", diverged=diverged).of(runs)

    def draw(records: Records) -> Sample:
        found = number.sample([on(record, *groups) for record in runs.of(records)])
        return replace(found, items=found.items and replace(found.items, name="prompts"))

    return Drawn(runs.label, draw)


COLUMNS = {**{group: (group,) for group in GROUPS}, "all": ()}
SIZES = {**GROUPS, "all": sum(GROUPS.values())}
CHECK = (
    "A continuation counts as sensible (✓) if its first sentence holds one of a few words: a crude "
    "check of this project, not the paper's, whose authors read the texts."
)


def reproduction(
    title: str, source: str, depths: Mapping[bool, Counts], claims: Iterable[Claim], **others: Any
) -> Reproduction:
    """A table of these depths (whether it is a single block), the first of them in full."""
    shallow, counts = next(iter(depths.items()))
    return language.reproduction(
        title,
        source,
        partial(plan, True in depths),
        partial(select, True in depths),
        claims,
        partial(panels, title=title, depths=depths),
        variant=is_shallow,
        table=partial(table, shallow=shallow, counts=counts),
        **others,
    )


def panels(records: Records, title: str, depths: Mapping[bool, Counts]) -> Picture:
    """Shares by group and model: one panel for each depth (whether it is a single block)."""
    found = [_panel(records, shallow, counts) for shallow, counts in depths.items()]
    width = 5.4 * len(depths) + 0.4
    return Picture(title, [Row(found, shared=True)], width, legend="below", columns=2)


def _panel(records: Records, shallow: bool, counts: Counts) -> Panel:
    by_model = {model: of(model, shallow).of(records) for model in MODELS}
    runs = [run for found in by_model.values() for run in found]
    depths = sorted({setting(run, "models.layers") for run in runs})
    here = " and ".join(map(_blocks, depths)) or "no runs"
    traces = [_shares(OTHER_STORIES.label, OTHER_STORIES.of(records), role="reference")]
    for aside, (model, found) in zip((-2, 1), by_model.items(), strict=True):
        name, legend = LABELS[model], f"{LABELS[model]} (95 %, seeds and prompts)"
        traces.append(_shares(name, found, colour=model, aside=aside, legend=legend))
        both = zip(_with_all(counts[model]), SIZES.values(), strict=True)
        shares = [count / size for count, size in both]
        look: dict[str, Any] = {"mark": "dots", "legend": "published texts, our check"}
        traces.append(published(f"{name}, published", enumerate(shares), aside=aside + 1, **look))
    x = Axis(categories=[f"{group}\n({size} prompts)" for group, size in SIZES.items()])
    y = Axis("share of sensible continuations", limits=(-0.03, 1.03))
    there = _blocks(1 if shallow else PUBLISHED_LAYERS)
    return Panel(f"{here} (published: {there})", x, y, traces)


def _shares(name: str, runs: Records, **look: Any) -> Trace:
    by_group = {
        place: [on(run, *groups) for run in runs] for place, groups in enumerate(COLUMNS.values())
    }
    return over_seeds(name, by_group, "sensible", mark="dots", **look)


def _with_all(counts: Mapping[str, int]) -> list[int]:
    return [*counts.values(), sum(counts.values())]


def table(records: Records, shallow: bool, counts: Counts) -> str:
    """Counts of every seed, and the continuations of the first, as Markdown."""
    runs = {model: of(model, shallow).of(records) for model in MODELS}
    rows = [_counted(_name(model, found, every=True), found) for model, found in runs.items()]
    depth = _blocks(1 if shallow else PUBLISHED_LAYERS)
    for model in MODELS:
        rows.append([f"{LABELS[model]}, {depth}, published", *map(str, _with_all(counts[model]))])
    rows.append(_counted(f"{OTHER_STORIES.label}, on average", OTHER_STORIES.of(records), ".1f"))
    heads = ["sensible", *(f"{group} ({size})" for group, size in SIZES.items())]
    parts = [
        CHECK,
        escaping.markdown(language.corpus_line(records)),
        markdown(heads, rows),
        _continuations(runs),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _counted(name: str, runs: Records, form: str = ".0f") -> list[str]:
    """A row of what each run passed."""
    cells = [name]
    for size, groups in zip(SIZES.values(), COLUMNS.values(), strict=True):
        shares = [SENSIBLE(on(run, *groups)) for run in runs]
        found = ["✗" if share is None else format(share * size, form) for share in shares]
        cells.append(", ".join(found) or "none")
    return cells


def _blocks(depth: int) -> str:
    return f"{depth} block{'s' if depth > 1 else ''}"


def _name(model: str, runs: Records, every: bool = False) -> str:
    """With the depth, and the seeds: of the first run or of all."""
    if not runs:
        return f"{LABELS[model]}, no seeds"
    seeds = seed_names([run.seed for run in (runs if every else runs[:1])])
    return f"{LABELS[model]}, {_blocks(setting(runs[0], 'models.layers'))}, {seeds}"


def _continuations(runs: Mapping[str, Records]) -> str:
    done = {m: [run for run in of if "continuations" in run.arrays] for m, of in runs.items()}
    shown = {model: of for model, of in done.items() if of}
    if not shown:
        return "No run has continuations."
    rows: list[list[str]] = []
    for number, row in enumerate(next(iter(shown.values()))[0].arrays["continuations"]):
        if (group := f"**{escaping.markdown(row['group'])}**") not in [first for first, *_ in rows]:
            rows.append([group, *[""] * len(shown)])
        found = (_continuation(of, number) for of in shown.values())
        rows.append([escaping.markdown_lines(row["prompt"]), *found])
    return markdown(["prompt", *(_name(model, of) for model, of in shown.items())], rows)


def _continuation(runs: Records, number: int) -> str:
    """That of the first run, and how many passed."""
    rows = [run.arrays["continuations"][number] for run in runs]
    text = escaping.markdown_lines(rows[0]["text"]) or "(the text ends)"
    passed = sum(row["sensible"] for row in rows)
    return f"{text} {'✓' if rows[0]['sensible'] else '✗'} ({passed}/{len(rows)} seeds)"
