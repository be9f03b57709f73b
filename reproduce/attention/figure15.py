"""Figure 15: where the last position looks, on windows three times as long as in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.records.schema import RunRecord
from reproduce.attention import attention
from reproduce.attention.attention import ALIBI, EXTENDED, MOSAIC, ROPE
from reproduce.attention.figure14 import FLAT, PEAK
from reproduce.drawing.style import GREY, new_figure
from reproduce.judging.claims import Claim, Tolerance
from reproduce.judging.reproduction import View
from reproduce.stories.language import frame, stating_corpus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Figure 15. Average attention of the last position beyond the training length"
SOURCE = f"{attention.SOURCE}, figure 15"
KINDS = (ROPE, ALIBI, MOSAIC)
LOWEST = 0.01  # of the attention axis: ALiBi's falls exponentially
DEFINITION = (
    "the mean attention to positions farther away than a training window reaches is {side} than "
    "{change:g} times above or below that to the farther half of those that it reaches (geometric "
    "mean over heads), with its whole 95 % interval over seeds"
)
CHANGE = {"change": 1.25}


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """RoPE, ALiBi and the Mosaic on one scale; a line where the training windows would begin."""
    figure = new_figure(12, 4.1)
    panels = figure.subplots(1, len(KINDS), sharey=True)
    for axes, kind in zip(panels, KINDS, strict=True):
        attention.panel(axes, records, kind, EXTENDED)
        run = attention.shown(records, kind)
        if run is not None:
            time = attention.heads(run, EXTENDED).shape[-1]
            reach = attention.training_length(run)
            axes.axvline(time - reach, color=GREY, linewidth=0.8, linestyle="--")
            axes.annotate(
                f"training reaches\n{reach} tokens back",
                (time - reach, 0.03),
                xycoords=("data", "axes fraction"),
                xytext=(-4, 0),
                textcoords="offset points",
                ha="right",
                fontsize=7,
                color=GREY,
            )
    panels[0].set_ylim(bottom=LOWEST)
    panels[0].set_ylabel("average attention, times uniform", fontsize=8.5)
    frame(figure, TITLE, attention.named(records), view)
    return figure


REPRODUCTION = attention.reproduction(
    TITLE,
    SOURCE,
    KINDS,
    draw,
    attention.curves(EXTENDED),
    claims=(
        Claim(
            "RoPE does not extend",
            SOURCE,
            "The attention of a transformer with RoPE does not go on beyond the training length "
            "as it was.",
            Tolerance(DEFINITION.replace("{side}", "more"), CHANGE),
            stating_corpus(
                attention.transformer(
                    ROPE, "change beyond training", attention.change_beyond, above="change"
                )
            ),
        ),
        Claim(
            "ALiBi's attention vanishes",
            SOURCE,
            "What distant tokens contribute vanishes in a transformer with ALiBi.",
            Tolerance(
                "the oldest third of the window gets less than {vanishing:g} times uniform "
                "attention, mean over heads, with its whole 95 % interval over seeds",
                {"vanishing": 0.25},
            ),
            stating_corpus(
                attention.transformer(
                    ALIBI, "oldest third", attention.oldest_third, below="vanishing"
                )
            ),
        ),
        Claim(
            "the Mosaic stays flat",
            SOURCE,
            "The Mosaic's attention remains mostly flat on windows three times as long.",
            FLAT,
            stating_corpus(
                attention.mosaic_below(
                    "unevenness", attention.metric("unevenness_extended"), "flat"
                )
            ),
        ),
        Claim(
            "the Mosaic goes on as it was",
            SOURCE,
            "The level of the Mosaic's attention is the same on both sides of the training length.",
            Tolerance(DEFINITION.replace("{side}", "less"), CHANGE),
            stating_corpus(
                attention.mosaic_below("change beyond training", attention.change_beyond, "change")
            ),
        ),
        Claim(
            "the Mosaic keeps its recent peak",
            SOURCE,
            "The Mosaic's attention keeps its shape: higher at the newest positions.",
            PEAK,
            stating_corpus(
                attention.mosaic_above("newest pair", attention.recent_peak(EXTENDED), "peak")
            ),
        ),
    ),
)
