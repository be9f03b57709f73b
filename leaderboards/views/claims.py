"""The published claims with their verdicts: as a table that filters, and each with all that it
rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.statistics import POWER
from leaderboards.contents import ClaimLine, OpenBoard, Row, verdict_counts
from leaderboards.render import NOT_ASKED, VERDICTS, asked_at, doubts, number, p_of, shown_label
from leaderboards.tables.summaries import YOURS
from leaderboards.views.figures import counted_claims
from leaderboards.views.links import Address, claim_id, in_app, slug, to_claim, to_record
from leaderboards.views.parts import FilledTemplate
from leaderboards.views.tables import contents_of, has_all

CONTROL = re.compile(r"^(.*?)[.;]?\s*\b((?:No control|Control)\b.*)$", re.DOTALL)
CHECKED = re.compile(r"^(.*?)[.;]?\s*(The control, .*)$", re.DOTALL)

AT_FIRST = ("verdict", "claim", "figure", "preset", "effect", "p", "open")  # columns


@dataclass(frozen=True)
class Published:
    """A published number with ours beside it; None where we have none for it."""

    label: str
    place: str
    metric: str
    source: str
    printed: float
    ours: float | None


@dataclass(frozen=True)
class Detail:
    """A claim with all that its verdict rests on.

    Attributes:
        rule: what counts as reproduced, without the control.
        control: what must fail, and how it did.
        numbers: the published ones of the same figure, beside ours.
        runs: run id and whether the board has the record.
    """

    claim: ClaimLine
    sign: str
    kind: str
    rule: str
    control: tuple[str, ...]
    evidence: str
    facts: tuple[tuple[str, str], ...]
    numbers: tuple[Published, ...]
    runs: tuple[tuple[str, bool], ...]


def counted(board: OpenBoard) -> list[ClaimLine]:
    """The claims that a headline counts: each figure at its most demanding preset, smoke not."""
    return counted_claims(board.claims())


def tasks_of(claim: ClaimLine) -> list[str]:
    """The tasks of a claim's records: the name of a record begins with its task."""
    return list(dict.fromkeys(run_id.partition("-")[0] for run_id in claim.run_ids))


def filtered(
    claims: Iterable[ClaimLine],
    *,
    verdict: str = "",
    preset: str = "",
    figure: str = "",
    search: str = "",
) -> list[ClaimLine]:
    """The claims that have what is asked for, and in which every word of a search occurs."""
    matching = []
    for claim in claims:
        texts = (claim.name, claim.sentence, claim.source, claim.title, claim.evidence)
        if (
            verdict in ("", claim.verdict)
            and preset in ("", claim.preset.split()[0])
            and figure in ("", claim.figure)
            and has_all(search, texts)
        ):
            matching.append(claim)
    return matching


def lines(claims: Iterable[ClaimLine], address: Address = in_app) -> list[dict[str, Any]]:
    """One dictionary for each claim, for a table that sorts."""
    table_lines = []
    for claim in claims:
        origin_mark = f" ({YOURS})" if claim.origin == YOURS else ""
        line = {
            "verdict": f"{VERDICTS[claim.verdict][0]} {claim.verdict}{origin_mark}",
            "claim": claim.sentence,
            "figure": claim.figure,
            "preset": claim.preset,
            "effect": claim.effect,
            "p": claim.p,
            "seeds": claim.seeds,
            "seeds needed": claim.seeds_needed,
            "stays": {True: "yes", False: "no", None: ""}[claim.stays],
            "counts as reproduced": claim.tolerance,
            "evidence": claim.evidence,
            "source": claim.source,
            "set": (claim.set or "")[:10],
            "open": address(to_claim(claim)),
        }
        table_lines.append(line)
    return table_lines


def find(board: OpenBoard, name: str) -> ClaimLine | None:
    """The claim of this name in an address."""
    return next((claim for claim in board.claims() if claim_id(claim) == name), None)


def detail(board: OpenBoard, claim: ClaimLine) -> Detail:
    """All that the verdict on a claim rests on."""
    sign, kind = VERDICTS[claim.verdict]
    rule, demanded = _split(CONTROL, claim.tolerance)
    evidence, checked = _split(CHECKED, claim.evidence)
    run_ids_here: set[str] = set()
    for task in tasks_of(claim):
        names = board.distinct("records", task, "run_id", run_id=claim.run_ids)
        run_ids_here.update(run_id for (run_id,) in names)
    return Detail(
        claim,
        sign,
        kind,
        rule,
        tuple(part for part in (demanded, checked) if part),
        evidence,
        tuple(_facts(claim)),
        tuple(published_beside_ours(board, claim)),
        tuple((run_id, run_id in run_ids_here) for run_id in claim.run_ids),
    )


def claim_page(board: OpenBoard, claim: ClaimLine) -> FilledTemplate:
    """A claim with all that its verdict rests on, as a part of a page."""
    data = {
        "one": detail(board, claim),
        "name": slug(claim_id(claim)),
        "number": as_number,
        "to_record": to_record,
    }
    return FilledTemplate("claim", data)


def _split(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    match = pattern.match(text)
    return (match[1].strip(), match[2].strip()) if match else (text, "")


def _facts(claim: ClaimLine) -> Iterable[tuple[str, str]]:
    yield "figure", f"{claim.title} ({claim.figure})"
    yield "preset", claim.preset
    yield "source", claim.source
    if claim.origin == YOURS:
        verdict = f"committed is: {claim.committed}"
        committed = verdict if claim.committed else "no verdict is committed"
        yield "origin", f"judged here, by your reproduction; {committed}"
    if claim.verdict == NOT_ASKED:
        yield "asked", asked_at(claim)
        return
    if claim.seeds is not None:
        yield "seeds", str(claim.seeds)
    if claim.seeds_needed is not None:
        yield (
            "seeds needed",
            f"{claim.seeds_needed} would settle it with a probability of {POWER:.0%}, if spread "
            "and effect are as they seem",
        )
    if claim.effect:
        yield "effect", claim.effect
    if p_of(claim):
        yield "p", p_of(claim)
    if claim.set:
        yield "claim set", claim.set[:16].replace("T", " ")
    for doubt in doubts(claim):
        yield "doubt", doubt


def published_beside_ours(board: OpenBoard, claim: ClaimLine) -> list[Published]:
    """The published numbers of a claim's figure, each with ours of the same model and preset."""
    printed: list[Row] = []
    measured: list[Row] = []
    for task in sorted(tasks_of(claim)):
        names = sorted(name for (name,) in board.distinct("rows", task, "source"))
        sources = [name for name in names if _same(name, claim)]
        for source in sources:
            printed += [row for row in board.rows(task, source=source) if row.mean is not None]
        if sources:
            measured += board.rows(task, kind="measured", preset=claim.preset.split()[0])
    wanted = {(row.task, row.model, row.metric) for row in printed}
    ours = []
    for row in measured:
        if (row.task, row.model, row.metric) in wanted and row.outcome == "ok":
            ours.append(row)
    settings = {}
    for run_id, content in contents_of(board, ours).items():
        of_task = content["config"]["tasks"]
        settings[run_id] = {f"{key}={value}" for key, value in of_task.items()}
    numbers = []
    for row in printed:
        source = f"{row.source}, {row.kind.removeprefix('published ').strip('()')}"
        our_number, label = _ours(ours, row, settings), shown_label(row)
        numbers.append(
            Published(label, row.variant, row.metric, source, row.mean or 0.0, our_number)
        )
    return numbers


def _same(source: str, claim: ClaimLine) -> bool:
    """Whether published numbers are of the claim's figure: "Memory Mosaics, Fig. 9" is figure 9."""
    figure = re.fullmatch(r"(figure|table)(\d+)", claim.figure)
    printed_number = re.search(r"(Fig\.|Table) (\d+)", source)
    short = {"figure": "Fig.", "table": "Table"}
    return bool(
        figure
        and printed_number
        and (short[figure[1]], figure[2]) == (printed_number[1], printed_number[2])
    )


def _ours(rows: Sequence[Row], printed: Row, settings: Mapping[str, set[str]]) -> float | None:
    """Our first number of a published row's model where the task was set as for that; ``settings``
    are those of each record, as "key=value"."""
    place = set(filter(None, printed.variant.split(", ")))
    wanted = (printed.task, printed.model, printed.metric)
    for row in rows:
        of_model = (row.task, row.model, row.metric) == wanted
        if of_model and place <= settings.get(row.run_ids[0], set()):
            return row.mean
    return None


def in_words(claims: Sequence[ClaimLine]) -> str:
    """How many have which verdict."""
    counts = verdict_counts(claims)
    texts = []
    for word, (sign, _) in VERDICTS.items():
        if counts[word]:
            texts.append(f"{sign} {counts[word]} {word}")
    return " · ".join(texts)


def as_number(value: float | None) -> str:
    """A number of a comparison, or a dash."""
    return "–" if value is None else number(value, 3)
