"""A sweep as ``bench.sweep`` makes it: planned, then estimated or run, and printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.config.command_line import shown
from bench.config.network import with_available_text
from bench.runs.get_or_run import find_widths
from bench.search.driver import run_plan
from bench.search.plan import EXTEND, N_TRIALS, SPACE, Entry, SweepPlan, plan_sweep, warn_of_sizes
from bench.search.remaining.left import Remaining
from bench.search.table import print_sweep
from core.errors import OK, RUN_FAILED
from core.progress import progress
from core.screen import console


def sweep(settings: Mapping[str, Any]) -> int:
    """Run or estimate what settings ask for, and print it.

    Returns:
        Exit code 0, or 1 when a model has no result or a final run failed.
    """
    find_widths()
    plan = plan_sweep(with_available_text(settings))
    if note := note_on_trials(plan):
        print(note)
    for entry in plan.entries:
        warn_of_sizes([entry.configuration], entry.space)
    if plan.dry_run:
        return _foretell(plan)
    with progress() as report:
        result = run_plan(plan, report, lambda sentence: print(sentence, file=sys.stderr))
    print_sweep(result, plan.entries[0].configuration.store)
    return RUN_FAILED if any(model.cause for model in result.models) else OK


def note_on_trials(plan: SweepPlan) -> str | None:
    """Which search spaces hold fewer settings than the trials asked for, or but one; and which hold
    more, where a person wrote the space or the number; and that no grid grows, where a person wants
    that."""
    notes = [_note_on_fewer(plan), _note_on_more(plan), _note_on_growth(plan)]
    return "; ".join(filter(None, notes)) or None


def _note_on_fewer(plan: SweepPlan) -> str | None:
    trials, entries = plan.settings.n_trials, plan.entries
    if trials == 1 and all(entry.settings == 1 for entry in entries):
        preset = entries[0].configuration.preset
        settings = [shown(key, value) for key, value in entries[0].first().items()]
        only = f" ({' '.join(settings)})" if settings else ""
        return f"the search space has one setting at preset {preset}{only}: nothing is tuned"
    small = [entry for entry in entries if entry.settings < trials]
    if not small or plan.tries_whole_grid:
        return None
    sizes = sorted({entry.settings for entry in small})
    counts = " or ".join(map(str, sizes)) + (" setting" if sizes == [1] else " settings")
    return f"n_trials={trials}, but the search space{_of(small, plan)} has only {counts}"


def _note_on_more(plan: SweepPlan) -> str | None:
    trials = plan.settings.n_trials
    large = [entry for entry in plan.entries if entry.settings > trials]
    if not large or not plan.entries[0].configuration.overrides.keys() & {SPACE, N_TRIALS, EXTEND}:
        return None
    sizes = sorted({entry.settings for entry in large})
    sentence = (
        f"{trials} of {' or '.join(map(str, sizes))} settings{_of(large, plan)} "
        f"{'is' if trials == 1 else 'are'} tried; n_trials={sizes[-1]} tries all"
    )
    extend = plan.settings.extend
    return f"{sentence}, which extend={extend} needs" if extend else sentence


def _note_on_growth(plan: SweepPlan) -> str | None:
    """That no searched key goes on, which is another reason than settings that are not tried."""
    extend, trials = plan.settings.extend, plan.settings.n_trials
    requested = extend and EXTEND in plan.entries[0].configuration.overrides
    if not requested or plan.grows or any(entry.settings > trials for entry in plan.entries):
        return None
    return (
        f"extend={extend} adds nothing: a grid that grows has two or more positive numbers with "
        "about equal ratios"
    )


def _of(entries: Sequence[Entry], plan: SweepPlan) -> str:
    """Which models some entries are, if not all."""
    return "" if entries == plan.entries else f" of {', '.join(entry.name for entry in entries)}"


def _foretell(plan: SweepPlan) -> int:
    """Estimate the models that have runs without a record, and say how many these are; for another
    device, where no record counts, all of them. Exit code 1 when none can be run."""
    remaining = Remaining.of(plan) if plan.device_like is None else None
    left = plan
    if remaining is not None:
        left = replace(plan, entries=[e for e in plan.entries if remaining.missing_of(e)])
    code = OK
    if left.entries:
        from bench.search.estimate import estimate, print_estimates  # PyTorch takes seconds

        with progress() as report:
            estimates = estimate(left, report)
        print_estimates(estimates, left)
        code = RUN_FAILED if all(model.refused for model in estimates) else OK
    if remaining is not None:
        for sentence in (*remaining.beside_guests(), remaining.without()):
            console().print(sentence, soft_wrap=True, markup=False)
    return code
