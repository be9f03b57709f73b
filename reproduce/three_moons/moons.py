"""What figures 4, 5 and 10 share: runs of the three-moons network and claims over its seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bench.records.schema import RunRecord
from core.errors import UserError
from core.statistics import SHARE
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import Drawn, Records, Rule, Runs, share_of
from reproduce.claims.observations import Sample, observe
from reproduce.claims.trials import finished
from reproduce.experiment import Baselines, Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace

PAPER = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394)"
SEEDS = 10  # training is known to be hard, so that a rate of success is asked for
VARIED = ("models.heads", "models.weights")  # of the published network
# A rollout that diverges halves its error by accident; one that repeats what it saw starts here.
PLAUSIBLE = (0.4, 1.2)
GUARD = f"(counted only if its error before the first period lies in {PLAUSIBLE[0]}–{PLAUSIBLE[1]})"
REQUIRED = 0.8  # of the seeds
MOST = "in at least {at_least:.0%} of the seeds, and surely in more than half, "
OTHERS = "the other seeds"
TOP = 1.15  # of the error axis; the published one ends at 1

WITHOUT_TRAINING = {
    "table_of_all_moons": "a table of all moons",
    "table_per_moon": "a table for each moon",
}

Predicate = Callable[[RunRecord], bool]
Score = Callable[[RunRecord, str], bool]  # of a network on one system


def experiment(
    title: str,
    source: str,
    heads: int,
    claims: Sequence[Claim],
    table: str = "",
    panels: Callable[[Records], Picture] | None = None,
) -> Experiment:
    """A figure of the published network with so many memory units, one run for each seed of both
    the data and the training: a rate of success speaks of new moons too.

    Args:
        table: label of the predictor without training that the network is expected to find, which
            is shown beside the errors of the network.
        panels: what is drawn in place of errors.
    """
    task, models, settings = "three_moons", ["memory_unit"], {"models.heads": heads}
    network = Runs("the network", task, models[0], {**settings, "models.weights": "complex"})

    def is_table(record: RunRecord) -> bool:
        return bool(table) and record.task == task and record.role == "baseline"

    return Experiment(
        title,
        source,
        claims,
        runs=[OverSeeds(task, models, settings, seeds=SEEDS, own_data=True)],
        baselines=[Baselines(task, models, settings)] if table else (),
        records=[network, is_table],
        panels=panels or partial(picture, title=title, table=table),
        check=lambda config: shown_system(config["tasks"]) if table else None,
        varied=VARIED,
    )


def networks(records: Records) -> list[RunRecord]:
    """The trained networks, by seed."""
    trained = [record for record in records if record.role != "baseline"]
    return sorted(trained, key=lambda record: record.seed)


def shown_system(task: Mapping[str, Any]) -> str:
    """The period set that is trained on and shown: "0.5,1,2.5".

    Raises:
        UserError: none of those shown is trained on.
    """
    displayed, trained = task["display_systems"] or [], task["systems"] or []
    system = next((periods for periods in displayed if periods in trained), None)
    if system is None:
        raise UserError(
            f"tasks.display_systems={displayed} holds no system that the network is trained on, "
            f"and the figure shows one: give at least one of tasks.systems={trained}"
        )
    return _name(system)


def held_out_systems(record: RunRecord) -> list[str]:
    """The period sets of the test split."""
    return [_name(periods) for periods in record.config["tasks"]["test_systems"]]


def _name(periods: Sequence[float]) -> str:
    return ",".join(f"{period:g}" for period in periods)


def on_shown(score: Score) -> Predicate:
    """Whether a score holds on the system that is seen in training."""
    return lambda record: _counts(score, record, shown_system(record.config["tasks"]))


def on_held_out(score: Score) -> Predicate:
    """Whether it holds on every held-out system."""
    return lambda record: all(_counts(score, record, system) for system in held_out_systems(record))


def _counts(score: Score, record: RunRecord, system: str) -> bool:
    """Only of a network whose error before the first period is that of one that repeats."""
    before = value(record, "error_before_p1", system)
    return within(before, *PLAUSIBLE) and score(record, system)


def on_either(heads: str, event: str, sentence: str, score: Score, words: str) -> tuple[Claim, ...]:
    """Two claims: on the system that is seen in training, and on every held-out one."""
    return (
        Claim(
            f"{heads}, {event}, seen system",
            f"{sentence}, on moons seen in training.",
            most_seeds(f"{heads}, seen system", on_shown(score)),
            words,
        ),
        Claim(
            f"{heads}, {event}, held-out systems",
            "The same holds on moons whose periods were never trained on.",
            most_seeds(f"{heads}, held-out systems", on_held_out(score)),
            words,
        ),
    )


def most_seeds(label: str, predicate: Predicate) -> Rule:
    """A predicate holds for most of the trained networks. A diverged one does not satisfy it."""

    def draw(records: Records) -> Sample:
        trained = networks(records)
        starts = max((record.config["training"]["restarts"] for record in trained), default=1)
        named = f"{label}, best of {starts} starts" if starts > 1 else label
        return observe(named, trained, lambda r: float(predicate(r)), SHARE, diverged=0.0)

    return share_of(Drawn(label, draw), REQUIRED)


def value(record: RunRecord, name: str, system: str) -> float | None:
    """A score of the test split; None where the level that defines it was never reached."""
    return record.metrics["test"].get(f"{name}/{system}")


def within(value: float | None, low: float, high: float) -> bool:
    """Whether there is a value, and it lies between."""
    return value is not None and low <= value <= high


def chosen(records: Records) -> RunRecord | None:
    """The run with the lowest training loss (never the test error), of those with a result."""
    return min(finished(networks(records)), key=_final_training_loss, default=None)


def _final_training_loss(record: RunRecord) -> float:
    losses = record.curves["training_loss"].y
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail)


def picture(records: Records, title: str, table: str) -> Picture:
    """One panel for each system: every seed thin, the one with the lowest training loss thick.

    Args:
        table: label of the predictor without training that the network is expected to find.
    """
    best = chosen(records)
    facts = {"lowest_training_loss": best.run_id if best else None}
    if best is None:
        return Picture(title, [PanelRow([Panel()])], width=11, facts=facts)
    systems = [shown_system(best.config["tasks"]), *held_out_systems(best)]
    panels = [_panel(records, best, system, table) for system in systems]
    panels[0] = replace(panels[0], title=f"{panels[0].title}  (seen in training)")
    panels[1:] = [replace(panel, title=f"{panel.title}  (held out)") for panel in panels[1:]]
    panels[-1] = replace(panels[-1], legend="upper right")
    return Picture(title, [PanelRow(panels, height=3.4, shared=True)], width=11, facts=facts)


def _panel(records: Records, best: RunRecord, system: str, table: str) -> Panel:
    """The errors of every seed on one system, with the moons' periods."""
    others = [record for record in finished(networks(records)) if record is not best]
    traces = []
    for record in others:
        look = {"colour": "orange", "legend": OTHERS}
        traces.append(_curve(record, system, f"seed {record.seed}", **look))
    label = f"seed {best.seed}, lowest training loss"
    traces.append(_curve(best, system, label, role="emphasis", colour="blue"))
    for record in records:
        if record.role == "baseline" and record.label == table:
            traces.append(_curve(record, system, WITHOUT_TRAINING[table], role="reference"))
    steps = best.config["tasks"]["rollout_steps"]
    x = Axis("context length (samples)", limits=(0, max(best.curves[f"error/{system}"].x)))
    y = Axis(f"error of the next {steps} predictions", limits=(0, TOP))
    remarks = [*_periods(best, system), *_leaving(others, system)]
    return Panel(f"periods {system.replace(',', ' : ')}", x, y, traces, remarks)


def _curve(record: RunRecord, system: str, name: str, **look: Any) -> Trace:
    curve = record.curves[f"error/{system}"]
    return Trace(name, curve.x, curve.y, **look)


def _periods(best: RunRecord, system: str) -> list[Remark]:
    """Lines at the periods, which may be close: the first name stands to the left, the others to
    the right."""
    *periods, full = best.arrays[f"periods/{system}"]
    lines = []
    for place, period in enumerate(sorted(periods), start=1):
        side: Any = "left" if place == 1 else "right"
        lines.append(Remark(f"p{place}", x=period, at=0.95, side=side, line="solid"))
    end = Remark("lcm", x=full, at=0.95, side="right", colour="vermillion", line="solid")
    return [*lines, end]


def _leaving(others: Records, system: str) -> list[Remark]:
    """A word where a curve leaves the axis: a rollout that grows without bound."""
    lines = []
    for record in others:
        top = max(record.curves[f"error/{system}"].y)
        if top > TOP:
            lines.append(f"seed {record.seed} up to {top:.3g}")
    return [Remark("\n".join(lines), place="lower right", colour="vermillion")] if lines else []
