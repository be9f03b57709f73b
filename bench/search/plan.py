"""From the words of a sweep to one entry for each model: its configuration and search space."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from bench.config.budgets import STATE, STATE_BYTES, is_budget, split, width_for
from bench.config.config import models_of, parse
from bench.config.external import refuse_what_is_missing
from bench.config.groups import GUEST, choices, guests, record_name, taking_part
from bench.config.seeded import compose_seeded
from bench.config.settings import Configuration, SweepSettings, TrainingSettings
from bench.config.source_files import known_places, refuse_files_of_one_name, use_named
from bench.roofline.devices import checked
from core.errors import UserError, nearest
from core.words import word

JOURNAL = "journal"  # the storage that is a file in the store
# Settings of a sweep whose names are written without "sweep."; those of MAKING say how its runs are
# made, and change no result.
RAY = ("ray.address", "ray.num_cpus", "ray.num_gpus", "ray.checkpoint_every")
MAKING = ("workers", "executor", "storage", *RAY)
SEARCH = ("n_trials", "extend", "sampler", "choose_over")
SHORT_NAMES = (*SEARCH, "seeds", "data_seeds", "stack", *MAKING)


@dataclass(frozen=True)
class Entry:
    """One model of a sweep.

    Attributes:
        words: the command line that makes exactly this model's configuration.
        space: dotted key -> values; only keys that the model has and nobody fixed.
        guest: it takes part beside the contenders, and what it finds changes nothing for them.
    """

    words: Sequence[str]
    space: Mapping[str, Sequence[Any]]
    guest: bool = False

    @cached_property
    def configuration(self) -> Configuration:
        """The configuration before anything is searched."""
        return compose_seeded(with_width(self.words))

    @property
    def settings(self) -> int:
        """How many different settings the space holds."""
        return math.prod(len(values) for values in self.space.values())

    def check(self) -> None:
        """Compose with every value of the space once, so that a mistake in the last costs no run.

        Raises:
            UserError: a value that cannot be used.
        """
        first = {key: values[0] for key, values in self.space.items()}
        for key, value in [(key, value) for key, values in self.space.items() for value in values]:
            try:
                self.at({**first, key: value})
            except UserError as error:
                raise UserError(f"the search space cannot be used: {error}") from None

    def at(self, setting: Mapping[str, Any]) -> Configuration:
        """The configuration with the values of a setting."""
        given = [word(key, value) for key, value in setting.items()]
        return compose_seeded(with_width([*self.words, *given]))


@dataclass(frozen=True)
class Plan:
    """What a sweep is asked to do; all entries share ``settings``.

    Attributes:
        device_like: the device that a dry run is for; None is this machine, by real steps.
    """

    entries: list[Entry]
    settings: SweepSettings
    dry_run: bool
    device_like: str | None = None

    def note_on_trials(self) -> str | None:
        """Which search spaces hold fewer settings than the trials asked for."""
        trials = self.settings.n_trials
        small = [entry for entry in self.entries if entry.settings < trials]
        if not small:
            return None
        sizes = sorted({entry.settings for entry in small})
        counts = " or ".join(map(str, sizes)) + (" setting" if sizes == [1] else " settings")
        whose = "" if small == self.entries else f" of {', '.join(e.words[0] for e in small)}"
        return f"n_trials={trials}, but the search space{whose} has only {counts}"


def make_plan(words: Sequence[str]) -> Plan:
    """Read the command line of a sweep.

    Raises:
        UserError: a word, model, key or search space that cannot be used.
    """
    return _made(tuple(words), guests(), known_places(words))


# A figure asks for its sweeps to check, to count, to cost and to run them; who takes part by
# default, and where files of classes lie, are part of what is asked.
@lru_cache(maxsize=512)
def _made(words: Sequence[str], beside: tuple[str, ...], places: tuple[str, ...]) -> Plan:
    by_key = {o.key_or_group: (o.value(), w) for w in map(_in_full, words) for o in parse([w])}
    dry_run, _ = by_key.pop("dry_run", (False, ""))
    if not isinstance(dry_run, bool):
        raise UserError(f"dry_run={dry_run} is neither true nor false")
    device_like, _ = by_key.pop("device_like", (None, ""))
    device_like = checked_device_like(device_like, dry_run)
    chosen, _ = by_key.pop("models", (None, ""))
    target, _ = by_key.pop("models._target_", (None, ""))
    own = {key: word for key, (_, word) in by_key.items() if key.startswith("models.")}
    shared = [word for key, (_, word) in by_key.items() if key not in own]
    if guests_in(chosen) and "committed" not in by_key:
        shared.append("committed=true")  # a guest is what is asked about, not those beside it
    names = _names(shared, target or chosen)
    refuse_files_of_one_name(name.removeprefix(GUEST) for name in names)
    # One file may be written in two ways, as ./net.py:Net and net.py:Net.
    names = list(dict.fromkeys(_with_file_noted(name) for name in names))
    _refuse_equal_names(names)
    own = _with_state_in_full(own, names, shared)
    entries = [_entry(name, own, shared, by_key) for name in names]
    _refuse_equal_labels(entries)
    keys = _model_keys(entry.configuration for entry in entries)
    used = {key for key, word in own.items() if any(word in entry.words for entry in entries)}
    for key in sorted(own.keys() - used):
        raise UserError(f"no model of this sweep has the setting '{key}': {nearest(key, keys)}")
    sweep = entries[0].configuration.sweep
    of_ray = next((word for key, (_, word) in by_key.items() if key.startswith("sweep.ray.")), None)
    if of_ray and sweep.executor != "ray":
        of_ray = of_ray.removeprefix("sweep.")
        raise UserError(f"'{of_ray}' is about a Ray cluster: add executor=ray, or leave it out")
    if sweep.data_seeds > 1 and "data_seed" not in entries[0].configuration.tasks:
        task = entries[0].configuration.task
        raise UserError(f"the data of {task} have no seed: leave data_seeds={sweep.data_seeds} out")
    searched = {
        key for key in sweep.search_space if key.startswith("models.") and not is_budget(key)
    }
    if searched - keys and "sweep.search_space" not in by_key:
        # The task's own space serves all the models that it lists.
        listed = [name for name in _names(shared, None) if not name.startswith(GUEST)]
        keys |= _model_keys(compose_seeded([f"models={name}", *shared]) for name in listed)
    for key in sorted(searched - keys):
        raise UserError(
            f"the search space has the key '{key}', which no model of this sweep has: "
            + nearest(key, keys)
        )
    return Plan(entries, sweep, dry_run, device_like)


def forget_plans() -> None:
    """Plan anew, for a process in which the file of a class was edited."""
    _made.cache_clear()


def with_width(words: Sequence[str]) -> list[str]:
    """The words of a run with ``models.width=W`` in the place of a budget, ``models.parameters=N``
    or ``models.state_bytes=N``, if one is asked.

    Raises:
        UserError: no width meets it, or the model has none.
    """
    in_full = list(words)
    state = next((word for word in words if word.startswith(f"{STATE}=")), None)
    if state is not None:
        others = split([one for one in words if one != state])[1]
        if "state" not in compose_seeded(others).models:
            in_full = [STATE_BYTES + one[len(STATE) :] if one == state else one for one in words]
    asked, others = split(in_full)
    if asked is None:
        return in_full
    return [*others, f"models.width={width_for(compose_seeded(others), asked)}"]


def _with_state_in_full(
    own: Mapping[str, str], names: Sequence[str], shared: Sequence[str]
) -> dict[str, str]:
    """``models.state`` as the budget that it is short for, where it is no setting of any model."""
    if STATE not in own:
        return dict(own)
    composed = (compose_seeded([_choice(name.removeprefix(GUEST)), *shared]) for name in names)
    if any("state" in configuration.models for configuration in composed):
        return dict(own)
    in_full = STATE_BYTES + own[STATE][len(STATE) :]
    return {key: word for key, word in own.items() if key != STATE} | {STATE_BYTES: in_full}


def _choice(name: str) -> str:
    """The word that chooses a model; a name with a dot is a class from elsewhere."""
    return f"models._target_={name}" if "." in name else f"models={name}"


def checked_device_like(name: Any, dry_run: bool) -> str | None:
    """The device that a plan is worked out for, if there is one.

    Raises:
        UserError: no device has that name, or the plan is to be run.
    """
    if name is None:
        return None
    found = checked(name)
    if not dry_run:
        raise UserError(f"device_like={name} is about a plan that is not run: add dry_run=true")
    return found


def _with_file_noted(name: str) -> str:
    """A model of a command line without the path of its file, which is noted."""
    mark = GUEST if name.startswith(GUEST) else ""
    return mark + use_named(name.removeprefix(GUEST))


def _refuse_equal_names(names: Iterable[str]) -> None:
    """Refuse two classes whose results could not be told apart.

    Raises:
        UserError: records would call them by one name.
    """
    first: dict[str, str] = {}
    for name in (one.removeprefix(GUEST) for one in names):
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
    name: str, own: Mapping[str, str], shared: Sequence[str], fixed: Container[str]
) -> Entry:
    """One model, with those of ``own`` that it has and without the keys that are ``fixed``."""
    guest, name = name.startswith(GUEST), name.removeprefix(GUEST)
    choice = _choice(name)
    base = compose_seeded([choice, *shared])
    space = base.sweep.search_space
    _check_space(space)
    known = [
        key
        for key in (*own, *space)
        if not key.startswith("models.") or is_budget(key) or key.split(".")[1] in base.models
    ]
    words = [choice, *shared, *(word for key, word in own.items() if key in known)]
    by_budget = {"models.width"} if any(map(is_budget, own)) else set()
    own_space = {
        key: space[key]
        for key in space
        if key in known and key not in fixed and key not in by_budget
    }
    entry = Entry(words, own_space, guest)
    entry.check()
    if "." in name and base.takes is None:
        first = {key: values[0] for key, values in own_space.items()}
        given = {key: v for key, v in entry.at(first).models.items() if key != "_target_"}
        refuse_what_is_missing(given, name, sizes=1)
    return entry


def warn_of_warmup(configurations: Iterable[Configuration]) -> None:
    """One line on stderr for each kind of training that ends before its warm-up does."""
    notes = (c.training.note_on_warmup for c in configurations if c.takes is None)
    for note in dict.fromkeys(filter(None, notes)):
        print(f"note: {note}", file=sys.stderr)


def list_models(word: str) -> str:
    """``models=a,b`` as the list it means: brackets need quotes in some shells."""
    key, _, value = word.partition("=")
    if key == "models" and "," in value and not value.startswith("["):
        return f"models=[{value}]"
    return word


def in_full(word: str, short: Container[str] = SHORT_NAMES) -> str:
    """The word with the whole name of its setting."""
    return f"sweep.{word}" if word.partition("=")[0] in short else word


def _in_full(word: str) -> str:
    key = word.partition("=")[0]
    if key.startswith("ray.") and key not in RAY:
        raise UserError(f"there is no setting '{key}': {nearest(key, RAY)}")
    return in_full(list_models(word))


def guests_in(chosen: Any) -> list[str]:
    """The guests of ``models=``, without their marks: of ``+gla`` or a list; none if one of it is
    no guest."""
    names = [str(name) for name in (chosen if isinstance(chosen, list) else [chosen])]
    own = [name.removeprefix(GUEST) for name in names if name.startswith(GUEST)]
    return own if len(own) == len(names) else []


def _names(shared: Sequence[str], chosen: Any) -> list[str]:
    if chosen == "all":
        raise UserError(
            "there is no model 'all': leave models= out to take those that the task lists, "
            'or name them: "models=[a,b]"'
        )
    if beside := guests_in(chosen):  # beside all that the task lists
        with taking_part(beside):
            names = _names(shared, None)
        return list(dict.fromkeys([*names, *(f"{GUEST}{guest}" for guest in beside)]))
    if isinstance(chosen, str):
        return [chosen]
    if chosen is None:
        # Which models a task sweeps does not depend on the model that it is composed with.
        composed = compose_seeded([f"models={some_model(shared)}", *shared])
        return composed.sweep.models or choices(composed.takes or "models")
    if not isinstance(chosen, list) or not chosen or len({*map(str, chosen)}) < len(chosen):
        raise UserError(f'models={chosen} is not a list of different names: "models=[a,b]"')
    return [str(name) for name in chosen]


def some_model(words: Sequence[str]) -> str:
    """A model that the task of a command line takes. Any model will do where the task is missing or
    unknown, since ``compose`` then says what is wrong."""
    task = next((w.partition("=")[2] for w in reversed(words) if w.startswith("tasks=")), None)
    return choices(models_of(task) if task in choices("tasks") else "models")[0]


def _model_keys(configurations: Iterable[Configuration]) -> set[str]:
    return {f"models.{key}" for c in configurations for key in c.models if key != "_target_"}


def _check_space(space: Mapping[str, Sequence[Any]]) -> None:
    training = [f"training.{name}" for name in TrainingSettings.model_fields]
    for key, values in space.items():
        if not key.startswith("models.") and key not in training:
            raise UserError(
                f"the search space has the key '{key}', but it may hold models.KEY and "
                f"training.KEY only: {nearest(key, training)}"
            )
        plain = all(v is None or isinstance(v, str | int | float) for v in values)
        if not values or not plain or len({json.dumps(v) for v in values}) < len(values):
            raise UserError(
                f"the search space gives {key} the values {values!r}, but it needs a list of "
                "different numbers, words, true, false or null"
            )
