"""Limited storage: whom to evict, and whether a hash finds what a search finds."""

from __future__ import annotations

from bench.records.schema import RunRecord
from core.statistics import SHARE
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Number, Rule, Runs, above, each, within
from reproduce.drawing.plots import Plot, curves, dots, names
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis

TITLE = "Keys that come back: limited storage with eviction, and locality hashing"
MOSAICS = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394), section 8"
EVICTION = (
    f"our reading of {MOSAICS}: limited storage could leverage least-recently used eviction schemes"
)
HASHING = (
    f"our reading of {MOSAICS}: associative memories could be implemented by other techniques "
    "(Spring and Shrivastava 2017)"
)
TASK, TABLE, HASHED = "returning_keys", "limited_table", "hashed_table"
SEEDS = 5
NOISY = {"tasks.noise": 0.5, "tasks.events": 1000, "tasks.trials": 8}
SMALLER = {"smoke": {"tasks.events": 64, "tasks.trials": 4}}
# At smoke a table has a quarter of the tokens, as elsewhere.
QUARTER = {"smoke": {"models.slots": 8}, "laptop": {"models.slots": 64}}
QUARTER |= {preset: {"models.slots": 256} for preset in ("gpu", "paper")}

RECENT, OLDEST, NEVER = (
    Runs(label, TASK, TABLE, {"models.evicts": word, "tasks.noise": 0.0})
    for label, word in (
        ("the least recently used is evicted", "least_recent"),
        ("the oldest is evicted", "oldest"),
        ("nothing is evicted", "never"),
    )
)
LOCAL, FINE = (
    Runs(label, TASK, HASHED, {"models.local": local, "tasks.noise": 0.5})
    for label, local in (("hyperplanes", True), ("fine stripes", False))
)
EVICTING, HASHING_RUNS = [RECENT, OLDEST, NEVER], [LOCAL, FINE]


def _keys(record: RunRecord) -> int:
    """Different keys of all streams: questions about one of them are not independent."""
    tasks = record.config["tasks"]
    return int(tasks["trials"] * tasks["tokens"])


RECALL = Number("recall", "recall", items=_keys, fresh=True)
COMPARED = Number("share of the stored keys that a read compares", "compared", SHARE)


def most(runs: Runs) -> Rule:
    """Most of what came before is still found."""
    return within(RECALL.of(runs), low=0.6)


def better(runs: Runs) -> Rule:
    """More than where the oldest is evicted."""
    return above(RECALL.of(runs), RECALL.of(OLDEST), 0.02)


def found(runs: Runs) -> Rule:
    """Nearly all is found, and few keys are compared."""
    return each([within(RECALL.of(runs), low=0.95), within(COMPARED.of(runs), high=0.2)])


CLAIMS = (
    Claim(
        "a quarter of the storage serves most questions",
        "A table with room for a quarter of the keys, which evicts the least recently used one, "
        "still finds most of the keys that come back.",
        most(RECENT),
        source=EVICTION,
        control=Control("a table that evicts nothing", most(NEVER)),
    ),
    Claim(
        "the least recently used is the one to evict",
        "A table that evicts the least recently used key finds more of the keys that come back "
        "than one that evicts the oldest.",
        better(RECENT),
        source=EVICTION,
        control=Control("the oldest in its place", better(OLDEST)),
    ),
    Claim(
        "a hash finds what a search finds",
        "With locality-sensitive hashing a table compares a query with few of its keys, and still "
        "finds nearly every key by a noisy query.",
        found(LOCAL),
        source=HASHING,
        control=Control("a hash that is not local", found(FINE)),
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    MOSAICS,
    CLAIMS,
    runs=[
        *(OverSeeds(TASK, [TABLE], runs.settings, at=QUARTER, seeds=SEEDS) for runs in EVICTING),
        *(
            OverSeeds(TASK, [HASHED], {**runs.settings, **NOISY}, at=SMALLER, seeds=SEEDS)
            for runs in HASHING_RUNS
        ),
    ],
    records=[*EVICTING, *HASHING_RUNS],
    panels=[
        [
            Plot(
                "room for a quarter of the keys",
                Axis("events"),
                Axis("recall of keys that came before", limits=(-0.03, 1.05)),
                [
                    curves("recall_by_event", [runs], colour=colour)
                    for runs, colour in zip(EVICTING, ("blue", "orange", "grey"), strict=True)
                ],
                legend="best",
            ),
            *(
                Plot(
                    title,
                    names(HASHING_RUNS),
                    Axis(limits=(-0.03, 1.05)),
                    [dots(metric, HASHING_RUNS)],
                    sideways=True,
                )
                for title, metric in (
                    ("recall by noisy queries", "recall"),
                    ("share of keys compared", "compared"),
                )
            ),
        ]
    ],
    layout={"width": 13},
    variant=["models.evicts", "models.local"],
    control=EACH_ITS_OWN,
)
