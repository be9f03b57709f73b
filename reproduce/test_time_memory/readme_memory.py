"""What the README's memory might do: hold ten thousand sequences, and replay what it makes up."""

from __future__ import annotations

from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED, Control
from reproduce.claims.grammar import Rule, Runs, each, measured, once, within
from reproduce.drawing.plots import Plot, points
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis
from reproduce.test_time_memory import runs
from reproduce.test_time_memory.metrics import items_behind
from reproduce.test_time_memory.titans_memory import README

TITLE = "The README's memory: ten thousand sequences, and generative replay"
COUNT = 10_000
REPLAY, DREAMS = "generative_replay", (0.0, 1.0, 10.0)
FIRST, SECOND = "forgetting_first_after", "forgetting_second_after"
NOTHING, AS_MANY, TEN_TIMES = (
    Runs(label, runs.TASK, REPLAY, {"tasks.experiments": ["forgetting"], "models.dreams": dreams})
    for label, dreams in zip(
        ("nothing replayed", "as many made up", "ten times as many made up"), DREAMS, strict=True
    )
)
MANY = Runs(
    "the README's network",
    runs.TASK,
    runs.WEIGHTS,
    choose=lambda record: COUNT in record.config["tasks"]["capacities"],
)


def planned(preset: str) -> list[OverSeeds]:
    """Two batches with each amount of replay; from ``laptop`` on, ten thousand sequences."""
    settings = {variant.name: variant.settings for variant in runs.variants(preset)}
    forgetting = {**settings[runs.FORGETTING]}
    del forgetting["models.replay"]
    # The smaller number is what validation has: the larger one takes too long to be made twice.
    many = {**settings[runs.CAPACITY], "tasks.capacities": [200, COUNT]}
    larger = ["laptop", "gpu", "paper"]
    measured = [OverSeeds(runs.TASK, [runs.WEIGHTS], many, presets=larger, seeds=3)]
    for dreams in DREAMS:
        replay = {**forgetting, "models.dreams": dreams}
        measured.append(OverSeeds(runs.TASK, [REPLAY], replay, seeds=3))
    return measured


BY_DREAMS = dict(zip(DREAMS, (NOTHING, AS_MANY, TEN_TIMES), strict=True))
BATCHES = Plot(
    "two batches, one after the other",
    Axis("pairs made up for each that was written", "symlog", ticks=[*DREAMS]),
    Axis("recall after both", limits=(-0.03, 1.03)),
    [
        points("the first batch", BY_DREAMS, FIRST, colour="vermillion"),
        points("the second batch", BY_DREAMS, SECOND, colour="blue"),
    ],
)


def keeps_both(made_up: Runs, low: float = 0.9) -> Rule:
    """Both batches are recalled in the end."""
    return each(
        within(items_behind(name).of(made_up, f"{made_up.label}: {name}"), low)
        for name in (FIRST, SECOND)
    )


RECALLED = within(items_behind(f"capacity_recall_{COUNT}").of(MANY, f"recall of {COUNT:,}"), 0.99)
CLAIMS = (
    *(
        Claim(
            f"generative replay, {made_up.label}",
            "Training again on pairs that the memory makes up, in place of those that it was "
            "given, keeps a first batch while a second one is learned.",
            keeps_both(made_up),
            control=Control("nothing replayed", keeps_both(NOTHING)),
            source=f"{README}: One way to solve this continual learning problem might be "
            "generative replay",
        )
        for made_up in (AS_MANY, TEN_TIMES)
    ),
    Claim(
        "ten thousand sequences fit",
        "The network of 11,337 weights holds at least 10,000 sequences.",
        once(measured(MANY, f"{COUNT:,} sequences", "laptop"), RECALLED),
        source=f"{README}, testing capacity: Based on my experiments with this MLP, the capacity "
        "is at least 10,000 sequences (the README does not count its weights: 11,337 is our count "
        "of the layers in the code of its repository)",
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    README,
    CLAIMS,
    runs=planned,
    records=[MANY, *BY_DREAMS.values()],
    panels=[[BATCHES]],
    layout={"width": 6},
    variant=lambda record: repr([record.config["models"], record.config["tasks"]["experiments"]]),
    control=UNTRAINED.by(stored_in_weights="models.steps=1"),
)
