"""Maps to keys and values: do they collapse when trained by the inner loss, or by the outer?"""

from __future__ import annotations

from bench.records.schema import RunRecord
from core.statistics import REAL
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Number, Rule, Runs, each, within
from reproduce.drawing.plots import dots_by_run
from reproduce.experiment import Experiment, over_seeds_of
from reproduce.plotting.panels import Axis

TITLE = "Maps of tokens to keys and values, trained by the inner or by the outer loss"
README = (
    'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans), next steps: '
    "nothing prevents the model from learning to make the two transformations identical"
)
TASK, MODEL = "learned_maps", "ridge"
RIDGE = 0.1  # keys are as many as dimensions and half as many more: without it errors explode
INNER, OUTER, NONE = (
    Runs(label, TASK, MODEL, {"tasks.objective": objective, "models.ridge": RIDGE})
    for label, objective in (
        ("maps trained by the inner loss", "inner"),
        ("maps trained by the outer loss", "outer"),
        ("maps as drawn", "none"),
    )
)
ALL = [INNER, OUTER, NONE]
SEEDS = {"smoke": 1, "laptop": 5, "gpu": 5, "paper": 5}


def _stems(record: RunRecord) -> int:
    tasks = record.config["tasks"]
    return int(tasks["trials"] * tasks["pairs"])


INNER_LOSS = Number("inner loss", "inner_loss")
COLLAPSE = Number("variance of values that keys explain", "collapse", REAL)
RECALL = Number("recall by stems", "recall", items=_stems, fresh=True)


def collapsed(runs: Runs) -> Rule:
    """What follows is predicted from keys alone, and stems find little of what was written."""
    return each(
        [
            within(INNER_LOSS.of(runs), high=0.1),
            within(COLLAPSE.of(runs), low=0.9),
            within(RECALL.of(runs), high=0.2),
        ]
    )


def useful(runs: Runs) -> Rule:
    """Stems find what was written, and values are no function of keys."""
    return each([within(RECALL.of(runs), low=0.9), within(COLLAPSE.of(runs), high=0.5)])


CLAIMS = (
    Claim(
        "the inner loss collapses the maps",
        "Trained by the memory's own loss alone, the maps to keys and values become linear "
        "functions of each other: the loss is nearly perfect, and stems find little of what was "
        "written.",
        collapsed(INNER),
        control=Control("maps as they were drawn", collapsed(NONE)),
    ),
    Claim(
        "the outer loss does not",
        "Trained by what the memory is asked for, as maps of a transformer are, they do not "
        "collapse: stems find what was written.",
        useful(OUTER),
        control=Control("maps trained by the inner loss", useful(INNER)),
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    README,
    CLAIMS,
    runs=over_seeds_of(ALL, seeds=SEEDS),
    records=ALL,
    panels=[
        dots_by_run(name, metric, ALL, Axis(limits=(-0.03, 1.05)))
        for name, metric in (
            ("recall by stems", "recall"),
            ("values that keys explain", "collapse"),
        )
    ],
    layout={"width": 10},
    variant=["tasks.objective"],
    control=EACH_ITS_OWN,
)
