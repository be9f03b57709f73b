"""What the words of ``python -m reproduce NAME`` ask for: which plan, with which settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bench.config.automatic import names_a_sample, text_to_fetch
from bench.config.command_line import shown
from bench.config.groups import choices, nearest_choice
from bench.config.network import task_settings, with_available_text
from bench.config.settings import Configuration
from bench.config.tree import SINGULAR
from bench.search.plan import (
    MAKING,
    SHORT_NAMES,
    checked_device_like,
    guests_in,
    plan_sweep,
    some_model,
)
from core.errors import UserError
from core.places import absolute, is_path
from core.privacy import public_word
from reproduce.drawing.frame import View
from reproduce.experiment import Experiment, Plan
from reproduce.plotting.models import look

CHOSEN_BY_THE_FIGURE = ("tasks", "models", "seed", "sweep.models", "sweep.seeds")
# How runs are made, which changes no result: two such views would be one.
EXECUTION = (
    "device",
    "tracking",
    *MAKING,
    *(f"sweep.{name}" for name in MAKING),
    "training.checkpoint_every",
)

# The words of the command itself, and what they are where they are left out.
TEXTS = ("stories", "wiki", "text")  # settings of tasks that name text to be read
OWN: Mapping[str, Any] = {
    "preset": "smoke",
    "store": "runs",
    "seeds": None,
    "strict": False,
    "records": None,
    "dry_run": False,
    "committed": True,
    "device_like": None,
}


@dataclass(frozen=True)
class Request:
    """What a command line asks for.

    Attributes:
        passed_on: the settings of every run.
        typed: each of them as it was written, by its key; a sentence or a name of it says so.
        guests: the models beside those that the figure compares.
    """

    view: View
    passed_on: Mapping[str, Any]
    typed: Mapping[str, str]
    store: Path
    seeds: int | None
    strict: bool
    records: Path | None
    dry_run: bool
    committed: bool
    guests: tuple[str, ...] = ()
    device_like: str | None = None

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any],
        name: str,
        experiment: Experiment,
        typed: Mapping[str, str] | None = None,
    ) -> Request:
        """The request of these settings, by keys of a command line, for the figure of this name.

        Args:
            typed: how a command line has them.

        Raises:
            UserError: a setting that nothing here understands, or that contradicts another one.
        """
        preset = settings.get("preset", OWN["preset"])
        is_place_by_key = task_keys(experiment, preset)
        values, passed_on, typed_by_key = dict(OWN), dict[str, Any](), dict[str, str]()
        guests: list[str] = []
        guests_typed: list[str] = []
        for key, value in settings.items():
            as_typed = (typed or {}).get(key) or shown(key, value)
            if key == "models" and (guests := guests_in(value)):
                # Of a file without its folder: a view is the same wherever it lies.
                guests_typed = [public_word(as_typed)]
                continue
            whole = key
            if key in is_place_by_key and key not in values:
                whole = f"tasks.{key}"  # corpus=local is short for tasks.corpus=local
            _refuse_of_the_figure(as_typed, whole, name, experiment)
            if whole.removeprefix("tasks.") in TEXTS:
                _check_text(as_typed, value)
            if key in values:
                values[key] = value
            else:
                in_full = f"sweep.{whole}" if whole in SHORT_NAMES else whole
                passed_on[in_full] = value
                typed_by_key[in_full] = as_typed if whole == key else f"tasks.{as_typed}"
        unchanging = {*EXECUTION}
        unchanging |= {f"tasks.{key}" for key, is_place in is_place_by_key.items() if is_place}
        changes = []
        for key, as_typed in typed_by_key.items():
            if key in unchanging or _says_whence(key, passed_on[key], experiment, preset):
                continue
            changes.append(as_typed)
        _check_values(values, sorted(typed_by_key.values()))
        return cls(
            view=View(values["preset"], tuple(sorted([*changes, *guests_typed]))),
            passed_on=dict(sorted(passed_on.items())),
            typed=typed_by_key,
            store=absolute(str(values["store"])),
            seeds=values["seeds"],
            strict=values["strict"],
            records=None if values["records"] is None else absolute(str(values["records"])),
            dry_run=values["dry_run"],
            committed=values["committed"],
            guests=tuple(guests),
            device_like=checked_device_like(values["device_like"], values["dry_run"]),
        )

    @property
    def asks_for_committed(self) -> bool:
        """Whether it asks for a figure as it is committed, and names no place of text."""
        as_committed = self.committed and not self.guests and not self.view.overrides
        makes_others = self.seeds is not None or self.dry_run
        has_text = any(f"tasks.{key}" in self.passed_on for key in TEXTS)
        return as_committed and not makes_others and not has_text

    def with_text(self, experiment: Experiment) -> Request:
        """The request with the settings for text of the network, where a preset takes what can be
        had."""
        first = self.plan(experiment).first
        more = {k: v for k, v in with_available_text(first).items() if k not in first}
        overrides = (*self.view.overrides, *(shown(key, value) for key, value in more.items()))
        view = View(self.view.preset, tuple(sorted(overrides)))
        return replace(self, view=view, passed_on={**self.passed_on, **more})

    def plan(self, experiment: Experiment) -> Plan:
        """The experiment's plan with all settings."""
        plan = experiment.plan(self.view.preset, self.seeds)
        self._check_keys(plan)
        places = {"store": str(self.store), "committed": self.committed}
        for_all = {"preset": self.view.preset, **places, **self.passed_on}
        seeds = {} if self.seeds is None else {"sweep.seeds": self.seeds}
        complete = Plan(
            runs=tuple({**settings, **for_all} for settings in plan.runs),
            baselines=tuple({**settings, **for_all} for settings in plan.baselines),
            sweeps=tuple({**settings, **seeds, **for_all} for settings in plan.sweeps),
        )
        if self.guests:
            self._check_guests(complete)
        return complete

    def _check_guests(self, plan: Plan) -> None:
        """Refuse guests of a figure without contenders, or without the sizes that it varies."""
        seats = []
        for settings in plan.sweeps:
            varied = [key for key in settings if key.startswith("models.")]
            guests = [entry for entry in plan_sweep(settings).entries if entry.guest]
            seats += [(entry.configuration, varied) for entry in guests]
        if not seats:
            raise UserError(
                f"models=+{self.guests[0]} cannot take part: this figure compares models that it "
                "names itself; python -m bench.sweep tasks=TASK models=+MODEL compares any"
            )
        for configuration, varied in seats:
            for key in varied:
                if key not in configuration.overrides:
                    raise UserError(
                        f"{configuration.label} cannot take part: this figure compares models by "
                        f"{key}, which its constructor does not take"
                    )

    def _check_keys(self, plan: Plan) -> None:
        """Refuse a setting that no run of the plan understands, by the nearest that one does."""
        keys = {"device", "tracking", "dry_run", "preset", "records", "seeds", "store", "strict"}
        keys |= {"committed", *MAKING, *(f"sweep.{name}" for name in MAKING)}
        keys |= set(SHORT_NAMES if plan.sweeps else ())
        sections = ("tasks", "models", "training", *(("sweep",) if plan.sweeps else ()))
        for configuration in _examples(plan, self.view.preset):
            look(configuration.model)  # a card that cannot be drawn is refused before the runs
            for section in sections:
                keys |= {f"{section}.{key}" for key in dict(getattr(configuration, section))}
        for whole in self.passed_on:
            key = self.typed.get(whole, whole).partition("=")[0]
            if key not in keys and ".".join(key.split(".")[:2]) not in keys:
                raise UserError(f"there is no setting '{key}' here: {_closest(key, keys)}")


def _refuse_of_the_figure(as_typed: str, key: str, name: str, experiment: Experiment) -> None:
    """Refuse what a figure sets itself."""
    refusal = f"'{as_typed}' cannot be chosen here"
    if key in CHOSEN_BY_THE_FIGURE:
        about = "a figure names its own tasks, models and seeds; seeds=N sets how many"
        raise UserError(f"{refusal}: {about}, and models=+MODEL adds a model")
    if key in experiment.varied:
        about = f"{name} sets {key} itself; leave it out, or use it with bench.train"
        raise UserError(f"{refusal}: {about}")


def _says_whence(key: str, value: Any, experiment: Experiment, preset: str) -> bool:
    """Whether a setting names known text for a preset that leaves its text to the machine: it says
    where text is from, and changes no setting."""
    if preset not in choices("preset"):
        return False
    task = task_settings({**experiment.plan(preset, None).first, "preset": preset})
    name = key.removeprefix("tasks.")
    return bool(task and text_to_fetch(task) and names_a_sample(task, name, value))


def _check_text(as_typed: str, path: Any) -> None:
    """Refuse text that is not there before anything is planned: a plan reads none."""
    if isinstance(path, str) and is_path(path) and not absolute(path).exists():
        raise UserError(f"'{as_typed}': there is no file or folder {path}: check the path")


def _check_values(values: Mapping[str, Any], of_runs: Sequence[str]) -> None:
    """Refuse what the command's own words cannot be, alone or together."""
    if values["preset"] not in choices("preset"):
        hint = nearest_choice(str(values["preset"]), choices("preset"), of_your_own=False)
        raise UserError(f"there is no preset '{values['preset']}': {hint}")
    seeds = values["seeds"]
    if seeds is not None and type(seeds) is not int:  # true is none
        raise UserError(f"seeds={seeds} is not a number of seeds, such as seeds=5")
    if seeds is not None and seeds < 1:
        raise UserError(f"seeds={seeds}: at least one seed is needed")
    for key in ("strict", "dry_run", "committed"):
        if not isinstance(values[key], bool):
            raise UserError(f"{key}={values[key]} is neither true nor false")
    if values["records"] is not None and (of_runs or seeds or values["dry_run"]):
        about = [*of_runs, f"seeds={seeds}" if seeds else "dry_run=true"][0]
        raise UserError(f"'{about}' is about runs, but records=… runs nothing: leave one out")


def task_keys(experiment: Experiment, preset: str) -> dict[str, bool]:
    """Settings of the task that the first run of the plan has, and whether they name a place on
    this machine; none where the preset is unknown, which is refused later."""
    if preset not in choices("preset"):
        return {}
    first = experiment.plan(preset, None).first
    of_task = {k: v for k, v in first.items() if k.partition(".")[0] == "tasks"}
    configuration = Configuration.of({"models": some_model(of_task), **of_task, "preset": preset})
    places = configuration.locations
    return {key: key in places for key in configuration.tasks if key != "_target_"}


def _examples(plan: Plan, preset: str) -> list[Configuration]:
    """The configurations of the first settings of each sort: sweeps, runs, predictors."""
    of_preset = {"preset": preset}
    sweeps = [plan_sweep({**settings, **of_preset}) for settings in plan.sweeps[:1]]
    first_settings = (*plan.runs[:1], *plan.baselines[:1])
    single = [Configuration.of({**settings, **of_preset}) for settings in first_settings]
    return [*(entry.configuration for sweep in sweeps for entry in sweep.entries), *single]


def _closest(key: str, keys: Collection[str]) -> str:
    """A clause with one key, however far: all of them would be a screen full."""
    if key in SINGULAR.values():
        plural = next(name for name, singular in SINGULAR.items() if singular == key)
        return f"it is written {plural}="
    same = sorted(name for name in keys if name.rpartition(".")[2] == key)
    usable = sorted(set(keys) - set(CHOSEN_BY_THE_FIGURE))
    return f"the nearest is '{(same or get_close_matches(key, usable, n=1, cutoff=0))[0]}'"
