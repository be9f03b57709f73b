"""The runs of capacity: which are needed, N of each memory in them, and the constants that it is
compared by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from bench.config.files import group_file
from bench.records.schema import RunRecord
from reproduce.claims.grammar import Records, Runs
from reproduce.claims.presets import preset_settings
from reproduce.experiment import OverSeeds

TASK = "capacity"
HEBB, LINEAR, MLP, LOW_RANK = "outer_product", "trained_linear", "mlp", "trained_low_rank"
MEMORIES: tuple[str, ...] = tuple(group_file("tasks", TASK)["sweep"]["models"])
CLASSES = 32
CONSTANTS_AT = ("laptop", "gpu", "paper")
RANKS, RANKS_AT = (4, 8, 16, 32), 32  # of the trained low-rank memories, and d


def _run(
    model: str,
    widths: Sequence[int],
    trials: int,
    largest: float,
    more: Mapping[str, Any] | None = None,
    thresholds: Sequence[float] = (0.99,),
    seeds: int | Mapping[str, int] = 1,
) -> OverSeeds:
    """A measurement at some widths. The first of them is its headline, which is measured on
    validation too, and so a cheap one."""
    settings = {
        "tasks.wide": [],
        "tasks.widths": widths,
        "tasks.headline_width": widths[0],
        "tasks.trials": trials,
        "tasks.thresholds": thresholds,
        "tasks.largest": largest,
    }
    return OverSeeds(TASK, [model], {**settings, **(more or {})}, presets=CONSTANTS_AT, seeds=seeds)


# The constants have runs of their own, at the widths and with the trials that they need. At d = 32
# a perceptron takes as long as all else together: a run of its own counts as well, if there is one.
# Perceptrons search an eighth past m d, where the published search ends, so that its end is not
# what is measured.
PERCEPTRON = {"tasks.classes": CLASSES, "models.patience": 8}
PATIENT = {"models.patience": 16}
# Two, six trials as the verdict over three named, and four that decide by themselves.
SEEDS_OF_EACH_KEY = {"laptop": 6, "gpu": 1, "paper": 1}
RUNS = (  # the longest first
    _run(MLP, (8, 11, 16, 22), 3, 1.0, seeds=SEEDS_OF_EACH_KEY),  # a value of its own
    _run(MLP, (8, 16), 3, 1.125, PERCEPTRON),
    _run(MLP, (8, 16), 3, 2.25, {**PERCEPTRON, "models.expansion": 2.0}),
    _run(HEBB, (32, 45, 64, 90, 128), 48, 0.25, thresholds=(0.5, 1.0)),
    _run(LINEAR, (22, 32, 45), 5, 0.5, PATIENT),
    *(_run(LOW_RANK, (8, RANKS_AT), 3, 0.25, {**PATIENT, "models.rank": rank}) for rank in RANKS),
    OverSeeds(TASK, MEMORIES),
)


def variant(record: RunRecord) -> str:
    """The setting of the search, and the width of a perceptron or the rank of a memory."""
    tasks, models = record.config["tasks"], record.config["models"]
    return repr((sorted(tasks.items()), models.get("expansion"), models.get("rank")))


def overview(records: Records) -> list[RunRecord]:
    """The runs that compare all memories: those with the searches of their preset."""
    compared = []
    for record in records:
        if record.role != "baseline":
            usual = preset_settings(TASK, record.model, record.preset)["tasks"]
            if record.config["tasks"] == usual:
                compared.append(record)
    return compared


@dataclass(frozen=True)
class Constant:
    """What N is compared with at each width.

    Attributes:
        threshold: share recalled.
        classes: different values, 0 for one for each key.
        label: what it is.
        published: its published or theoretical value.
        inner: m / d of a perceptron; N or, with a value for each key, N log N is divided by m d.
            None: N log N / d².
    """

    model: str
    threshold: float
    classes: int
    label: str
    colour: str
    published: float
    inner: float | None = None

    def value(self, n: float, width: int) -> float:
        """The number itself."""
        one_each = self.inner is None or not self.classes
        information = n * math.log(max(n, 1.0)) if one_each else n
        return information / ((self.inner or 1.0) * width**2)

    def runs(self, records: Records) -> list[RunRecord]:
        """The runs that are about it, failed ones included."""
        settings = {"tasks.classes": self.classes, "tasks.embeddings": "unit"}
        if self.inner is not None:
            settings["models.expansion"] = self.inner
        tried = lambda record: self.threshold in record.config["tasks"]["thresholds"]  # noqa: E731
        return list(filter(Runs(self.label, TASK, self.model, settings, tried).has, records))

    def trials(self, records: Records) -> dict[int, list[float]]:
        """The constant at each width in every trial; of several records of one seed, the longest
        list."""
        by_width: dict[int, dict[int, list[float]]] = {}
        for record in self.runs(records):
            rows = record.arrays.get(f"associations/{self.threshold:g}", [])
            for width, row in zip(record.arrays.get("widths", []), rows, strict=False):
                by_seed = by_width.setdefault(width, {})
                by_seed[record.seed] = max(by_seed.get(record.seed, []), row, key=len)
        return {
            width: [
                self.value(n, width)
                for seed in sorted(by_width[width])
                for n in by_width[width][seed]
            ]
            for width in sorted(by_width)
        }


HALF = Constant(HEBB, 0.5, 0, "Hebbian, 50 %:\nN log N / d²", "orange", 0.5)
WHOLE = Constant(HEBB, 1.0, 0, "Hebbian, all:\nN log N / d²", "black", 1 / 8)
TRAINED = Constant(LINEAR, 0.99, 0, "linear, trained, 99 %:\nN log N / d²", "vermillion", 1 / 1.3)
NARROW, WIDE = (
    Constant(
        MLP, 0.99, CLASSES, f"MLP, m = {m}, {CLASSES} classes, 99 %:\nN / (m d)", c, 1 / 1.2, inner
    )
    for m, c, inner in (("d", "blue", 1.0), ("2d", "purple", 2.0))
)
OWN = Constant(
    MLP, 0.99, 0, "MLP, m = d, N classes, 99 %:\nN log N / (m d)", "green", 1 / 0.35, 1.0
)
CONSTANTS = (HALF, WHOLE, TRAINED, NARROW, WIDE, OWN)


def of_ranks(records: Records) -> list[RunRecord]:
    """The runs made to compare ranks alone, whose search is one and the same."""
    widths = {"tasks.widths": [8, RANKS_AT]}
    return list(filter(Runs("ranks", TASK, LOW_RANK, widths).has, records))


def by_rank(records: Records) -> dict[int, list[float]]:
    """N of trained low-rank memories by rank, of every trial of the seeds that all ranks have."""
    seeds_by_rank: dict[int, dict[int, list[float]]] = {}
    for record in of_ranks(records):
        if record.outcome == "ok":
            of_rank = seeds_by_rank.setdefault(record.config["models"]["rank"], {})
            of_rank[record.seed] = record.arrays["associations/0.99"][-1]
    common = sorted(set.intersection(*map(set, seeds_by_rank.values()))) if seeds_by_rank else []
    numbers = {}
    for rank, by_seed in sorted(seeds_by_rank.items()):
        numbers[rank] = list(chain(*(by_seed[seed] for seed in common)))
    return numbers
