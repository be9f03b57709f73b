"""The runs behind the figure of scaling laws, and the errors in their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.records.schema import RunRecord
from reproduce.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from reproduce.judging.reproduction import Plan

TASK, MODEL = "tasks=scaling_laws", "models=outer_product"
POPULATION = "population"
Errors = NDArray[np.float64]


@dataclass(frozen=True)
class Scheme:
    """One weighting of what is stored.

    Attributes:
        settings: of the model.
        slope: exponent of d in theory, for an exponent alpha of the Zipf law; None without one.
    """

    label: str
    settings: Mapping[str, Any]
    colour: str
    slope: Callable[[float], float] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Of the command line."""
        return tuple(f"models.{key}={value}" for key, value in self.settings.items())

    def made(self, record: RunRecord) -> bool:
        """Whether a record is of this scheme."""
        model = record.config["models"]
        return all(model.get(key) == value for key, value in self.settings.items())


SCHEMES = {
    "frequency": Scheme(
        "by frequency (q = p)", {"scheme": "frequency"}, BLUE, lambda a: -(a - 1) / (2 * a)
    ),
    "root": Scheme(
        "q = p^0.5", {"scheme": "power", "exponent": 0.5}, ORANGE, lambda a: -(a - 1) / a
    ),
    "fourth_root": Scheme(
        "q = p^0.25", {"scheme": "power", "exponent": 0.25}, PURPLE, lambda a: -2 * (a - 1) / a
    ),
    "threshold": Scheme(
        "the d/8 most frequent", {"scheme": "threshold", "kept": 0.125}, GREEN, lambda a: -(a - 1)
    ),
    "threshold_12": Scheme(
        "the d/12 most frequent", {"scheme": "threshold", "kept": 0.08334}, GREY, lambda a: -(a - 1)
    ),
    "seen": Scheme("all that were seen (q = 1)", {"scheme": "seen"}, VERMILLION),
    "gradient": Scheme("SGD, batch 1, step 1", {"scheme": "gradient", "step": 1.0}, BLACK),
}
NAIVE = ("frequency", "seen")
SMALL = 64  # the size d at which too many memories overflow
FEW_TOKENS = ("tasks.tokens=100", "tasks.samples=[]")
MAP = ("tasks.tokens=100", "tasks.alpha=0.5", "tasks.population=false")
MAP_GRIDS = {  # sizes and samples from 10 on, evenly on a log axis, and trials
    "smoke": (8, 8, 10),
    "laptop": (15, 15, 30),
    "gpu": (30, 30, 30),
    "paper": (30, 30, 100),
}


def plan(preset: str, seeds: int | None) -> Plan:
    """Every scheme; the naive ones also on a fine grid; q = 1 where there are few tokens. The
    cut at d/12 is that of the published figure against n."""
    base = [
        (TASK, MODEL, *scheme.words)
        for name, scheme in SCHEMES.items()
        if name != "threshold_12" or preset == "paper"
    ]
    wide, long, trials = MAP_GRIDS[preset]
    grid = (
        f"tasks.dimensions={_spaced(10, 1000, wide)}",
        f"tasks.samples={_spaced(10, 10_000, long)}",
        f"tasks.trials={trials}",
    )
    for name in NAIVE:
        base.append((TASK, MODEL, *SCHEMES[name].words, *MAP, *grid))
    if preset != "smoke":
        base.append((TASK, MODEL, *SCHEMES["seen"].words, *FEW_TOKENS))
    runs = tuple((*words, f"seed={seed}") for words in base for seed in range(seeds or 1))
    return Plan(runs=runs, baselines=((TASK, MODEL),))


def _spaced(first: int, last: int, count: int) -> str:
    numbers = dict.fromkeys(int(x) for x in np.geomspace(first, last, count).round())
    return "[" + ",".join(map(str, numbers)) + "]"


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs of the schemes that are compared, and the table without limits. A run of one size and
    one number of samples, such as one to see how large a memory can be measured, has no curve."""
    found = [
        record
        for record in records
        if record.task == "scaling_laws"
        and (
            record.role == "baseline"
            or (_has_curve(record) and any(s.made(record) for s in SCHEMES.values()))
        )
    ]
    return sorted(found, key=lambda record: record.run_id)


def _has_curve(record: RunRecord) -> bool:
    task = record.config["tasks"]
    return max(len(task["dimensions"]), len(task["samples"])) > 1


def variant(record: RunRecord) -> tuple[Any, ...]:
    """What tells runs apart: scheme, tokens and grid."""
    if record.role == "baseline":
        return ()
    own = next(name for name, scheme in SCHEMES.items() if scheme.made(record))
    return own, part_of(record)


def part_of(record: RunRecord) -> str:
    """ "main", "map" (the grid of naive schemes) or "few tokens"."""
    task = record.config["tasks"]
    if not task["population"]:
        return "map"
    return "main" if task["samples"] else "few tokens"


def runs_of(records: Sequence[RunRecord], scheme: str, part: str = "main") -> list[RunRecord]:
    """The runs of a scheme by seed, failed ones included."""
    found = [
        record
        for record in records
        if record.role != "baseline" and SCHEMES[scheme].made(record) and part_of(record) == part
    ]
    return sorted(found, key=lambda record: record.seed)


def settings(records: Sequence[RunRecord], part: str = "main") -> Mapping[str, Any]:
    """The task's settings in one part of the runs; empty where it was not run."""
    found = [r for r in records if r.role != "baseline" and part_of(r) == part]
    return found[0].config["tasks"] if found else {}


def dimensions(records: Sequence[RunRecord], part: str = "main") -> list[int]:
    """The sizes d of one part."""
    return list(settings(records, part).get("dimensions", []))


def samples(records: Sequence[RunRecord], part: str = "main") -> list[int]:
    """The numbers n of samples of one part."""
    return list(settings(records, part).get("samples", []))


def errors(
    records: Sequence[RunRecord], scheme: str, row: str, part: str = "main"
) -> Errors | None:
    """Errors of every trial of every seed, (trials, sizes), at "population" or "n=…"; None where
    a scheme has none."""
    name = f"errors/{row}"
    found = [run.arrays[name] for run in runs_of(records, scheme, part) if name in run.arrays]
    return np.concatenate([np.asarray(one, dtype=np.float64) for one in found]) if found else None


def errors_by_samples(
    records: Sequence[RunRecord], scheme: str, size: int, part: str = "main"
) -> Errors | None:
    """Errors of every trial at one size d, (trials, samples)."""
    place = dimensions(records, part).index(size)
    rows = [errors(records, scheme, f"n={n}", part) for n in samples(records, part)]
    found = [row[:, place] for row in rows if row is not None]
    return np.stack(found, axis=1) if found and len(found) == len(rows) else None


def nearest_size(records: Sequence[RunRecord], size: int) -> int:
    """The size of the runs that is nearest to one, as a ratio."""
    return min(dimensions(records), key=lambda d: abs(np.log(d / size)))


def infinite_memory(records: Sequence[RunRecord], name: str = "error") -> dict[str, list[float]]:
    """The curve of the table without limits against n; empty where it is not among the records."""
    found = [r for r in records if r.role == "baseline" and name in r.curves]
    return found[0].curves[name].model_dump() if found else {}
