"""Recall of one block of a Memory Mosaic whose parts are exchanged: which of them matter?"""

from __future__ import annotations

from typing import Any

from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Number, Rule, Runs, difference, each, once, trained_for, within
from reproduce.drawing.plots import dots_by_run
from reproduce.experiment import Experiment, over_seeds_of
from reproduce.plotting.panels import Axis

TITLE = "Multi-query recall: one block of a Memory Mosaic whose parts are exchanged"
PAPER = (
    "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394), section 7, footnote 6: Many "
    "variations perform more or less equivalently"
)
TASK, MODEL, STEPS = "multi_query_recall", "memory_mosaic_varied", 200
COMMON: dict[str, Any] = {"tasks.protocol": "easy", "models.layers": 1}
AT = {
    preset: {"training.steps": STEPS, "training.validate_every": 50}
    for preset in ("laptop", "gpu", "paper")
}
SEEDS = {"smoke": 1, "laptop": 3, "gpu": 5, "paper": 5}
NEAR = 0.02  # of the accuracy of the published form


def _runs(label: str, **parts: str) -> Runs:
    chosen = {"keys": "leaky", "values": "mixed", "persistent": "memory", **parts}
    return Runs(label, TASK, MODEL, {**COMMON, **{f"models.{k}": v for k, v in chosen.items()}})


PUBLISHED = _runs("as published")
VARIED = [
    _runs("keys of one input", keys="plain"),
    _runs("values of the next input", values="next"),
    _runs("an MLP for the persistent memory", persistent="mlp"),
    _runs("no persistent memory", persistent="none"),
]
BLIND = _runs("values that do not peek", values="current")
ALL = [PUBLISHED, *VARIED, BLIND]
ACCURACY = Number("accuracy", "accuracy", items=lambda r: int(r.config["tasks"]["test_size"]))


def as_good(varied: list[Runs]) -> Rule:
    """The published form recalls, and each variation about as much."""
    rules = [difference(ACCURACY.of(runs), ACCURACY.of(PUBLISHED), -NEAR, NEAR) for runs in varied]
    learned = within(ACCURACY.of(PUBLISHED), low=0.95)
    return once(trained_for(STEPS, "laptop"), each([learned, *rules]))


def recalls_little(runs: Runs) -> Rule:
    """Far fewer values than the published form."""
    return once(trained_for(STEPS, "laptop"), within(ACCURACY.of(runs), high=0.5))


CLAIMS = (
    Claim(
        "variations perform alike",
        "Keys of the present input alone, values of the next input alone, and an MLP or nothing in "
        "the place of the persistent memory recall as much as the published form.",
        as_good(VARIED),
        control=Control("values that do not peek", as_good([BLIND])),
    ),
    Claim(
        "values have to peek",
        "Without values that look one position ahead one block recalls little.",
        recalls_little(BLIND),
        control=Control("the published form", recalls_little(PUBLISHED)),
        source="Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394), section 3: since "
        "each unit acts as a predictor, a single layer is sufficient for the induction head",
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    PAPER,
    CLAIMS,
    runs=over_seeds_of(ALL, at=AT, seeds=SEEDS, own_data=True),
    records=ALL,
    panels=[
        dots_by_run("values that are recalled", "accuracy", ALL, Axis("accuracy", limits=(0, 1.05)))
    ],
    layout={"width": 8},
    variant=["models.keys", "models.values", "models.persistent"],
    control=EACH_ITS_OWN,
)
