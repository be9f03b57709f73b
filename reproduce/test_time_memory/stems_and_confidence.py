"""Longer sequences, shorter stems, and whether a memory's confidence tells what it knows."""

from __future__ import annotations

from core.statistics import SHARE
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Measured, Number, Rule, Runs, above, each, within
from reproduce.drawing.plots import Plot, by_metric, dots, names
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis
from reproduce.test_time_memory.metrics import items_behind
from reproduce.test_time_memory.runs import DELTA, KERNEL, NEAREST, NUMBERS, TASK, WEIGHTS

TITLE = "Memory at test time: longer sequences, shorter stems, and confidence"
README = (
    'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans), next steps'
)
LENGTHS, CONFIDENCE = (
    f"{README}: sequence length scaling",
    f"{README}: some kind of confidence score",
)
# Runs of the first seeds were made, and these metrics seen, before there was a claim.
FIRST_SEED, SEEDS = 20, 5
SETTINGS = {"tasks.material": NUMBERS, "tasks.counts": [8, 16]}
MODELS = (WEIGHTS, NEAREST, KERNEL, DELTA)
OF = {model: Runs(label(model), TASK, model, SETTINGS) for model in MODELS}
SHORT, LONG = 4, 16  # numbers of a sequence: the README's, and the longest
NEARLY_ALL, SHORTFALL = 0.95, 0.1


def asked(metric: str, model: str) -> Measured:
    """A share of sequences that come back."""
    return items_behind(metric).of(OF[model], f"{OF[model].label}: {metric}")


def sure(metric: str, model: str) -> Measured:
    """A score of confidences over all the questions of a run."""
    return Number("", metric, SHARE).of(OF[model], f"{OF[model].label}: {metric}")


def memorised(model: str) -> Rule:
    """Sequences of the README's length and of the longest."""
    return each(within(asked(f"recall_length_{n}", model), low=NEARLY_ALL) for n in (SHORT, LONG))


def by_half(*models: str) -> Rule:
    """The first half of a sequence finds a continuation of it."""
    lengths = (SHORT, 8, LONG)
    halves = [asked(f"recall_half_stem_{n}", model) for model in models for n in lengths]
    return each([within(half, low=NEARLY_ALL) for half in halves])


def whole_needed(model: str) -> Rule:
    """The first half finds less than the whole stem."""
    rules = []
    for n in (8, LONG):
        whole, half = f"recall_length_{n}", f"recall_half_stem_{n}"
        rules.append(above(asked(whole, model), asked(half, model), SHORTFALL))
    return each(rules)


def instead(model: str, rule: Rule) -> Control:
    return Control(f"{OF[model].label} in its place", rule)


CLAIMS = (
    Claim(
        "longer sequences are memorised",
        "A network that is trained on what it is to keep memorises sequences of 16 numbers as it "
        "does those of four.",
        memorised(WEIGHTS),
        source=LENGTHS,
        control=instead(DELTA, memorised(DELTA)),
    ),
    Claim(
        "half a stem is enough for a table",
        "Given the first half of a sequence alone, a memory that looks up the nearest key still "
        "finds a continuation of it.",
        by_half(NEAREST, KERNEL),
        source=f"{LENGTHS}; asked there: if I only give the first two numbers, does it still work?",
        control=instead(DELTA, by_half(DELTA)),
    ),
    Claim(
        "half a stem is not enough for a network",
        "Given the first half alone, a network that is trained on whole stems finds fewer "
        "continuations than with the whole stem.",
        whole_needed(WEIGHTS),
        source=f"{LENGTHS}; asked there: if I only give the first two numbers, does it still work?",
        control=instead(KERNEL, whole_needed(KERNEL)),
    ),
    Claim(
        "a network's confidence tells what it was given",
        "The confidence of a network that is trained on what it is to keep is higher for what it "
        "was given than for what it was not.",
        within(sure("auroc", WEIGHTS), low=0.95),
        source=CONFIDENCE,
        control=instead(DELTA, within(sure("auroc", DELTA), low=0.95)),
    ),
    Claim(
        "abstention by a network's confidence",
        "Where it answers only what it is surest of, a network that is trained on what it is to "
        "keep makes nearly as few mistakes as one that knew which answers are right.",
        # Half of the questions have no answer: with a perfect order the area is 0.154.
        within(sure("risk_coverage_area", WEIGHTS), high=0.2),
        source=CONFIDENCE,
        control=instead(DELTA, within(sure("risk_coverage_area", DELTA), high=0.2)),
    ),
    Claim(
        "a network's confidence is calibrated",
        "How near the answer of a network is to a stored value can be taken as the probability "
        "that it is right, so that a reader knows how much to weigh it.",
        within(sure("calibration_error", WEIGHTS), high=0.1),
        source=f"our reading of {CONFIDENCE}",
        control=instead(NEAREST, within(sure("calibration_error", NEAREST), high=0.1)),
    ),
)
HALVES = {0: f"recall_length_{LONG}", 1: f"recall_half_stem_{LONG}"}
SCORES = ("auroc", "risk_coverage_area", "calibration_error")

EXPERIMENT = Experiment(
    TITLE,
    README,
    CLAIMS,
    runs=[OverSeeds(TASK, MODELS, SETTINGS, seeds=SEEDS, first_seed=FIRST_SEED)],
    records=list(OF.values()),
    panels=[
        [
            Plot(
                f"sequences of {LONG} numbers",
                Axis("asked by", categories=["the whole stem", "half of it"]),
                Axis("share recalled", limits=(-0.03, 1.05)),
                [by_metric(HALVES, [runs]) for runs in OF.values()],
                legend="lower left",
            ),
            *(
                Plot(
                    metric.replace("_", " "),
                    names(list(OF.values())),
                    Axis(limits=(-0.03, 1.05)),
                    [dots(metric, list(OF.values()))],
                    sideways=True,
                )
                for metric in SCORES
            ),
        ]
    ],
    layout={"width": 14},
    control=EACH_ITS_OWN,
)
