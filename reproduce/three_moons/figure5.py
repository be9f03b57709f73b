"""Figure 5: one memory unit for each moon needs to wait for the slowest moon only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

from bench.records.schema import RunRecord
from reproduce.judging.claims import Claim, Tolerance
from reproduce.judging.reproduction import Reproduction
from reproduce.three_moons import moons

TITLE = "Figure 5. Three heads: the error falls with each moon's own period"
SOURCE = f"{moons.PAPER}, section 5, figure 5"
WINDOWS = ("error_before_p1", "error_p1_to_p2", "error_p2_to_p3", "error_p3_to_lcm")


def falls_at_longest_period(record: RunRecord, system: str, numbers: Mapping[str, float]) -> bool:
    """The error of every moon is first halved about when the slowest has returned."""
    ratio = moons.score(record, "every_moon_half_error_over_max_period", system)
    of_lcm = moons.score(record, "every_moon_half_error_over_lcm", system)
    return (
        moons.plausible(record, system, numbers)
        and moons.within(ratio, numbers["low"], numbers["high"])
        and moons.within(of_lcm, 0.0, numbers["before_lcm"])
    )


def falls_in_steps(record: RunRecord, system: str, numbers: Mapping[str, float]) -> bool:
    """Each period that has passed lowers the mean error of the window after it."""
    levels = [moons.score(record, window, system) for window in WINDOWS]
    first = levels[0]
    return (
        moons.plausible(record, system, numbers)
        and first is not None
        and all(
            before is not None and after is not None and before - after >= numbers["step"] * first
            for before, after in pairwise(levels)
        )
    )


FALLS = Tolerance(
    "in at least {required:.0%} of the seeds, and surely in more than half, the error of each moon "
    "is first halved at a context length of {low:g} to {high:g} times the longest period and of at "
    "most {before_lcm:g} times the least common multiple " + moons.GUARD,
    {"required": 0.8, "low": 0.95, "high": 1.3, "before_lcm": 0.75, **moons.PLAUSIBLE},
)
STEPS = Tolerance(
    "in at least {required:.0%} of the seeds, and surely in more than half, the mean error falls "
    "from each window between two periods to the next by at least {step:g} times its level before "
    "the first period " + moons.GUARD,
    {"required": 0.8, "step": 0.05, **moons.PLAUSIBLE},
)

REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=moons.plan(heads=3, tables=True),
    select=moons.select(heads=3, tables=True),
    check=lambda config: moons.shown_system(config["tasks"]),
    varied=moons.VARIED,
    draw=partial(moons.draw, title=TITLE, table="table_per_moon"),
    curves=moons.curves,
    claims=(
        Claim(
            "three heads, longest period, seen system",
            SOURCE,
            "The three-head network predicts well once the slowest moon has returned, long before "
            "the least common multiple, on moons seen in training.",
            FALLS,
            moons.share("three heads, seen system", moons.on_shown(falls_at_longest_period)),
        ),
        Claim(
            "three heads, longest period, held-out systems",
            SOURCE,
            "The same holds on moons whose periods were never trained on.",
            FALLS,
            moons.share(
                "three heads, held-out systems", moons.on_held_out(falls_at_longest_period)
            ),
        ),
        Claim(
            "three heads, one step for each moon",
            SOURCE,
            "The error of the three-head network drops whenever the orbit of one more moon has "
            "been seen.",
            STEPS,
            moons.share("three heads, seen system", moons.on_shown(falls_in_steps)),
        ),
    ),
)
