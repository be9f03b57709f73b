"""A sweep as ``bench.sweep`` makes it: planned, then estimated or run, and printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.config.network import with_available_text
from bench.runs.obtain import find_widths
from bench.search.driver import run_plan
from bench.search.plan import SweepPlan, plan_sweep, warn_of_sizes
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
    if note := plan.note_on_trials():
        print(note)
    for entry in plan.entries:
        warn_of_sizes([entry.configuration], entry.space)
    if plan.dry_run:
        return _foretell(plan)
    with progress() as report:
        result = run_plan(plan, report, lambda sentence: print(sentence, file=sys.stderr))
    print_sweep(result, plan.entries[0].configuration.store)
    return RUN_FAILED if any(model.cause for model in result.models) else OK


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
