"""What it would take to ask at another preset what this one does not ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from bench.search.plan import make_plan
from bench.settings.config import compose
from bench.settings.settings import Configuration

if TYPE_CHECKING:
    from reproduce.reproduction import Plan, Reproduction


def cost_of(reproduction: Reproduction, preset: str) -> str:
    """The runs of a preset's plan and their lengths, in words: "45 runs of 2,000 to 20,000 steps".

    Seconds depend on the machine: ``dry_run=true`` measures them there.
    """
    return _cost_of(reproduction.plan, preset)


@cache
def _cost_of(planned: Callable[[str, int | None], Plan], preset: str) -> str:
    plan = planned(preset, None)
    count, steps = len(plan.runs), _steps(_different(plan.runs, preset))
    for words in plan.sweeps:
        sweep = make_plan([*words, f"preset={preset}"])
        trials = (min(entry.settings, sweep.settings.n_trials) for entry in sweep.entries)
        count += sum(trials) + len(sweep.entries) * sweep.settings.seeds
        steps |= _steps(entry.configuration for entry in sweep.entries)
    lengths = [f"{number:,}" for number in sorted({min(steps), max(steps)})] if steps else []
    return f"{count:,} runs" + (f" of {' to '.join(lengths)} steps" if lengths else "")


def _different(runs: Iterable[tuple[str, ...]], preset: str) -> Iterable[Configuration]:
    """One configuration for all seeds of a setting."""
    settings = {tuple(word for word in words if not word.startswith("seed=")) for words in runs}
    return (compose([*words, f"preset={preset}"]) for words in sorted(settings))


def _steps(configurations: Iterable[Configuration]) -> set[int]:
    return {
        configuration.training.steps
        for configuration in configurations
        if configuration.takes is None and configuration.training.steps
    }
