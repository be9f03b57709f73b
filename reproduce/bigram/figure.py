"""How the bigram task is drawn: accuracy by model, loss over steps, memories over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.records.schema import RunRecord
from pictures.panels import Axis, Panel, Picture, Remark, Row, Trace
from reproduce.bigram.records import CHANCE, LABELS, PROBES, metric, of_model, of_task
from reproduce.drawing.traces import curve_over_seeds, over_seeds

TITLE = "Bigram task: who finds what followed a trigger, and which memory is learned when"
OF_PROBE = {
    "accuracy": "black",
    "output_recall": "orange",
    "token_recall": "green",
    "early_position_recall": "blue",
    "position_recall": "blue",
}
PUBLISHED = {"gpt2/1": 0.55, "gpt2/2": 0.99}  # read from the slides


def panels(records: Sequence[RunRecord]) -> Picture:
    """Four panels: accuracy, loss, probes of the simplified model, three gradient steps."""
    probes = ("accuracy", "output_recall", "token_recall", "early_position_recall")
    steps = ("accuracy", "output_recall", "token_recall", "position_recall")
    below = [
        _over_steps(
            of_task(records, "bigram_probes"),
            probes,
            "memories of the simplified model, trained by SGD",
            Axis("SGD steps"),
        ),
        _over_steps(
            of_task(records, "three_gradient_steps"),
            steps,
            "one gradient step on W_O², then W_K², then W_K¹",
            Axis("gradient steps taken", ticks=range(4)),
        ),
    ]
    rows = [Row([_accuracies(records), _losses(records)]), Row(below, height=3.1)]
    return Picture(TITLE, rows, width=11, facts=_unseen(records))


def _accuracies(records: Sequence[RunRecord]) -> Panel:
    return Panel(
        "in-context accuracy (●, seeds –), published (◇), first occurrence (×)",
        x=Axis(categories=[_tick(records, model) for model in LABELS]),
        y=Axis(limits=(-0.02, 1.04)),
        traces=[trace for model in LABELS for trace in _of_model(records, model)],
        remarks=[Remark(y=CHANCE, line="solid", colour="light")],
    )


def _of_model(records: Sequence[RunRecord], model: str) -> list[Trace]:
    place, label = list(LABELS).index(model), LABELS[model]
    runs = {place: of_model(records, model)}
    look: dict[str, Any] = {"mark": "dots", "colour": model.partition("/")[0]}
    first, once = metric("first_occurrence_accuracy"), f"{label}, first occurrence"
    found = [
        over_seeds(label, runs, metric("in_context_accuracy"), **look),
        over_seeds(once, runs, first, marker="cross", **look),
    ]
    if model in PUBLISHED:
        level, aside = [PUBLISHED[model]], 2.0
        found.append(
            Trace(f"{label}, published", [place], level, mark="dots", role="published", aside=aside)
        )
    return found


def _tick(records: Sequence[RunRecord], model: str) -> str:
    """The name of a row and how long it was trained: not all for as many steps."""
    steps = sorted({run.config["training"]["steps"] for run in of_model(records, model)})
    trained = f"\n{'–'.join(map(str, steps))} steps" if steps else ""
    return LABELS[model].replace(", ", "\n").replace(" with a ", "\nwith a\n") + trained


def _losses(records: Sequence[RunRecord]) -> Panel:
    return Panel(
        "cross-entropy of outputs that the past tells (validation)",
        x=Axis("training steps"),
        y=Axis("nats", limits=(0, None)),
        traces=[
            curve_over_seeds(
                label,
                of_model(records, model),
                "validation_loss",
                colour=model.partition("/")[0],
                line="dashed" if model == "gpt2/1" else "",
            )
            for model, label in LABELS.items()
        ],
        legend="upper right",
        columns=2,
    )


def _over_steps(
    records: Sequence[RunRecord], names: Sequence[str], title: str, steps: Axis
) -> Panel:
    return Panel(
        title,
        x=steps,
        y=Axis(limits=(-0.02, 1.04)),
        traces=[
            curve_over_seeds(
                PROBES.get(name, "in-context accuracy"), records, name, colour=OF_PROBE[name]
            )
            for name in names
        ],
        legend="best",
    )


def _unseen(records: Sequence[RunRecord]) -> dict[str, Any]:
    """What is measured and not drawn: predictors without training, and random triggers."""
    accuracy = metric("in_context_accuracy")
    random = {model: of_model(records, model, "random") for model in LABELS}
    return {
        "without_training": {r.label: accuracy(r) for r in records if r.role == "baseline"},
        "random_triggers": {
            LABELS[model]: {str(run.seed): accuracy(run) for run in runs}
            for model, runs in random.items()
            if runs
        },
    }
