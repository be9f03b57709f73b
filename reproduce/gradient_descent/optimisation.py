"""Which memory gradient descent builds: the optimiser study, and the paths of descent."""

from __future__ import annotations

from ground.statistics import mean_of
from judging.grammar import Records
from reproduce.drawing.tables import markdown
from reproduce.gradient_descent import descent, grid, runs, weighting
from reproduce.gradient_descent.figure import TITLE, panels
from reproduce.reproduction import Reproduction


def table(records: Records) -> str:
    """Measured errors, and the published ones in brackets, of every cell that was run."""
    cells = dict.fromkeys(runs.cell_of(record) for record in records if runs.GRID.has(record))
    measured = {cell: runs.by_dimension(records, cell) for cell in cells}
    dimensions = sorted({d for trials in measured.values() for d in trials})
    rows = []
    for cell, trials in sorted(measured.items(), key=lambda item: item[0].label):
        levels = runs.published().get(cell.label, {})
        known = {d: f" ({level:.4f})" for d, level in levels.items()}
        means = {d: f"{mean_of(values):.4f}{known.get(d, '')}" for d, values in trials.items()}
        rows.append([cell.label, *(means.get(d, "") for d in dimensions)])
    return markdown(["measured (published)", *(f"d = {d}" for d in dimensions)], rows)


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
