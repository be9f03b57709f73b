"""From the settings of a sweep to one entry for each model: its configuration and search space."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.config.budgets import BUDGETS, STATE, STATE_BYTES, WIDTH
from bench.config.command_line import shown
from bench.config.external import (
    OURS,
    defaults_of,
    refuse_what_is_missing,
    without_default,
)
from bench.config.files import copied, models_of
from bench.config.groups import GUEST, choices, record_name, with_guests
from bench.config.search_space import check_space, reach_of
from bench.config.sections import SweepSettings
from bench.config.settings import Configuration
from bench.config.source_files import refuse_files_of_one_name, source_name, use_named
from bench.config.tree import TARGET
from bench.roofline.devices import checked
from core.errors import UserError, nearest

JOURNAL = "journal"  # the storage that is a file in the store
# Settings of a sweep whose names are written without "sweep."; those of MAKING say how its runs are
# made, and change no result.
RAY = ("ray.address", "ray.num_cpus", "ray.num_gpus", "ray.checkpoint_every")
MAKING = ("workers", "executor", "storage", *RAY)
SEARCH = ("n_trials", "extend", "sampler", "choose_over")
SHORT_NAMES = (*SEARCH, "seeds", "data_seeds", "stack", *MAKING)
SPACE = "sweep.search_space"
N_TRIALS, EXTEND = "sweep.n_trials", "sweep.extend"
Settings = dict[str, Any]  # dotted key -> value


@dataclass(frozen=True, eq=False)
class Entry:
    """One model of a sweep.

    Attributes:
        configuration: before anything is searched.
        space: dotted key -> values; only keys that the model has and nobody fixed.
        guest: it takes part beside the contenders, and what it finds changes nothing for them.
    """

    configuration: Configuration
    space: Mapping[str, Sequence[Any]]
    guest: bool = False

    @property
    def name(self) -> str:
        """How a command line names the model."""
        overrides = self.configuration.overrides
        key = TARGET if TARGET in overrides else "models"
        return f"{key}={overrides[key]}"

    @property
    def settings(self) -> int:
        """How many different settings the space holds."""
        return math.prod(len(values) for values in self.space.values())

    def first(self) -> Settings:
        """The first setting of the space."""
        return {key: values[0] for key, values in self.space.items()}

    def check(self) -> None:
        """Try every value of the space once, so that a mistake in the last costs no run.

        Raises:
            UserError: a value that cannot be used.
        """
        first = self.first()
        for key, values in self.space.items():
            for value in values:
                try:
                    self.at({**first, key: value})
                except UserError as error:
                    raise UserError(f"the search space cannot be used: {error}") from None

    def at(self, setting: Mapping[str, Any]) -> Configuration:
        """The configuration with the values of a setting."""
        self.configuration.setting_is_shared()
        return self.configuration.with_(setting)


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep is asked to do; all entries share ``settings``.

    Attributes:
        device_like: the device that a dry run is for; None is this machine, by real steps.
        tries_whole_grid: a person wrote the grid and no number of trials, which is then its size.
    """

    entries: list[Entry]
    settings: SweepSettings
    dry_run: bool
    device_like: str | None = None
    tries_whole_grid: bool = False

    @property
    def runs(self) -> int:
        """Trials and final runs, if every space has as many settings as there are trials."""
        return len(self.entries) * (self.settings.n_trials + self.settings.finals)

    @property
    def grows(self) -> bool:
        """Whether some grid gets more values where a best setting lies on its edge: all settings
        are tried, ``extend`` is above 0, and some key goes on."""
        if any(entry.settings > self.settings.n_trials for entry in self.entries):
            return False
        return any(reach_of(entry.space, self.settings.extend) for entry in self.entries)


def plan_sweep(settings: Mapping[str, Any]) -> SweepPlan:
    """What a sweep of these settings does.

    Args:
        settings: dotted key -> value, of which those of ``SHORT_NAMES`` need no "sweep." before
            them; "models" is one name, a list of them, or missing: then the task lists them.

    Raises:
        UserError: a setting, model, key or search space that cannot be used.
    """
    remaining = full_names(settings)
    _refuse_nearly_dry_run(remaining)
    dry_run = remaining.pop("dry_run", False)
    if not isinstance(dry_run, bool):
        raise UserError(f"dry_run={dry_run} is neither true nor false")
    device_like = checked_device_like(remaining.pop("device_like", None), dry_run)
    chosen, target = remaining.pop("models", None), remaining.pop(TARGET, None)
    of_models: Settings = {}
    shared: Settings = {}
    for key, value in remaining.items():
        (of_models if key.startswith("models.") else shared)[key] = value
    if guests_in(chosen):  # a guest is what is asked about, not those beside it
        shared.setdefault("committed", True)
    names = _names(shared, target or chosen)
    refuse_files_of_one_name(name.removeprefix(GUEST) for name in names)
    # One file may be written in two ways, as ./net.py:Net and net.py:Net.
    without_paths = []
    for name in names:
        mark = GUEST if name.startswith(GUEST) else ""
        without_paths.append(mark + use_named(name.removeprefix(GUEST)))
    names = list(dict.fromkeys(without_paths))
    _refuse_equal_names(names)
    base_by_name = {n: Configuration.of({**_choice(n), **shared}) for n in names}
    of_models = _with_state_in_full(of_models, base_by_name.values())
    entries = [_entry(name, base, of_models, remaining) for name, base in base_by_name.items()]
    _refuse_equal_labels(entries)
    keys = _model_keys(entry.configuration for entry in entries)
    used = {key for entry in entries for key in entry.configuration.overrides}
    for key in sorted(of_models.keys() - used):
        raise UserError(f"no model of this sweep has the setting '{key}': {nearest(key, keys)}")
    first = entries[0].configuration
    _refuse_without_effect(first, remaining)
    space = first.sweep.search_space
    searched = {key for key in space if key.startswith("models.") and key not in BUDGETS}
    if searched - keys and SPACE not in remaining:
        # The task's own space serves all the models that it lists.
        listed = [name for name in _names(shared, None) if not name.startswith(GUEST)]
        keys |= _model_keys(Configuration.of({**_choice(name), **shared}) for name in listed)
    for key in sorted(searched - keys):
        raise UserError(
            f"the search space has the key '{key}', which no model of this sweep has: "
            + nearest(key, keys)
        )
    is_whole = SPACE in remaining and N_TRIALS not in remaining and first.sweep.sampler == "grid"
    if is_whole:
        entries = _with_trials(entries, max(entry.settings for entry in entries))
    sweep = entries[0].configuration.sweep
    return SweepPlan(entries, sweep, dry_run, device_like, is_whole)


def _with_trials(entries: Iterable[Entry], n_trials: int) -> list[Entry]:
    """The same models with another number of trials."""
    of_other_number = []
    for entry in entries:
        configuration = entry.configuration
        if configuration.sweep.n_trials != n_trials:
            configuration = configuration.with_({N_TRIALS: n_trials})
        of_other_number.append(replace(entry, configuration=configuration))
    return of_other_number


def _refuse_nearly_dry_run(settings: Mapping[str, Any]) -> None:
    """Refuse words that mean ``dry_run``, which is no key of a file that a hint could name."""
    for key in settings:
        letters = re.sub("[-_.]", "", key.removeprefix("sweep.")).lower()
        if letters in ("dry", "dryrun") and key != "dry_run":
            raise UserError(f"there is no setting '{key}': did you mean 'dry_run=true'?")


def _refuse_without_effect(first: Configuration, settings: Mapping[str, Any]) -> None:
    """Refuse settings of a cluster without one, and seeds of data that have none."""
    of_ray = next((key for key in settings if key.startswith("sweep.ray.")), None)
    if of_ray and first.sweep.executor != "ray":
        word = shown(of_ray.removeprefix("sweep."), settings[of_ray])
        raise UserError(f"'{word}' is about a Ray cluster: add executor=ray, or leave it out")
    data_seeds = first.sweep.data_seeds
    if data_seeds > 1 and "data_seed" not in first.tasks:
        raise UserError(f"the data of {first.task} have no seed: leave data_seeds={data_seeds} out")


def _with_state_in_full(of_models: Settings, configurations: Iterable[Configuration]) -> Settings:
    """``models.state`` as the budget that it is short for, where it is no setting of any model."""
    if STATE not in of_models or any("state" in c.models for c in configurations):
        return of_models
    return {STATE_BYTES if key == STATE else key: value for key, value in of_models.items()}


def _choice(name: str) -> Settings:
    """The setting that chooses a model; a name with a dot is a class from elsewhere."""
    model = name.removeprefix(GUEST)
    return {TARGET if "." in model else "models": model}


def checked_device_like(name: Any, dry_run: bool) -> str | None:
    """The device that a plan is worked out for, if there is one.

    Raises:
        UserError: no device has that name, or the plan is to be run.
    """
    if name is None:
        return None
    device = checked(name)
    if not dry_run:
        raise UserError(f"device_like={name} is about a plan that is not run: add dry_run=true")
    return device


def _refuse_equal_names(names: Iterable[str]) -> None:
    """Refuse two classes whose results could not be told apart.

    Raises:
        UserError: records would call them by one name.
    """
    first: dict[str, str] = {}
    for name in (marked_name.removeprefix(GUEST) for marked_name in names):
        other = first.setdefault(record_name(name), name)
        if other != name:
            raise UserError(
                f"results of '{name}' could not be told from those of '{other}': give the class "
                "a name of its own"
            )


def _refuse_equal_labels(entries: Sequence[Entry]) -> None:
    """Refuse two classes that say they are called the same.

    Raises:
        UserError: no table could tell them apart.
    """
    first: dict[str, str] = {}
    for entry in entries:
        configuration = entry.configuration
        other = first.setdefault(configuration.label, configuration.model)
        if other != configuration.model:
            raise UserError(
                f"{other} and {configuration.model} both have the label {configuration.label!r}: "
                "give the attribute label of one of them another value"
            )


def _entry(
    name: str, base: Configuration, of_models: Mapping[str, Any], fixed: Container[str]
) -> Entry:
    """One model, with the settings of models that it has, and without the searched keys that are
    fixed."""
    space = base.sweep.search_space
    check_space(space)

    def is_known(key: str) -> bool:
        return not key.startswith("models.") or key in BUDGETS or key.split(".")[1] in base.models

    model_settings = {key: value for key, value in of_models.items() if is_known(key)}
    by_budget = any(key in BUDGETS for key in of_models)
    searched = {}
    for key, values in space.items():
        if is_known(key) and key not in fixed and not (by_budget and key == WIDTH):
            searched[key] = values
    entry = Entry(base.with_(model_settings), searched, name.startswith(GUEST))
    entry.check()
    model = name.removeprefix(GUEST)
    if "." in model and base.takes is None:
        models = entry.at(entry.first()).models
        arguments = {key: value for key, value in models.items() if key != "_target_"}
        refuse_what_is_missing(arguments, model, sizes=1)
    return entry


def warn_of_warmup(configurations: Iterable[Configuration]) -> None:
    """One line on stderr for each kind of training that ends before its warm-up does."""
    notes = (c.training.note_on_warmup for c in configurations if c.takes is None)
    for note in dict.fromkeys(filter(None, notes)):
        print(f"note: {note}", file=sys.stderr)


def warn_of_sizes(configurations: Iterable[Configuration], searched: Container[str] = ()) -> None:
    """One line on stderr for each class from elsewhere whose own defaults a preset replaces.

    Args:
        searched: keys of a search space, which have several values.
    """
    notes = []
    for configuration in configurations:
        target, given = configuration.models["_target_"], configuration.overrides
        if source_name(target) in OURS or any(key in given for key in BUDGETS):
            continue
        kept = []
        required = without_default(target)
        for name, default in defaults_of(target).items():
            key, value = f"models.{name}", configuration.models.get(name)
            is_replaced = value != default and name not in required
            if is_replaced and key not in given and key not in searched:
                kept.append((shown(key, value), shown(key, default)))
        if kept:
            of_preset, of_class = (" ".join(words) for words in zip(*kept, strict=True))
            notes.append(
                f"preset {configuration.preset} gives {configuration.label} {of_preset}; the "
                f"class's own is {of_class}"
            )
    for note in dict.fromkeys(notes):
        print(f"note: {note}", file=sys.stderr)


def full_names(settings: Mapping[str, Any], short: Container[str] = SHORT_NAMES) -> Settings:
    """The settings under their whole names.

    Raises:
        UserError: an unknown setting of a cluster.
    """
    named = {}
    for key, value in settings.items():
        if key.startswith("ray.") and key not in RAY:
            raise UserError(f"there is no setting '{key}': {nearest(key, RAY)}")
        named[f"sweep.{key}" if key in short else key] = copied(value)
    return named


def guests_in(chosen: Any) -> list[str]:
    """The guests of ``models=``, without their marks: of ``+gla`` or a list; none if one of it is
    no guest."""
    names = list(map(str, chosen if isinstance(chosen, list) else [chosen]))
    guests = [name.removeprefix(GUEST) for name in names if name.startswith(GUEST)]
    return guests if len(guests) == len(names) else []


def _names(shared: Mapping[str, Any], chosen: Any) -> list[str]:
    if chosen == "all":
        raise UserError(
            "there is no model 'all': leave models= out to take those that the task lists, "
            'or name them: "models=[a,b]"'
        )
    if beside := guests_in(chosen):  # beside all that the task lists
        with with_guests(beside):
            names = _names(shared, None)
        return list(dict.fromkeys([*names, *(f"{GUEST}{guest}" for guest in beside)]))
    if isinstance(chosen, str):
        return [chosen]
    if chosen is None:
        # Which models a task sweeps does not depend on the model that it is composed with.
        composed = Configuration.of({"models": some_model(shared), **shared})
        return composed.sweep.models or choices(composed.takes or "models")
    if not isinstance(chosen, list) or not chosen or len({*map(str, chosen)}) < len(chosen):
        raise UserError(f'models={chosen} is not a list of different names: "models=[a,b]"')
    return list(map(str, chosen))


def some_model(settings: Mapping[str, Any]) -> str:
    """A model that the task of some settings takes. Any model will do where the task is missing or
    unknown, since composing them then says what is wrong."""
    task = settings.get("tasks")
    return choices(models_of(str(task)) if task in choices("tasks") else "models")[0]


def _model_keys(configurations: Iterable[Configuration]) -> set[str]:
    keys = set[str]()
    for configuration in configurations:
        keys |= {f"models.{key}" for key in configuration.models}
    return keys - {"models._target_"}
