"""The leaderboard's page. It reads one Parquet file, and imports neither PyTorch nor its friends.

``python -m leaderboards.serve`` starts it. Text from records is shown through ``escaping.html`` or
by elements that show plain text, never as Markdown.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from ground.errors import UserError
from ground.escaping import html
from leaderboards import render
from leaderboards.cards import about
from leaderboards.charts import chart, is_ours, is_reference, origin, series_name
from leaderboards.contents import Board, ClaimLine, Line, RecordLine, read_board
from leaderboards.forms import form_of, forms_in_words
from leaderboards.sentences import summary
from leaderboards.serve import COMMITTED, LOCAL, default_board

VIEWS = ("Table", "By position", "By training size", "Verdicts", "Records")


def main() -> None:
    """Draw the page."""
    st.set_page_config("Memory bench", layout="wide")
    st.html(render.STYLE)
    path = board_path()
    try:
        board = load(str(path), path.stat().st_mtime_ns if path.exists() else 0)
    except UserError as error:
        st.error("The board cannot be shown.")
        st.text(str(error))
        return
    if not board.rows:
        st.text(f"{path} holds no rows yet: train something, then build with local=true.")
        return
    st.html(
        render.block(
            "<h1>Memory bench</h1>",
            '<p class="muted">Which memory architectures learn in context? Every number comes from '
            "a record that can be inspected, or is marked as published.</p>",
        )
    )
    left, middle, right = st.columns([2, 2, 5], vertical_alignment="bottom")
    task = str(left.selectbox("Task", tasks(board), key="task", bind="query-params"))
    options = presets(board, task)
    preset = str(
        middle.selectbox(
            "Preset",
            options,
            default_preset(board, task, options),
            key="preset",
            bind="query-params",
        )
    )
    view = right.segmented_control(
        "View",
        VIEWS,
        default=VIEWS[0],
        required=True,
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    st.html(render.badge(task, preset))
    show = {
        "Table": show_table,
        "By position": show_positions,
        "By training size": show_sizes,
        "Verdicts": show_verdicts,
        "Records": show_records,
    }[str(view)]
    show(board, task, preset)
    shown = f"{describe_board(path, board)} {forms(str(path), path.stat().st_mtime_ns)}"
    st.html(render.block(f'<p class="muted">{html(shown)}</p>'))


def board_path() -> Path:
    """The command line's board, else that of the environment variable BOARD, else the default."""
    if len(sys.argv) > 1 and sys.argv[1].endswith(".parquet"):
        return Path(sys.argv[1])
    return Path(os.environ["BOARD"]) if os.environ.get("BOARD") else default_board()


@st.cache_resource(max_entries=2, show_spinner=False)
def load(path: str, modified: int) -> Board:
    """The board, read once for each state of its file."""
    return read_board(Path(path))


@st.cache_resource(max_entries=2, show_spinner=False)
def forms(path: str, modified: int) -> str:
    """How many records are of each form, for each state of the board's file."""
    return forms_in_words(load(path, modified))


def describe_board(path: Path, board: Board) -> str:
    """Which board this is."""
    which = {COMMITTED.resolve(): "the committed board", LOCAL.resolve(): "the board of your runs"}
    kind = which.get(path.resolve(), "a board")
    asked = [claim for claim in board.claims if claim.verdict != render.NOT_ASKED]
    small = sum(map(render.is_smallest, asked))
    verdicts = f"{len(asked) - small} verdicts, and {small} at smoke"
    return f"{path} is {kind}: {len(board.records)} records, {verdicts}."


def tasks(board: Board) -> list[str]:
    """Tasks with something measured come first."""
    measured = {row.task for row in board.rows if row.group}
    return sorted({row.task for row in board.rows}, key=lambda task: (task not in measured, task))


def presets(board: Board, task: str) -> list[str]:
    """The presets of a task, by growing scale."""
    found = {row.preset for row in board.rows if row.task == task}
    known = [preset for preset in render.PRESETS if preset in found]
    return known + sorted(found - set(known))


def default_preset(board: Board, task: str, options: Sequence[str]) -> int:
    """The largest scale at which something is measured."""
    measured = {row.preset for row in board.rows if row.task == task and row.group}
    return max((i for i, p in enumerate(options) if p in measured), default=len(options) - 1)


def show_table(board: Board, task: str, preset: str) -> None:
    """The table of one variant of the task and one metric."""
    rows = [row for row in board.rows if row.task == task and row.preset == preset]
    variants = unique(row.variant for row in rows)
    left, right, _ = st.columns([3, 2, 4])
    variant = left.selectbox("Configuration", variants, format_func=lambda v: v or "the only one")
    rows = [row for row in rows if row.variant == variant]
    metrics = unique(row.metric for row in sorted(rows, key=lambda row: not row.headline))
    metric = right.selectbox("Metric", metrics)
    shown = [row for row in rows if row.metric == metric]
    lead = f'<p class="lead">{html(summary(shown))}</p>'
    st.html(render.block(lead, scale_note(board, task, preset)))
    st.html(render.table(shown))
    st.html(
        render.block(
            f'<p class="muted">Mean and 95 % interval {render.covered(shown)}. A rank is a range '
            "where intervals overlap; rows without an interval or with a failed seed, rows that "
            "are not tuned and converged, references and published numbers have none. Trials: "
            "settings tried to choose this one, on validation. Seeds lead to the records.</p>",
            render.notes(shown),
        )
    )
    with st.expander("About the task and its models"):
        st.html(about(task, (row.model for row in shown)))
    st.download_button("Download as CSV", render.as_csv(shown), f"{task}-{preset}.csv", "text/csv")


def scale_note(board: Board, task: str, preset: str) -> str:
    """What a preset's numbers may be compared with, if the task has published ones."""
    if not any(row.source for row in board.rows if row.task == task):
        return ""
    if preset == "paper":
        return (
            '<p class="muted">Published settings. Published numbers are never ranked with ours.</p>'
        )
    return (
        f'<p class="muted">Preset {html(preset)} is not the scale of the papers: its '
        "numbers compare with each other, not with published ones.</p>"
    )


def show_positions(board: Board, task: str, preset: str) -> None:
    """Curves along the sequence, and losses along the training."""
    lines = [
        line
        for line in board.lines
        if line.task == task and line.preset == preset and not line.by_size
    ]
    if not lines:
        st.text("No curves here: only measured records have them. Choose another preset.")
        return
    left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
    variants = unique(line.variant for line in lines)
    variant = left.selectbox("Configuration", variants, format_func=lambda v: v or "the only one")
    lines = [line for line in lines if line.variant == variant]
    positions_first = sorted(lines, key=lambda line: line.abscissa != "position")
    names = unique(line.metric for line in positions_first)
    name = middle.selectbox("Curve", names)
    logarithmic = right.toggle("Logarithmic axis", value=False)
    draw_curves(
        [line for line in lines if line.metric == name],
        references(board, task, preset, variant),
        str(name),
        logarithmic,
        "Dashed and grey: without training. Bands are pointwise 95 % intervals over seeds; a "
        "single seed has none.",
    )


def show_sizes(board: Board, task: str, preset: str) -> None:
    """Our curves by training size, and the published ones beside them."""
    lines = [
        line
        for line in board.lines
        if line.task == task and line.by_size and (line.preset == preset or line.source)
    ]
    if not lines:
        st.text("No curves by training size for this task and preset.")
        return
    left, right = st.columns([2, 5])
    metric = left.selectbox("Metric", unique(line.metric for line in lines))
    lines = [line for line in lines if line.metric == metric]
    sources = unique(origin(line) for line in lines)
    # Only one of ours, that with most sizes: all of ours are solid.
    sizes = {origin(line): len(line.x) for line in lines if not line.source}
    default = [max(sizes, key=lambda source: sizes[source])] if sizes else []
    default += [source for source in sources if not is_ours(source)][:1]
    chosen = right.multiselect("Sources", sources, default=default)
    arrow = render.ARROWS.get(lines[0].direction or "", "")
    draw_curves(
        [line for line in lines if origin(line) in chosen],
        references(board, task, preset),
        f"{metric} {arrow}",
        True,
        "Filled markers, solid lines: ours at this preset, with 95 % intervals as in the table; "
        "grey without training. Hollow markers, dashed lines: published, with the error of reading "
        "them; another scale of training unless the preset is paper.",
    )


def references(board: Board, task: str, preset: str, variant: str | None = None) -> list[str]:
    """The two best predictors without training by the headline of a table, here the first one
    unless a variant is given."""
    rows = [
        row
        for row in board.rows
        if (row.task, row.preset, row.kind, row.headline) == (task, preset, "reference", True)
        and variant in (None, row.variant)
    ]
    return unique(row.model for row in rows)[:2]


def draw_curves(
    lines: list[Line], best_references: list[str], title: str, logarithmic: bool, note: str
) -> None:
    """A selection of models, and the chart of their curves.

    What we trained is selected at first, with the best references and published counterparts;
    where nothing is ours, everything is.
    """
    ours = {line.model: series_name(line) for line in lines if not line.source}
    # A published curve of a model that we measured has its name and its colour.
    named = [
        (ours.get(line.model, line.label) if line.source else series_name(line), line)
        for line in sorted(lines, key=is_reference)
    ]
    models = {name: line.model for name, line in reversed(named)}  # of equal names the first counts
    names = unique(name for name, _ in named)
    default = unique(
        name
        for name, line in named
        if not line.source and (not is_reference(line) or line.model in best_references)
    )
    selected = st.multiselect("Models", names, default=default or names)
    shown = [(name, line) for name, line in named if name in selected]
    if not shown:
        st.text("Nothing is selected.")
        return
    st.altair_chart(chart(shown, models, title, logarithmic), width="stretch")
    st.html(render.block(f'<p class="muted">{note}</p>', render.notes(line for _, line in shown)))


def show_verdicts(board: Board, task: str, preset: str) -> None:
    """The verdicts on this task at this preset, figure by figure."""
    of_task = sorted(
        (claim for claim in board.claims if task in claim_tasks(board, claim)), key=figure_order
    )
    # A verdict on runs with changed settings has them behind the preset: "smoke training.steps=9".
    claims = [claim for claim in of_task if claim.preset.split()[:1] == [preset]]
    elsewhere = unique(claim.preset for claim in of_task)
    if not claims:
        st.text(
            f"No verdicts on {task} at preset {preset}; there are some at: {', '.join(elsewhere)}."
            if elsewhere
            else f"No verdicts on {task} yet: `python -m reproduce` lists the figures; build with "
            "local=true."
        )
        return
    st.html(render.block(f'<p class="lead">{render.verdict_counts(claims)}</p>'))
    known = {record.run_id for record in board.records}
    for figure, settings in unique((claim.figure, claim.preset) for claim in claims):
        own = figure, settings
        of_figure = [claim for claim in claims if (claim.figure, claim.preset) == own]
        runs = of_figure[0].run_ids
        here = sum(run_id in known for run_id in runs)
        about = f"{figure} · judged from {len(runs)} records, {here} of them on this board"
        st.html(
            render.block(
                f'<h2>{html(of_figure[0].title)} <span class="pill">preset '
                f"{html(settings)}</span></h2>",
                f'<p class="muted">{html(about)}</p>',
                *map(render.verdict_card, of_figure),
            )
        )


def claim_tasks(board: Board, claim: ClaimLine) -> set[str]:
    """The tasks of the records that a verdict was judged from.

    The name of a record begins with its task, and tells it for a record that is not on this board.
    """
    known = {record.run_id: record.task for record in board.records}
    return {known.get(run_id, run_id.partition("-")[0]) for run_id in claim.run_ids}


def figure_order(claim: ClaimLine) -> tuple[str, int, str]:
    """Figure 9 before figure 10, and figures before tables."""
    number = re.search(r"[0-9]*$", claim.figure)
    digits = number[0] if number else ""
    return claim.figure.removesuffix(digits), int(digits or 0), claim.preset


def show_records(board: Board, task: str, preset: str) -> None:
    """One record in full, at first one of the best trained model's."""
    found = {r.run_id: r for r in board.records if r.task == task and r.preset == preset}
    rows = sorted(
        (row for row in board.rows if row.headline),  # best first within each table
        key=lambda row: (row.kind != "measured", row.rank_best is None, row.rank_best),
    )
    in_order = unique([run_id for row in rows for run_id in row.run_ids if run_id in found])
    records = {run_id: found[run_id] for run_id in [*in_order, *found]}
    if not records:
        st.text("No records here: these numbers are published ones. Choose another preset.")
        return
    run_id = st.selectbox("Record", list(records), key="record", bind="query-params")
    record = records[str(run_id)]
    content = json.loads(record.content)
    left, right = st.columns(2)
    left.html(render.facts(run_facts(record, content)))
    right.html(render.facts(provenance_facts(content)))
    st.text("The command that made it")
    st.code(content["provenance"]["command"], language=None, wrap_lines=True)
    configuration, everything = st.columns(2)
    configuration.text("Configuration")
    configuration.json(content["config"], expanded=2)
    everything.text("The whole record, without curves and arrays")
    everything.json(content, expanded=1)


def run_facts(record: RecordLine, content: dict[str, Any]) -> list[tuple[str, str]]:
    """What was run and what came out."""
    headline, cost = content["headline"], content["cost"]
    value = headline["value"]
    arrow = render.ARROWS[headline["direction"]]
    result = "no value" if value is None else f"{value:.6g} {headline['unit']}".strip()
    return [
        ("model", f"{render.plain(record.label)} ({record.model})"),
        ("seed, role", f"{record.seed}, {record.role}"),
        ("outcome", ": ".join(part for part in (record.outcome, content["cause"]) if part)),
        (f"{headline['name']} {arrow} on test", result),
        (
            "parameters",
            f"{cost['parameters']:,}, of these positions {cost['position_parameters']:,}",
        ),
        ("training", f"{cost['training_steps']:,} steps, {cost['training_tokens']:,} tokens"),
        ("training FLOPs", render.quantity(cost["training_flops"])),
        ("wall time", f"{cost['wall_seconds']:.1f} s"),
        ("trials in tuning", str(cost["tuning_trials"])),
    ]


def provenance_facts(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Where it comes from."""
    made = content["provenance"]
    dirty = {True: ", with uncommitted changes", False: "", None: ""}[made["dirty"]]
    return [
        ("identity", content["identity"]),
        ("commit", (made["commit"] or "unknown") + dirty),
        ("code", form_of(content)),
        ("model code", made["model_code"]),
        ("task code", made["task_code"]),
        *((f"data, {split}", digest) for split, digest in made["data"].items()),
        ("libraries", ", ".join(f"{k} {v}" for k, v in made["libraries"].items())),
        ("device, precision", f"{made['device']}, {made['precision']}"),
        ("started", made["started_at"]),
        ("content hash", content["content_sha256"]),
    ]


def unique(values: Any) -> list[Any]:
    """Distinct values in the order of their first appearance."""
    return list(dict.fromkeys(values))


if __name__ == "__main__":
    main()
