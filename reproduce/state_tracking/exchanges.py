"""Exchanges: who recalls and tracks at once, beside who recalls alone or tracks alone."""

from __future__ import annotations

from typing import Any

from reproduce.claims.claims import Claim
from reproduce.claims.grammar import Number, Rule, Runs, above, once, provided, trained_for, within
from reproduce.drawing.plots import Plot, dots, names
from reproduce.experiment import Experiment, Sweep
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Remark

TITLE = "Exchanges: recall and state tracking, alone and at once"
FACTWORLD = (
    "FactWorld, composition of recall and state: hybrids of attention with each mixer have 1.00 "
    "with DeltaProduct, 0.51 with Gated DeltaNet and 0.48 with attention alone; the task here is "
    "another one of the same idea, and no model is a hybrid"
)
TASK = "exchanges"
STEPS = 4000  # without which an accuracy says nothing
PRODUCT, GATED, ATTENTION = "delta_product", "gated_delta_net", "gpt2"
MODELS = (PRODUCT, GATED, ATTENTION, "lstm", "memory_mosaic")
BOTH: dict[str, Any] = {"tasks.fixed": False}
RECALL: dict[str, Any] = {"tasks.exchanges": [0], "tasks.fixed": False}
STATE: dict[str, Any] = {"tasks.fixed": True}
ACCURACY = Number("share of questions that are answered right", "accuracy")
KNOWS, LEARNED, AHEAD = 0.9, 0.95, 0.1


def row(model: str, settings: dict[str, Any]) -> Runs:
    """The runs of a model with both, recall alone or state alone."""
    both = settings is not RECALL
    return Runs(
        label(model),
        TASK,
        model,
        settings,
        choose=lambda record: (record.config["tasks"]["exchanges"] != [0]) == both,
    )


def is_behind(model: str) -> Rule:
    """A model recalls what nobody exchanges, and DeltaProduct answers more where they do."""
    recalls = within(ACCURACY.of(row(model, RECALL)), low=LEARNED)
    ahead = above(ACCURACY.of(row(PRODUCT, BOTH)), ACCURACY.of(row(model, BOTH)), by=AHEAD)
    return once(trained_for(STEPS, "laptop"), provided(recalls, ahead))


CLAIMS = (
    Claim(
        "DeltaProduct recalls and tracks at once",
        "DeltaProduct knows what nearly everybody holds after exchanges.",
        once(trained_for(STEPS, "laptop"), within(ACCURACY.of(row(PRODUCT, BOTH)), low=KNOWS)),
    ),
    *(
        Claim(
            f"{name} recalls and tracks less",
            f"{name[0].upper()}{name[1:]} recalls what nobody exchanges, and knows less than "
            "DeltaProduct where objects change hands.",
            is_behind(model),
        )
        for name, model in (("a transformer", ATTENTION), ("Gated DeltaNet", GATED))
    ),
)


def _panel(title: str, settings: dict[str, Any], models: tuple[str, ...], guess: float) -> Plot:
    rows = [row(model, settings) for model in models]
    axis = Axis("accuracy", limits=(0, 1.05))
    return Plot(title, names(rows), axis, [dots("accuracy", rows)], [Remark("guess", y=guess)])


EXPERIMENT = Experiment(
    TITLE,
    FACTWORLD,
    CLAIMS,
    sweeps=[
        Sweep(TASK, MODELS, BOTH),
        Sweep(TASK, [PRODUCT, GATED, ATTENTION], RECALL),
        Sweep(TASK, [PRODUCT, GATED, ATTENTION], STATE),
    ],
    records=[
        *(row(model, BOTH) for model in MODELS),
        *(row(model, part) for part in (RECALL, STATE) for model in MODELS[:3]),
    ],
    panels=[
        _panel("recall alone", RECALL, MODELS[:3], 1 / 4),
        _panel("state alone", STATE, MODELS[:3], 1 / 4),
        _panel("both at once", BOTH, MODELS, 1 / 4),
    ],
    layout={"width": 14},
    variant=("tasks.exchanges", "tasks.fixed"),
    varied=("tasks.exchanges", "tasks.fixed"),
)
