"""Shares of sensible continuations as a picture, counts and continuations as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.records.schema import RunRecord
from bench.writing.side_by_side import markdown_cell
from pictures.panels import Axis, Panel, Picture, Row, Trace
from reproduce.drawing.frame import seed_names
from reproduce.drawing.tables import markdown
from reproduce.drawing.traces import over_seeds
from reproduce.judging.grammar import setting
from reproduce.prompts.runs import (
    GROUPS,
    MODELS,
    OTHER_STORIES,
    PUBLISHED_LAYERS,
    Counts,
    of,
    on,
)
from reproduce.regbench.regbench import LABELS
from reproduce.stories import language

COLUMNS = {**{group: (group,) for group in GROUPS}, "all": ()}
SIZES = {**GROUPS, "all": sum(GROUPS.values())}
CHECK = (
    "A continuation counts as sensible (✓) if its first sentence holds one of a few words: a crude "
    "check of this project, not the paper's, whose authors read the texts."
)


def panels(records: Sequence[RunRecord], title: str, depths: Mapping[bool, Counts]) -> Picture:
    """Shares by group and model: one panel for each depth (whether it is a single block)."""
    found = [_panel(records, shallow, published) for shallow, published in depths.items()]
    width = 5.4 * len(depths) + 0.4
    return Picture(title, [Row(found, shared=True)], width, legend="below", columns=2)


def _panel(records: Sequence[RunRecord], shallow: bool, published: Counts) -> Panel:
    runs = {model: of(model, shallow).of(records) for model in MODELS}
    depths = sorted({setting(run, "models.layers") for found in runs.values() for run in found})
    here = " and ".join(map(_blocks, depths)) or "no runs"
    traces = [
        trace
        for side, model in zip((-2, 1), MODELS, strict=True)
        for trace in (_measured(model, runs[model], side), _published(model, published, side + 1))
    ]
    return Panel(
        f"{here} (published: {_blocks(1 if shallow else PUBLISHED_LAYERS)})",
        x=Axis(categories=[f"{group}\n({size} prompts)" for group, size in SIZES.items()]),
        y=Axis("share of sensible continuations", limits=(-0.03, 1.03)),
        traces=[*traces, _chance(records)],
    )


def _measured(model: str, runs: Sequence[RunRecord], aside: float) -> Trace:
    by_group = {
        place: [on(run, *groups) for run in runs] for place, groups in enumerate(COLUMNS.values())
    }
    legend = f"{LABELS[model]} (95 %, seeds and prompts)"
    look = {"mark": "dots", "colour": model, "aside": aside, "legend": legend}
    return over_seeds(LABELS[model], by_group, "sensible", **look)


def _published(model: str, counts: Counts, aside: float) -> Trace:
    shares = [count / size for count, size in zip(_row(counts[model]), SIZES.values(), strict=True)]
    look = {"mark": "dots", "role": "published", "aside": aside}
    legend = "published texts, our check"
    return Trace(f"{LABELS[model]}, published", range(len(shares)), shares, legend=legend, **look)


def _row(counts: Mapping[str, int]) -> list[int]:
    return [*counts.values(), sum(counts.values())]


def chance(records: Sequence[RunRecord]) -> list[float | None]:
    """The share of sentences from other stories that the check lets pass, of each column."""
    names = [f"sensible_{group}" for group in GROUPS]
    found = OTHER_STORIES.of(records)[:1]
    return [language.metric(record, name) for record in found for name in [*names, "sensible"]]


def _chance(records: Sequence[RunRecord]) -> Trace:
    found = chance(records)
    look = {"mark": "dots", "role": "reference", "marker": "cross"}
    return Trace(OTHER_STORIES.label, range(len(found)), found, **look)


def table(records: Sequence[RunRecord], shallow: bool, published: Counts) -> str:
    """Counts of every seed, and the continuations of the first, as Markdown."""
    runs = {model: of(model, shallow).of(records) for model in MODELS}
    rows = [
        [f"{_name(model, found)}, {seeds}", *(_counts(found, column) for column in COLUMNS)]
        for model, found in runs.items()
        for seeds in [seed_names([run.seed for run in found]) if found else "no seeds"]
    ]
    depth = _blocks(1 if shallow else PUBLISHED_LAYERS)
    for model in MODELS:
        rows.append([f"{LABELS[model]}, {depth}, published", *map(str, _row(published[model]))])
    levels = chance(records) or [None] * len(SIZES)
    by_chance = zip(levels, SIZES.values(), strict=True)
    cells = ["" if level is None else f"{level * size:.1f}" for level, size in by_chance]
    rows.append([f"{OTHER_STORIES.label}, on average", *cells])
    heads = ["sensible", *(f"{group} ({size})" for group, size in SIZES.items())]
    counts = markdown(heads, rows)
    return f"{CHECK}\n\n{language.corpus_line(records)}\n\n{counts}\n{_continuations(runs)}"


def _counts(runs: Iterable[RunRecord], column: str) -> str:
    shares = [language.metric(on(run, *COLUMNS[column]), "sensible") for run in runs]
    return ", ".join("✗" if s is None else f"{s * SIZES[column]:.0f}" for s in shares) or "none"


def _blocks(depth: int) -> str:
    return f"{depth} block{'s' if depth > 1 else ''}"


def _name(model: str, runs: Sequence[RunRecord]) -> str:
    depth = [_blocks(setting(run, "models.layers")) for run in runs[:1]]
    return ", ".join([LABELS[model], *depth])


def _continuations(runs: Mapping[str, Sequence[RunRecord]]) -> str:
    done = {m: [run for run in of if "continuations" in run.arrays] for m, of in runs.items()}
    shown = {model: of for model, of in done.items() if of}
    if not shown:
        return "No run has continuations.\n"
    names = [f"{_name(model, of)}, seed {of[0].seed}" for model, of in shown.items()]
    rows = []
    for number, row in enumerate(next(iter(shown.values()))[0].arrays["continuations"]):
        if f"**{row['group']}**" not in [first for first, *_ in rows]:
            rows.append([f"**{row['group']}**", *[""] * len(shown)])
        cells = [_continuation(of, number) for of in shown.values()]
        rows.append([markdown_cell(row["prompt"]), *cells])
    return markdown(["prompt", *names], rows)


def _continuation(runs: Sequence[RunRecord], number: int) -> str:
    """That of the first run, and how many passed."""
    rows = [run.arrays["continuations"][number] for run in runs]
    text = markdown_cell(rows[0]["text"]) or "(the text ends)"
    passed = sum(row["sensible"] for row in rows)
    return f"{text} {'✓' if rows[0]['sensible'] else '✗'} ({passed}/{len(rows)} seeds)"
