"""The board as Markdown: one page for each task, and an index of verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from functools import lru_cache
from itertools import groupby
from typing import Any

from bench.config.groups import task_card
from bench.records.named_text import named_texts
from core.effects import FALSE_DISCOVERIES
from core.errors import VERIFICATION_FAILED, UserError
from core.escaping import markdown, markdown_code
from leaderboards.contents import Board, ClaimLine, Row, measured_rows, verdict_counts
from leaderboards.render import (
    CONFIRMED,
    NOT_ASKED_AGAIN,
    NOT_CONFIRMED,
    VERDICTS,
    WAYS,
    alone,
    asked_at,
    covered,
    doubts,
    footnotes,
    from_items,
    p_of,
    plain,
    rank,
    shown_label,
)
from leaderboards.render import PRESETS as BY_SCALE
from leaderboards.tables.code_status import code_statuses_in_words
from leaderboards.tables.verdicts import DECIDED
from leaderboards.views.figures import Figure, by_demand, figures_of
from leaderboards.views.sentences import standing
from reproduce.claims.history import Change, changes_of
from reproduce.claims.repeats import began_at, moment

SEEN = {"no": "no number of these claims", "some": "some of their numbers", "yes": "their numbers"}
SHOWN = ("measured", "reference", "unverified")  # kinds of rows
SMALLEST = BY_SCALE[0]  # tests the machinery, and counts for no headline
WRITTEN_BY = "<!-- written by `python -m leaderboards.readme` from the committed records -->"
WORDS = "[what the words mean](../read_a_verdict.md)"
PREDICTORS = "*Italics* are predictors without training: they are not ranked."
MARKS = "[What the marks mean](../read_a_verdict.md#marks)."


def pages(board: Board) -> dict[str, str]:
    """Every page of docs/results by its file name.

    Raises:
        UserError: verdicts name no record of the board, so that nobody could check them.
    """
    homes = homes_of(board)
    tables = tables_of(board)
    tasks = sorted({rows[0].task for rows in tables} | set(homes.values()))
    pages_of_tasks = {f"{task}.md": page(task, board, homes, tables) for task in tasks}
    return {"README.md": index(board, homes, tables), **pages_of_tasks}


def homes_of(board: Board) -> dict[str, str]:
    """The task on whose page the verdicts of a figure are: that of most of its records.

    Example: ``reproduce_bigram`` judges 33 records of ``bigram``, 5 of ``bigram_probes`` and 3 of
    ``three_gradient_steps``, so its verdicts are on the page of ``bigram``.
    """
    homes = {}
    for name, counts in _tasks_of_figures(board).items():
        homes[name] = max(counts, key=lambda task: counts[task])
    return homes


def _tasks_of_figures(board: Board) -> dict[str, Counter[str]]:
    tasks = {record.run_id: record.task for record in board.records}
    counts: dict[str, Counter[str]] = {}
    for figure in figures_of(board.claims):
        runs = [run for run in figure.claims[0].run_ids if run in tasks]
        if not runs:
            raise UserError(
                f"the verdicts on '{figure.title}' at preset {figure.preset} name no record of "
                "the board: add the records, or remove the verdicts",
                VERIFICATION_FAILED,
            )
        counts.setdefault(figure.name, Counter()).update(tasks[run] for run in runs)
    return counts


def tables_of(board: Board) -> list[list[Row]]:
    """The rows that are ranked together, by their headline metric."""
    rows = [row for row in board.rows if row.headline and row.kind in SHOWN]
    grouped = groupby(rows, key=lambda row: (row.task, row.preset, row.group))
    return [list(group) for _, group in grouped]


def in_words(counts: Mapping[str, int]) -> str:
    """How many got which verdict."""
    return ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts.get(word))


def how_sure(claims: Iterable[ClaimLine]) -> str:
    """How many decided verdicts stay when all questions are taken together, how many claims were
    set after their runs had begun, and how many of these later runs decide alike."""
    decided = [claim for claim in claims if claim.verdict in DECIDED]
    stays = [claim.stays for claim in decided if claim.stays is not None]
    stay, late = stays.count(True), by_later_runs(decided)
    return (
        f"Of the {len(decided)} decided, {len(stays)} were decided by a statistical test and the "
        f"others by values without chance; {stay} of the tests also hold when all questions of "
        f"their preset are counted (Benjamini and Hochberg, false discovery rate "
        f"{FALSE_DISCOVERIES:.0%}). {late.total()} are on claims that were set, or last reworded, "
        f"after their runs had begun. By runs alone that began later {late[CONFIRMED]} of these "
        f"come out alike and {late[NOT_CONFIRMED]} do not; {late[NOT_ASKED_AGAIN]} were not put to "
        "as many new seeds, describe what was seen, and predicted nothing."
    )


def by_later_runs(decided: Iterable[ClaimLine]) -> Counter[str]:
    """How many of the decided claims that were set after their runs had begun are what."""
    return Counter(alone(claim) for claim in decided if claim.after_runs)


def index(board: Board, homes: Mapping[str, str], tables: Sequence[Sequence[Row]]) -> str:
    """The index: how many claims of each figure got which verdict, and what was measured."""
    figures = figures_of(board.claims)
    lines = [
        WRITTEN_BY,
        "# Results",
        "",
        "Everything here is made from the committed records in `leaderboards/records/`; the same "
        "board, with curves and provenance, opens with `nox -s leaderboard`, and `python -m "
        "leaderboards.export site/` writes it as [pages that need no server](../export.md). A "
        "result holds at its preset only. The published settings (preset `paper`) have not been "
        "run where no line names them.",
        "",
        code_statuses_in_words(board),
        "",
        "## Verdicts",
        "",
        f"How many published claims got which verdict: {WORDS}; [what the sources say]"
        "(../sources.md), and which claim asks it.",
        "",
        *_counts([figure for figure in figures if figure.preset != SMALLEST], homes),
        "",
        f"Preset `{SMALLEST}` tests the machinery in minutes; its verdicts are in no count above.",
        "",
        *_counts([figure for figure in figures if figure.preset == SMALLEST], homes),
    ]
    lines += ["", *_late(figures)]
    lines += ["", "## Tasks", "", *row_of("task", "presets", "models"), "|---|---|---|"]
    measured: dict[str, list[Row]] = {rows[0].task: [] for rows in tables}
    for rows in tables:
        measured[rows[0].task] += measured_rows(rows)
    for task, rows in sorted(measured.items()):
        presets = sorted({row.preset for row in rows}, key=by_demand)
        names = ", ".join(f"`{preset}`" for preset in presets)
        models = dict.fromkeys(markdown(shown_label(row)) for row in rows)
        lines += row_of(f"[{label_of(task)}]({task}.md)", names, "; ".join(models))
    return "\n".join([*lines, ""])


def _link(figure: Figure, homes: Mapping[str, str]) -> str:
    return f"[{markdown(figure.title)}]({homes[figure.name]}.md#{figure.anchor})"


def _counts(figures: Sequence[Figure], homes: Mapping[str, str]) -> list[str]:
    """A table of verdicts, and for each preset how sure they are."""
    head = *row_of("claims of", "preset", *VERDICTS), "|---" * (2 + len(VERDICTS)) + "|"
    lines = []
    for figure in figures:
        counts = verdict_counts(figure.claims)
        cells = [counts[verdict] for verdict in VERDICTS]
        lines += row_of(_link(figure, homes), f"`{figure.preset}`", *cells)
    claims_of_preset: dict[str, list[ClaimLine]] = {figure.preset: [] for figure in figures}
    for figure in figures:
        claims_of_preset[figure.preset] += figure.claims
    for preset in sorted(claims_of_preset, key=by_demand):
        claims = claims_of_preset[preset]
        lines += ["", f"`{preset}`: {in_words(verdict_counts(claims))}. {how_sure(claims)}"]
    return [*head, *lines] if lines else []


def _late(figures: Sequence[Figure]) -> list[str]:
    """Decided claims that were set when a run of theirs could have been seen, folded."""
    lines = [*row_of("claim", "figure", "preset", "set", "later runs alone"), "|---" * 5 + "|"]
    for figure in figures:
        for claim in figure.claims:
            if claim.after_runs and claim.verdict in DECIDED:
                names = markdown(claim.name), markdown(figure.title), f"`{figure.preset}`"
                since = markdown((claim.set or "not frozen")[:16])
                lines += row_of(*names, since, alone(claim))
    return [folded("Decided claims that were set after their runs had begun", "\n".join(lines))]


def page(task: str, board: Board, homes: Mapping[str, str], tables: Sequence[Sequence[Row]]) -> str:
    """One task: the verdicts first, then all of its tables, the most demanding preset first."""
    figures = figures_of(board.claims)
    of_task = [figure for figure in figures if homes[figure.name] == task]
    about = _card(task)
    parts = [WRITTEN_BY, f"# {label_of(task)}", "", "[All results](README.md)", ""]
    parts += [markdown(str(about[key])) + "\n" for key in ("note", "source") if about.get(key)]
    if of_task:
        parts += ["## Verdicts", "", f"Each holds at its preset only: {WORDS}.", ""]
    first_runs = _first_runs(board, of_task)
    changes_told: set[str] = set()  # figures whose changes stand beside their first preset
    for figure in of_task:
        changes = [] if figure.name in changes_told else changes_of(figure.name)
        changes_told.add(figure.name)
        parts.append(verdicts(figure, first_runs[figure.anchor], changes))
    tasks = _tasks_of_figures(board)
    more_links = []
    for figure in figures:
        if task in tasks[figure.name] and homes[figure.name] != task:
            more_links.append(_link(figure, homes))
    if more_links:
        parts += [f"{'More verdicts' if of_task else 'Verdicts'}: {', '.join(more_links)}.", ""]
    measured = sorted(
        (rows for rows in tables if rows[0].task == task),
        key=lambda rows: by_demand(rows[0].preset),
    )
    if measured:
        marked = any(row.mark for rows in measured for row in rows)
        parts += ["## Measurements", "", PREDICTORS, *[MARKS] * marked, ""]
    for preset, group in groupby(measured, key=lambda rows: rows[0].preset):
        shown = "\n".join(table(rows) for rows in group)
        first = preset == measured[0][0].preset
        parts += [f"### Preset `{preset}`", "", shown if first else folded("tables", shown)]
    return "\n".join(parts)


WHICH_ROWS = "([its rows](../language.md#the-text-of-the-committed-records))"


@lru_cache(maxsize=256)
def _card(task: str) -> Mapping[str, Any]:
    return task_card(task)


def label_of(task: str) -> str:
    """What a task is called by its card, or else its name."""
    return markdown(str(_card(task).get("label", task)))


def _first_runs(board: Board, figures: Sequence[Figure]) -> dict[str, str]:
    """Anchor of a figure's verdicts -> when the first of its runs began, or the first that this run
    repeats (UTC)."""
    record_by_id = {record.run_id: record for record in board.records}
    first_runs = {}
    for figure in figures:
        times = []
        for run_id in figure.claims[0].run_ids:
            if record := record_by_id.get(run_id):
                started_at = json.loads(record.content)["provenance"]["started_at"]
                times.append(began_at(run_id, started_at))
        first_runs[figure.anchor] = f"{min(times).astimezone(UTC):%Y-%m-%d %H:%M}" if times else ""
    return first_runs


def verdicts(figure: Figure, first_run: str, changes: Sequence[Change]) -> str:
    """A figure's claims with their verdicts, and the evidence and what was changed about them
    folded.

    Args:
        first_run: when the first run of the figure began, in words.
        changes: that stand here; a figure's stand once on its page.
    """
    counts = verdict_counts(figure.claims)
    command = f"nox -s reproduce_{figure.name} -- preset={figure.preset}"
    is_local = any("corpus: local" in claim.evidence for claim in figure.claims)
    by_whom = ", with the paths of your texts ([how](../language.md))" if is_local else ""
    lines = [
        f'<a id="{figure.anchor}"></a>',
        "",
        f"### {markdown(figure.title)} (preset `{figure.preset}`)",
        "",
        f"{in_words(counts)}. Make it again: {markdown_code(command)}{by_whom}",
        "",
        *row_of("verdict", "claim"),
        "|---|---|",
    ]
    for claim in figure.claims:
        lines += row_of(_verdict(claim), markdown(claim.sentence))
    evidences = " ".join(claim.evidence for claim in figure.claims)
    for text in named_texts():
        if text.name in evidences:
            lines += ["", f"{markdown(text.credit)} {WHICH_ROWS}"]
    evidence = [
        f"The first of their runs began on {first_run} (UTC).\n",
        *row_of("claim", "evidence", "effect", "p", "counts as reproduced", "last set (UTC)"),
        "|---" * 6 + "|",
    ]
    for claim in figure.claims:
        cells = (claim.name, claim.evidence, claim.effect, p_of(claim), claim.tolerance)
        evidence += row_of(*map(markdown, (*cells, _when_set(claim))))
    parts = [folded("evidence", "\n".join([*evidence, ""]))]
    if changes:
        parts.append(folded("what was changed about these claims", _history(figure, changes)))
    return "\n".join([*lines, "", *parts])


def _when_set(claim: ClaimLine) -> str:
    """When the claim or its test was last changed, and where that was after its runs had begun,
    whether the runs that began later decide it alike by themselves."""
    time = claim.set or "not frozen"
    with suppress(ValueError):  # it is no time
        time = f"{moment(time).astimezone(UTC):%Y-%m-%d %H:%M}"
    if not claim.after_runs:
        return f"{time}, before its runs"
    later = "not decided" if claim.confirmed is None else alone(claim)
    return f"{time}, after its runs began; by later ones alone: {later}"


def _history(figure: Figure, changes: Sequence[Change]) -> str:
    """A table of what was changed, and whether numbers had been seen by then."""
    lines = [*row_of("date", "what, and why", "seen before", "what came out"), "|---" * 4 + "|"]
    for change in changes:
        names = "; ".join(change.names_of(figure.name))
        title = f"{change.title} ({names}). {change.change}"
        cells = (str(change.date), title, SEEN[change.seen], change.outcome)
        lines += row_of(*map(markdown, cells))
    return "\n".join([*lines, ""])


def _verdict(claim: ClaimLine) -> str:
    sign, _ = VERDICTS[claim.verdict]
    if claim.seeds_needed:
        needed = f"{claim.seeds_needed} seeds would settle it with 80 % probability"
        return f"{sign} {claim.verdict} ({needed})"
    if claim.asked_at:
        return f"{sign} {claim.verdict} ({markdown(asked_at(claim))})"
    return "; ".join([f"{sign} {claim.verdict}", *doubts(claim)])


def table(rows: Sequence[Row]) -> str:
    """One table with its caption."""
    first = rows[0]
    metric = markdown(plain(first.metric))
    direction = WAYS.get(first.direction or "", "no direction")
    spread = "one seed: no interval, no rank"
    if any((row.seeds or 0) > 1 for row in rows):
        spread = f"mean over seeds, interval {covered(rows)}{from_items(rows)}"
    caption = f"**{label_of(first.task)}, preset `{first.preset}`**"
    caption += f" ({markdown(first.variant)})" if first.variant else ""
    alone = Counter(row.label for row in rows if row.kind != SHOWN[-1])
    head = ["model", "rank", metric, "95 % interval", "seeds", "parameters", "tuning trials"]
    marked = any(row.mark for row in rows)
    sentences = [standing(rows)]
    sentences += [f"{note}." for note in footnotes(row for row in rows if not row.source)]
    notes = markdown(" ".join(filter(None, sentences)))
    lines = [
        f"{caption}: {metric} on test, {direction}, {spread}" + (f". {notes}" if notes else ""),
        "",
        *row_of(*head, *["mark"] * marked),
        "|---" * (len(head) + marked) + "|",
    ]
    for row in rows:
        lines += _line(row, alone[row.label] == 1, marked)
    return "\n".join([*lines, ""])


def _line(row: Row, alone: bool, marked: bool) -> list[str]:
    apart = [row.setting] * (not alone) + ["seeds that were sent"] * (row.kind == SHOWN[-1])
    name = markdown(shown_label(row) + (f" ({', '.join(apart)})" if apart else ""))
    if row.kind == "reference":
        return row_of(f"*{name}*", "", _value(row), *[""] * (4 + marked))
    parameters = "" if row.parameters is None else f"{row.parameters:,}"
    has_interval = row.mean is not None and row.low is not None and row.high is not None
    interval = f"{row.low:.3f} to {row.high:.3f}" if has_interval else ""
    marks = dict.fromkeys(mark.partition(":")[0] for mark in row.marks)
    cells = (interval, row.seeds, parameters, row.trials, *[", ".join(marks)] * marked)
    return row_of(name, rank(row) if row.rank_best else "", _value(row), *cells)


def _value(row: Row) -> str:
    if row.mean is None:
        return markdown(row.cause or row.outcome)
    return markdown(f"{row.mean:.3f}" + (f" ({row.outcome})" if row.outcome != "ok" else ""))


def row_of(*cells: object) -> list[str]:
    """One line of a table; its texts are escaped already."""
    return ["| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"]


def folded(name: str, content: str) -> str:
    """Markdown that a reader opens by a click."""
    return f"<details><summary>{name}</summary>\n\n{content}\n</details>\n"
