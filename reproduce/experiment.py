"""An experiment as data: which runs, which records, how they are drawn, and what is claimed.

Example::

    EXPERIMENT = Experiment(
        "Recall: attention beside an LSTM",
        "an example",
        sweeps=[Sweep("multi_query_recall", ["gpt2", "lstm"], {"tasks.pairs": [4, 8]})],
        records=[ATTENTION, LSTM],
        panels=[Plot("recall", series=[dots("accuracy", [ATTENTION, LSTM])])],
        claims=[Claim("attention recalls more", "…", above(RECALL.of(ATTENTION), RECALL.of(LSTM)))],
    )
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from bench.config.groups import with_guests
from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from bench.search.plan import plan_sweep
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, UNTRAINED, NoControl, Untrained
from reproduce.claims.grammar import Records, Runs, setting
from reproduce.drawing.plots import Rows, rows_of
from reproduce.plotting.panels import Picture

Settings = Mapping[str, Any]  # such as {"models.layers": 2, "training.lr": 2e-3}
SEEDS = ("seed", "tasks.data_seed")  # by which runs of one setting differ


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

    def planned(self, preset: str, seeds: int | None) -> list[dict[str, Any]]:
        """Its settings at a preset; none where ``seeds`` are given to a sweep that adds seeds."""
        models = {"models": self.models[0] if len(self.models) == 1 else list(self.models)}
        settings = self.settings_at(preset, **(models if self.models else {}))
        if seeds is None:
            return [settings]
        settings.pop("sweep.seeds", None)
        return [] if self.adds_seeds else [settings]


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

    def planned(self, preset: str, seeds: int | None) -> list[dict[str, Any]]:
        """The settings of each model and seed; none where a preset plans no seed."""
        count = self.seeds if isinstance(self.seeds, int) else self.seeds[preset]
        if count and seeds:
            count = seeds
        runs = []
        for model in self.models:
            settings = self.settings_at(preset, models=model)
            for seed in range(self.first_seed, self.first_seed + count)[-self.last :]:
                data = {"tasks.data_seed": seed} if self.own_data else {}
                runs.append({**settings, "seed": seed, **data})
        return runs


def over_seeds_of(planned: Iterable[Runs], **options: Any) -> list[OverSeeds]:
    """Each of some runs, of one model, over seeds; ``options`` are those of :class:`OverSeeds`."""
    return [OverSeeds(of.task, [str(of.model)], of.settings, **options) for of in planned]


@dataclass(frozen=True)
class Baselines(Planned):
    """The predictors without training of a task."""

    def planned(self, preset: str, seeds: int | None) -> list[dict[str, Any]]:
        """The settings of any model's run of the task."""
        return [self.settings_at(preset, models=self.models[0])]


@dataclass(frozen=True)
class Plan:
    """What has to be run, as settings by dotted keys without preset, store and number of seeds.

    Attributes:
        runs: for ``bench.train``, each with its seed; the first seeds come first, so that what is
            stopped has whole comparisons.
        baselines: whose tasks' predictors without training are wanted.
        sweeps: for ``bench.sweep``.
    """

    runs: tuple[Settings, ...] = ()
    baselines: tuple[Settings, ...] = ()
    sweeps: tuple[Settings, ...] = ()

    @property
    def first(self) -> Settings:
        """The first of all, whose task is that of the others."""
        return (self.sweeps or self.runs or self.baselines)[0]


def composed(runs: Iterable[Settings]) -> list[Configuration]:
    """The configuration of each run. A setting is composed once, and the runs of its other seeds
    are derived."""
    base_by_setting: dict[str, Configuration] = {}
    configurations = []
    for settings in runs:
        seeds = {key: settings[key] for key in SEEDS if key in settings}
        setting = {key: value for key, value in settings.items() if key not in seeds}
        base = base_by_setting.get(name := repr(setting))
        if base is None:
            base = base_by_setting[name] = Configuration.of({**setting, **seeds})
            base.setting_is_shared()
        configurations.append(base.with_(seeds))
    return configurations


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
        panels: panels beside each other, or rows of them; or a function of the records that draws
            the picture.
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
        settings: dict[str, list[dict[str, Any]]] = {}
        for part in ("runs", "baselines", "sweeps"):
            planned = getattr(self, part)
            settings[part] = []
            for entry in planned(preset) if callable(planned) else planned:
                if not entry.presets or preset in entry.presets:
                    settings[part] += entry.planned(preset, seeds)
        settings["runs"].sort(key=lambda run: run["seed"])
        return Plan(*(tuple(settings[part]) for part in ("runs", "baselines", "sweeps")))

    def select(self, records: Records) -> list[RunRecord]:
        """The records that belong to it, sorted by run id."""
        if callable(self.records):
            return self.records(records)
        holds = [part.has if isinstance(part, Runs) else part for part in self.records]
        tasks = {part.task if isinstance(part, Runs) else "" for part in self.records}
        of_tasks = records if "" in tasks else [r for r in records if r.task in tasks]
        return any_of(*holds)(of_tasks)

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
    with with_guests([]):  # whoever takes part beside the contenders is not of the preset
        plan = experiment.plan(preset, None)
        runs = composed({**settings, "preset": preset} for settings in plan.runs)
        count, steps = len(runs), _steps(runs)
        for settings in plan.sweeps:
            sweep = plan_sweep({**settings, "preset": preset})
            for entry in sweep.entries:
                count += min(entry.settings, sweep.settings.n_trials) + sweep.settings.finals
            steps |= _steps(entry.configuration for entry in sweep.entries)
    if not steps:
        return f"{count:,} runs"
    lengths = " to ".join(f"{number:,}" for number in sorted({min(steps), max(steps)}))
    return f"{count:,} runs of {lengths} steps"


def _steps(configurations: Iterable[Configuration]) -> set[int]:
    """How long the engine trains them."""
    lengths = set()
    for configuration in configurations:
        if configuration.takes is None and configuration.training.steps:
            lengths.add(configuration.training.steps)
    return lengths


def any_of(*belong: Callable[[RunRecord], object]) -> Callable[[Records], list[RunRecord]]:
    """Selects the records of which one of these holds, such as ``Runs.has``, sorted by run id."""

    def select(records: Records) -> list[RunRecord]:
        if len(belong) == 1:
            selected = list(filter(belong[0], records))
        else:
            selected = [record for record in records if any(holds(record) for holds in belong)]
        return sorted(selected, key=lambda record: record.run_id)

    return select
