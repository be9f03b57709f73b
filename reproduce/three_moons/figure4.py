"""Figure 4: one memory unit for all moons has to wait for the full period."""

from __future__ import annotations

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.three_moons import moons

TITLE = "Figure 4. One head: the error falls once the whole system has returned"
SOURCE = f"{moons.PAPER}, section 5, figure 4"
HALVED = (0.95, 1.1)  # times the least common multiple
FLAT = 0.8


def falls_at_full_period(record: RunRecord, system: str) -> bool:
    """The mean error is first halved about when all moons are back, and not before."""
    return moons.within(moons.value(record, "half_error_over_lcm", system), *HALVED)


def is_flat_before(record: RunRecord, system: str) -> bool:
    """Having seen the orbit of each single moon does not help."""
    early = moons.value(record, "error_before_p1", system)
    late = moons.value(record, "error_p3_to_lcm", system)
    return early is not None and late is not None and late >= FLAT * early


def _everywhere(record: RunRecord) -> bool:
    """Flat and then falling: an error that never falls is flat for no reason."""

    def then_falls(run: RunRecord, system: str) -> bool:
        return is_flat_before(run, system) and falls_at_full_period(run, system)

    return moons.on_shown(then_falls)(record) and moons.on_held_out(then_falls)(record)


FALLS_WORDS = (
    f"{moons.MOST}the error is first halved at a context length of {HALVED[0]:g} to {HALVED[1]:g} "
    f"times the least common multiple {moons.GUARD}"
)
FLAT_WORDS = (
    f"{moons.MOST}the mean error between the longest period and the least common multiple is at "
    f"least {FLAT:g} times that before the first period, and halved at the multiple as above, on "
    f"every system {moons.GUARD}"
)

CLAIMS = (
    *moons.on_either(
        "one head",
        "lcm",
        "The error of the one-head network falls sharply at the least common multiple of the "
        "periods",
        falls_at_full_period,
        FALLS_WORDS,
    ),
    Claim(
        "one head, flat before",
        "Before that the one-head network only repeats, and then its error falls: knowing each "
        "moon's own orbit does not help it.",
        moons.most_seeds("one head, all systems", _everywhere),
        FLAT_WORDS,
    ),
)
EXPERIMENT = moons.experiment(TITLE, SOURCE, 1, CLAIMS, table="table_of_all_moons")
