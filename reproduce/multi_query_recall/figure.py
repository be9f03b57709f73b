"""How multi-query recall is drawn: by pairs, by size of the state, and with rewritten keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.ground.statistics import Mean, mean_interval
from bench.records.schema import RunRecord
from reproduce.drawing.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LIGHT,
    ORANGE,
    PURPLE,
    VERMILLION,
    frame,
    new_figure,
    quiet,
)
from reproduce.judging.observations import latest
from reproduce.judging.reproduction import View
from reproduce.multi_query_recall.records import (
    FORGETTING,
    LABELS,
    PLAIN,
    metric,
    of,
    pairs,
    steps,
    widest,
    widths,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Multi-query recall: how many pairs a sequence model keeps, and which value of two"
COLOURS = {
    "memory_mosaic": BLUE,
    "conv_attention": BLACK,
    "titans": GREY,
    "gpt2": VERMILLION,
    "mamba": GREEN,
    "s4d": PURPLE,
    "lstm": ORANGE,
}
ANSWERS = {"accuracy_once": "s", "accuracy_rewritten": "o", "stale_rate": "x"}


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """Four panels: accuracy by pairs, by size of the state; the same by pairs where keys are
    written again, and which value such keys get."""
    figure = new_figure(10, 7)
    ((by_pairs, by_state), (forgetting, values)) = figure.subplots(2, 2)
    _by_pairs(by_pairs, records, PLAIN)
    by_pairs.set_title(f"every key written once{_after(of(records, PLAIN))}", fontsize=9)
    _by_state(by_state, records)
    _by_pairs(forgetting, records, FORGETTING)
    forgetting.set_title("some keys written twice: the latest value counts", fontsize=9)
    _values(values, of(records, FORGETTING))
    frame(figure, TITLE, records, view)
    if by_pairs.lines:
        figure.legend(
            *by_pairs.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=4,
            fontsize=7.5,
            frameon=False,
        )
    return figure


def _after(records: Sequence[RunRecord]) -> str:
    trained = sorted({steps(record) for record in records})
    return f", after {'–'.join(map(str, trained))} training steps" if trained else ""


def _by_pairs(axes: Axes, records: Sequence[RunRecord], cell: str) -> None:
    _accuracy_axes(axes)
    axes.set_xlabel("pairs in a sequence", fontsize=8.5)
    shown = of(records, cell)
    numbers = pairs(shown)
    if not numbers:
        return
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
    again = max(record.config["tasks"]["rewritten"] for record in shown)
    guess = [1 / (number + again) for number in numbers]
    axes.plot(numbers, guess, "--", color=LIGHT, label="guess among the values")
    for model, label in LABELS.items():
        found = widest(records, cell, model)
        summaries = [_over_seeds(found, f"accuracy/{number}") for number in numbers]
        _line(axes, numbers, summaries, model, label)


def _by_state(axes: Axes, records: Sequence[RunRecord]) -> None:
    _accuracy_axes(axes)
    axes.set_xlabel("bytes that a sequence keeps", fontsize=8.5)
    numbers = pairs(of(records, PLAIN))
    if not numbers:
        return
    axes.set_title(f"{numbers[-1]} pairs, by size of the state (widths)", fontsize=9)
    axes.set_xscale("log")
    for model, label in LABELS.items():
        known, summaries = [], []
        for size in widths(records, PLAIN, model):
            found = of(records, PLAIN, model, size)
            if kept := max(record.cost.state_bytes or 0 for record in found):
                known.append(kept)
                summaries.append(_over_seeds(found, f"accuracy/{numbers[-1]}"))
        _line(axes, known, summaries, model, label)


def _values(axes: Axes, records: Sequence[RunRecord]) -> None:
    _accuracy_axes(axes)
    for place, model in enumerate(LABELS):
        mine = [record for record in records if record.model == model]
        for shift, (name, marker) in enumerate(ANSWERS.items()):
            summary = _over_seeds(mine, name)
            if summary.mean is None:
                continue
            x = place + 0.2 * (shift - 1)
            axes.plot([x], [summary.mean], marker, color=COLOURS[model], markersize=5)
            if summary.interval is not None:
                axes.vlines(x, *summary.interval, color=COLOURS[model], linewidth=1)
    ticks = [label.replace(" with a ", "\nwith a\n") for label in LABELS.values()]
    axes.set_xticks(range(len(LABELS)), ticks)
    axes.tick_params(axis="x", labelsize=6.5)
    axes.set_title(
        "keys written once (■), twice (●), answered with their first value (×)", fontsize=9
    )


def _over_seeds(records: Sequence[RunRecord], name: str) -> Mean:
    return mean_interval([metric(name)(run) for run in latest(records, lambda r: r.seed)])


def _line(axes: Axes, x: Sequence[int], summaries: Sequence[Mean], model: str, label: str) -> None:
    """Means over seeds with their intervals; a point without a number is left out."""
    both = list(zip(x, summaries, strict=True))
    known = [(at, one.mean) for at, one in both if one.mean is not None]
    if not known:
        return
    colour = COLOURS[model]
    axes.plot(*zip(*known, strict=True), "o-", color=colour, markersize=4, label=label)
    for at, one in both:
        if one.interval is not None:
            axes.vlines(at, *one.interval, color=colour, linewidth=1)


def _accuracy_axes(axes: Axes) -> None:
    quiet(axes)
    axes.set_ylim(-0.03, 1.05)
    axes.set_ylabel("accuracy", fontsize=8.5)
