"""The first page: one sentence, a matrix of models by abilities, and bars of verdicts and trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.config.groups import contenders, model_groups
from leaderboards.contents import ClaimLine, OpenBoard, Row, leading_rows, verdict_counts
from leaderboards.render import (
    CONTRADICTED,
    NOT_ASKED,
    PRESETS,
    VERDICTS,
    enumerated,
    number,
    rank,
    shown_label,
    task_label,
)
from leaderboards.views.abilities.scale import described, tests
from leaderboards.views.abilities.sources import (
    AbilityTable,
    ability_tables,
    column_of,
    columns_of,
    models_of,
)
from leaderboards.views.claims import counted
from leaderboards.views.links import Link, link, to_claim, to_model, to_table
from leaderboards.views.models import group_of
from leaderboards.views.parts import FilledTemplate
from leaderboards.views.trust import YOURS, Bar, bar, trust_of
from reproduce.claims.fairness import TUNED
from reproduce.plotting.models import label as model_label

FAILED, PLANNED, PALE, SURE, ELSEWHERE = "failed", "planned", "pale", "sure", "elsewhere"
GROUPS = {"models": "sequence models", "": "of other packages"}  # others by their folder's name
# Contradicted first: it is what a reader must not miss.
IN_BAR = (CONTRADICTED, *(verdict for verdict in VERDICTS if verdict != CONTRADICTED))


@dataclass(frozen=True)
class AbilityCell:
    """One ability of one model.

    Attributes:
        state: failed | planned | pale (untuned, or one seed) | sure | elsewhere (measured, and not
            by the table of its column).
        rank: a rank or a range of ranks; "" where it has none.
        score: the share of the way from floor to oracle, or the number itself where there is no
            such scale.
        place: the share as a number from 0 to 1, for a bar; None without a scale.
        words: all of it in a sentence, for whoever does not see the cell.
        source: the table that it is from; None for what is planned.
    """

    state: str
    rank: str
    score: str
    place: float | None
    words: str
    link: Link
    source: AbilityTable | None = None


@dataclass(frozen=True)
class ModelAbilities:
    """The abilities of one model; None where it does not take part."""

    model: str
    label: str
    cells: tuple[AbilityCell | None, ...]


@dataclass(frozen=True)
class AbilityMatrix:
    """Models by abilities, in groups of models that take the same kinds of task; ``sources`` are
    the tables of its cells, by the letters that stand in these."""

    abilities: tuple[str, ...]
    groups: tuple[tuple[str, tuple[ModelAbilities, ...]], ...]
    sources: tuple[tuple[str, AbilityTable], ...]

    def letter(self, cell: AbilityCell) -> str:
        """The letter of a cell's table; none for what is planned."""
        return next((letter for letter, source in self.sources if source is cell.source), "")


@dataclass(frozen=True)
class Segment:
    """One verdict of the bar, with the claims that have it."""

    verdict: str
    sign: str
    kind: str
    count: int
    link: Link


@dataclass(frozen=True)
class Overview:
    """All of the first page."""

    sentence: str
    matrix: AbilityMatrix
    verdicts: tuple[Segment, ...]
    contradicted: tuple[tuple[str, Link], ...]
    trust: Bar


def overview(board: OpenBoard) -> Overview:
    """The first page of a board."""
    measured = ability_tables(board)
    claims = counted(board)
    lost = [claim for claim in claims if claim.verdict == CONTRADICTED]
    return Overview(
        sentence=sentence(measured, claims),
        matrix=matrix(measured),
        verdicts=segments(claims),
        contradicted=tuple((claim.sentence, to_claim(claim)) for claim in lost),
        trust=bar(board),
    )


def overview_page(board: OpenBoard, overview_of_board: Overview) -> FilledTemplate:
    """The first page of a board, as a part of a page."""
    data = {
        "page": overview_of_board,
        "about": described(),
        "groups": GROUPS,
        "to_model": to_model,
        "digest": board.sha256,
    }
    return FilledTemplate("overview", data)


def matrix(measured: Mapping[str, Sequence[AbilityTable]]) -> AbilityMatrix:
    """The matrix of every model that has a number, or whose card plans one."""
    abilities = tuple(measured)
    names: dict[str, None] = {}
    for ability in abilities:
        names |= models_of(measured[ability])
    planned = {ability: _planned(ability, measured[ability]) for ability in abilities}
    for cell_by_model in planned.values():
        names |= dict.fromkeys(cell_by_model)
    columns = {ability: columns_of(measured[ability]) for ability in abilities}
    used: set[int] = set()  # the tables of cells, by their ids
    lines: dict[str, list[ModelAbilities]] = {}
    for model in names:
        cells: list[AbilityCell | None] = []
        rows: list[Row] = []
        for ability in abilities:
            cell = planned[ability].get(model)
            in_column = column_of(model, columns[ability])
            elsewhere = [source for source in measured[ability] if model in source.row_by_model]
            if in_column is not None:
                cell = _cell(in_column, in_column.row_by_model[model])
            elif elsewhere:
                cell = _cell_elsewhere(elsewhere[0], elsewhere[0].row_by_model[model])
            rows += [source.row_by_model[model] for source in elsewhere[:1]]
            if cell is not None and cell.source is not None:
                used.add(id(cell.source))
            cells.append(cell)
        label = shown_label(rows[0]) if rows else model_label(model)
        lines.setdefault(group_of(model), []).append(ModelAbilities(model, label, tuple(cells)))
    groups = []
    for group in [*model_groups(), ""]:  # of folders in their order, strangers last
        if group in lines:
            groups.append((group, tuple(sorted(lines[group], key=_most_known))))
    sources: list[tuple[str, AbilityTable]] = []
    for ability in abilities:
        for source in measured[ability]:
            if id(source) in used:
                sources.append((_letter(len(sources)), source))
    return AbilityMatrix(abilities, tuple(groups), tuple(sources))


def _letter(place: int) -> str:
    """a to z, then aa, ab and so on."""
    more, last = divmod(place, 26)
    return (_letter(more - 1) if more else "") + chr(ord("a") + last)


def _cell_elsewhere(source: AbilityTable, row: Row) -> AbilityCell:
    """The cell of a model that was measured otherwise than the others of its column: no number, and
    where there is one."""
    words = (
        f"{shown_label(row)}, {source.test.ability}: not measured as the others of this column, "
        f"but by {source.table.place}"
    )
    link_to_row = to_table(row, selected=row.model)
    return AbilityCell(ELSEWHERE, "", "–", None, words, link_to_row, source)


def _cell(source: AbilityTable, row: Row) -> AbilityCell:
    test, table = source.test, source.table
    where = f"{test.ability} by {table.place}"
    target = to_table(row, selected=row.model)
    if row.outcome != "ok":
        words = f"{shown_label(row)}, {where}: {row.cause or row.outcome}"
        return AbilityCell(FAILED, "✗", "", None, words, target, source)
    mean = row.mean if row.mean is not None else 0.0
    place = source.scale.place(mean) if source.scale else None
    score = number(mean, 2)
    if place is not None:  # a hair below 0 is 0
        score = f"{place:.0%}".replace("-0%", "0%").replace("-", "−")
    contestants = sum(ranked_row.rank_best is not None for ranked_row in table.rows)
    reason = "no rank, since every seed is equal" if _repeats(row) else "not ranked"
    reason = reason if row.verified else "no rank, since nobody has run again what was submitted"
    standing = f"rank {rank(row)} of {contestants}" if row.rank_best else reason
    statements = [standing, f"{test.metric} {number(mean)}"]
    if source.scale:
        end = "the best" if source.scale.best else "the oracle"
        statements.append(f"{score} of the way from the floor to {end}")
    statements += [*lacks(row), *[YOURS] * trust_of(row).yours]
    words = f"{shown_label(row)}, {where}: {', '.join(statements)}"
    state = PALE if lacks(row) else SURE
    shown_rank = rank(row) if row.rank_best else ""
    bounded = None if place is None else min(max(place, 0.0), 1.0)
    return AbilityCell(state, shown_rank, score, bounded, words, target, source)


def lacks(row: Row) -> list[str]:
    """Why a number is not to be relied on: not tuned, one seed, seeds that are missing or another
    note of its row, or a test of the machinery."""
    reasons = [] if row.mark in ("", TUNED) else [row.mark]
    reasons += ["one seed"] if row.seeds == 1 else []
    reasons += [row.note] if row.note else []
    return reasons + (["a test of the machinery"] if row.preset == PRESETS[0] else [])


def _planned(ability: str, sources: Sequence[AbilityTable]) -> dict[str, AbilityCell]:
    """The models whose cards say that they contend in a task of the ability."""
    preset = sources[0].table.preset if sources else PRESETS[1]
    cell_by_model: dict[str, AbilityCell] = {}
    for test in tests():
        if test.ability != ability:
            continue
        for model in contenders(test.task, preset):
            words = f"{model_label(model)}, {ability} by {task_label(test.task)}: planned"
            target = link("task", task=test.task)
            cell_by_model.setdefault(model, AbilityCell(PLANNED, "", "", None, words, target))
    return cell_by_model


def _most_known(line: ModelAbilities) -> tuple[int, str]:
    measured = sum(cell is not None and cell.state in (SURE, PALE) for cell in line.cells)
    return -measured, line.label.lower()


def segments(claims: Sequence[ClaimLine]) -> tuple[Segment, ...]:
    """The bar of verdicts, the contradicted first; what nobody asked yet is last."""
    counts = verdict_counts(claims)
    bar_segments = []
    for verdict in IN_BAR:
        if counts[verdict]:
            target = link("claims", verdict=verdict)
            bar_segments.append(Segment(verdict, *VERDICTS[verdict], counts[verdict], target))
    return tuple(bar_segments)


def sentence(measured: Mapping[str, Sequence[AbilityTable]], claims: Sequence[ClaimLine]) -> str:
    """The sentence that says which model leads which ability, what is open, and how many published
    claims do not hold."""
    leads, shared, alone, unranked = [], [], [], []
    small: list[str] = []
    missing: list[str] = []
    for ability, sources in measured.items():
        short = described().get(ability, {}).get("short", ability)
        ahead = _ahead(sources[0]) if sources else []
        real = any(source.table.preset != PRESETS[0] for source in sources)
        if not real:
            (small if sources else missing).append(short)
        elif len({row.model for row in ahead}) == 1 and len(sources[0].ranked) == 1:
            alone.append(f"{shown_label(ahead[0])} is ranked with no other in {short}")
        elif len({row.model for row in ahead}) == 1:
            leads.append(f"{shown_label(ahead[0])} leads in {short}")
        elif ahead:
            leaders = list(dict.fromkeys(shown_label(row) for row in ahead))
            many = f"{len(leaders)} may be best"
            shared.append(f"{short} ({many if leaders[2:] else ' or '.join(leaders)})")
        else:
            unranked.append(short)
    parts = leads
    if shared:
        parts.append(f"no single model leads in {enumerated(shared)}")
    parts += alone
    if unranked:
        parts.append(f"nothing is tuned enough to be ranked in {enumerated(unranked)}")
    if small:
        parts.append(f"only a test of the machinery is measured in {enumerated(small)}")
    if missing:
        parts.append(f"nothing is measured yet in {enumerated(missing)}")
    text = "; ".join(parts) or "nothing is measured yet"
    return f"{text[0].upper()}{text[1:]}. {_of_claims(claims)}".strip()


def _ahead(source: AbilityTable) -> list[Row]:
    """The rows that may be best: by rank, or with a score as good that every seed repeats, which
    leaves it without an interval and so without a rank."""
    leaders = leading_rows(source.rows)
    if not leaders:
        return []
    sign = 1 if leaders[0].direction == "maximise" else -1
    least = min(sign * (row.mean or 0.0) for row in leaders)
    others = [row for row in source.rows if _repeats(row) and row.verified]
    equal = [row for row in others if sign * (row.mean or 0.0) >= least]
    return [*leaders, *equal]


def _repeats(row: Row) -> bool:
    return row.outcome == "ok" and row.fair and row.low is None and (row.seeds or 0) > 1


def _of_claims(claims: Sequence[ClaimLine]) -> str:
    with_verdict = [claim for claim in claims if claim.verdict != NOT_ASKED]
    if not with_verdict:
        return "No published claim has a verdict yet."
    counts = verdict_counts(with_verdict)
    reproduced, lost = counts["reproduced"], counts[CONTRADICTED]
    open_ones = len(with_verdict) - reproduced - lost
    return (
        f"{reproduced} of {len(with_verdict)} published claims are reproduced, {lost} contradicted "
        f"and {open_ones} still open."
    )
