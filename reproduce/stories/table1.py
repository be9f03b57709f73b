"""Table 1: how many stories and tokens a corpus has, and how long its stories are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.records.schema import RunRecord
from reproduce.drawing.style import BLUE, GREY, new_figure, quiet
from reproduce.judging.claims import CONTRADICTED, REPRODUCED, UNDECIDED, Claim, Finding, Tolerance
from reproduce.judging.console import LeftOut
from reproduce.judging.reproduction import Plan, Reproduction, View
from reproduce.stories import language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Table 1. The corpus of stories: how many, how many tokens, how long"
SOURCE = f"{language.PAPER}, appendix B, table 1"
SPLITS = {"train": "training", "valid": "validation"}


class Statistics(NamedTuple):
    """Counts of one file; ``characters`` is the mean of a story."""

    stories: float
    tokens: float
    characters: float


QUANTITIES = {
    "stories": "stories",
    "tokens": "tokens",
    "characters": "characters of a story, mean",
}
# As printed. 4,749,107 tokens at 889 characters a story are 22 thousand stories, not 2.2.
PUBLISHED = {
    "train": Statistics(2.2e6, 474_704_907, 888),
    "valid": Statistics(2.2e3, 4_749_107, 889),
}
ROUNDED_BY = Statistics(0.05 / 2.2, 0, 0.5)  # of stories relative to the printed number


def plan(preset: str, seeds: int | None) -> Plan:
    """Nothing is trained: the predictors without training hold the counts of the corpus."""
    return Plan(baselines=(("tasks=babistories", f"models={language.GPT2}"),))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The predictors without training on stories."""
    return language.of_one_corpus(
        record for record in records if record.task == "babistories" and record.role == "baseline"
    )


def measured(records: Sequence[RunRecord]) -> dict[str, Statistics]:
    """Split -> counts; tokens with the end mark of each story."""
    return {
        split: Statistics(
            facts["documents"], facts["tokens"], facts["characters"] / facts["documents"]
        )
        for split, facts in language.corpus_facts(records).items()
        if split in SPLITS
    }


def as_published(
    records: Sequence[RunRecord], numbers: Mapping[str, float], quantity: str, split: str
) -> Finding:
    """Does a count round to the printed one?"""
    found = measured(records)
    if not found:
        return Finding(UNDECIDED, "no counts of a corpus", 0)
    if language.corpus_name(records) != language.BABISTORIES:
        reason = "the counts are those of BabiStories: use corpus=babistories stories=FOLDER"
        return LeftOut(UNDECIDED, reason, 0, topic="counts of BabiStories")
    printed = getattr(PUBLISHED[split], quantity)
    counts = [getattr(found[split], quantity)]
    if quantity == "tokens":  # the paper does not say whether end marks are counted
        counts.append(language.corpus_facts(records)[split]["tokens_without_ends"])
    allowed = numbers["rounding"] * (printed if quantity == "stories" else 1)
    agrees = any(abs(count - printed) <= allowed for count in counts)
    shown = " or, without end marks, ".join(
        f"{count:,.6g}" if count < 1000 else f"{count:,.0f}" for count in counts
    )
    evidence = f"{SPLITS[split]} file: {shown}; printed: {printed:,.0f}"
    return Finding(REPRODUCED if agrees else CONTRADICTED, evidence, 1)


def like_tiny_stories(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Are the stories of TinyStories as many and as long as those of BabiStories?"""
    if not records or language.corpus_name(records) != "tinystories":
        reason = "this compares TinyStories with the printed counts: use corpus=tinystories"
        return LeftOut(UNDECIDED, reason, 0, topic="likeness to TinyStories")
    found, printed = measured(records)["train"], PUBLISHED["train"]
    ratios = {name: getattr(found, name) / getattr(printed, name) for name in QUANTITIES}
    agrees = all(abs(ratio - 1) <= numbers["tolerance"] for ratio in ratios.values())
    told = ", ".join(f"{QUANTITIES[name]} {ratio:.3f}" for name, ratio in ratios.items())
    evidence = f"TinyStories relative to the printed counts of BabiStories: {told}"
    return Finding(REPRODUCED if agrees else CONTRADICTED, evidence, 1)


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """A panel for each quantity, a row for each file: counted here, and printed."""
    figure = new_figure(10.5, 2.7)
    panels = figure.subplots(1, len(QUANTITIES), sharey=True)
    found = measured(records)
    for axes, (quantity, name) in zip(panels, QUANTITIES.items(), strict=True):
        quiet(axes)
        axes.set_title(name, fontsize=9.5)
        if quantity != "characters":
            axes.set_xscale("log")
        for row, split in enumerate(SPLITS):
            if split in found:
                _point(axes, getattr(found[split], quantity), row - 0.15, BLUE, "o", "here")
            _point(axes, getattr(PUBLISHED[split], quantity), row + 0.15, GREY, "D", "published")
        axes.margins(x=0.25)
    panels[0].set_yticks(range(len(SPLITS)), list(SPLITS.values()))
    panels[0].set_ylim(len(SPLITS) - 0.5, -0.5)
    language.frame(figure, TITLE, records, view)
    return figure


def _point(axes: Axes, value: float, row: float, colour: str, marker: str, whose: str) -> None:
    axes.plot(value, row, marker, color=colour, markersize=6)
    look: dict[str, Any] = {"fontsize": 7.5, "color": colour, "ha": "center", "va": "bottom"}
    offset: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points"}
    axes.annotate(f"{value:,.0f} {whose}", (value, row), **offset, **look)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Counts here and printed, and what the records say of the corpus."""
    return {
        "corpus": language.corpus_line(records),
        "corpus_facts": language.corpus_facts(records),
        "measured": {split: found._asdict() for split, found in measured(records).items()},
        "published": {split: printed._asdict() for split, printed in PUBLISHED.items()},
    }


def table(records: Sequence[RunRecord]) -> str:
    """The table, ours beside the printed counts."""
    heads = [f"{name} | published" for name in QUANTITIES.values()]
    lines = [f"| file | {' | '.join(heads)} |", "|---|" + "---|" * (2 * len(heads))]
    for split, name in SPLITS.items():
        found = measured(records).get(split)
        cells = [name]
        for quantity in QUANTITIES:
            cells.append("none" if found is None else f"{getattr(found, quantity):,.0f}")
            cells.append(f"{getattr(PUBLISHED[split], quantity):,.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", language.corpus_line(records), ""])


def _claim(quantity: str, split: str) -> Claim:
    printed = getattr(PUBLISHED[split], quantity)
    rounding = getattr(ROUNDED_BY, quantity)
    rules = {
        "stories": "the count lies within {rounding:.1%} of the printed number, which is rounded",
        "tokens": "the count, with or without the end marks of stories, is the printed one",
        "characters": "the mean rounds to the printed number",
    }
    name = QUANTITIES[quantity]
    return Claim(
        f"{name}, {SPLITS[split]} file",
        SOURCE,
        f"The {SPLITS[split]} file of BabiStories: {name} {printed:,.0f}.",
        Tolerance(rules[quantity], {"rounding": rounding}),
        language.stating_corpus(partial(as_published, quantity=quantity, split=split)),
    )


REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=plan,
    select=select,
    draw=draw,
    curves=curves,
    note=language.corpus_line,
    table=table,
    claims=(
        *(_claim(quantity, split) for split in SPLITS for quantity in QUANTITIES),
        Claim(
            "like TinyStories",
            SOURCE,
            "Number, tokens and length of the stories essentially match those of TinyStories.",
            Tolerance(
                "each of the three is within {tolerance:.0%} of that of TinyStories",
                {"tolerance": 0.1},
            ),
            language.stating_corpus(like_tiny_stories),
        ),
    ),
)
