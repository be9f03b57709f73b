"""Figure 16: the leaky average of a head, and how wide the recent peak of its attention is."""

from __future__ import annotations

from functools import partial
from itertools import cycle

import numpy as np

from bench.records.schema import RunRecord
from core.statistics import Kind
from reproduce.attention import runs
from reproduce.attention.heads import (
    PEAK,
    TRAINED,
    coefficients,
    flat_level,
    heads,
    peak_widths,
    rank_correlation,
)
from reproduce.attention.runs import LABELS, MOSAIC, NO_RESULT, line, measured, picture
from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import Records, provided, within
from reproduce.plotting.panels import Axis, Panel, Picture, Remark, Trace
from reproduce.plotting.style import MODELS as COLOURS
from reproduce.stories import language

TITLE = "Figure 16. The larger λ of a head, the wider the recent peak of its attention"
SHOWN = 4  # the newest quarter of the positions is drawn
CORRELATION = Kind("correlation", -1.0, 1.0)


def panels(records: Records) -> Picture:
    """The newest quarter of each head's curve, coloured by λ, and widths against λ."""
    finished = runs.of(MOSAIC).finished(records)
    x = Axis("λ, leaky average coefficient of the head")
    y = Axis("width of the recent peak (positions)")
    traces = list(map(_widths, finished, cycle(COLOURS)))
    widths = Panel("every head of every seed", x, y, traces, legend="upper left")
    return picture(TITLE, records, [_curves(finished), widths])


def _curves(finished: Records) -> Panel:
    name, traces, remark = LABELS[MOSAIC], [], NO_RESULT
    if finished:
        name, traces = f"{name}, the heads of seed {finished[0].seed}", _relative(finished[0])
        remark = Remark("the peak ends at twice the flat level", y=PEAK, at=0.4)
    x = Axis("distance to the last position, which reads")
    y = Axis("average attention over the head's flat level", "log")
    return Panel(name, x, y, traces, [remark], z=Axis("λ of the head", limits=(0, 1)))


def _relative(record: RunRecord) -> list[Trace]:
    curves = heads(record, TRAINED)
    time = curves.shape[-1]
    levels = np.maximum(flat_level(curves), 1 / time)
    newest = curves[:, -2::-1][:, : time // SHOWN - 1] / levels[:, None]  # from distance 1 on
    return [
        line(f"head {number}", head, first=1, shade=shade)
        for number, (head, shade) in enumerate(zip(newest, coefficients(record), strict=True))
    ]


def _widths(record: RunRecord, colour: str) -> Trace:
    correlation = rank_correlation(record)
    says = "no peak" if correlation is None else f"rank correlation {correlation:.2f}"
    widths = peak_widths(heads(record, TRAINED))
    name = f"seed {record.seed}: {says}"
    return Trace(name, coefficients(record), widths, mark="dots", colour=colour)


WIDTHS = measured(MOSAIC, "rank correlation of λ and width", rank_correlation, CORRELATION, 0.0)
OF_OTHERS = "of the head half of them further on"
MOVED = partial(rank_correlation, moved=True)
CLAIMS = (
    Claim(
        "width of the peak and λ",
        "The larger the leaky average coefficient λ of a head, the wider the peak at the end "
        "of its attention curve.",
        provided(language.learned(runs.of(MOSAIC)), within(WIDTHS, low=0.0)),
        "Spearman's rank correlation over heads, of λ and of the distance at which the curve, "
        "positions joined by straight lines, first falls to twice its flat level (the median over "
        "all but the newest eighth; 0 if it is never above), is at least {low:g} with its whole "
        "95 % interval over seeds; judged where the training loss fell by "
        f"{language.LEARNED:g} nat or more, since λ sets the width of a peak before that as well",
        control=Control(
            f"λ {OF_OTHERS}", within(measured(MOSAIC, OF_OTHERS, MOVED, CORRELATION), low=0.0)
        ),
    ),
)

EXPERIMENT = runs.experiment(TITLE, "figure 16", (MOSAIC,), panels, claims=CLAIMS)
