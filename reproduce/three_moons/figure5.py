"""Figure 5: one memory unit for each moon needs to wait for the slowest moon only."""

from __future__ import annotations

from itertools import pairwise

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.three_moons import moons

TITLE = "Figure 5. Three heads: the error falls with each moon's own period"
SOURCE = f"{moons.PAPER}, section 5, figure 5"
WINDOWS = ("error_before_p1", "error_p1_to_p2", "error_p2_to_p3", "error_p3_to_lcm")
HALVED = (0.95, 1.3)  # times the longest period
BEFORE_LCM = 0.75
STEP = 0.05


def falls_at_longest_period(record: RunRecord, system: str) -> bool:
    """The error of every moon is first halved about when the slowest has returned."""
    ratio = moons.value(record, "every_moon_half_error_over_max_period", system)
    of_lcm = moons.value(record, "every_moon_half_error_over_lcm", system)
    return moons.within(ratio, *HALVED) and moons.within(of_lcm, 0.0, BEFORE_LCM)


def falls_in_steps(record: RunRecord, system: str) -> bool:
    """Each period that has passed lowers the mean error of the window after it."""
    levels = [moons.value(record, window, system) for window in WINDOWS]
    reached = [level for level in levels if level is not None]
    falls = [before - after for before, after in pairwise(reached)]
    return len(reached) == len(WINDOWS) and min(falls) >= STEP * reached[0]


FALLS_WORDS = (
    f"{moons.MOST}the error of each moon is first halved at a context length of {HALVED[0]:g} to "
    f"{HALVED[1]:g} times the longest period and of at most {BEFORE_LCM:g} times the least common "
    f"multiple {moons.GUARD}"
)
STEPS_WORDS = (
    f"{moons.MOST}the mean error falls from each window between two periods to the next by at "
    f"least {STEP:g} times its level before the first period {moons.GUARD}"
)

CLAIMS = (
    *moons.on_either(
        "three heads",
        "longest period",
        "The three-head network predicts well once the slowest moon has returned, long before the "
        "least common multiple",
        falls_at_longest_period,
        FALLS_WORDS,
    ),
    Claim(
        "three heads, one step for each moon",
        "The error of the three-head network drops whenever the orbit of one more moon has been "
        "seen.",
        moons.most_seeds("three heads, seen system", moons.on_shown(falls_in_steps)),
        STEPS_WORDS,
    ),
)
EXPERIMENT = moons.experiment(TITLE, SOURCE, 3, CLAIMS, table="table_per_moon")
