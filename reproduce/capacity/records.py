"""What the records of capacity say: N of each memory, and the constants it is compared by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.records.schema import RunRecord
from reproduce.judging.presets import preset_settings

TASK = "capacity"
HEBB, LINEAR, MLP, LOW_RANK = "outer_product", "trained_linear", "mlp", "trained_low_rank"
CLASSES = 32
RANKS, RANKS_AT = (4, 8, 16, 32), 32  # of the trained low-rank memories, and d


def overview(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs that compare all memories: those with the searches of their preset."""
    return [
        record
        for record in records
        if record.role != "baseline"
        and record.config["tasks"] == preset_settings(TASK, record.model, record.preset)["tasks"]
    ]


def lines(record: RunRecord, x: str) -> tuple[list[float], list[float]]:
    """N at the stricter threshold against the width or another quantity of the record."""
    threshold = f"{record.config['tasks']['thresholds'][0]:g}"
    counts = record.curves[f"associations/{threshold}"]
    if x == "widths":
        return counts.x, counts.y
    return record.curves[f"{x}/{threshold}"].y, counts.y


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
    published: float
    inner: float | None = None

    def of(self, n: float, width: int) -> float:
        """The number itself."""
        information = n if self.capped else n * math.log(max(n, 1.0))
        return information / ((self.inner or 1.0) * width**2)

    @property
    def capped(self) -> bool:
        """Whether 1 is the most that the published search could find, which ends at N = m d."""
        return self.inner is not None and self.classes > 0

    def measures(self, record: RunRecord) -> bool:
        """Whether a run is about it."""
        tasks, models = record.config["tasks"], record.config["models"]
        return (
            (record.model, tasks.get("classes", 0)) == (self.model, self.classes)
            and tasks.get("embeddings", "unit") == "unit"
            and self.inner in (None, models.get("expansion", 1.0))
            and f"associations/{self.threshold:g}" in record.arrays
        )


HALF = Constant(HEBB, 0.5, 0, "Hebbian, 50 %:\nN log N / d²", 0.5)
WHOLE = Constant(HEBB, 1.0, 0, "Hebbian, all:\nN log N / d²", 1 / 8)
TRAINED = Constant(LINEAR, 0.99, 0, "linear, trained, 99 %:\nN log N / d²", 1 / 1.3)
NARROW, WIDE = (
    Constant(
        MLP, 0.99, CLASSES, f"MLP, m = {m}, {CLASSES} classes, 99 %:\nN / (m d)", 1 / 1.2, inner
    )
    for m, inner in (("d", 1.0), ("2d", 2.0))
)
OWN = Constant(MLP, 0.99, 0, "MLP, m = d, N classes, 99 %:\nN log N / (m d)", 1 / 0.35, 1.0)
CONSTANTS = (HALF, WHOLE, TRAINED, NARROW, WIDE, OWN)


def trials_at(records: Sequence[RunRecord], constant: Constant, width: int) -> list[float]:
    """The constant of every trial; of several records of one seed, the longest list."""
    by_seed: dict[int, list[float]] = {}
    for record in filter(constant.measures, records):
        widths = record.arrays["widths"]
        if width in widths:
            row = record.arrays[f"associations/{constant.threshold:g}"][widths.index(width)]
            if len(row) > len(by_seed.get(record.seed, [])):
                by_seed[record.seed] = row
    return [constant.of(n, width) for seed in sorted(by_seed) for n in by_seed[seed]]


def widths_of(records: Sequence[RunRecord], constant: Constant) -> list[int]:
    """The widths at which there are trials."""
    return sorted({w for r in records if constant.measures(r) for w in r.arrays["widths"]})


def by_rank(records: Sequence[RunRecord]) -> dict[int, list[float]]:
    """N of trained low-rank memories by rank, of every trial of the seeds that all ranks have; of
    the runs made to compare ranks alone, whose search is one and the same."""
    found: dict[int, dict[int, list[float]]] = {}
    for record in records:
        widths = record.arrays.get("widths", [])
        if record.model == LOW_RANK and record.outcome == "ok" and widths == [8, RANKS_AT]:
            row = record.arrays["associations/0.99"][widths.index(RANKS_AT)]
            found.setdefault(record.config["models"]["rank"], {})[record.seed] = row
    common = set.intersection(*map(set, found.values())) if found else set()
    return {rank: [n for s in sorted(common) for n in found[rank][s]] for rank in sorted(found)}
