"""The runs behind the figure of scaling laws, and the errors in their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.records.schema import RunRecord
from reproduce.claims.grammar import Records, Runs
from reproduce.claims.power_laws import Fit, fit_power_law
from reproduce.experiment import OverSeeds

MODEL = "outer_product"
PARTS = MAIN, MAP, FEW_TOKENS = "main", "map", "few tokens"  # the map is the grid of naive schemes
POPULATION = "population"
Errors = NDArray[np.float64]


@dataclass(frozen=True)
class Scheme:
    """One weighting of what is stored, with settings of the model."""

    label: str
    colour: str
    settings: Mapping[str, Any]

    def planned(self, presets: Sequence[str] = (), **task: Any) -> OverSeeds:
        """A measurement with some settings of the task."""
        settings = {f"models.{key}": value for key, value in self.settings.items()}
        for key, value in task.items():
            settings[f"tasks.{key}"] = value
        return OverSeeds("scaling_laws", [MODEL], settings, presets=presets)

    def runs(self, *parts: str) -> Runs:
        """The scheme's runs in these parts, or in all of them."""
        settings = {f"models.{key}": value for key, value in self.settings.items()}
        choose = lambda record: part_of(record) in (parts or PARTS)  # noqa: E731
        return Runs(self.label, "scaling_laws", settings=settings, choose=choose)


SCHEMES = {
    "frequency": Scheme("by frequency (q = p)", "blue", {"scheme": "frequency"}),
    "root": Scheme("q = p^0.5", "orange", {"scheme": "power", "exponent": 0.5}),
    "fourth_root": Scheme("q = p^0.25", "purple", {"scheme": "power", "exponent": 0.25}),
    "threshold": Scheme("the d/8 most frequent", "green", {"scheme": "threshold", "kept": 0.125}),
    "threshold_12": Scheme(
        "the d/12 most frequent", "grey", {"scheme": "threshold", "kept": 0.08334}
    ),
    "seen": Scheme("all that were seen (q = 1)", "vermillion", {"scheme": "seen"}),
    "gradient": Scheme("SGD, batch 1, step 1", "black", {"scheme": "gradient", "step": 1.0}),
}
LAWS: dict[str, Callable[[float], float]] = {  # exponents of d in theory, by that of the Zipf law
    "frequency": lambda alpha: (1 - alpha) / (2 * alpha),
    "root": lambda alpha: (1 - alpha) / alpha,
    "fourth_root": lambda alpha: 2 * (1 - alpha) / alpha,
    "threshold": lambda alpha: 1 - alpha,
    "threshold_12": lambda alpha: 1 - alpha,
}
NAIVE = ("frequency", "seen")
ALPHAS = (1.5, 2.5, 3.0)  # of a figure of their own, which asks for the exponents by α
TABLE = Runs("infinite_memory", "scaling_laws", baseline="infinite_memory")
MAP_GRIDS = {  # sizes and samples from 10 on, evenly on a log axis, and trials
    "smoke": (8, 8, 10),
    "laptop": (15, 15, 30),
    "gpu": (30, 30, 30),
    "paper": (30, 30, 100),
}


def planned(preset: str) -> list[OverSeeds]:
    """Every scheme; the naive ones also on a fine grid; q = 1 where there are few tokens. The
    cut at d/12 is that of the published figure against n."""
    wide, long, trials = MAP_GRIDS[preset]
    grid = {"dimensions": _spaced(1000, wide), "samples": _spaced(10_000, long), "trials": trials}
    measurements = []
    for name, scheme in SCHEMES.items():
        measurements.append(scheme.planned(["paper"] if name == "threshold_12" else ()))
    for name in NAIVE:
        cell: dict[str, Any] = {"tokens": 100, "alpha": 0.5, "population": False, **grid}
        measurements.append(SCHEMES[name].planned(**cell))
    few_tokens = SCHEMES["seen"].planned(["laptop", "gpu", "paper"], tokens=100, samples=[])
    return [*measurements, few_tokens]


def _spaced(last: int, count: int) -> list[int]:
    return list(dict.fromkeys(map(int, np.geomspace(10, last, count).round())))


def scheme_of(record: RunRecord) -> str | None:
    """The scheme of a run, as a key of ``SCHEMES``."""
    return next((name for name, scheme in SCHEMES.items() if scheme.runs().has(record)), None)


def of_alpha(record: RunRecord) -> float:
    """The exponent of the Zipf law of a run."""
    return float(record.config["tasks"]["alpha"])


def belongs(record: RunRecord) -> bool:
    """Whether a record is of the figure for one α."""
    if record.task != "scaling_laws" or of_alpha(record) in ALPHAS:
        return False
    return TABLE.has(record) or scheme_of(record) is not None


def variant(record: RunRecord) -> tuple[str | None, ...]:
    """What tells runs apart: scheme, tokens and grid."""
    return () if record.role == "baseline" else (scheme_of(record), part_of(record))


def part_of(record: RunRecord) -> str | None:
    """The part that a run belongs to. One of a single size and number of samples, such as to see
    how large a memory can be measured, has no curve, and belongs to none."""
    task = record.config["tasks"]
    if max(len(task["dimensions"]), len(task["samples"])) < 2:
        return None
    return (MAIN if task["samples"] else FEW_TOKENS) if task["population"] else MAP


class Part:
    """What one part of the records holds.

    Attributes:
        task: its settings; empty where it was not run.
        d, n: sizes and numbers of samples.
    """

    def __init__(self, records: Records, name: str = MAIN) -> None:
        of_part = [r for r in records if r.role != "baseline" and part_of(r) == name]
        self.records, self.name = of_part, name
        self.task: Mapping[str, Any] = of_part[0].config["tasks"] if of_part else {}
        self.d: list[int] = list(self.task.get("dimensions", []))
        self.n: list[int] = list(self.task.get("samples", []))
        self.alpha = float(self.task.get("alpha", 1))

    def near(self, size: int) -> int:
        """The size that is nearest to one, as a ratio; 0 where there is none."""
        return min(self.d, key=lambda d: abs(np.log(d / size)), default=0)

    def errors(self, scheme: str, row: str) -> Errors | None:
        """Errors of every trial of every seed, (trials, sizes), at "population" or "n=…"; None
        where a scheme has none."""
        name = f"errors/{row}"
        trials = [run.arrays[name] for run in self.runs(scheme) if name in run.arrays]
        return (
            np.concatenate([np.asarray(of_run, np.float64) for of_run in trials])
            if trials
            else None
        )

    def runs(self, scheme: str) -> list[RunRecord]:
        """The runs of a scheme by seed, failed ones included."""
        return SCHEMES[scheme].runs(self.name).of(self.records)

    def by_samples(self, scheme: str, size: int) -> Errors | None:
        """Errors of every trial at one size d, (trials, samples)."""
        rows = [self.errors(scheme, f"n={n}") for n in self.n]
        measured = [row for row in rows if row is not None]
        if not measured or len(measured) < len(rows):
            return None
        return np.stack(measured)[:, :, self.d.index(size)].T

    def in_d(self, scheme: str, row: str) -> Fit | None:
        """The power law in d over the sizes that the task names."""
        values, ends = self.errors(scheme, row), self.task.get("fit_dimensions", ())
        return None if values is None else fit_power_law(self.d, values, *ends)

    def in_n(self, scheme: str, size: int) -> Fit | None:
        """The power law in n at one size, over the samples that the task names."""
        values = self.by_samples(scheme, size)
        return None if values is None else fit_power_law(self.n, values, *self.task["fit_samples"])
