"""How the bigram task is drawn: accuracy by model, loss over steps, memories over steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.ground.statistics import mean_interval
from bench.records.schema import RunRecord
from reproduce.bigram.records import (
    CHANCE,
    LABELS,
    PROBES,
    curve_over_seeds,
    metric,
    of_model,
    of_task,
)
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Bigram task: who finds what followed a trigger, and which memory is learned when"
SKY = "#56b4e9"  # of the same palette
COLOURS = {
    "gpt2/1": ORANGE,
    "gpt2/2": VERMILLION,
    "memory_mosaic/1": BLUE,
    "lstm/2": GREEN,
    "s4d/2": PURPLE,
    "mamba/2": GREY,
    "titans/2": BLACK,
    "conv_attention/2": SKY,
}
OF_PROBE = {
    "accuracy": BLACK,
    "output_recall": ORANGE,
    "token_recall": GREEN,
    "early_position_recall": BLUE,
    "position_recall": BLUE,
}
PUBLISHED = {"gpt2/1": 0.55, "gpt2/2": 0.99}  # read from the slides


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """Four panels: accuracy, loss, probes of the simplified model, three gradient steps. Below
    each model stands for how many steps it was trained: not all for as many."""
    figure = new_figure(11, 7)
    ((accuracy, loss), (probes, steps)) = figure.subplots(2, 2)
    _accuracies(accuracy, records)
    _losses(loss, records)
    simplified = of_task(records, "bigram_probes")
    shown = ("accuracy", "output_recall", "token_recall", "early_position_recall")
    _over_steps(probes, simplified, shown)
    probes.set_title("memories of the simplified model, trained by SGD", fontsize=9)
    probes.set_xlabel("SGD steps", fontsize=8.5)
    theory = of_task(records, "three_gradient_steps")
    _over_steps(steps, theory, ("accuracy", "output_recall", "token_recall", "position_recall"))
    steps.set_title("one gradient step on W_O², then W_K², then W_K¹", fontsize=9)
    steps.set_xlabel("gradient steps taken", fontsize=8.5)
    steps.set_xticks(range(4))
    frame(figure, TITLE, [r for r in records if r.role != "baseline"], view)
    return figure


def _accuracies(axes: Axes, records: Sequence[RunRecord]) -> None:
    quiet(axes)
    axes.axhline(CHANCE, color=LIGHT, linewidth=1)
    for place, model in enumerate(LABELS):
        colour = COLOURS[model]
        runs = latest(of_model(records, model), lambda record: record.seed)
        values = [metric("in_context_accuracy")(run) for run in runs]
        known = [value for value in values if value is not None]
        axes.plot([place] * len(known), known, "_", color=colour, markersize=9, alpha=0.7)
        summary = mean_interval(values)
        if summary.mean is not None:
            axes.plot([place], [summary.mean], "o", color=colour, markersize=5)
        if summary.interval is not None:
            axes.vlines(place, *summary.interval, color=colour, linewidth=1.4)
        firsts = [metric("first_occurrence_accuracy")(run) for run in runs]
        shown = [value for value in firsts if value is not None]
        axes.plot([place] * len(shown), shown, "x", color=colour, markersize=4, alpha=0.7)
        if model in PUBLISHED:
            axes.plot([place + 0.22], [PUBLISHED[model]], "D", color=BLACK, markersize=4, mfc="w")
        if any(run.outcome != "ok" for run in runs):
            axes.annotate("✗", (place, 0.03), xycoords=("data", "axes fraction"), color=colour)
    axes.set_xticks(range(len(LABELS)), [_tick(records, model) for model in LABELS])
    axes.tick_params(axis="x", labelsize=6.5)
    axes.set_ylim(-0.02, 1.04)
    axes.set_title(
        "in-context accuracy (●, seeds –), published (◇), first occurrence (×)", fontsize=9
    )


def _tick(records: Sequence[RunRecord], model: str) -> str:
    """The name of a row and how long it was trained."""
    steps = sorted({run.config["training"]["steps"] for run in of_model(records, model)})
    trained = f"\n{'–'.join(map(str, steps))} steps" if steps else ""
    return LABELS[model].replace(", ", "\n").replace(" with a ", "\nwith a\n") + trained


def _losses(axes: Axes, records: Sequence[RunRecord]) -> None:
    quiet(axes)
    for model, label in LABELS.items():
        found = curve_over_seeds(of_model(records, model), "validation_loss")
        _lines(axes, found, COLOURS[model], label)
    axes.set_ylim(bottom=0)
    axes.set_title("cross-entropy of outputs that the past tells (validation)", fontsize=9)
    axes.set_xlabel("training steps", fontsize=8.5)
    axes.set_ylabel("nats", fontsize=8.5)
    _legend(axes, "upper right", columns=2)


def _over_steps(axes: Axes, records: Sequence[RunRecord], names: Sequence[str]) -> None:
    quiet(axes)
    for name in names:
        label = PROBES.get(name, "in-context accuracy")
        _lines(axes, curve_over_seeds(records, name), OF_PROBE[name], label)
    axes.set_ylim(-0.02, 1.04)
    _legend(axes, "best")


def _lines(axes: Axes, found: Mapping[str, Any], colour: str, label: str) -> None:
    """Every seed thin, their mean thick."""
    if not found["x"]:
        return
    for values in found["seeds"].values():
        axes.plot(found["x"], values, color=colour, linewidth=0.6, alpha=0.5)
    axes.plot(found["x"], found["mean"], color=colour, linewidth=1.8, label=label)


def _legend(axes: Axes, place: Any, columns: int = 1) -> None:
    if axes.lines:
        axes.legend(fontsize=7, frameon=False, loc=place, ncols=columns)
