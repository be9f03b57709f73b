"""Figure 10: training dedicates one memory unit to each moon."""

from __future__ import annotations

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import Records
from reproduce.claims.trials import finished
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace
from reproduce.three_moons import moons

TITLE = "Figure 10. Moduli of the three matrices: one memory unit for each moon"
SOURCE = f"{moons.PAPER}, appendix A, figure 10"
# array in the record -> symbol, rows, columns
MATRICES = {
    "key_extractor": ("|W φ|", "memory unit", "moon"),
    "value_extractor": ("|W ψ|", "memory unit", "moon"),
    "output": ("|W z|", "moon", "memory unit"),
}
SHARE_OF_MODULI = 0.9


def is_disentangled(record: RunRecord) -> bool:
    """Every unit reads one moon at least three times as strongly as any other, each another one."""
    return record.metrics["test"].get("disentangled") == 1


def shares_in_all_matrices(record: RunRecord) -> bool:
    """In each of the matrices nearly all of the squared moduli lie on one assignment."""
    share = record.metrics["test"].get("disentanglement")
    return moons.within(share, SHARE_OF_MODULI, 1.0)


def picture(records: Records) -> Picture:
    """The network with the lowest training loss large, every seed small below it."""
    best = moons.chosen(records)
    facts = {"lowest_training_loss": best.run_id if best else None}
    if best is None:
        return Picture(TITLE, [PanelRow([Panel()])], width=9, facts=facts)
    networks = finished(moons.networks(records))
    top = max(max(map(max, best.arrays[name])) for name in MATRICES)
    rows = [PanelRow([_large(best, name, top) for name in MATRICES], height=2.9)]
    for name, height in zip(MATRICES, (1.45, 0.9, 0.9), strict=True):  # the first row has names
        small = [_small(record, name, top) for record in networks]
        rows.append(PanelRow(small, height, shared=True))
    return Picture(TITLE, rows, width=max(9.0, 0.85 * len(networks)), facts=facts)


def _large(record: RunRecord, name: str, top: float) -> Panel:
    symbol, rows, columns = MATRICES[name]
    numbers = [str(number) for number in range(1, len(record.arrays[name]) + 1)]
    x, y = Axis(columns, categories=numbers), Axis(rows, categories=numbers, inverted=True)
    z = Axis("modulus" if name == "output" else "", limits=(0, top))
    return Panel(f"{symbol}   seed {record.seed}", x, y, [_matrix(record, name, ".2f")], z=z)


def _small(record: RunRecord, name: str, top: float) -> Panel:
    share = record.metrics["test"].get("disentanglement", float("nan"))
    verdict = f"{share:.3f}" if is_disentangled(record) else f"{share:.3f}\nentangled"
    first = name == next(iter(MATRICES))
    title, unnamed = f"seed {record.seed}\n{verdict}", [""] * len(record.arrays[name])
    x, y = Axis(categories=unnamed), Axis(MATRICES[name][0], categories=unnamed, inverted=True)
    traces, z = [_matrix(record, name, "")], Axis(limits=(0, top))
    return Panel(title if first else "", x, y, traces, z=z)


def _matrix(record: RunRecord, name: str, numbers: str) -> Trace:
    moduli = record.arrays[name]
    places = range(len(moduli))
    return Trace(
        f"seed {record.seed}", places, places, z=moduli, numbers=numbers, mark="heat", legend=""
    )


CLAIMS = (
    Claim(
        "one memory unit for each moon",
        "Training dedicates one memory unit to each moon, without being told to.",
        moons.most_seeds("three heads", is_disentangled),
        f"{moons.MOST}the key of each unit reads one moon at least three times as strongly as "
        "any other, and no two units read the same moon",
    ),
    Claim(
        "all three matrices disentangled",
        "Keys, values and outputs agree on the assignment of moons to memory units.",
        moons.most_seeds("three heads", shares_in_all_matrices),
        f"{moons.MOST}at least {SHARE_OF_MODULI:.0%} of the squared moduli of each matrix lie "
        "on one assignment (chance is about a third)",
    ),
)
EXPERIMENT = moons.experiment(TITLE, SOURCE, 3, CLAIMS, panels=picture)
