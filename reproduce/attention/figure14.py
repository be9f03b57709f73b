"""Figure 14: where the last position looks, on windows of the training length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.records.schema import RunRecord
from reproduce.attention import attention
from reproduce.attention.attention import LEARNED, MOSAIC, TRAINED
from reproduce.drawing.style import new_figure
from reproduce.judging.claims import Claim, Finding, Tolerance, difference_above
from reproduce.judging.reproduction import View
from reproduce.stories.language import frame, stating_corpus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Figure 14. Average attention of the last position, one curve for each head"
SOURCE = f"{attention.SOURCE}, figure 14"
KINDS = (LEARNED, MOSAIC)

FLAT = Tolerance(
    "the coefficient of variation over all but the newest eighth of the positions, less what the "
    "choice of windows adds, mean over heads, is below {flat:g} with its whole 95 % interval over "
    "seeds",
    {"flat": 0.2},
)
PEAK = Tolerance(
    "attention to the newest pair is more than {peak:g} times the flat level (the median over all "
    "but the newest eighth), mean over heads, with its whole 95 % interval over seeds",
    {"peak": attention.PEAK},
)


def noisier_than_mosaic(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The curves of the transformer are less even than the Mosaic's."""
    value, label = attention.metric("unevenness"), "unevenness"
    worst = attention.most_positions(records)
    return difference_above(
        attention.sample(records, LEARNED, label, value),
        attention.sample(records, MOSAIC, label, value, diverged=worst),
        numbers["margin"],
    )


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """The transformer beside the Mosaic, on one scale."""
    figure = new_figure(9.6, 4.1)
    panels = figure.subplots(1, len(KINDS), sharey=True)
    for axes, kind in zip(panels, KINDS, strict=True):
        attention.panel(axes, records, kind, TRAINED)
    panels[0].set_ylabel("average attention, times uniform", fontsize=8.5)
    frame(figure, TITLE, attention.named(records), view)
    return figure


REPRODUCTION = attention.reproduction(
    TITLE,
    SOURCE,
    KINDS,
    draw,
    attention.curves(TRAINED),
    claims=(
        Claim(
            "the transformer has a sink",
            SOURCE,
            "A one-block transformer with learned positions keeps a strong part of its attention "
            "on position 0.",
            Tolerance(
                "position 0 gets more than {sink:g} times uniform attention, mean over heads, with "
                "its whole 95 % interval over seeds",
                {"sink": 3.0},
            ),
            stating_corpus(
                attention.transformer(
                    LEARNED, "position 0", attention.metric("first_position"), above="sink"
                )
            ),
        ),
        Claim(
            "the Mosaic has no sink",
            SOURCE,
            "A one-block Memory Mosaic has no sink at position 0.",
            Tolerance(
                "position 0 gets less than {none:g} times uniform attention, mean over heads, with "
                "its whole 95 % interval over seeds",
                {"none": 1.5},
            ),
            stating_corpus(
                attention.mosaic_below("position 0", attention.metric("first_position"), "none")
            ),
        ),
        Claim(
            "the Mosaic's curves are flat",
            SOURCE,
            "The Mosaic's attention is mostly flat, but for the newest positions.",
            FLAT,
            stating_corpus(
                attention.mosaic_below("unevenness", attention.metric("unevenness"), "flat")
            ),
        ),
        Claim(
            "the Mosaic's recent peak",
            SOURCE,
            "The Mosaic's attention is higher at the newest positions.",
            PEAK,
            stating_corpus(
                attention.mosaic_above("newest pair", attention.recent_peak(TRAINED), "peak")
            ),
        ),
        Claim(
            "the transformer's curves are noisier",
            SOURCE,
            "The transformer's attention is noisy where the Mosaic's is flat.",
            Tolerance(
                "the transformer's unevenness (as above) is larger by more than {margin:g}, with "
                "its whole 95 % interval over seeds",
                {"margin": 0.0},
            ),
            stating_corpus(noisier_than_mosaic),
        ),
    ),
)
