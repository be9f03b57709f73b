"""What is run about descent on associations, and the numbers that records hold of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from bench.records.schema import RunRecord
from core.statistics import deviation_of, mean_of
from reproduce.claims.grammar import Records, Runs
from reproduce.claims.trials import finished
from reproduce.experiment import OverSeeds
from reproduce.published.numbers import published_numbers

SCALING_LAWS = (
    "Cabannes, Dohmatob and Bietti 2024, Scaling laws for associative memories (arXiv 2310.02984)"
)
DYNAMICS = (
    "Cabannes, Simsek and Bietti 2024, Learning associative memories with gradient descent "
    "(arXiv 2402.18724)"
)
PUBLISHED = "Scaling laws for associative memories, optimiser study"
NAMES = {"sgd": "SGD", "adam": "Adam"}
MODELS = {"matrix": "", "exponential": "Rectified embeddings, ", "learnable": "All trained, "}
RATES, BATCHES = (0.1, 1.0, 10.0, 100.0), (16, 64, 256, 1024)
SAMPLES = (1024, 10_240, 102_400)
THE_SEEDS = {"tokens": 100, "classes": 5, "alpha": 2.0, "first_seed": 42, "trials": 10}
# What the cells and the published numbers fix.
VARIED = (
    "models.layer_norm",
    *(f"tasks.{key}" for key in ("optimiser", "lr", "batch", "samples", "dimensions", *THE_SEEDS)),
)


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

    def planned(self, **more: Any) -> OverSeeds:
        """The plan of its runs, each of which holds ten random seeds."""
        settings = {
            "models.layer_norm": self.layer_norm,
            "tasks.optimiser": self.optimiser,
            "tasks.lr": self.lr,
            "tasks.batch": self.batch,
            "tasks.samples": self.samples,
        }
        return OverSeeds("optimisation", [self.model], {**settings, **more})

    @property
    def runs(self) -> Runs:
        """Those with this setting."""
        return Runs(self.label, "optimisation", self.model, choose=lambda r: cell_of(r) == self)


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

GRID = Runs("the grid", "optimisation", tuple(MODELS))
PATHS = Runs("paths of descent", "training_dynamics", "matrix")
SCHEMES = Runs("weights of samples", "weighting_schemes", "matrix")
LEARNED = Runs("learned embeddings", "learned_embeddings", "learnable")
NARROW, WIDE = (
    Runs(f"d = {width}", "attention_descent", "two_layer_attention", {"models.width": width})
    for width in (64, 128)
)
SINGLE = (PATHS, SCHEMES, LEARNED, NARROW, WIDE)  # measurements beside the grid
# Ten trials each, whose weights leave 2.4 tokens a trial: an error of 0.033 is told from 0.05 by
# some 500.
LEARNED_SEEDS = {"smoke": 1, "laptop": 24, "gpu": 1, "paper": 1}
ATTENTION = ("attention_descent", ["two_layer_attention"])
OTHERS = (
    OverSeeds("training_dynamics", ["matrix"]),
    OverSeeds("weighting_schemes", ["matrix"]),
    OverSeeds("learned_embeddings", ["learnable"], seeds=LEARNED_SEEDS),
    OverSeeds(*ATTENTION, {"models.width": 64}),
    # W_O² alone is trained at the first width only.
    OverSeeds(*ATTENTION, {"models.width": 128, "tasks.output_lrs": []}),
)


def planned(preset: str) -> list[OverSeeds]:
    """Cells of the grid, and the other measurements."""
    single = SINGLE_SAMPLES.planned(**{"tasks.dimensions": [SINGLE_DIMENSION[preset]]})
    return [*(cell.planned() for cell in CELLS[preset]), single, *OTHERS]


def variant(record: RunRecord) -> Cell | str:
    """Every cell of the grid is a setting of its own; the transformer is trained at two widths."""
    if GRID.has(record):
        return cell_of(record)
    return "".join(runs.label for runs in SINGLE if runs.has(record))


def cell_of(record: RunRecord) -> Cell:
    """The setting of a record."""
    task, model = record.config["tasks"], record.config["models"]
    step = task["optimiser"], float(task["lr"])
    return Cell(*step, task["batch"], task["samples"], model["layer_norm"], record.model)


def by_dimension(records: Records, cell: Cell, name: str = "error") -> dict[int, list[float]]:
    """Dimension -> trials of all seeds; only dimensions where all of them have a number."""
    by_seed: dict[int, list[list[float]]] = {}
    for record in finished(cell.runs.of(records)):
        dimensions = sorted(record.config["tasks"]["dimensions"])
        for dimension, values in zip(dimensions, record.arrays[name], strict=True):
            by_seed.setdefault(dimension, []).append(values)
    return {d: list(chain(*seeds)) for d, seeds in by_seed.items() if all(seeds)}


def published(cell: Cell) -> dict[int, float]:
    """Dimension -> published mean."""
    return published_numbers(PUBLISHED, "error").get(cell.label, {})


class Comparison(NamedTuple):
    """A measured mean over the published seeds, its standard error, and the published mean."""

    cell: Cell
    dimension: int
    measured: float
    error: float
    published: float

    @property
    def gap(self) -> float:
        """Absolute difference."""
        return abs(self.measured - self.published)


def with_the_seeds(records: Records) -> list[RunRecord]:
    """The runs with the random numbers of the published grid, failed ones too."""
    settings = {f"tasks.{key}": value for key, value in THE_SEEDS.items()}
    published_seeds = GRID.but(
        "the published seeds", settings, choose=lambda record: record.seed == 0
    )
    return list(filter(published_seeds.has, records))


def comparisons(records: Records) -> list[Comparison]:
    """Every measured error that was published; runs with other random numbers are left out."""
    same = with_the_seeds(records)
    compared = []
    for cell in dict.fromkeys(map(cell_of, same)):
        levels = published(cell)
        for d, values in by_dimension(same, cell).items():
            if d in levels:
                error = deviation_of(values) / math.sqrt(len(values))
                compared.append(Comparison(cell, d, mean_of(values), error, levels[d]))
    return compared


def numbered(names: Iterable[str], beginning: str) -> dict[float, str]:
    """Number -> name of those that are a beginning and a number, in the order of numbers."""
    by_number = {}
    for name in names:
        if name.startswith(beginning):
            by_number[float(name[len(beginning) :])] = name
    return dict(sorted(by_number.items()))
