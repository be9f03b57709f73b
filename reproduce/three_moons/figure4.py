"""Figure 4: one memory unit for all moons has to wait for the full period."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.records.schema import RunRecord
from reproduce.judging.claims import Claim, Tolerance
from reproduce.judging.reproduction import Reproduction
from reproduce.three_moons import moons

TITLE = "Figure 4. One head: the error falls once the whole system has returned"
SOURCE = f"{moons.PAPER}, section 5, figure 4"


def falls_at_full_period(record: RunRecord, system: str, numbers: Mapping[str, float]) -> bool:
    """The mean error is first halved about when all moons are back, and not before."""
    ratio = moons.score(record, "half_error_over_lcm", system)
    return moons.plausible(record, system, numbers) and moons.within(
        ratio, numbers["low"], numbers["high"]
    )


def is_flat_before(record: RunRecord, system: str, numbers: Mapping[str, float]) -> bool:
    """Having seen the orbit of each single moon does not help."""
    early = moons.score(record, "error_before_p1", system)
    late = moons.score(record, "error_p3_to_lcm", system)
    return (
        moons.plausible(record, system, numbers)
        and early is not None
        and late is not None
        and late >= numbers["flat"] * early
    )


FALLS = Tolerance(
    "in at least {required:.0%} of the seeds, and surely in more than half, the error is first "
    "halved at a context length of {low:g} to {high:g} times the least common multiple "
    + moons.GUARD,
    {"required": 0.8, "low": 0.95, "high": 1.1, **moons.PLAUSIBLE},
)
FLAT = Tolerance(
    "in at least {required:.0%} of the seeds, and surely in more than half, the mean error between "
    "the longest period and the least common multiple is at least {flat:g} times that before the "
    "first period, on every system " + moons.GUARD,
    {"required": 0.8, "flat": 0.8, **moons.PLAUSIBLE},
)


def _everywhere(record: RunRecord, numbers: Mapping[str, float]) -> bool:
    shown, held_out = moons.on_shown(is_flat_before), moons.on_held_out(is_flat_before)
    return shown(record, numbers) and held_out(record, numbers)


REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=moons.plan(heads=1, tables=True),
    select=moons.select(heads=1, tables=True),
    check=lambda config: moons.shown_system(config["tasks"]),
    varied=moons.VARIED,
    draw=partial(moons.draw, title=TITLE, table="table_of_all_moons"),
    curves=moons.curves,
    claims=(
        Claim(
            "one head, lcm, seen system",
            SOURCE,
            "The error of the one-head network falls sharply at the least common multiple of the "
            "periods, on moons seen in training.",
            FALLS,
            moons.share("one head, seen system", moons.on_shown(falls_at_full_period)),
        ),
        Claim(
            "one head, lcm, held-out systems",
            SOURCE,
            "The same holds on moons whose periods were never trained on.",
            FALLS,
            moons.share("one head, held-out systems", moons.on_held_out(falls_at_full_period)),
        ),
        Claim(
            "one head, flat before",
            SOURCE,
            "Before that the one-head network only repeats: knowing each moon's own orbit does not "
            "help it.",
            FLAT,
            moons.share("one head, all systems", _everywhere),
        ),
    ),
)
