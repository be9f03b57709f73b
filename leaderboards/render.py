"""The app's HTML. Every text of a board passes ``html``: others may have written it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from ground.escaping import html, spreadsheet
from ground.statistics import POWER
from leaderboards.contents import ClaimLine, Line, Row

PRESETS = ("smoke", "laptop", "gpu", "paper")  # by growing scale
ARROWS = {"maximise": "↑", "minimise": "↓"}
WAYS = {"maximise": "higher is better", "minimise": "lower is better"}
NOT_ASKED = "not asked here"  # no verdict: the preset leaves it to another
VERDICTS = {  # sign and class: the word says it too, colour is never alone
    "reproduced": ("✓", "yes"),
    "contradicted": ("✗", "no"),
    "not enough evidence": ("?", "open"),
    NOT_ASKED: ("○", "unasked"),
}

STYLE = """
<style>
.stMainBlockContainer { padding-top: 3.4rem; }
.mb { font-size: 0.92rem; line-height: 1.45; font-variant-numeric: tabular-nums; }
.mb-badge { position: fixed; top: 0.75rem; left: 1.2rem; z-index: 1000000; font-size: 0.85rem;
  padding: 0.15rem 0.7rem; border-radius: 1rem; background: #1f5f8b; color: #fff; }
.mb h1 { font-size: 1.7rem; font-weight: 650; padding: 0; margin: 0; letter-spacing: -0.01em; }
.mb h2 { font-size: 1.1rem; font-weight: 650; padding: 0; margin: 1.4rem 0 0.2rem; }
.mb p { margin: 0.15rem 0; max-width: 60rem; }
.mb .lead { font-size: 1.08rem; margin: 0.4rem 0 0.8rem; }
.mb .muted { opacity: 0.68; font-size: 0.85rem; }
.mb .scroll { overflow-x: auto; }
.mb table { border-collapse: collapse; width: 100%; margin: 0.2rem 0 0.6rem; border: 0; }
.mb th, .mb td { text-align: right; padding: 0.4rem 0.7rem; border: 0;
  border-bottom: 1px solid rgba(128, 128, 128, 0.22); vertical-align: middle;
  white-space: nowrap; }
.mb thead th { font-weight: 600; font-size: 0.8rem; opacity: 0.75; vertical-align: bottom;
  border-bottom: 1px solid rgba(128, 128, 128, 0.6); }
.mb .left { text-align: left; }
.mb .model { white-space: normal; min-width: 9rem; font-weight: 600; }
.mb .model .muted { display: block; font-weight: 400; overflow-wrap: anywhere; }
.mb .wrap { white-space: normal; max-width: 22rem; overflow-wrap: anywhere; }
.mb .number { font-weight: 650; font-size: 1rem; }
.mb tr.other { background: rgba(128, 128, 128, 0.06); }
.mb .card { border-left: 4px solid #8a8a8a; padding: 0.35rem 0 0.35rem 0.9rem; margin: 0.7rem 0; }
.mb .card.yes { border-color: #2e7d4f; } .mb .card.no { border-color: #b3392f; }
.mb .card.open { border-color: #b88a1b; } .mb .card.unasked { border-color: #b4b4b4; }
.mb .verdict { font-weight: 650; } .mb .yes .verdict { color: #2e7d4f; }
.mb .no .verdict { color: #b3392f; } .mb .open .verdict { color: #8f6a0e; }
.mb .unasked .verdict, .mb .unasked .sentence { color: #6b6b6b; }
.mb .sentence { font-size: 1.02rem; }
.mb .strip { position: relative; width: 11rem; height: 1.1rem; margin: 0 0.6rem; }
.mb .strip::before { content: ""; position: absolute; left: 0; right: 0; top: 50%;
  border-top: 1px solid rgba(128, 128, 128, 0.3); }
.mb .strip i { position: absolute; top: 50%; transform: translateY(-50%); }
.mb .range { height: 6px; border-radius: 3px; background: rgba(31, 95, 139, 0.35); }
.mb .dot { width: 9px; height: 9px; margin-left: -4.5px; border-radius: 50%; background: #1f5f8b; }
.mb .hollow { background: transparent; border: 2px solid #767676; }
.mb .pill { font-size: 0.8rem; padding: 0.1rem 0.6rem; border-radius: 1rem; color: #fff;
  background: #1f5f8b; vertical-align: 0.1rem; }
.mb a { color: #1f5f8b; }
</style>
"""


def block(*parts: str) -> str:
    """HTML parts under the page's style."""
    return f'<div class="mb">{"".join(parts)}</div>'


def badge(task: str, preset: str) -> str:
    """What the page shows now, in a corner that stays when the page is scrolled."""
    return block(f'<div class="mb-badge">{html(task)} · preset {html(preset)}</div>')


def number(value: float, digits: int = 4) -> str:
    """A metric's value: four decimals, fewer for large numbers."""
    return f"{value:.{digits if abs(value) < 10 else 2}f}"


def quantity(value: float | None, unit: str = "") -> str:
    """A cost with its SI prefix and three significant digits; a dash where it is unknown."""
    if value is None:
        return "–"
    for limit, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {prefix}{unit}"
    return f"{value:g} {unit}".strip()


def count(value: int | None) -> str:
    """An integer with separated thousands."""
    return "–" if value is None else f"{value:,}"


def rank(row: Row) -> str:
    """A rank, or the range of ranks that the intervals leave open."""
    if row.rank_best is None or row.rank_worst is None:
        return "–"
    if row.rank_best == row.rank_worst:
        return str(row.rank_best)
    return f"{row.rank_best}–{row.rank_worst}"


def name(row: Row) -> str:
    """Label and, where a label has several, its setting."""
    return f"{plain(row.label)} ({row.setting})" if row.setting else plain(row.label)


def plain(label: str) -> str:
    """A label for readers: names of predictors in code have underscores."""
    return label.replace("_", " ")


def table(rows: Sequence[Row]) -> str:
    """One table: measured rows and references first, published numbers below them."""
    first = rows[0]
    arrow = ARROWS.get(first.direction or "", "")
    way = WAYS.get(first.direction or "", "no known direction")
    unit = f", {html(first.unit)}" if first.unit else ""
    low, high = _scale(rows)
    axis = "" if low == high else f"{number(low, 2)} … {number(high, 2)}"
    head = (
        "<th>rank</th><th class='left'>model</th>"
        f"<th>{html(first.metric)} {arrow}<br>{way}{unit}</th><th>95 % interval</th>"
        f"<th class='left'>{axis}</th><th>seeds</th><th>parameters</th>"
        "<th>training<br>FLOPs</th><th>state</th><th>trials</th><th class='left'>mark</th>"
        "<th class='left'>origin</th>"
    )
    body = "".join(_table_row(row, low, high) for row in rows)
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return block(f'<div class="scroll">{grid}</div>')


def _table_row(row: Row, low: float, high: float) -> str:
    published = row.kind.startswith("published")
    if row.outcome != "ok":
        value = (
            f'<td class="left wrap" colspan="3">{html(row.cause or row.outcome)}{_kept(row)}</td>'
        )
    else:
        digits = 3 if published else 4
        mean = "–" if row.mean is None else number(row.mean, digits)
        value = (
            f'<td class="number">{mean}</td><td>{_interval(row)}</td>'
            f'<td class="left">{_strip(row, low, high)}</td>'
        )
    setting = f'<span class="muted">{html(row.setting)}</span>' if row.setting else ""
    origin = ", ".join(part for part in (row.kind, row.source) if part)
    state = quantity(row.state_bytes, "B")
    if row.state_bytes is not None and row.state_length:
        state += f"<br><span class='muted'>at {row.state_length:,}</span>"
    is_model = row.kind == "measured"
    cells = (
        f"<td>{_seeds(row)}</td>"
        f"<td>{_parameters(row) if is_model else '–'}</td>"
        f"<td>{quantity(row.training_flops) if is_model else '–'}</td>"
        f"<td>{state if is_model else '–'}</td><td>{count(row.trials) if is_model else '–'}</td>"
        f'<td class="left wrap">{_marks(row)}</td>'
        f'<td class="left wrap">{html(origin)}</td>'
    )
    kind = "" if is_model else ' class="other"'
    return (
        f"<tr{kind}><td>{rank(row)}</td>"
        f'<td class="left model">{html(plain(row.label))}{setting}</td>{value}{cells}</tr>'
    )


def _marks(row: Row) -> str:
    """The gravest mark, and every one with its reason."""
    reasons = "<br>".join(map(html, row.marks or ()))
    return f'{html(row.mark)}<br><span class="muted">{reasons}</span>' if row.mark else "–"


def _kept(row: Row) -> str:
    if row.mean is None:
        return ""
    return f'<br><span class="muted">mean of the other seeds {number(row.mean)}, not ranked</span>'


def _interval(row: Row) -> str:
    if row.low is not None and row.high is not None:
        return f"{number(row.low)} to {number(row.high)}"
    if row.kind == "reference":
        return '<span class="muted">deterministic</span>'
    if row.kind == "measured":
        why = "one seed" if (row.seeds or 0) < 2 else "no spread over seeds"
        return f'<span class="muted">{why}: unknown</span>'
    return "–"


def _parameters(row: Row) -> str:
    if not row.parameters or not row.position_parameters:
        return count(row.parameters)
    rest = count(row.parameters - row.position_parameters)
    return f'{count(row.parameters)}<br><span class="muted">{rest} without positions</span>'


def _seeds(row: Row) -> str:
    if row.seeds is None or not row.run_ids:
        return "–"
    query = {"task": row.task, "preset": row.preset, "view": "Records", "record": row.run_ids[0]}
    return f'<a href="?{html(urlencode(query))}" target="_self">{row.seeds}</a>'


def _scale(rows: Iterable[Row]) -> tuple[float, float]:
    ends = [
        end
        for row in rows
        if row.outcome == "ok"
        for end in (row.low, row.mean, row.high)
        if end is not None
    ]
    return (min(ends), max(ends)) if ends else (0.0, 0.0)


def _strip(row: Row, low: float, high: float) -> str:
    """The interval and the mean on the table's common scale."""
    if row.mean is None or low == high:
        return ""

    def place(value: float) -> float:
        return 100 * (value - low) / (high - low)

    marks = ""
    if row.low is not None and row.high is not None:
        width = place(row.high) - place(row.low)
        marks = f'<i class="range" style="left:{place(row.low):.1f}%;width:{width:.1f}%"></i>'
    kind = "dot" if row.kind == "measured" else "dot hollow"  # hollow: not one that is ranked
    marks += f'<i class="{kind}" style="left:{place(row.mean):.1f}%"></i>'
    return f'<div class="strip" aria-hidden="true">{marks}</div>'


def notes(shown: Iterable[Row | Line]) -> str:
    """What a reader of the shown published numbers must know, once for each source."""
    found = dict.fromkeys((item.source, item.note) for item in shown if item.note)
    return "".join(f'<p class="muted">{html(source)}: {html(note)}</p>' for source, note in found)


def verdict_counts(claims: Iterable[ClaimLine]) -> str:
    """How many claims got which verdict, and how many are not asked, if any."""
    shown = list(claims)
    counts = Counter(claim.verdict for claim in shown)
    words = [
        f"{sign} {counts[verdict]} {verdict}"
        for verdict, (sign, _) in VERDICTS.items()
        if verdict != NOT_ASKED or counts[NOT_ASKED]
    ]
    return " · ".join([*words, *(["in no headline count"] if any(map(is_smallest, shown)) else [])])


def is_smallest(claim: ClaimLine) -> bool:
    """Whether a verdict is of the preset that only tests the machinery: no headline counts it."""
    return claim.preset.split()[:1] == [PRESETS[0]]


def verdict_card(claim: ClaimLine) -> str:
    """One claim: the verdict first, then what was claimed, then why."""
    sign, kind = VERDICTS[claim.verdict]
    seeds = "" if claim.seeds is None else f"{claim.seeds} seed{'s' * (claim.seeds != 1)}"
    if claim.seeds_needed is not None:
        seeds += (
            f"; {claim.seeds_needed} would settle it with a probability of {POWER:.0%}, if spread "
            "and effect are as they seem"
        )
    if claim.verdict == NOT_ASKED:
        seeds = asked_at(claim)
    size = " · ".join(part for part in (claim.effect, p_of(claim) and f"p {p_of(claim)}") if part)
    doubt = "; ".join(doubts(claim))
    beside = "".join(f'<p class="muted">{html(text)}</p>' for text in (size, doubt) if text)
    return (
        f'<div class="card {kind}"><p class="verdict">{sign} {html(claim.verdict)}</p>'
        f'<p class="sentence">{html(claim.sentence)}</p>'
        f"<p>{html(claim.evidence)}</p>{beside}"
        f'<p class="muted">{html(seeds)} · counts as reproduced: {html(claim.tolerance)} · '
        f"{html(claim.source)}</p></div>"
    )


def doubts(claim: ClaimLine) -> list[str]:
    """What a reader of a decided verdict must know beside it."""
    lost = "does not stay when all questions of the preset are taken together"
    late = "the claim was set, or last reworded, after the runs had begun"
    decided = claim.verdict in ("reproduced", "contradicted")
    return [
        text
        for text, holds in ((lost, claim.stays is False), (late, claim.after_runs))
        if decided and holds
    ]


def p_of(claim: ClaimLine) -> str:
    """The p-value of a verdict; nothing where nothing was decided or no chance enters."""
    return f"{claim.p:.2g}" if claim.p else ""


def asked_at(claim: ClaimLine) -> str:
    """Which preset asks a claim that this one does not, and what that would cost."""
    if not claim.asked_at:
        return "no preset asks it of these runs"
    return f"preset {claim.asked_at} asks it" + (f", with {claim.cost}" if claim.cost else "")


def covered(rows: Iterable[Row]) -> str:
    """What the intervals of a table are over."""
    known = {row.items for row in rows if row.low is not None and row.kind == "measured"}
    if not known - {None}:
        return "over seeds"
    return "over seeds and test items" + (", where the records hold these" if None in known else "")


def from_items(rows: Iterable[Row]) -> str:
    """Which share of the variance of a table's means is from test items, as a clause."""
    known = sorted(row.share_of_items for row in rows if row.share_of_items is not None)
    if not known:
        return ""
    ends = dict.fromkeys(f"{share:.0%}" for share in (known[0], known[-1]))
    return f" ({' to '.join(ends)} of its variance from items)"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A two-column table of plain facts."""
    lines = "".join(
        f'<tr><th class="left" scope="row">{html(key)}</th>'
        f'<td class="left wrap">{html(value)}</td></tr>'
        for key, value in pairs
    )
    return block(f'<div class="scroll"><table><tbody>{lines}</tbody></table></div>')


def as_csv(rows: Iterable[Row]) -> str:
    """The table for a spreadsheet; a text that it would read as a formula gets an apostrophe."""
    buffer = io.StringIO()
    lines = [vars(row) | {"run_ids": " ".join(row.run_ids)} for row in rows]
    if lines:
        writer = csv.DictWriter(buffer, lines[0])
        writer.writeheader()
        writer.writerows({k: spreadsheet(v) for k, v in line.items()} for line in lines)
    return buffer.getvalue()
