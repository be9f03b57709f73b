"""A published figure or table: the runs that it needs, how it is drawn, which claims it checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from bench.config.config import compose
from bench.config.groups import taking_part
from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from bench.search.plan import make_plan
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, UNTRAINED, NoControl, Untrained
from reproduce.plotting.panels import Picture


@dataclass(frozen=True)
class Plan:
    """What has to be run, as words of the command line without preset, store and seeds.

    Attributes:
        runs: for ``bench.train``, each with its seed.
        baselines: whose tasks' predictors without training are wanted.
        sweeps: for ``bench.sweep``.
    """

    runs: tuple[tuple[str, ...], ...] = ()
    baselines: tuple[tuple[str, ...], ...] = ()
    sweeps: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class View:
    """What a drawing must say about where its records come from."""

    preset: str
    overrides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The preset and whatever was changed in it."""
        return " ".join([self.preset, *self.overrides])

    @property
    def folder(self) -> str:
        """A folder name; changed settings never overwrite those of the preset."""
        return re.sub(r"[^\w.,=+-]", "_", "+".join([self.preset, *self.overrides]))


@dataclass(frozen=True, eq=False)  # one is itself alone: what its plan costs is looked up by it
class Reproduction:
    """A published figure or table.

    Attributes:
        title: what it shows, in our words.
        source: paper, section, figure or table.
        plan: of a preset, and of the number of seeds where the user gives one.
        select: the records that belong to it, sorted by run id.
        panels: the figure as data, whose dump is ``curves.json``.
        variant: what the figure tells apart beside models: it shows one setting of a model in each.
        check: refuses, by a UserError, a resolved configuration that the figure cannot show.
        varied: settings that the figure chooses itself, such as "models.layers".
        table: the numbers as a Markdown table, where the original is a table.
        note: a line about the records that the console shows, such as their corpus.
        control: of the claims that name none.
    """

    title: str
    source: str
    plan: Callable[[str, int | None], Plan]
    select: Callable[[Sequence[RunRecord]], list[RunRecord]]
    claims: tuple[Claim, ...]
    panels: Callable[[Sequence[RunRecord]], Picture]
    variant: Callable[[RunRecord], Hashable] = lambda record: None
    check: Callable[[Mapping[str, Any]], object] = lambda config: None
    varied: tuple[str, ...] = ()
    table: Callable[[Sequence[RunRecord]], str] | None = None
    note: Callable[[Sequence[RunRecord]], str] | None = None
    control: Untrained | NoControl = UNTRAINED

    def __post_init__(self) -> None:
        """A claim without a source or a control of its own has that of the figure.

        Raises:
            ValueError: two claims have one name, or one has no control where each has its own.
        """
        names = [claim.name for claim in self.claims]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two claims are called '{twice[0]}': give each a name of its own")
        if self.control is EACH_ITS_OWN and (without := [c for c in self.claims if not c.control]):
            raise ValueError(
                f"the claim '{without[0].name}' names nothing that must fail its test: give it a "
                "control=..., as every claim of this figure has"
            )
        own = tuple(
            replace(one, source=one.source or self.source, control=one.control or self.control)
            for one in self.claims
        )
        object.__setattr__(self, "claims", own)

    def cost(self, preset: str) -> str:
        """The runs of a preset's plan and their lengths, in words: "45 runs of 2,000 to 20,000
        steps". Seconds depend on the machine: ``dry_run=true`` measures them there.
        """
        return _cost_of(self.plan, preset)


@cache
def _cost_of(planned: Callable[[str, int | None], Plan], preset: str) -> str:
    with taking_part([]):  # whoever takes part beside the contenders is not of the preset
        return _told_cost(planned(preset, None), preset)


def _told_cost(plan: Plan, preset: str) -> str:
    count, steps = len(plan.runs), _steps(_different(plan.runs, preset))
    for words in plan.sweeps:
        sweep = make_plan([*words, f"preset={preset}"])
        trials = (min(entry.settings, sweep.settings.n_trials) for entry in sweep.entries)
        count += sum(trials) + len(sweep.entries) * sweep.settings.finals
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
