"""Shares of sensible continuations as a picture, counts and continuations as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from bench.records.schema import RunRecord
from bench.writing.side_by_side import markdown_cell
from judging.claims import Claim
from judging.grammar import metric, setting
from pictures.panels import Axis, Panel, Picture, Row, Trace
from reproduce.drawing.frame import seed_names
from reproduce.drawing.tables import markdown
from reproduce.drawing.traces import over_seeds, published
from reproduce.prompts.runs import (
    GROUPS,
    MODELS,
    OTHER_STORIES,
    PUBLISHED_LAYERS,
    Counts,
    is_shallow,
    of,
    on,
    plan,
    select,
)
from reproduce.regbench.regbench import LABELS
from reproduce.reproduction import Reproduction
from reproduce.stories import language

COLUMNS = {**{group: (group,) for group in GROUPS}, "all": ()}
SIZES = {**GROUPS, "all": sum(GROUPS.values())}
SENSIBLE = metric("sensible")
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


def panels(records: Sequence[RunRecord], title: str, depths: Mapping[bool, Counts]) -> Picture:
    """Shares by group and model: one panel for each depth (whether it is a single block)."""
    found = [_panel(records, shallow, counts) for shallow, counts in depths.items()]
    width = 5.4 * len(depths) + 0.4
    return Picture(title, [Row(found, shared=True)], width, legend="below", columns=2)


def _panel(records: Sequence[RunRecord], shallow: bool, counts: Counts) -> Panel:
    by_model = {model: of(model, shallow).of(records) for model in MODELS}
    runs = [run for found in by_model.values() for run in found]
    depths = sorted({setting(run, "models.layers") for run in runs})
    here = " and ".join(map(_blocks, depths)) or "no runs"
    traces = [_shares(OTHER_STORIES.label, OTHER_STORIES.of(records), role="reference")]
    for aside, (model, found) in zip((-2, 1), by_model.items(), strict=True):
        name, legend = LABELS[model], f"{LABELS[model]} (95 %, seeds and prompts)"
        traces.append(_shares(name, found, colour=model, aside=aside, legend=legend))
        shares = [
            n / size for n, size in zip(_with_all(counts[model]), SIZES.values(), strict=True)
        ]
        look: dict[str, Any] = {"mark": "dots", "legend": "published texts, our check"}
        traces.append(published(f"{name}, published", enumerate(shares), aside=aside + 1, **look))
    return Panel(
        f"{here} (published: {_blocks(1 if shallow else PUBLISHED_LAYERS)})",
        x=Axis(categories=[f"{group}\n({size} prompts)" for group, size in SIZES.items()]),
        y=Axis("share of sensible continuations", limits=(-0.03, 1.03)),
        traces=traces,
    )


def _shares(name: str, runs: Sequence[RunRecord], **look: Any) -> Trace:
    by_group = {
        place: [on(run, *groups) for run in runs] for place, groups in enumerate(COLUMNS.values())
    }
    return over_seeds(name, by_group, "sensible", mark="dots", **look)


def _with_all(counts: Mapping[str, int]) -> list[int]:
    return [*counts.values(), sum(counts.values())]


def table(records: Sequence[RunRecord], shallow: bool, counts: Counts) -> str:
    """Counts of every seed, and the continuations of the first, as Markdown."""
    runs = {model: of(model, shallow).of(records) for model in MODELS}
    rows = [_counted(_name(model, found, every=True), found) for model, found in runs.items()]
    depth = _blocks(1 if shallow else PUBLISHED_LAYERS)
    for model in MODELS:
        rows.append([f"{LABELS[model]}, {depth}, published", *map(str, _with_all(counts[model]))])
    rows.append(_counted(f"{OTHER_STORIES.label}, on average", OTHER_STORIES.of(records), ".1f"))
    heads = ["sensible", *(f"{group} ({size})" for group, size in SIZES.items())]
    parts = [CHECK, language.corpus_line(records), markdown(heads, rows), _continuations(runs)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _counted(name: str, runs: Sequence[RunRecord], form: str = ".0f") -> list[str]:
    """A row of what each run passed."""
    cells = [name]
    for size, groups in zip(SIZES.values(), COLUMNS.values(), strict=True):
        shares = [SENSIBLE(on(run, *groups)) for run in runs]
        found = ["✗" if share is None else format(share * size, form) for share in shares]
        cells.append(", ".join(found) or "none")
    return cells


def _blocks(depth: int) -> str:
    return f"{depth} block{'s' if depth > 1 else ''}"


def _name(model: str, runs: Sequence[RunRecord], every: bool = False) -> str:
    """With the depth, and the seeds: of the first run or of all."""
    if not runs:
        return f"{LABELS[model]}, no seeds"
    seeds = seed_names([run.seed for run in (runs if every else runs[:1])])
    return f"{LABELS[model]}, {_blocks(setting(runs[0], 'models.layers'))}, {seeds}"


def _continuations(runs: Mapping[str, Sequence[RunRecord]]) -> str:
    done = {m: [run for run in of if "continuations" in run.arrays] for m, of in runs.items()}
    shown = {model: of for model, of in done.items() if of}
    if not shown:
        return "No run has continuations."
    rows: list[list[str]] = []
    for number, row in enumerate(next(iter(shown.values()))[0].arrays["continuations"]):
        if f"**{row['group']}**" not in [first for first, *_ in rows]:
            rows.append([f"**{row['group']}**", *[""] * len(shown)])
        found = (_continuation(of, number) for of in shown.values())
        rows.append([markdown_cell(row["prompt"]), *found])
    return markdown(["prompt", *(_name(model, of) for model, of in shown.items())], rows)


def _continuation(runs: Sequence[RunRecord], number: int) -> str:
    """That of the first run, and how many passed."""
    rows = [run.arrays["continuations"][number] for run in runs]
    text = markdown_cell(rows[0]["text"]) or "(the text ends)"
    passed = sum(row["sensible"] for row in rows)
    return f"{text} {'✓' if rows[0]['sensible'] else '✗'} ({passed}/{len(rows)} seeds)"
