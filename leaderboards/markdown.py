"""The board as Markdown: one page for each task, and an index of verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from functools import lru_cache
from itertools import groupby
from typing import Any

from bench.config.groups import task_card
from bench.records.named_text import named_texts
from core.effects import FALSE_DISCOVERIES
from core.errors import VERIFICATION_FAILED, UserError
from core.escaping import markdown, markdown_code
from leaderboards.code_status import forms_in_words
from leaderboards.contents import Board, ClaimLine, Row
from leaderboards.render import PRESETS as BY_SCALE
from leaderboards.render import (
    VERDICTS,
    WAYS,
    asked_at,
    covered,
    doubts,
    from_items,
    noted,
    p_of,
    plain,
    rank,
)
from leaderboards.tables.verdicts import DECIDED
from leaderboards.views.figures import Figure, by_demand, figures_of
from leaderboards.views.sentences import standing
from reproduce.claims.history import Change, changes_of
from reproduce.claims.repeats import began_at, moment

ALONE = {True: "the same verdict", False: "not the same verdict", None: "not decided"}
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
    made = {f"{task}.md": page(task, board, homes, tables) for task in tasks}
    return {"README.md": index(board, homes, tables), **made}


def homes_of(board: Board) -> dict[str, str]:
    """The task on whose page the verdicts of a figure are: that of most of its records.

    Example: ``reproduce_bigram`` judges 33 records of ``bigram``, 5 of ``bigram_probes`` and 3 of
    ``three_gradient_steps``, so its verdicts are on the page of ``bigram``.
    """
    return {
        name: max(counts, key=lambda task: counts[task])
        for name, counts in _tasks_of_figures(board).items()
    }


def _tasks_of_figures(board: Board) -> dict[str, Counter[str]]:
    tasks = {record.run_id: record.task for record in board.records}
    found: dict[str, Counter[str]] = {}
    for figure in figures_of(board.claims):
        runs = [run for run in figure.claims[0].run_ids if run in tasks]
        if not runs:
            raise UserError(
                f"the verdicts on '{figure.title}' at preset {figure.preset} name no record of "
                "the board: add the records, or remove the verdicts",
                VERIFICATION_FAILED,
            )
        found.setdefault(figure.name, Counter()).update(tasks[run] for run in runs)
    return found


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
    tests = [claim for claim in decided if claim.stays is not None]
    stay, late = sum(claim.stays is True for claim in tests), [c for c in decided if c.after_runs]
    confirmed = sum(claim.confirmed is True for claim in late)
    return (
        f"Of the {len(decided)} decided, {len(tests)} were decided by a statistical test and the "
        f"others by values without chance; {stay} of the tests also hold when all questions of "
        f"their preset are counted (Benjamini and Hochberg, false discovery rate "
        f"{FALSE_DISCOVERIES:.0%}). {len(late)} are on claims that were set, or last reworded, "
        f"after their runs had begun: {confirmed} of these come out alike by the runs alone that "
        "began later, and the others describe what was seen, and predicted nothing."
    )


def index(board: Board, homes: Mapping[str, str], tables: Sequence[Sequence[Row]]) -> str:
    """The index: how many claims of each figure got which verdict, and what was measured."""
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
        forms_in_words(board),
        "",
        "## Verdicts",
        "",
        f"How many published claims got which verdict: {WORDS}.",
        "",
        *_counts([one for one in figures_of(board.claims) if one.preset != SMALLEST], homes),
        "",
        f"Preset `{SMALLEST}` tests the machinery in minutes; its verdicts are in no count above.",
        "",
        *_counts([one for one in figures_of(board.claims) if one.preset == SMALLEST], homes),
    ]
    lines += ["", *_late(figures_of(board.claims))]
    lines += ["", "## Tasks", "", *row_of("task", "presets", "models"), "|---|---|---|"]
    for task, own in groupby(sorted(tables, key=lambda rows: rows[0].task), lambda r: r[0].task):
        rows = [row for rows in own for row in rows if row.kind == "measured"]
        presets = [f"`{name}`" for name in sorted({row.preset for row in rows}, key=by_demand)]
        models = dict.fromkeys(markdown(plain(row.label)) for row in rows)
        lines += row_of(f"[{label_of(task)}]({task}.md)", ", ".join(presets), "; ".join(models))
    return "\n".join([*lines, ""])


def _counts(figures: Sequence[Figure], homes: Mapping[str, str]) -> list[str]:
    """A table of verdicts, and for each preset how sure they are."""
    head = *row_of("claims of", "preset", *VERDICTS), "|---" * (2 + len(VERDICTS)) + "|"
    lines = []
    for figure in figures:
        counts = Counter(claim.verdict for claim in figure.claims)
        link = f"[{markdown(figure.title)}]({homes[figure.name]}.md#{figure.anchor})"
        lines += row_of(link, f"`{figure.preset}`", *(counts[word] for word in VERDICTS))
    presets = dict.fromkeys(sorted((one.preset for one in figures), key=by_demand))
    for preset in presets:
        own = [claim for one in figures if one.preset == preset for claim in one.claims]
        lines += ["", f"`{preset}`: {in_words(Counter(c.verdict for c in own))}. {how_sure(own)}"]
    return [*head, *lines] if lines else []


def _late(figures: Sequence[Figure]) -> list[str]:
    """Decided claims that were set when a run of theirs could have been seen, folded."""
    lines = [*row_of("claim", "figure", "preset", "set", "later runs alone"), "|---" * 5 + "|"]
    for figure in figures:
        for claim in figure.claims:
            if claim.after_runs and claim.verdict in DECIDED:
                told = markdown(claim.name), markdown(figure.title), f"`{figure.preset}`"
                since = markdown((claim.set or "not frozen")[:16])
                lines += row_of(*told, since, "the same verdict" if claim.confirmed else "")
    return [folded("Decided claims that were set after their runs had begun", "\n".join(lines))]


def page(task: str, board: Board, homes: Mapping[str, str], tables: Sequence[Sequence[Row]]) -> str:
    """One task: the verdicts first, then all of its tables, the most demanding preset first."""
    figures = figures_of(board.claims)
    own = [figure for figure in figures if homes[figure.name] == task]
    about = _about(task)
    parts = [WRITTEN_BY, f"# {label_of(task)}", "", "[All results](README.md)", ""]
    parts += [markdown(str(about[key])) + "\n" for key in ("note", "source") if about.get(key)]
    if own:
        parts += ["## Verdicts", "", f"Each holds at its preset only: {WORDS}.", ""]
    first_runs = _first_runs(board, own)
    for place, figure in enumerate(own):
        first = all(other.name != figure.name for other in own[:place])  # of its presets
        changes = changes_of(figure.name) if first else []
        parts.append(verdicts(figure, first_runs[figure.anchor], changes))
    tasks = _tasks_of_figures(board)
    elsewhere = [
        f"[{markdown(figure.title)}]({homes[figure.name]}.md#{figure.anchor})"
        for figure in figures
        if task in tasks[figure.name] and homes[figure.name] != task
    ]
    if elsewhere:
        parts += [f"{'More verdicts' if own else 'Verdicts'}: {', '.join(elsewhere)}.", ""]
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
def _about(task: str) -> Mapping[str, Any]:
    return task_card(task)


def label_of(task: str) -> str:
    """What a task is called by its card, or else its name."""
    return markdown(str(_about(task).get("label", task)))


def _first_runs(board: Board, figures: Sequence[Figure]) -> dict[str, str]:
    """Anchor of a figure's verdicts -> when the first of its runs began, or the first that this run
    repeats (UTC)."""
    judged = {run_id for figure in figures for run_id in figure.claims[0].run_ids}
    started = {
        record.run_id: json.loads(record.content)["provenance"]["started_at"]
        for record in board.records
        if record.run_id in judged
    }
    first_runs = {}
    for figure in figures:
        times = [
            began_at(run_id, started[run_id])
            for run_id in figure.claims[0].run_ids
            if run_id in started
        ]
        first_runs[figure.anchor] = f"{min(times).astimezone(UTC):%Y-%m-%d %H:%M}" if times else ""
    return first_runs


def verdicts(figure: Figure, first_run: str, changes: Sequence[Change]) -> str:
    """A figure's claims with their verdicts, and the evidence and what was changed about them
    folded.

    Args:
        first_run: when the first run of the figure began, in words.
        changes: that stand here; a figure's stand once on its page.
    """
    counts = Counter(claim.verdict for claim in figure.claims)
    again = f"nox -s reproduce_{figure.name} -- preset={figure.preset}"
    texts = any("corpus: local" in claim.evidence for claim in figure.claims)
    by_whom = ", with the paths of your texts ([how](../language.md))" if texts else ""
    lines = [
        f'<a id="{figure.anchor}"></a>',
        "",
        f"### {markdown(figure.title)} (preset `{figure.preset}`)",
        "",
        ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])
        + f". Make it again: {markdown_code(again)}{by_whom}",
        "",
        *row_of("verdict", "claim"),
        "|---|---|",
    ]
    for claim in figure.claims:
        lines += row_of(_verdict(claim), markdown(claim.sentence))
    named = [t for t in named_texts() if any(t.name in claim.evidence for claim in figure.claims)]
    lines += [part for text in named for part in ("", f"{markdown(text.credit)} {WHICH_ROWS}")]
    evidence = [
        f"The first of their runs began on {first_run} (UTC).\n",
        *row_of("claim", "evidence", "effect", "p", "counts as reproduced", "last set (UTC)"),
        "|---" * 6 + "|",
    ]
    for claim in figure.claims:
        told = claim.name, claim.evidence, claim.effect, p_of(claim), claim.tolerance
        evidence += row_of(*map(markdown, (*told, _when_set(claim))))
    parts = [folded("evidence", "\n".join([*evidence, ""]))]
    if changes:
        parts.append(folded("what was changed about these claims", _history(figure, changes)))
    return "\n".join([*lines, "", *parts])


def _when_set(claim: ClaimLine) -> str:
    """When the claim or its test was last changed, and where that was after its runs had begun,
    whether the runs that began later decide it alike by themselves."""
    time = "not frozen" if claim.set is None else _minute(claim.set)
    if not claim.after_runs:
        return f"{time}, before its runs"
    return f"{time}, after its runs began; later ones alone: {ALONE[claim.confirmed]}"


def _minute(text: str) -> str:
    """A time to the minute in UTC; what is none, as it is."""
    try:
        return f"{moment(text).astimezone(UTC):%Y-%m-%d %H:%M}"
    except ValueError:
        return text


def _history(figure: Figure, changes: Sequence[Change]) -> str:
    """A table of what was changed, and whether numbers had been seen by then."""
    lines = [*row_of("date", "what, and why", "seen before", "what came out"), "|---" * 4 + "|"]
    for change in changes:
        names = "; ".join(change.names_of(figure.name))
        what = f"{change.title} ({names}). {change.change}"
        cells = (str(change.date), what, SEEN[change.seen], change.outcome)
        lines += row_of(*map(markdown, cells))
    return "\n".join([*lines, ""])


def _verdict(claim: ClaimLine) -> str:
    sign, _ = VERDICTS[claim.verdict]
    if claim.seeds_needed:
        needed = f"{claim.seeds_needed} seeds would settle it with 80 % probability"
        return f"{sign} {claim.verdict} ({needed})"
    if claim.asked_at:
        return f"{sign} {claim.verdict} ({markdown(asked_at(claim))})"
    return f"{sign} {claim.verdict}" + "".join(f"; {doubt}" for doubt in doubts(claim))


def table(rows: Sequence[Row]) -> str:
    """One table with its caption."""
    first = rows[0]
    metric, way = markdown(plain(first.metric)), WAYS.get(first.direction or "", "no direction")
    repeated = any((row.seeds or 0) > 1 for row in rows)
    over = f"mean over seeds, interval {covered(rows)}{from_items(rows)}"
    shown = over if repeated else "one seed: no interval, no rank"
    alone = Counter(row.label for row in rows if row.kind != SHOWN[-1])
    head = ["model", "rank", metric, "95 % interval", "seeds", "parameters", "tuning trials"]
    marked = any(row.mark for row in rows)
    of_ours = (row for row in rows if not row.source)
    told = markdown(" ".join(filter(None, (standing(rows), *(f"{n}." for n in noted(of_ours))))))
    return "\n".join(
        [
            f"{_whose(first)}: {metric} on test, {way}, {shown}" + (f". {told}" if told else ""),
            "",
            *row_of(*head, *["mark"] * marked),
            "|---" * (len(head) + marked) + "|",
            *(line for row in rows for line in _line(row, alone[row.label] == 1, marked)),
            "",
        ]
    )


def _line(row: Row, alone: bool, marked: bool) -> list[str]:
    apart = [row.setting] * (not alone) + ["seeds that were sent"] * (row.kind == SHOWN[-1])
    name = markdown(plain(row.label) + (f" ({', '.join(apart)})" if apart else ""))
    if row.kind == "reference":
        return row_of(f"*{name}*", "", _value(row), *[""] * (4 + marked))
    parameters = "" if row.parameters is None else f"{row.parameters:,}"
    cells = (_interval(row), row.seeds, parameters, row.trials, *[", ".join(_words(row))] * marked)
    return row_of(name, rank(row) if row.rank_best else "", _value(row), *cells)


def _whose(row: Row) -> str:
    """What a caption begins with: the task, the preset and the variant of all its rows."""
    variant = f" ({markdown(row.variant)})" if row.variant else ""
    return f"**{label_of(row.task)}, preset `{row.preset}`**{variant}"


def _value(row: Row) -> str:
    if row.mean is None:
        return markdown(row.cause or row.outcome)
    return markdown(f"{row.mean:.3f}" + (f" ({row.outcome})" if row.outcome != "ok" else ""))


def _interval(row: Row) -> str:
    known = row.mean is not None and row.low is not None and row.high is not None
    return f"{row.low:.3f} to {row.high:.3f}" if known else ""


def _words(row: Row) -> list[str]:
    """Its marks in short."""
    return list(dict.fromkeys(mark.partition(":")[0] for mark in row.marks))


def row_of(*cells: object) -> list[str]:
    """One line of a table; its texts are escaped already."""
    return ["| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"]


def folded(name: str, content: str) -> str:
    """Markdown that a reader opens by a click."""
    return f"<details><summary>{name}</summary>\n\n{content}\n</details>\n"
