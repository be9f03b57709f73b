"""A Mosaic of n blocks beside a transformer of n + 1, and how its training begins.

The runs are those of figures 7 and 13; what appendix D.2 says of them beside the figures is asked
here.
"""

from __future__ import annotations

import math

from bench.records.schema import RunRecord
from core.statistics import REAL
from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control, NoControl
from reproduce.claims.grammar import (
    Number,
    Records,
    Rule,
    above,
    difference,
    each,
    provided,
    setting,
)
from reproduce.claims.trials import exact
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories import figure7, figure13, language
from reproduce.stories.language import GPT2

TITLE = "Stories: a Memory Mosaic of n blocks and a transformer of n + 1"
SOURCE = f"{language.PAPER}, appendix D.2"
NEAR = 0.1  # nats
EARLY = 0.2  # of the steps
RISE = 0.1  # nats
LOSS = Number("validation loss", "loss")


def early_rise(record: RunRecord) -> float | None:
    """By how much the training loss rises above its lowest value so far, at most, in the first
    fifth of the steps; nats."""
    curve = record.curves.get("training_loss")
    if curve is None or not curve.x:
        return None
    lowest, rise = math.inf, 0.0
    for step, loss in zip(curve.x, curve.y, strict=True):
        if step > EARLY * curve.x[-1]:
            break
        lowest = min(lowest, loss)
        rise = max(rise, loss - lowest)
    return rise


def log_rate(record: RunRecord) -> float:
    """log₂ of the learning rate that the search chose."""
    return math.log2(setting(record, "training.lr"))


INSTABILITY = Number("rise of the training loss in the first fifth", early_rise, REAL)


def alike(one_block: str) -> Rule:
    """A model of one block and the transformer of two have nearly the same validation loss, which
    says something where the second block helps the transformer: untrained, all are alike."""
    shallow = LOSS.of(figure7.runs(GPT2, 1), "GPT2, 1 block")
    theirs = LOSS.of(figure7.runs(GPT2, 2), "GPT2, 2 blocks")
    ours = LOSS.of(figure7.runs(one_block, 1), f"{one_block}, 1 block")
    return provided(above(shallow, theirs), difference(theirs, ours, -NEAR, NEAR))


def unstable(model: str) -> Rule:
    """A model's loss rises more in the beginning than that of the transformer, at one block."""
    ours, theirs = (INSTABILITY.of(figure7.runs(name, 1)) for name in (model, GPT2))
    return above(ours, theirs, RISE)


def smaller_rate(records: Records) -> list[Rule]:
    """The rate that a search chose: one for all seeds of a model, so that it is exact."""
    chosen = []
    for model in (GPT2, MOSAIC):
        rates = {log_rate(run) for run in figure7.runs(model, 1).of(records)}
        if len(rates) != 1:
            return []
        chosen.append(exact(f"log₂ of the rate of {language.LABELS[model]}", rates.pop()))
    theirs, ours = chosen
    return [above(theirs, ours)]


CLAIMS = (
    Claim(
        "one block is like two of a transformer",
        "A Memory Mosaic of one block performs like a transformer of two.",
        alike(MOSAIC),
        control=Control("the transformer of one block in its place", alike(GPT2)),
        source=f"{SOURCE}: its performance is closer to that of a n + 1 block Transformer",
    ),
    Claim(
        "unstable at first",
        "With one block the training loss of the Memory Mosaic is unstable at first: it rises by "
        "more, in the first fifth of the steps, than that of the transformer.",
        unstable(MOSAIC),
        control=Control("the transformer in its place", unstable(GPT2)),
        source=f"{SOURCE}: for small block depths, the Memory Mosaic training curve shows initial "
        "instability",
    ),
    Claim(
        "a smaller rate suits the Mosaic",
        "With one block a search over learning rates chooses a smaller one for the Memory Mosaic "
        "than for the transformer.",
        each(smaller_rate, "log₂ of the rate of the transformer above that of the Mosaic"),
        control=NoControl("an untrained network has no rate that a search chose"),
        source=f"{SOURCE}: suggesting it might benefit from a smaller stepsize",
    ),
)
EXPERIMENT = figure7.experiment(TITLE, SOURCE, figure13.DEPTHS, CLAIMS)
