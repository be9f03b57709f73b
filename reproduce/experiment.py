"""An experiment as data: which runs, which records, how they are drawn, and what is claimed.

Example::

    EXPERIMENT = Experiment(
        "Recall: attention beside an LSTM",
        "an example",
        sweeps=[Sweep("multi_query_recall", ["gpt2", "lstm"], {"tasks.pairs": [4, 8]})],
        records=[ATTENTION, LSTM],
        panels=[[Plot("recall", series=[dots("accuracy", [ATTENTION, LSTM])])]],
        claims=[Claim("attention recalls more", "…", above(RECALL.of(ATTENTION), RECALL.of(LSTM)))],
    )
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from bench.config.config import compose
from bench.config.groups import taking_part
from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from bench.search.plan import make_plan
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, UNTRAINED, NoControl, Untrained
from reproduce.claims.grammar import Records, Runs, any_of, setting
from reproduce.drawing.plots import Rows, rows_of
from reproduce.plotting.panels import Picture

Settings = Mapping[str, Any]  # such as {"models.layers": 2, "training.lr": 2e-3}
Words = tuple[str, ...]


@dataclass(frozen=True)
class Planned:
    """Runs of one task that differ in nothing but the model and the seed.

    Attributes:
        models: their names; a sweep without one is over all that take part in its task.
        settings: key -> value, such as ``{"models.layers": 2}``.
        at: preset -> settings that are added there.
        presets: at which they are planned; at every preset where none is named.
    """

    task: str
    models: Sequence[str] = ()
    settings: Settings = field(default_factory=dict)
    at: Mapping[str, Settings] = field(default_factory=dict)
    presets: Sequence[str] = ()

    def settings_at(self, preset: str, **more: Any) -> dict[str, Any]:
        """Task, model and settings of a preset, in the order of a command line."""
        chosen: dict[str, Any] = {"tasks": self.task, **more}
        return {**chosen, **self.settings, **self.at.get(preset, {})}


@dataclass(frozen=True)
class Sweep(Planned):
    """A search for each model, and final runs of the setting that it chooses. How many seeds these
    have, ``"sweep.seeds"``, is left to the user who gives a number.

    Attributes:
        adds_seeds: it adds seeds to another sweep, and has no place where the user gives a number.
    """

    adds_seeds: bool = False

    def words(self, preset: str, seeds: int | None) -> list[Words]:
        """Its command line."""
        models = {"models": self.models[0] if len(self.models) == 1 else self.models}
        settings = self.settings_at(preset, **(models if self.models else {}))
        if seeds is None:
            return [as_words(settings)]
        settings.pop("sweep.seeds", None)
        return [] if self.adds_seeds else [as_words(settings)]


@dataclass(frozen=True)
class OverSeeds(Planned):
    """A run of each model for each seed.

    Attributes:
        seeds: how many, or preset -> how many, where the user gives no number.
        first_seed: the others follow it.
        last: only so many of them are run, the last ones; 0 is all.
        own_data: whether each seed has data of its own, drawn by ``tasks.data_seed``.
    """

    seeds: int | Mapping[str, int] = 1
    first_seed: int = 0
    last: int = 0
    own_data: bool = False

    def words(self, preset: str, seeds: int | None) -> list[Words]:
        """A command line for each model and seed; none where a preset plans no seed."""
        count = self.seeds if isinstance(self.seeds, int) else self.seeds[preset]
        if count and seeds:
            count = seeds
        lines = []
        for model in self.models:
            settings = self.settings_at(preset, models=model)
            for seed in range(self.first_seed, self.first_seed + count)[-self.last :]:
                data = {"tasks.data_seed": seed} if self.own_data else {}
                lines.append(as_words({**settings, "seed": seed, **data}))
        return lines


@dataclass(frozen=True)
class Baselines(Planned):
    """The predictors without training of a task."""

    def words(self, preset: str, seeds: int | None) -> list[Words]:
        """The command line of any model's run of the task."""
        return [as_words(self.settings_at(preset, models=self.models[0]))]


def as_words(settings: Settings) -> Words:
    """Settings as words of a command line: the one place where they become text."""
    return tuple(f"{key}={_text(value)}" for key, value in settings.items())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_text(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    is_bare = isinstance(value, str) and re.fullmatch(r"[\w.]+", value)
    return str(value) if is_bare else json.dumps(value)


@dataclass(frozen=True)
class Plan:
    """What has to be run, as words of the command line without preset, store and number of seeds.

    Attributes:
        runs: for ``bench.train``, each with its seed; the first seeds come first, so that what is
            stopped has whole comparisons.
        baselines: whose tasks' predictors without training are wanted.
        sweeps: for ``bench.sweep``.
    """

    runs: tuple[Words, ...] = ()
    baselines: tuple[Words, ...] = ()
    sweeps: tuple[Words, ...] = ()


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


Selection = Callable[[Records], list[RunRecord]]


@dataclass(frozen=True, eq=False)  # one is itself alone: what its plan costs is looked up by it
class Experiment:
    """A published figure or table.

    Attributes:
        title: what it shows, in our words.
        source: paper, section, figure or table.
        sweeps, runs, baselines: what is run, or a function of the preset that gives it.
        records: those that belong to it, by what holds of one of them; or a function that selects
            them, sorted by run id.
        panels: rows of panels; or a function of the records that draws the picture.
        layout: width, legend and columns of the picture, where ``panels`` are rows.
        variant: settings that the figure tells apart beside models, or a function of a record that
            does: it shows one setting of a model in each.
        check: refuses, by a UserError, a resolved configuration that the figure cannot show.
        varied: settings that the figure chooses itself, such as "models.layers".
        table: the numbers as a Markdown table, where the original is a table.
        note: a line about the records that the console shows, such as their corpus.
        control: of the claims that name none.
    """

    title: str
    source: str
    claims: Sequence[Claim]
    records: Sequence[Runs | Callable[[RunRecord], object]] | Selection
    panels: Rows | Callable[[Records], Picture]
    sweeps: Sequence[Sweep] | Callable[[str], Sequence[Sweep]] = ()
    runs: Sequence[OverSeeds] | Callable[[str], Sequence[OverSeeds]] = ()
    baselines: Sequence[Baselines] = ()
    layout: Mapping[str, Any] = field(default_factory=dict)
    variant: Sequence[str] | Callable[[RunRecord], Hashable] = ()
    check: Callable[[Mapping[str, Any]], object] = lambda config: None
    varied: tuple[str, ...] = ()
    table: Callable[[Records], str] | None = None
    note: Callable[[Records], str] | None = None
    control: Untrained | NoControl = UNTRAINED

    def __post_init__(self) -> None:
        """A claim without a source or a control of its own has that of the figure.

        Raises:
            ValueError: two claims have one name, or one has no control where each has its own.
        """
        claims: dict[str, Claim] = {}
        for claim in self.claims:
            if claim.name in claims:
                raise ValueError(f"two claims are called '{claim.name}': give each its own name")
            if self.control is EACH_ITS_OWN and not claim.control:
                raise ValueError(
                    f"the claim '{claim.name}' names nothing that must fail its test: give it a "
                    "control=..., as every claim of this figure has"
                )
            source, control = claim.source or self.source, claim.control or self.control
            claims[claim.name] = replace(claim, source=source, control=control)
        object.__setattr__(self, "claims", tuple(claims.values()))

    def plan(self, preset: str, seeds: int | None) -> Plan:
        """What is run at a preset; ``seeds`` is how many the user wants, if a number was given."""
        lines: dict[str, list[Words]] = {}
        for part in ("runs", "baselines", "sweeps"):
            planned = getattr(self, part)
            lines[part] = []
            for entry in planned(preset) if callable(planned) else planned:
                if not entry.presets or preset in entry.presets:
                    lines[part] += entry.words(preset, seeds)
        lines["runs"].sort(key=lambda words: next(int(w[5:]) for w in words if w[:5] == "seed="))
        return Plan(*(tuple(lines[part]) for part in ("runs", "baselines", "sweeps")))

    def select(self, records: Records) -> list[RunRecord]:
        """The records that belong to it, sorted by run id."""
        if callable(self.records):
            return self.records(records)
        holds = [part.has if isinstance(part, Runs) else part for part in self.records]
        return any_of(*holds)(records)

    def draw(self, records: Records) -> Picture:
        """The figure as data, whose dump is ``curves.json``."""
        if callable(self.panels):
            return self.panels(records)
        return Picture(self.title, rows_of(self.panels, records), **self.layout)

    def variant_of(self, record: RunRecord) -> Hashable:
        """What tells the runs of one model apart."""
        if callable(self.variant):
            return self.variant(record)
        return repr([setting(record, key) for key in self.variant])

    def cost(self, preset: str) -> str:
        """The runs of a preset's plan and their lengths, in words: "45 runs of 2,000 to 20,000
        steps". Seconds depend on the machine: ``dry_run=true`` measures them there.
        """
        return _cost_of(self, preset)


@cache
def _cost_of(experiment: Experiment, preset: str) -> str:
    with taking_part([]):  # whoever takes part beside the contenders is not of the preset
        plan = experiment.plan(preset, None)
        count, steps = len(plan.runs), _steps(_different(plan.runs, preset))
        for words in plan.sweeps:
            sweep = make_plan([*words, f"preset={preset}"])
            for entry in sweep.entries:
                count += min(entry.settings, sweep.settings.n_trials) + sweep.settings.finals
            steps |= _steps(entry.configuration for entry in sweep.entries)
    if not steps:
        return f"{count:,} runs"
    lengths = " to ".join(f"{number:,}" for number in sorted({min(steps), max(steps)}))
    return f"{count:,} runs of {lengths} steps"


def _different(runs: Iterable[Words], preset: str) -> list[Configuration]:
    """One configuration for all seeds of a setting."""
    settings = {tuple(word for word in words if not word.startswith("seed=")) for words in runs}
    return [compose([*words, f"preset={preset}"]) for words in sorted(settings)]


def _steps(configurations: Iterable[Configuration]) -> set[int]:
    """How long the engine trains them."""
    lengths = set()
    for configuration in configurations:
        if configuration.takes is None and configuration.training.steps:
            lengths.add(configuration.training.steps)
    return lengths
