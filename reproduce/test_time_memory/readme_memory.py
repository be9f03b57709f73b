"""What the README's memory might do: hold ten thousand sequences, and replay what it makes up."""

from __future__ import annotations

from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED, Control
from reproduce.claims.grammar import Records, Rule, Runs, any_of, each, measured, once, within
from reproduce.drawing.traces import over_seeds
from reproduce.plotting.panels import Axis, Panel, Picture, Row
from reproduce.reproduction import Plan, Reproduction
from reproduce.test_time_memory import runs
from reproduce.test_time_memory.metrics import items_behind
from reproduce.test_time_memory.titans_memory import README

TITLE = "The README's memory: ten thousand sequences, and generative replay"
COUNT, SEEDS = 10_000, 3
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


def plan(preset: str, seeds: int | None) -> Plan:
    """Two batches with each amount of replay; from ``laptop`` on, ten thousand sequences."""
    words = {setting.name: setting.words for setting in runs.settings(preset)}
    own = [word for word in words[runs.FORGETTING] if not word.startswith("models.replay")]
    found = [(f"models={REPLAY}", *own, f"models.dreams={dreams}") for dreams in DREAMS]
    if preset != "smoke":
        # The smaller number is what validation has: the larger one takes too long to be made twice.
        sizes = f"tasks.capacities=[200,{COUNT}]"
        found.append((f"models={runs.WEIGHTS}", *words[runs.CAPACITY], sizes))
    task = f"tasks={runs.TASK}"
    return Plan(tuple((task, *one, f"seed={k}") for one in found for k in range(seeds or SEEDS)))


def panels(records: Records) -> Picture:
    """Recall of both batches by how much is made up."""
    both = ((FIRST, "the first batch", "vermillion"), (SECOND, "the second batch", "blue"))
    by_dreams = {
        dreams: found.of(records)
        for dreams, found in zip(DREAMS, (NOTHING, AS_MANY, TEN_TIMES), strict=True)
    }
    traces = [over_seeds(name, by_dreams, read, colour=colour) for read, name, colour in both]
    x = Axis("pairs made up for each that was written", "symlog", ticks=[*DREAMS])
    y = Axis("recall after both", limits=(-0.03, 1.03))
    return Picture(TITLE, [Row([Panel("two batches, one after the other", x, y, traces)])], width=6)


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

REPRODUCTION = Reproduction(
    TITLE,
    README,
    plan,
    any_of(MANY.has, *(found.has for found in (NOTHING, AS_MANY, TEN_TIMES))),
    CLAIMS,
    panels,
    lambda record: repr([record.config["models"], record.config["tasks"]["experiments"]]),
    control=UNTRAINED.by(stored_in_weights="models.steps=1"),
)
