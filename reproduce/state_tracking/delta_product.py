"""DeltaProduct: how many reflections a letter takes, and whether one layer then follows S₃."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Rule, Runs, each, once, provided, setting, trained_for, within
from reproduce.experiment import Experiment, OverSeeds, Sweep
from reproduce.state_tracking.whole_words import (
    FAR,
    MORE_STEPS,
    NEAR,
    has_sizes,
    panels,
    sizes_at_laptop,
    table,
    whole_words,
)

TITLE = "DeltaProduct: one layer on S₃, by the steps of a letter and their largest strength"
SIEMS = "Siems et al. 2025, DeltaProduct (arXiv 2502.10297): S₃ with one layer"
GRAZZI = "Grazzi et al. 2024, Unlocking state-tracking in linear RNNs (arXiv 2411.12537)"

TASK = "state_tracking"
S3 = {"tasks.group": "s3", "tasks.letters": "all"}
LAYER: dict[str, Any] = {**S3, "models.layers": 1}
STEPS = 2000  # without which an accuracy says nothing
SIZES: dict[str, dict[str, Any]] = {
    "laptop": sizes_at_laptop(8, [1, 2, 4, 8], STEPS),
    "paper": {
        "tasks.length": 128,
        "tasks.factors": [1, 2, 4],
        "models.heads": 8,
        "training.batch_size": 2048,
    },
}
# One step for each letter in a wider layer, which has more parameters and a larger state than two
# steps at the width of the others: what it lacks is neither.
WIDE = {"laptop": 40}
ONE, ONE_POSITIVE = "gated_delta_net_negative", "gated_delta_net"  # the layer with one step
TWO, TWO_POSITIVE = "delta_product", "delta_product_positive"


# Three seeds of the search left it undecided what most rows know of the words of training, and how
# many whole words two steps keep: so the rate that each search chose has more of them.
SEEDS = 8
CHOSEN = {
    "laptop": {
        (TWO, 32): 1e-2,
        (TWO_POSITIVE, 32): 3e-2,
        (ONE, 32): 3e-3,
        (ONE_POSITIVE, 32): 1e-2,
        (ONE, 40): 1e-2,
    }
}


def sweeps(preset: str) -> list[Sweep]:
    """The four kinds of one layer, and where a width is named, the wide one."""
    settings = {**LAYER, "models.heads": 4, **SIZES.get(preset, {})}
    planned = [Sweep(TASK, [TWO, TWO_POSITIVE, ONE, ONE_POSITIVE], settings)]
    if preset in WIDE:
        planned.append(Sweep(TASK, [ONE], {**settings, "models.width": WIDE[preset]}))
    return planned


def more_seeds(preset: str) -> list[OverSeeds]:
    """Further seeds of every row at the rate that its search chose."""
    planned = []
    settings = {**LAYER, "models.heads": 4, **SIZES.get(preset, {})}
    of_search = [key for key in settings if key.startswith("sweep.")]
    for key in of_search:
        del settings[key]
    for (model, width), rate in CHOSEN.get(preset, {}).items():
        chosen = {**settings, "models.width": width, "training.lr": rate}
        planned.append(OverSeeds(TASK, [model], chosen, seeds=SEEDS, last=SEEDS - 3))
    return planned


def is_wide(record: RunRecord) -> bool:
    """Whether a run has the width of the wide layer."""
    return setting(record, "models.width") == WIDE.get(record.preset)


def row(label: str, model: str, wide: bool = False) -> Runs:
    """The runs of one kind of layer."""
    return Runs(label, TASK, model, LAYER, choose=lambda record: is_wide(record) == wide)


REFLECTIONS_2 = row("n = 2, strengths to 2", TWO)
POSITIVE_2 = row("n = 2, strengths to 1", TWO_POSITIVE)
REFLECTIONS_1 = row("n = 1, strengths to 2", ONE)
POSITIVE_1 = row("n = 1, strengths to 1", ONE_POSITIVE)
WIDE_1 = row("n = 1, strengths to 2, wider", ONE, wide=True)
ROWS = (REFLECTIONS_2, POSITIVE_2, REFLECTIONS_1, POSITIVE_1, WIDE_1)
PREDICTORS = tuple(
    Runs(label, TASK, settings=S3, choose=partial(has_sizes, SIZES), baseline=label)
    for label in ("uniform", "letters without order", "product (oracle)")
)

WHOLE = whole_words(4)
# A guess is right with 1/6, and who knows whether a product is even with 1/3. Who follows S₃ names
# four of five states so far from training, and who has lost it less than half.
FOLLOWS, LOST = 0.8, 0.5
# Of whole words, where one mistake anywhere counts.
MANY, HARDLY = 0.3, 0.05
# What shows that the words of training were learned: by whom should follow, nearly all of them; by
# whom should lose them, more than who knows words of three letters and whether a product is even
# (0.58 of words of eight).
KNOWS, LEARNED = 0.95, 0.6


def asked(rule: Rule) -> Rule:
    """The rule, where rows were trained for as long as at the preset that asks it."""
    return once(trained_for(STEPS, "laptop"), rule)


def follows(kind: Runs) -> Rule:
    """It knows the words of training, and names the states of words four times as long, to the end
    of many of them. Who does not know the words of training has had too few steps, and says nothing
    of longer ones."""
    far = each([within(FAR.of(kind), low=FOLLOWS), within(WHOLE.of(kind), low=MANY)])
    return asked(provided(within(NEAR.of(kind), low=KNOWS), far))


def loses(kinds: Sequence[Runs]) -> Rule:
    """Each of these learned something of the words of training, and far beyond them names less than
    half of the states, and hardly a whole word."""
    learned = each([within(NEAR.of(kind), low=LEARNED) for kind in kinds])
    lost = []
    for kind in kinds:
        lost += [within(FAR.of(kind), high=LOST), within(WHOLE.of(kind), high=HARDLY)]
    return asked(provided(learned, each(lost)))


CLAIMS = (
    Claim(
        "two reflections keep S₃",
        "One layer that makes two steps of the delta rule for each letter, with strengths to 2, "
        "follows S₃ far beyond its training.",
        follows(REFLECTIONS_2),
        control=Control(f"{POSITIVE_2.label}, as many parameters,", follows(POSITIVE_2)),
        closed=MORE_STEPS,
    ),
    Claim(
        "one reflection loses S₃",
        "One layer that makes one step for each letter, with strengths to 2, does not follow S₃ "
        "far beyond its training, nor does a wider one: a cycle of three is no reflection, but a "
        "product of two.",
        loses([REFLECTIONS_1, WIDE_1]),
        control=Control(REFLECTIONS_2.label, loses([REFLECTIONS_2])),
    ),
    Claim(
        "strengths to 1 lose S₃",
        "Steps with strengths to 1, which reflect nothing, do not follow S₃ far beyond training, "
        "be it one for each letter or two.",
        loses([POSITIVE_1, POSITIVE_2]),
        source=f"{SIEMS}; {GRAZZI}, theorem 1",
        control=Control(REFLECTIONS_2.label, loses([REFLECTIONS_2])),
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    SIEMS,
    CLAIMS,
    sweeps=sweeps,
    runs=more_seeds,
    records=[*ROWS, *PREDICTORS],
    panels=panels(ROWS, {"guess": 1 / 6, "even or odd": 1 / 3}),
    layout={"width": 12, "legend": "below"},
    variant=is_wide,
    varied=("tasks.group", "tasks.letters", "models.layers", "models.heads", "models.width"),
    table=partial(table, (*ROWS, *PREDICTORS)),
    control=EACH_ITS_OWN,
)
