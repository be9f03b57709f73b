"""What figures 4, 5 and 10 share: runs of the three-moons network and claims over its seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.ground.errors import UserError
from bench.records.schema import Curve, RunRecord
from reproduce.drawing.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    VERMILLION,
    frame,
    new_figure,
    quiet,
)
from reproduce.judging.claims import Finding, share_of_seeds
from reproduce.judging.observations import observe
from reproduce.judging.reproduction import Plan, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394)"
SEEDS = 10  # training is known to be hard, so that a rate of success is asked for
VARIED = ("models.heads", "models.weights")  # of the published network
PLAUSIBLE = {"plausible_low": 0.4, "plausible_high": 1.2}
# A rollout that diverges halves its error by accident; one that repeats what it saw starts here.
GUARD = (
    "(counted only if its error before the first period lies in "
    "{plausible_low:g}–{plausible_high:g})"
)
TOP = 1.15  # of the error axis; the published one ends at 1

WITHOUT_TRAINING = {
    "table_of_all_moons": "a table of all moons",
    "table_per_moon": "a table for each moon",
}

Predicate = Callable[[RunRecord, Mapping[str, float]], bool]


def plan(heads: int, tables: bool) -> Callable[[str, int | None], Plan]:
    """Networks of ``heads`` memory units, one run a seed, perhaps with the astronomers' tables."""
    words = ("tasks=three_moons", "models=memory_unit", f"models.heads={heads}")

    def of_preset(preset: str, seeds: int | None) -> Plan:
        count = seeds or SEEDS
        runs = tuple((*words, f"seed={seed}") for seed in range(count))
        return Plan(runs, baselines=(words,) if tables else ())

    return of_preset


def select(heads: int, tables: bool) -> Callable[[Sequence[RunRecord]], list[RunRecord]]:
    """Runs of the published network with ``heads`` memory units, perhaps with the tables."""

    def belongs(record: RunRecord) -> bool:
        if record.task != "three_moons":
            return False
        if record.role == "baseline":
            return tables
        model = record.config["models"]
        return record.model == "memory_unit" and (model["heads"], model["weights"]) == (
            heads,
            "complex",
        )

    def selected(records: Sequence[RunRecord]) -> list[RunRecord]:
        return sorted(filter(belongs, records), key=lambda record: record.run_id)

    return selected


def networks(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The trained networks, by seed."""
    trained = [record for record in records if record.role != "baseline"]
    return sorted(trained, key=lambda record: record.seed)


def shown_system(task: Mapping[str, Any]) -> str:
    """The period set that is trained on and shown: "0.5,1,2.5".

    Raises:
        UserError: none of those shown is trained on.
    """
    shown, trained = task["display_systems"] or [], task["systems"] or []
    system = next((periods for periods in shown if periods in trained), None)
    if system is None:
        raise UserError(
            f"tasks.display_systems={shown} holds no system that the network is trained on, and "
            f"the figure shows one: give at least one of tasks.systems={trained}"
        )
    return _name(system)


def held_out_systems(record: RunRecord) -> list[str]:
    """The period sets of the test split."""
    return [_name(periods) for periods in record.config["tasks"]["test_systems"]]


def _name(periods: Sequence[float]) -> str:
    return ",".join(f"{period:g}" for period in periods)


def on_shown(score: Callable[[RunRecord, str, Mapping[str, float]], bool]) -> Predicate:
    """A predicate on the system that is seen in training."""
    return lambda record, numbers: score(record, shown_system(record.config["tasks"]), numbers)


def on_held_out(score: Callable[[RunRecord, str, Mapping[str, float]], bool]) -> Predicate:
    """A predicate that has to hold on every held-out system."""
    return lambda record, numbers: all(
        score(record, system, numbers) for system in held_out_systems(record)
    )


def share(
    label: str, predicate: Predicate
) -> Callable[[Sequence[RunRecord], Mapping[str, float]], Finding]:
    """A test: the share of trained networks that satisfy a predicate. A diverged one does not."""

    def test(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        trained = networks(records)
        starts = max((record.config["training"]["restarts"] for record in trained), default=1)
        sample = observe(
            f"{label}, best of {starts} starts" if starts > 1 else label,
            trained,
            lambda record: float(predicate(record, numbers)),
            diverged=0.0,
        )
        return share_of_seeds(sample, numbers["required"])

    return test


def score(record: RunRecord, name: str, system: str) -> float | None:
    """A score of the test split; None where the level that defines it was never reached."""
    return record.metrics["test"].get(f"{name}/{system}")


def within(value: float | None, low: float, high: float) -> bool:
    """Whether there is a value, and it lies between."""
    return value is not None and low <= value <= high


def plausible(record: RunRecord, system: str, numbers: Mapping[str, float]) -> bool:
    """Whether the error before the first period is that of a network that repeats what it saw."""
    return within(
        score(record, "error_before_p1", system),
        numbers["plausible_low"],
        numbers["plausible_high"],
    )


def chosen(records: Sequence[RunRecord]) -> RunRecord | None:
    """Of the runs with a result, the one with the lowest training loss (never the test error)."""
    fit = [record for record in networks(records) if record.outcome == "ok"]
    return min(fit, key=_final_training_loss, default=None)


def _final_training_loss(record: RunRecord) -> float:
    losses = record.curves["training_loss"].y
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """The curve of every system of every run, and the periods in samples."""
    best = chosen(records)
    return {
        "x": "context length in samples",
        "y": "mean absolute deviation of autoregressive predictions",
        "lowest_training_loss": best.run_id if best else None,
        "runs": {
            record.run_id: {
                "label": record.label,
                "seed": record.seed,
                "outcome": record.outcome,
                "cause": record.cause,
                "curves": {
                    name: curve.model_dump()
                    for name, curve in record.curves.items()
                    if name.startswith("error/")
                },
                "periods": {
                    name.removeprefix("periods/"): values
                    for name, values in record.arrays.items()
                    if name.startswith("periods/")
                },
            }
            for record in records
        },
    }


def draw(records: Sequence[RunRecord], view: View, title: str, table: str) -> Figure:
    """One panel for each system: every seed thin, the one with the lowest training loss thick.

    Args:
        table: label of the predictor without training that the network is expected to find.
    """
    figure = new_figure(11, 3.9)
    trained = networks(records)
    best = chosen(records)
    if best is None:
        figure.subplots().set_axis_off()
    else:
        systems = [shown_system(best.config["tasks"]), *held_out_systems(best)]
        panels = figure.subplots(1, len(systems), sharey=True, squeeze=False)[0]
        for axes, system in zip(panels, systems, strict=True):
            _panel(axes, records, trained, best, system, table)
            seen = "seen in training" if system == systems[0] else "held out"
            axes.set_title(f"periods {system.replace(',', ' : ')}  ({seen})", fontsize=9, pad=16)
        steps = best.config["tasks"]["rollout_steps"]
        panels[0].set_ylabel(f"error of the next {steps} predictions", fontsize=8.5)
        panels[0].set_ylim(0, TOP)
        panels[-1].legend(fontsize=7, frameon=False, loc="upper right")
    frame(figure, title, trained, view)
    return figure


def _panel(
    axes: Axes,
    records: Sequence[RunRecord],
    trained: Sequence[RunRecord],
    best: RunRecord,
    system: str,
    table: str,
) -> None:
    quiet(axes)
    *periods, full = best.arrays[f"periods/{system}"]
    for number, period in enumerate(sorted(periods), start=1):
        axes.axvline(period, color=BLACK, linewidth=0.8)
        # Periods may be close: the first label hangs to the left, the others to the right.
        _above(axes, period, f"$p_{number}$", BLACK, "right" if number == 1 else "left")
    axes.axvline(full, color=VERMILLION, linewidth=1.2)
    _above(axes, full, "lcm", VERMILLION, "center")
    others = [record for record in trained if record.outcome == "ok" and record is not best]
    for place, record in enumerate(others):
        curve = record.curves[f"error/{system}"]
        label = "the other seeds" if place == 0 else None
        axes.plot(curve.x, curve.y, color=ORANGE, linewidth=0.9, alpha=0.8, label=label)
        _mark_leaving(axes, curve, record.seed, place)
    curve = best.curves[f"error/{system}"]
    label = f"seed {best.seed}, lowest training loss"
    axes.plot(curve.x, curve.y, color=BLUE, linewidth=2, label=label)
    for record in records:
        if record.role == "baseline" and record.label == table:
            curve = record.curves[f"error/{system}"]
            axes.plot(
                curve.x,
                curve.y,
                color=GREY,
                linestyle=":",
                linewidth=1.2,
                label=WITHOUT_TRAINING[table],
            )
    axes.set_xlim(0, max(curve.x))
    axes.set_xlabel("context length (samples)", fontsize=8.5)


def _above(axes: Axes, x: float, text: str, colour: str, side: str) -> None:
    axes.annotate(
        text,
        (x, TOP),
        xytext=(0, 2),
        textcoords="offset points",
        ha=side,
        fontsize=8,
        color=colour,
        annotation_clip=False,
    )


def _mark_leaving(axes: Axes, curve: Curve, seed: int, place: int) -> None:
    """Say so where a curve leaves the axis: a rollout that grows without bound."""
    if max(curve.y, default=0.0) > TOP:
        axes.annotate(
            f"seed {seed} up to {max(curve.y):.3g}",
            (0.98, 0.75 - 0.06 * place),
            xycoords="axes fraction",
            ha="right",
            fontsize=7,
            color=VERMILLION,
        )
