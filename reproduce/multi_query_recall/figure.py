"""How multi-query recall is drawn: by pairs, by size of the state, and with rewritten keys."""

from __future__ import annotations

from collections.abc import Sequence

from bench.records.schema import RunRecord
from pictures.panels import Axis, Panel, Picture, Row, Trace
from reproduce.drawing.traces import over_seeds
from reproduce.multi_query_recall.runs import (
    FORGETTING,
    LABELS,
    PLAIN,
    of,
    pairs,
    state_of,
    steps,
    widest,
    widths,
)

TITLE = "Multi-query recall: how many pairs a sequence model keeps, and which value of two"
ANSWERS = {  # metric: marker, what it is
    "accuracy_once": ("square", "keys written once"),
    "accuracy_rewritten": ("circle", "keys written twice"),
    "stale_rate": ("cross", "answered with their first value"),
}
ACCURACY = Axis("accuracy", limits=(-0.03, 1.05))


def panels(records: Sequence[RunRecord]) -> Picture:
    """Four panels: accuracy by pairs, by size of the state; the same by pairs where keys are
    written again, and which value such keys get."""
    plain = f"every key written once{_after(of(records, PLAIN))}"
    again = "some keys written twice: the latest value counts"
    above = [_by_pairs(records, PLAIN, plain), _by_state(records)]
    below = [_by_pairs(records, FORGETTING, again), _values(of(records, FORGETTING))]
    return Picture(TITLE, [Row(above, height=3), Row(below, height=3)], legend="below")


def _after(records: Sequence[RunRecord]) -> str:
    trained = sorted({steps(record) for record in records})
    return f", after {'–'.join(map(str, trained))} training steps" if trained else ""


def _by_pairs(records: Sequence[RunRecord], cell: str, title: str) -> Panel:
    shown = of(records, cell)
    numbers = pairs(shown)
    again = max((record.config["tasks"]["rewritten"] for record in shown), default=0)
    guess = [1 / (number + again) for number in numbers]
    return Panel(
        title,
        x=Axis("pairs in a sequence", scale="log2", ticks=numbers),
        y=ACCURACY,
        traces=[
            Trace("guess among the values", numbers, guess, role="reference"),
            *(_of_pairs(widest(records, cell, model), model, numbers) for model in LABELS),
        ],
    )


def _of_pairs(found: Sequence[RunRecord], model: str, numbers: Sequence[int]) -> Trace:
    points = [over_seeds(LABELS[model], {n: found}, f"accuracy/{n}") for n in numbers]
    return _joined(model, points)


def _joined(model: str, points: Sequence[Trace]) -> Trace:
    """Several numbers, each with an interval of its own, as one line."""
    found = [
        (x, y, interval)
        for point in points
        for x, y, interval in zip(point.x, point.y, point.interval, strict=True)
        if y is not None
    ]
    return Trace(
        LABELS[model],
        [x for x, _, _ in found],
        [y for _, y, _ in found],
        [interval for _, _, interval in found],
        mark="both",
        colour=model,
    )


def _by_state(records: Sequence[RunRecord]) -> Panel:
    most = (pairs(of(records, PLAIN)) or [0])[-1]
    return Panel(
        f"{most} pairs, by size of the state (widths)",
        x=Axis("bytes that a sequence keeps", scale="log"),
        y=ACCURACY,
        traces=[_of_state(records, model, most) for model in LABELS],
    )


def _of_state(records: Sequence[RunRecord], model: str, most: int) -> Trace:
    found = [of(records, PLAIN, model, size) for size in widths(records, PLAIN, model)]
    by_state = {state_of(runs): runs for runs in found if state_of(runs)}
    return over_seeds(LABELS[model], by_state, f"accuracy/{most}", colour=model)


def _values(records: Sequence[RunRecord]) -> Panel:
    traces = [
        over_seeds(
            f"{label}, {says}",
            {place: [record for record in records if record.model == model]},
            name,
            mark="dots",
            colour=model,
            marker=marker,
            aside=1.6 * (shift - 1),
            legend=says,
        )
        for place, (model, label) in enumerate(LABELS.items())
        for shift, (name, (marker, says)) in enumerate(ANSWERS.items())
    ]
    names = [label.replace(" with a ", "\nwith a\n") for label in LABELS.values()]
    return Panel("which value the keys get", x=Axis(categories=names), y=ACCURACY, traces=traces)
