"""The grid of the optimiser study: its cells, their runs and published errors, and its claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from bench.ground.files import ROOT
from bench.records.schema import RunRecord
from reproduce.judging.claims import (
    CONTRADICTED,
    LEVEL,
    REPRODUCED,
    UNDECIDED,
    Finding,
    every,
    mean_within,
)
from reproduce.judging.power_laws import fit_power_law
from reproduce.judging.trials import in_seeds, missing, sample

PAPER = (
    "Cabannes, Dohmatob and Bietti 2024, Scaling laws for associative memories (arXiv 2310.02984)"
)
GRID = f"{PAPER}, optimisation experiments, released results"
PUBLISHED = "Scaling laws for associative memories, optimiser study"
NAMES = {"sgd": "SGD", "adam": "Adam"}
MODELS = {"matrix": "", "exponential": "Rectified embeddings, ", "learnable": "All trained, "}
RATES, BATCHES = (0.1, 1.0, 10.0, 100.0), (16, 64, 256, 1024)
SAMPLES = (1024, 10_240, 102_400)
THE_SEEDS = {"tokens": 100, "classes": 5, "alpha": 2.0, "first_seed": 42, "trials": 10}
THE_SEEDS_COUNT = 10
# What the cells and the published numbers fix.
VARIED = (
    "models.layer_norm",
    *(f"tasks.{key}" for key in ("optimiser", "lr", "batch", "samples", "dimensions", *THE_SEEDS)),
)
WIDE = 100  # dimensions from which on all tokens can be orthogonal


@dataclass(frozen=True)
class Cell:
    """One setting of the grid; it has an error for every dimension."""

    optimiser: str
    lr: float
    batch: int
    samples: int
    layer_norm: bool = False
    model: str = "matrix"

    @property
    def label(self) -> str:
        """As the published file names it."""
        name = f"{NAMES[self.optimiser]}{'+LN' if self.layer_norm else ''}"
        return f"{MODELS[self.model]}{name} lr {self.lr:g}, batch {self.batch}, n {self.samples}"

    @property
    def words(self) -> tuple[str, ...]:
        """Of the command line."""
        return (
            "tasks=optimisation",
            f"models={self.model}",
            f"models.layer_norm={str(self.layer_norm).lower()}",
            f"tasks.optimiser={self.optimiser}",
            f"tasks.lr={self.lr:g}",
            f"tasks.batch={self.batch}",
            f"tasks.samples={self.samples}",
        )


# Compared to four decimals at every preset, at this dimension.
STARRED = (
    Cell("sgd", 10.0, 64, 10_240),
    Cell("sgd", 100.0, 64, 10_240),
    Cell("sgd", 1.0, 16, 1024),
    Cell("sgd", 10.0, 1024, 1024),
    Cell("adam", 1.0, 16, 1024),
    Cell("sgd", 1.0, 1024, 10_240, layer_norm=True),
    Cell("adam", 1.0, 1024, 10_240, layer_norm=True),
)
STARRED_DIMENSION = 100
ONE_STEP = Cell("sgd", 10.0, 1024, 1024)
SINGLE_SAMPLES = Cell("sgd", 10.0, 1, 1024)
SINGLE_DIMENSION = {"smoke": 200, "laptop": 200, "gpu": 1000, "paper": 1000}
BY_RATE = tuple(Cell("sgd", lr, 64, 10_240) for lr in RATES)
LARGE_BATCH = {
    (optimiser, layer_norm): Cell(optimiser, 1.0, 1024, 10_240, layer_norm)
    for optimiser in NAMES
    for layer_norm in (False, True)
}
BY_MODEL = {model: Cell("sgd", 1.0, 16, 10_240, model=model) for model in MODELS}
STEEP = (Cell("sgd", 100.0, 16, 10_240), Cell("adam", 10.0, 256, 10_240))
SMOKE = tuple(dict.fromkeys((*STARRED, *LARGE_BATCH.values())))
LAPTOP = tuple(dict.fromkeys((*SMOKE, *BY_RATE, *BY_MODEL.values(), *STEEP)))
FULL = tuple(
    Cell(optimiser, lr, batch, samples, layer_norm, model)
    for model in MODELS
    for optimiser in NAMES
    for layer_norm in (False, True)
    for samples in SAMPLES
    for batch in BATCHES
    for lr in RATES
)
CELLS = {"smoke": SMOKE, "laptop": LAPTOP, "gpu": FULL, "paper": FULL}


def runs(preset: str, seeds: int | None) -> tuple[tuple[str, ...], ...]:
    """Words of every run; a record holds ten random seeds already."""
    single = f"tasks.dimensions=[{SINGLE_DIMENSION[preset]}]"
    cells = [cell.words for cell in CELLS[preset]] + [(*SINGLE_SAMPLES.words, single)]
    return tuple((*words, f"seed={seed}") for seed in range(seeds or 1) for words in cells)


def cell_of(record: RunRecord) -> Cell:
    """The setting of a record."""
    task, model = record.config["tasks"], record.config["models"]
    return Cell(
        task["optimiser"],
        float(task["lr"]),
        task["batch"],
        task["samples"],
        model["layer_norm"],
        record.model,
    )


def of_cell(records: Sequence[RunRecord], cell: Cell) -> list[RunRecord]:
    """The runs of one setting, by seed."""
    found = [r for r in records if r.task == "optimisation" and cell_of(r) == cell]
    return sorted(found, key=lambda record: record.seed)


def by_dimension(
    records: Sequence[RunRecord], cell: Cell, name: str = "error"
) -> dict[int, list[float]]:
    """Dimension -> trials of all seeds; only dimensions where all of them have a number."""
    found = [record for record in of_cell(records, cell) if record.outcome == "ok"]
    trials: dict[int, list[float]] = {}
    lost: set[int] = set()
    for record in found:
        dimensions = sorted(record.config["tasks"]["dimensions"])
        for dimension, values in zip(dimensions, record.arrays[name], strict=True):
            trials.setdefault(dimension, []).extend(values)
            if not values:
                lost.add(dimension)
    return {dimension: values for dimension, values in trials.items() if dimension not in lost}


@cache
def published() -> dict[str, dict[int, float]]:
    """Label of a cell -> dimension -> published mean."""
    from published.numbers import read_published

    files = read_published(ROOT / "published")
    (file,) = (file for file in files if file.short == PUBLISHED)
    return {
        label: {
            dimension: number
            for dimension, value in zip(file.size.values, values, strict=True)
            if (number := file.read(value)[0]) is not None
        }
        for label, values in file.metrics["error"].values.items()
    }


@dataclass(frozen=True)
class Comparison:
    """A measured mean over the published seeds beside the published one.

    Attributes:
        error: standard error over the seeds.
    """

    cell: Cell
    dimension: int
    measured: float
    published: float
    error: float

    @property
    def gap(self) -> float:
        """Absolute difference."""
        return abs(self.measured - self.published)


def with_the_seeds(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs with the random numbers of the published grid, failed ones too."""
    return [
        record
        for record in records
        if record.task == "optimisation"
        and record.seed == 0
        and all(record.config["tasks"][key] == value for key, value in THE_SEEDS.items())
    ]


def comparisons(records: Sequence[RunRecord]) -> list[Comparison]:
    """Every measured error that was published; runs with other random numbers are left out."""
    found = []
    same = with_the_seeds(records)
    for cell in dict.fromkeys(cell_of(record) for record in same):
        levels = published().get(cell.label, {})
        for dimension, values in by_dimension(same, cell).items():
            if dimension in levels:
                deviation = float(np.std(values, ddof=1))
                error = deviation / math.sqrt(len(values))
                mean = math.fsum(values) / len(values)
                found.append(Comparison(cell, dimension, mean, levels[dimension], error))
    return found


def starred_come_out(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """All seven cells, each to four decimals."""
    found = {
        one.cell: one
        for one in comparisons(records)
        if one.cell in STARRED and one.dimension == STARRED_DIMENSION
    }
    if not found:
        return missing("starred cell", records)
    evidence = ", ".join(f"{one.measured:.4f} ({one.published:.4f})" for one in found.values())
    text = f"measured (published) at d = {STARRED_DIMENSION}: {evidence}"
    if any(one.gap > numbers["gap"] for one in found.values()):
        return Finding(CONTRADICTED, text, THE_SEEDS_COUNT)
    if len(found) < len(STARRED):
        return Finding(
            UNDECIDED, f"{text}; only {len(found)} of {len(STARRED)} cells", THE_SEEDS_COUNT
        )
    return Finding(REPRODUCED, text, THE_SEEDS_COUNT)


def grid_comes_out(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Everything else that was asked for: nearly all equal, the rest within the noise of seeds."""
    asked = {
        (cell_of(record), dimension)
        for record in with_the_seeds(records)
        for dimension in record.config["tasks"]["dimensions"]
        if dimension in published().get(cell_of(record).label, {})
    } - {(cell, STARRED_DIMENSION) for cell in STARRED}
    found = [one for one in comparisons(records) if (one.cell, one.dimension) in asked]
    if not found:
        return missing("other cell of the grid", records)
    equal = sum(one.gap <= numbers["gap"] for one in found)
    allowed = [max(numbers["errors"] * one.error, numbers["gap"]) for one in found]
    far = [one for one, limit in zip(found, allowed, strict=True) if one.gap > limit]
    widest = max(found, key=lambda one: one.gap)
    lost = len(asked) - len(found)
    evidence = (
        f"{equal} of {len(asked)} means equal to four decimals ({equal / len(asked):.1%})"
        + (f", {lost} without a number" if lost else "")
        + f", {len(far)} beyond {numbers['errors']:g} standard errors; widest gap "
        f"{widest.gap:.4f} ({widest.cell.label}, d = {widest.dimension})"
    )
    needed = numbers["share"] * len(asked)
    verdict = REPRODUCED if equal >= needed and not lost else UNDECIDED
    if far or equal + lost < needed:
        verdict = CONTRADICTED
    return Finding(verdict, evidence, THE_SEEDS_COUNT)


def slopes_move(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The slope in d of the smallest and of the largest step, by bootstrap over trials."""
    fits = []
    for cell in (BY_RATE[0], BY_RATE[-1]):
        trials = by_dimension(records, cell)
        fit = fit_power_law(list(trials), columns(trials)) if len(trials) > 1 else None
        if fit is None:
            return missing(f"slope of {cell.label}", of_cell(records, cell))
        fits.append(fit)
    small, large = fits
    low, high = np.quantile(large.slopes - small.slopes, (0.025, 0.975))
    text = (
        f"slope {small} with lr {BY_RATE[0].lr:g} and {large} with lr {BY_RATE[-1].lr:g}, fitted "
        f"over d = {small.low:g} to {small.high:g}: difference "
        f"{large.slope - small.slope:.2f} (95% interval {low:.2f} to {high:.2f})"
    )
    steeper = -numbers["steeper"]
    verdict = REPRODUCED if high < steeper else CONTRADICTED if low > steeper else UNDECIDED
    return Finding(verdict, text, len(columns(by_dimension(records, BY_RATE[0]))))


def columns(trials: Mapping[int, Sequence[float]]) -> NDArray[np.float64]:
    """(trials, dimensions)."""
    return np.array(list(trials.values()), dtype=np.float64).T


def induced_exponent(
    records: Sequence[RunRecord], numbers: Mapping[str, float], cell: Cell
) -> Finding:
    """The exponent of the induced scheme at the largest dimension of a cell's runs."""
    trials = {d: v for d, v in by_dimension(records, cell, "exponent").items() if v}
    if not trials:
        return missing(f"exponent of {cell.label}", of_cell(records, cell))
    dimension = max(trials)
    found = sample(f"exponent of q in the counts at d = {dimension}", trials[dimension])
    finding = mean_within(found, numbers["low"], numbers["high"])
    return in_seeds(finding, of_cell(records, cell))


def lower_than(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    cell: Cell,
    other: Cell,
    level: float = LEVEL,
) -> Finding:
    """Paired over trials: the mean error at wide dimensions of one cell less than of another."""
    pairs = []
    for one in (cell, other):
        wide = {d: v for d, v in by_dimension(records, one).items() if d >= WIDE}
        if not wide:
            return missing(f"run of {one.label} with d ≥ {WIDE}", of_cell(records, one))
        pairs.append(wide)
    shared = sorted(pairs[0].keys() & pairs[1].keys())
    left, right = (columns({d: wide[d] for d in shared}).mean(1) for wide in pairs)
    where = ", ".join(map(str, shared))
    label = f"error of {cell.label} minus that of {other.label} (mean over d = {where})"
    found = sample(label, (left - right).tolist())
    finding = mean_within(found, -math.inf, -numbers["margin"], level)
    return in_seeds(finding, of_cell(records, cell))


def all_lower(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    pairs: Sequence[tuple[Cell, Cell]],
) -> Finding:
    """Every first cell of a pair below its second."""
    return every([partial(_lower_at, records, numbers, cell, other) for cell, other in pairs])


def _lower_at(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    cell: Cell,
    other: Cell,
    level: float,
) -> Finding:
    return lower_than(records, numbers, cell, other, level)
