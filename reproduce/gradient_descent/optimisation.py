"""Which memory gradient descent builds: the optimiser study, and the paths of descent."""

from __future__ import annotations

from ground.statistics import mean_of
from judging.grammar import Records
from reproduce.gradient_descent import descent, grid, runs, weighting
from reproduce.gradient_descent.figure import TITLE, panels
from reproduce.reproduction import Reproduction


def table(records: Records) -> str:
    """Measured errors, and the published ones in brackets, of every cell that was run."""
    cells = dict.fromkeys(runs.cell_of(record) for record in records if runs.GRID.has(record))
    measured = {cell: runs.by_dimension(records, cell) for cell in cells}
    dimensions = sorted({d for trials in measured.values() for d in trials})
    lines = [
        "| measured (published) | " + " | ".join(f"d = {d}" for d in dimensions) + " |",
        "| --- |" + " --- |" * len(dimensions),
    ]
    for cell, trials in sorted(measured.items(), key=lambda item: item[0].label):
        levels = runs.published().get(cell.label, {})
        entries = []
        for d in dimensions:
            mean = f"{mean_of(trials[d]):.4f}" if d in trials else ""
            entries.append(f"{mean} ({levels[d]:.4f})" if mean and d in levels else mean)
        lines.append(f"| {cell.label} | " + " | ".join(entries) + " |")
    return "\n".join(lines) + "\n"


SOURCE = f"{runs.SCALING_LAWS}; {runs.DYNAMICS}"
CLAIMS = (*grid.CLAIMS, *descent.CLAIMS, *weighting.CLAIMS)
REPRODUCTION = Reproduction(
    TITLE,
    SOURCE,
    runs.plan,
    runs.select,
    CLAIMS,
    panels,
    runs.variant,
    varied=runs.VARIED,
    table=table,
)
