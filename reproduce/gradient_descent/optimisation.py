"""Which memory gradient descent builds: the optimiser study, and the paths of descent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.records.schema import RunRecord
from reproduce.drawing.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    frame,
    new_figure,
    quiet,
)
from reproduce.gradient_descent import descent, descent_figure, optimiser_grid, weighting
from reproduce.gradient_descent.optimiser_grid import (
    BY_MODEL,
    BY_RATE,
    GRID,
    LARGE_BATCH,
    PAPER,
    Cell,
    by_dimension,
    published,
)
from reproduce.judging.claims import Claim, Tolerance
from reproduce.judging.reproduction import Plan, Reproduction, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Associations by gradient steps: what optimiser, step and batch make of one matrix"
SOURCE = f"{PAPER}; {descent.PAPER}"
COLOURS = (BLUE, GREEN, ORANGE, VERMILLION, PURPLE)
TRAINED = {
    "matrix": "the matrix alone",
    "exponential": "rectified embeddings",
    "learnable": "all",
}
SMALL: dict[str, Any] = {"fontsize": 6.5, "frameon": False}


def plan(preset: str, seeds: int | None) -> Plan:
    """Cells of the grid, and the measurements of paths and weights."""
    cells = optimiser_grid.runs(preset, seeds)
    return Plan(runs=(*cells, *descent.runs(seeds), *weighting.runs(seeds)))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs of all these tasks without the references."""
    own = [
        record
        for record in records
        if record.role != "baseline"
        and (
            (record.task == "optimisation" and record.model in optimiser_grid.MODELS)
            or (record.task == "training_dynamics" and record.model == "matrix")
            or weighting.is_own(record)
        )
    ]
    return sorted(own, key=lambda record: record.run_id)


def variant(record: RunRecord) -> tuple[str, Cell | int | None]:
    """Every cell of the grid is a setting of its own."""
    if record.task == "optimisation":
        return record.task, optimiser_grid.cell_of(record)
    return record.task, weighting.variant(record)


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """The grid in the first row, the paths of descent in the next two, weights below."""
    figure = new_figure(13.5, 19.2)
    panels = figure.subplots(6, 4)
    for axes in panels.flat:
        quiet(axes)
    by_step = {f"step {cell.lr:g}": cell for cell in BY_RATE}
    by_optimiser = {cell.label.partition(" ")[0]: cell for cell in LARGE_BATCH.values()}
    by_model = {name: BY_MODEL[model] for model, name in TRAINED.items()}
    _by_dimension(panels[0, 0], records, by_step, "step (SGD, batch 64)")
    _by_dimension(panels[0, 1], records, by_optimiser, "optimiser (step 1, batch 1,024)")
    _by_dimension(panels[0, 2], records, by_model, "what is trained (SGD, step 1, batch 16)")
    _all_cells(panels[0, 3], records)
    descent_figure.draw(panels[1:3].flatten(), records)
    weighting.draw(panels[3:].flatten(), records)
    frame(figure, TITLE, records, view)
    return figure


def _by_dimension(
    axes: Axes, records: Sequence[RunRecord], cells: Mapping[str, Cell], what: str
) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for (label, cell), colour in zip(cells.items(), COLOURS, strict=False):
        levels = published().get(cell.label, {})
        axes.plot(
            list(levels),
            list(levels.values()),
            color=colour,
            linestyle="--",
            linewidth=0.9,
            marker="o",
            markersize=6,
            markerfacecolor="white",
        )
        trials = by_dimension(records, cell)
        means = [sum(values) / len(values) for values in trials.values()]
        axes.plot(list(trials), means, color=colour, marker="o", markersize=3, label=label)
    axes.set_title(f"error by {what}, n = 10,240", fontsize=8.5)
    axes.set_xlabel("d (hollow, dashed: published)", fontsize=8)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**SMALL)


def _all_cells(axes: Axes, records: Sequence[RunRecord]) -> None:
    found = optimiser_grid.comparisons(records)
    axes.set_title("every cell that was run", fontsize=8.5)
    axes.set_xlabel("published error", fontsize=8)
    axes.set_ylabel("measured error", fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if not found:
        return
    x, y = [one.published for one in found], [one.measured for one in found]
    ends = [min(x), max(x)]
    axes.plot(ends, ends, color=GREY, linewidth=0.8)
    axes.plot(x, y, "o", color=BLUE, markersize=3)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Errors of every cell with the published ones, and the paths of descent."""
    cells = dict.fromkeys(optimiser_grid.cell_of(r) for r in records if r.task == "optimisation")
    found = descent.of_descent(records)
    return {
        "grid": {
            cell.label: {
                "error": {str(d): values for d, values in by_dimension(records, cell).items()},
                "published": {str(d): v for d, v in published().get(cell.label, {}).items()},
            }
            for cell in cells
        },
        "two_tokens": {name: descent.two_tokens(records, name) for name in descent.FLOATS},
        "paths": {
            record.run_id: {name: curve.model_dump() for name, curve in record.curves.items()}
            for record in found
        },
        "first_perfect_map": {
            name: found[0].arrays[name] if found else None
            for name in ("map_axes", "first_perfect_map")
        },
        "weights": weighting.curves(records),
    }


LARGE_BATCHES = (
    "over random seeds, paired, the whole 95 % interval of the difference of errors (mean over "
    "d ≥ 100) is below zero at batch 1024, step 1, n = 10,240"
)

GRID_CLAIMS = (
    Claim(
        "seven published cells",
        GRID,
        "Seven cells of the released grid come out from the random seeds 42 to 51.",
        Tolerance(
            "each mean at d = 100 differs by less than {gap:g} from the published one, so that "
            "four decimals are equal",
            {"gap": 5e-5},
        ),
        optimiser_grid.starred_come_out,
    ),
    Claim(
        "the grid",
        GRID,
        "So do the other cells and dimensions of the released grid that this preset runs.",
        Tolerance(
            "at least {share:.0%} of the means asked for differ by less than {gap:g}, so that four "
            "decimals are equal, and each of the others by at most {errors:g} standard errors over "
            "the ten seeds: with large steps the last digits of a sum decide",
            {"share": 0.9, "errors": 3.0, "gap": 5e-5},
        ),
        optimiser_grid.grid_comes_out,
    ),
    Claim(
        "large steps steepen the law",
        f"{PAPER}, section on optimisation",
        "With larger steps the error falls faster with d: from the slope of a memory that counts, "
        "-(α-1)/(2α), towards that of one that keeps the most frequent tokens, -(α-1).",
        Tolerance(
            "SGD with batch 64 and n = 10,240: the slope with step 100 is below that with step "
            "0.1 by more than {steeper:g}, with the whole 95 % bootstrap interval over seeds",
            {"steeper": 0.1},
        ),
        optimiser_grid.slopes_move,
    ),
    Claim(
        "one large batch counts",
        f"{PAPER}, section on optimisation",
        "One step on one large batch gives every token the weight of its frequency, q ~ p.",
        Tolerance(
            "the slope of log q(z) against log count lies between {low:g} and {high:g}, with its "
            "whole 95 % interval over seeds (d ≥ N, where q is unique)",
            {"low": 0.95, "high": 1.05},
        ),
        partial(optimiser_grid.induced_exponent, cell=optimiser_grid.ONE_STEP),
    ),
    Claim(
        "single samples and large steps only see",
        f"{PAPER}, section on optimisation",
        "With batch 1, a large step and d ≫ N all tokens that were seen weigh the same, q ~ 1.",
        Tolerance(
            "the slope of log q(z) against log count lies between {low:g} and {high:g}, with its "
            "whole 95 % interval over seeds (step 10)",
            {"low": -0.15, "high": 0.15},
        ),
        partial(optimiser_grid.induced_exponent, cell=optimiser_grid.SINGLE_SAMPLES),
    ),
    Claim(
        "Adam helps at large batches",
        f"{PAPER}, section on optimisation; slides of Bietti 2024, scaling laws and optimisation",
        "At large batches and small steps Adam leaves fewer errors than SGD.",
        Tolerance(LARGE_BATCHES, {"margin": 0.0}),
        partial(
            optimiser_grid.all_lower,
            pairs=[(LARGE_BATCH["adam", False], LARGE_BATCH["sgd", False])],
        ),
    ),
    Claim(
        "layer normalisation helps at large batches",
        f"{PAPER}, section on optimisation; slides of Bietti 2024, scaling laws and optimisation",
        "At large batches and small steps both SGD and Adam leave fewer errors with layer "
        "normalisation.",
        Tolerance(f"{LARGE_BATCHES}, for both", {"margin": 0.0}),
        partial(
            optimiser_grid.all_lower,
            pairs=[
                (LARGE_BATCH[name, True], LARGE_BATCH[name, False]) for name in optimiser_grid.NAMES
            ],
        ),
    ),
    Claim(
        "trained embeddings help",
        GRID,
        "Trained embeddings leave fewer errors than fixed ones, most of all together with a "
        "matrix.",
        Tolerance(
            "SGD, step 1, batch 16, n = 10,240: over seeds, paired, the whole 95 % intervals of "
            "both differences of errors (all trained below rectified embeddings below fixed; mean "
            "over d ≥ 100) are below zero",
            {"margin": 0.0},
        ),
        partial(
            optimiser_grid.all_lower,
            pairs=[
                (BY_MODEL["learnable"], BY_MODEL["exponential"]),
                (BY_MODEL["exponential"], BY_MODEL["matrix"]),
            ],
        ),
    ),
)


def table(records: Sequence[RunRecord]) -> str:
    """Measured errors, and the published ones in brackets, of every cell that was run."""
    cells = dict.fromkeys(optimiser_grid.cell_of(r) for r in records if r.task == "optimisation")
    measured = {cell: by_dimension(records, cell) for cell in cells}
    dimensions = sorted({d for trials in measured.values() for d in trials})
    lines = [
        "| measured (published) | " + " | ".join(f"d = {d}" for d in dimensions) + " |",
        "| --- |" + " --- |" * len(dimensions),
    ]
    for cell, trials in sorted(measured.items(), key=lambda item: item[0].label):
        levels = published().get(cell.label, {})
        entries = []
        for d in dimensions:
            mean = f"{math.fsum(trials[d]) / len(trials[d]):.4f}" if d in trials else ""
            entries.append(f"{mean} ({levels[d]:.4f})" if mean and d in levels else mean)
        lines.append(f"| {cell.label} | " + " | ".join(entries) + " |")
    return "\n".join(lines) + "\n"


REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=plan,
    select=select,
    variant=variant,
    draw=draw,
    curves=curves,
    table=table,
    varied=optimiser_grid.VARIED,
    claims=(*GRID_CLAIMS, *descent.CLAIMS, *weighting.CLAIMS),
)
