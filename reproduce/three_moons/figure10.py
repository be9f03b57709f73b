"""Figure 10: training dedicates one memory unit to each moon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.records.schema import RunRecord
from reproduce.drawing.style import BLACK, VERMILLION, frame, new_figure
from reproduce.judging.claims import Claim, Tolerance
from reproduce.judging.reproduction import Reproduction, View
from reproduce.three_moons import moons

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Figure 10. Moduli of the three matrices: one memory unit for each moon"
SOURCE = f"{moons.PAPER}, appendix A, figure 10"
# array in the record -> symbol, rows, columns
MATRICES = {
    "key_extractor": (r"$|W_\varphi|$", "memory unit", "moon"),
    "value_extractor": (r"$|W_\psi|$", "memory unit", "moon"),
    "output": (r"$|W_z|$", "moon", "memory unit"),
}


def is_disentangled(record: RunRecord, numbers: Mapping[str, float]) -> bool:
    """Every unit reads one moon at least three times as strongly as any other, each another one."""
    return record.metrics["test"].get("disentangled") == 1


def shares_in_all_matrices(record: RunRecord, numbers: Mapping[str, float]) -> bool:
    """In each of the matrices nearly all of the squared moduli lie on one assignment."""
    return moons.within(record.metrics["test"].get("disentanglement"), numbers["share"], 1.0)


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """The network with the lowest training loss large, every other seed small beside it."""
    trained = moons.networks(records)
    best = moons.chosen(records)
    with_result = [record for record in trained if record.outcome == "ok"]
    figure = new_figure(max(9.0, 0.8 * len(with_result)), 5.2)
    if best is None:
        figure.subplots().set_axis_off()
    else:
        top = max(max(map(max, best.arrays[name])) for name in MATRICES)
        upper, lower = figure.subfigures(2, 1, height_ratios=[3, 2.4], squeeze=False)[:, 0]
        large = upper.subplots(1, len(MATRICES))
        for axes, (name, (symbol, rows, columns)) in zip(large, MATRICES.items(), strict=True):
            image = _matrix(axes, best.arrays[name], top, numbers=True)
            axes.set_title(f"{symbol}   seed {best.seed}", fontsize=10)
            axes.set_ylabel(rows, fontsize=8.5)
            axes.set_xlabel(columns, fontsize=8.5)
        upper.colorbar(image, ax=large, shrink=0.8, label="modulus")
        small = lower.subplots(len(MATRICES), len(with_result), squeeze=False)
        for column, record in enumerate(with_result):
            good = is_disentangled(record, {})
            for row, (name, (symbol, _, _)) in enumerate(MATRICES.items()):
                axes = small[row][column]
                _matrix(axes, record.arrays[name], top, numbers=False)
                if column == 0:
                    axes.set_ylabel(symbol, rotation=0, ha="right", va="center", fontsize=9)
            share = record.metrics["test"].get("disentanglement", float("nan"))
            verdict = f"{share:.3f}" if good else f"{share:.3f}\nentangled"
            colour = BLACK if good else VERMILLION
            small[0][column].set_title(
                f"seed {record.seed}\n{verdict}", fontsize=7.5, color=colour, linespacing=1.1
            )
    frame(figure, TITLE, trained, view)
    return figure


def _matrix(axes: Axes, moduli: Sequence[Sequence[float]], top: float, numbers: bool) -> Any:
    image = axes.imshow(moduli, cmap="viridis", vmin=0, vmax=top)
    if not numbers:
        axes.set_xticks([])
        axes.set_yticks([])
        return image
    names = [str(number) for number in range(1, len(moduli) + 1)]
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    for row, values in enumerate(moduli):
        for column, value in enumerate(values):
            colour = "black" if value > 0.6 * top else "white"
            axes.text(
                column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=9
            )
    return image


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """The moduli and scores of every run."""
    best = moons.chosen(records)
    return {
        "lowest_training_loss": best.run_id if best else None,
        "runs": {
            record.run_id: {
                "seed": record.seed,
                "outcome": record.outcome,
                "cause": record.cause,
                "moduli": {name: record.arrays.get(name) for name in MATRICES},
                "disentanglement": record.metrics.get("test", {}).get("disentanglement"),
                "disentangled": record.metrics.get("test", {}).get("disentangled"),
            }
            for record in moons.networks(records)
        },
    }


REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=moons.plan(heads=3, tables=False),
    varied=moons.VARIED,
    select=moons.select(heads=3, tables=False),
    draw=draw,
    curves=curves,
    claims=(
        Claim(
            "one memory unit for each moon",
            SOURCE,
            "Training dedicates one memory unit to each moon, without being told to.",
            Tolerance(
                "in at least {required:.0%} of the seeds, and surely in more than half, the key of "
                "each unit reads one moon at least three times as strongly as any other, and no "
                "two units read the same moon",
                {"required": 0.8},
            ),
            moons.share("three heads", is_disentangled),
        ),
        Claim(
            "all three matrices disentangled",
            SOURCE,
            "Keys, values and outputs agree on the assignment of moons to memory units.",
            Tolerance(
                "in at least {required:.0%} of the seeds, and surely in more than half, at least "
                "{share:.0%} of the squared moduli of each matrix lie on one assignment (chance is "
                "about a third)",
                {"required": 0.8, "share": 0.9},
            ),
            moons.share("three heads", shares_in_all_matrices),
        ),
    ),
)
