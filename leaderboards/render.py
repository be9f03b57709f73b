"""How numbers, ranks and verdicts are written, wherever they stand."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from bench.config.groups import task_card
from core.escaping import spreadsheet
from leaderboards.contents import ClaimLine, Row
from leaderboards.tables.rows import MEASURED, UNVERIFIED

PRESETS = ("smoke", "laptop", "gpu", "paper")  # by growing scale
ARROWS: Mapping[str | None, str] = {"maximise": "↑", "minimise": "↓"}
WAYS = {"maximise": "higher is better", "minimise": "lower is better"}
NOT_ASKED = "not asked here"  # no verdict: the preset leaves it to another
CONTRADICTED = "contradicted"
VERDICTS = {  # sign and class: the word says it too, colour is never alone
    "reproduced": ("✓", "yes"),
    CONTRADICTED: ("✗", "no"),
    "not enough evidence": ("?", "open"),
    NOT_ASKED: ("○", "unasked"),
}

# What a claim that was set after its runs is by later ones alone.
CONFIRMED, NOT_CONFIRMED, NOT_ASKED_AGAIN = "confirmed", "not confirmed", "not asked again"

TYPED = (MEASURED, UNVERIFIED)  # kinds of rows whose labels are of models


class Labelled(Protocol):
    """What has a label: a row, a curve, or some columns of a row."""

    @property
    def label(self) -> str: ...

    @property
    def kind(self) -> str: ...


def with_arrow(metric: str, direction: str | None) -> str:
    """A metric with the way that is better, as far as that is known."""
    return f"{metric} {ARROWS[direction]}" if direction in ARROWS else metric


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
    return f"{value:.3g} {unit}".strip()


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
    label = shown_label(row)
    return f"{label} ({row.setting})" if row.setting else label


def footnotes(rows: Iterable[Row]) -> list[str]:
    """What a reader of some rows must know beside their numbers and marks, a sentence for each."""
    return list(dict.fromkeys(f"{row.source or name(row)}: {row.note}" for row in rows if row.note))


def enumerated(texts: Sequence[str], conjunction: str = "and") -> str:
    """Texts as a sentence has them: "a, b and c"."""
    *others, last = texts
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def shown_label(row: Labelled) -> str:
    """The label of a row or curve for readers: that of a model as its owner typed it."""
    return row.label if row.kind in TYPED else plain(row.label)


def plain(label: str) -> str:
    """A label for readers: names of predictors in code have underscores."""
    return label.replace("_", " ")


def task_label(task: str) -> str:
    """What a task is called: its card's label, or its name."""
    return str(task_card(task).get("label", task))


def alone(claim: ClaimLine) -> str:
    """What a claim that was set after its runs is by those alone that began later: not confirmed is
    one that these, with as many seeds as the earlier ones, do not decide alike."""
    if claim.confirmed:
        return CONFIRMED
    return NOT_CONFIRMED if claim.asked_again else NOT_ASKED_AGAIN


def doubts(claim: ClaimLine) -> list[str]:
    """What a reader of a decided verdict must know beside it."""
    texts: list[str] = []
    if claim.verdict not in ("reproduced", "contradicted"):
        return texts
    if claim.stays is False:
        texts.append("does not stay when all questions of the preset are taken together")
    if claim.after_runs:
        words = {
            CONFIRMED: "; those alone that began later decide it alike",
            NOT_CONFIRMED: "; those alone that began later do not decide it alike",
            NOT_ASKED_AGAIN: "",
        }
        late = "the claim was set, or last reworded, after the runs had begun"
        texts.append(late + words[alone(claim)])
    return texts


def p_of(claim: ClaimLine) -> str:
    """The p-value of a verdict; nothing where nothing was decided or no chance enters."""
    return f"{claim.p:.2g}" if claim.p else ""


def asked_at(claim: ClaimLine) -> str:
    """What a claim needs that has no verdict: runs of this preset, or those of a larger one, and
    what they would cost."""
    if not claim.asked_at:
        return "no preset asks it of these runs"
    cost = f", with {claim.cost}" if claim.cost else ""
    if claim.asked_at == claim.preset:
        return f"its runs at this preset are not made yet{cost}"
    if claim.asked_at in itertools.takewhile(lambda preset: preset != claim.preset, PRESETS):
        return "its runs at this preset are not made yet"
    return f"preset {claim.asked_at} asks it{cost}"


def covered(rows: Iterable[Row]) -> str:
    """What the intervals of a table are over."""
    item_counts = {row.items for row in rows if row.low is not None and row.kind == "measured"}
    if not item_counts - {None}:
        return "over seeds"
    return "over seeds and test items" + (
        ", where the records hold these" if None in item_counts else ""
    )


def from_items(rows: Iterable[Row]) -> str:
    """Which share of the variance of a table's means is from test items, as a clause."""
    shares = sorted(row.share_of_items for row in rows if row.share_of_items is not None)
    if not shares:
        return ""
    ends = dict.fromkeys(f"{share:.0%}" for share in (shares[0], shares[-1]))
    return f" ({' to '.join(ends)} of its variance from items)"


# What readers call columns of rows that have other names on disk. ``verified`` there is whether a
# row may be ranked, which is no word for somebody who reads ``checked: reported`` beside it. The
# old name stands last, for one release.
COLUMN_NAMES = {"verified": "admitted"}


def as_csv(rows: Iterable[Row]) -> str:
    """The table for a spreadsheet; a text that it would read as a formula gets an apostrophe."""
    buffer = io.StringIO()
    lines = []
    for row in rows:
        cells = vars(row) | {"run_ids": " ".join(row.run_ids)}
        line = {COLUMN_NAMES.get(name, name): cell for name, cell in cells.items()}
        lines.append(line | {name: cells[name] for name in COLUMN_NAMES})
    if lines:
        writer = csv.DictWriter(buffer, lines[0])
        writer.writeheader()
        for line in lines:
            writer.writerow({name: spreadsheet(cell) for name, cell in line.items()})
    return buffer.getvalue()
