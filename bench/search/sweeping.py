"""A sweep as ``bench.sweep`` makes it: planned, then estimated or run, and printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.config.network import with_available_text
from bench.runs.obtain import find_widths
from bench.search.driver import run_plan
from bench.search.plan import plan_sweep, warn_of_sizes
from bench.search.table import print_sweep
from core.errors import OK, RUN_FAILED
from core.progress import progress


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
        from bench.search.estimate import estimate, print_estimates  # PyTorch takes seconds

        with progress() as report:
            estimates = estimate(plan, report)
        print_estimates(estimates, plan)
        return RUN_FAILED if all(model.refused for model in estimates) else OK
    with progress() as report:
        result = run_plan(plan, report)
    print_sweep(result, plan.entries[0].configuration.store)
    return RUN_FAILED if any(model.cause for model in result.models) else OK
