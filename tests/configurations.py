"""Configurations and plans of sweeps for tests, from the words that a command line would have."""

from collections.abc import Sequence

from bench.config.command_line import read, read_with_lists
from bench.config.settings import Configuration
from bench.search.plan import SweepPlan, plan_sweep


def compose(words: Sequence[str]) -> Configuration:
    """The configuration of words such as ``tasks=regbench seed=1``."""
    return Configuration.of(read(words))


def make_plan(words: Sequence[str]) -> SweepPlan:
    """The sweep of words such as ``tasks=regbench models=a,b``."""
    return plan_sweep(read_with_lists(words))
