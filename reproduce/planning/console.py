"""What the command says: the plan, the open claims, and what was decided."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from bench.records.report import table_of
from bench.records.schema import RunRecord
from bench.records.store import Store
from core.amounts import amount
from core.places import readable
from core.progress import duration
from core.screen import console
from reproduce.claims.claims import ClaimResult
from reproduce.planned import PlannedRun
from reproduce.planning.cost import ExpectedCost
from reproduce.planning.experiments import DecidingRuns
from reproduce.planning.survey import Review, Step, Survey

# Where nothing is trained, texts are counted, which no record times. Measured by hand: table 1 with
# 19.6 MB of TinyStories takes 5.1 CPU-seconds, the start of the program included.
COUNTING = "to count two gigabytes of text, as the paper's corpora have, some 0.15 core-hours"


def print_plan(
    survey: Survey,
    steps: Sequence[Step],
    deciding: Sequence[DecidingRuns],
    workers: int,
    hours: float | None,
) -> None:
    """What would run in which order, what is served, and what decides the rest."""
    screen = console()
    table = table_of(
        ["", "run", "sources of the estimate"], ["verdicts", "runs", "core time", "until"]
    )
    until = 0.0
    for number, step in enumerate(steps, 1):
        until += step.cost.seconds / max(1, workers)
        over = "" if hours is None or until <= hours * 3600 else " (beyond hours=)"
        table.add_row(
            str(number),
            step.candidate.shown,
            _sources(step.cost),
            str(len(step.claims)),
            f"{step.runs:,}",
            _time(step.cost),
            duration(until) + over,
        )
    if steps:
        screen.print(
            f"preset {survey.preset}: most verdicts an hour first, {max(1, workers)} at a time"
        )
        screen.print(table)
    else:
        screen.print(f"preset {survey.preset}: no run of a plan would decide anything more")
    for line in map(_served, survey.reviews.values()):
        if line:
            screen.print(line, soft_wrap=True)
    print_experiments(deciding)
    runs: list[PlannedRun] = []
    for step in steps:
        runs += step.candidate.runs
    survey.speeds.print_basis(runs)


def print_experiments(experiments: Sequence[DecidingRuns]) -> None:
    """Which run would decide each open claim, and what it costs."""
    if not experiments:
        return
    screen = console()
    table = table_of(["figure", "claim", "verdict", "what would decide it"], ["cost"])
    for experiment in experiments:
        cost = "" if experiment.cost is None else in_hours(experiment.cost, experiment.on_gpu)
        decides = (
            ", ".join(filter(None, (experiment.words, experiment.closed)))
            or f"no plan: {experiment.why}"
        )
        table.add_row(experiment.figure, experiment.claim, experiment.verdict, decides, cost)
    screen.print("\nwhat would decide each open claim: python -m reproduce …")
    screen.print(table)


def print_decided(
    before: dict[tuple[str, str], str], after: dict[tuple[str, str], str]
) -> list[tuple[str, str]]:
    """The claims whose verdict is another now, old -> new."""
    changed = [claim for claim, verdict in after.items() if before.get(claim) != verdict]
    for figure, claim in changed:
        print(f"  {figure}, {claim}: {before[figure, claim]} -> {after[figure, claim]}", flush=True)
    return changed


def print_how_to_commit(records: Sequence[RunRecord], store: Path) -> None:
    """One command line that proposes the new records for the committed board."""
    if not records:
        return
    folders = Store(store)
    paths = sorted(readable(folders.record_folder(r.role) / f"{r.run_id}.json") for r in records)
    command = shlex.join(["python", "-m", "leaderboards.add", *paths])
    judge = "python -m reproduce verdicts update=true && python -m leaderboards.build"
    committed_by = amount(len(paths), "record is committed by", "records are committed by")
    print(f"their {committed_by}:\n  {command}\n  {judge}")


def _served(review: Review) -> str:
    """A line about a reproduction whose runs are all there, or whose records do not fit."""
    if review.note:
        return f"{review.figure}: judged by its plan's runs alone, since {review.note}"
    if not review.open or review.missing:
        return ""
    names = ", ".join(result.claim.name + _needs(review, result) for result in review.open)
    return f"{review.figure}: served, nothing to run; open: {names}"


def _needs(review: Review, result: ClaimResult) -> str:
    if review.decision(result.claim):
        return " (closed by decision)"
    seeds = result.finding.seeds_needed
    return f" ({seeds} seeds)" if seeds else ""


def _time(cost: ExpectedCost) -> str:
    spread = cost.sources and cost.high > 0
    between = f" ({duration(cost.low)} to {duration(cost.high)})" if spread else ""
    return f"{duration(cost.seconds)}{between}"


def in_hours(cost: ExpectedCost, on_gpu: bool) -> str:
    """A cost in core-hours or GPU-hours, with its range where it is estimated."""
    if not cost.seconds:
        return f"0 core-hours of training; {COUNTING}"
    unit = "GPU-hours" if on_gpu else "core-hours"
    low, high = (f"{seconds / 3600:.3g}" for seconds in (cost.low, cost.high))
    between = f" ({low} to {high}, estimate)" if cost.sources else ""
    return f"{cost.seconds / 3600:.3g} {unit}{between}"


def _sources(cost: ExpectedCost) -> str:
    if not cost.sources:
        return "measured" if cost.seconds else "shared with those above"
    more = f" and {len(cost.sources) - 1} more" if len(cost.sources) > 1 else ""
    return f"{cost.sources[0]}{more}"
