"""What the words of ``python -m reproduce NAME`` ask for: which plan, with which settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.config.automatic import names_a_sample, text_to_fetch
from bench.config.config import SINGULAR, compose, parse
from bench.config.groups import choices
from bench.config.network import settings_of_task, with_text
from bench.config.seeded import compose_seeded
from bench.search.plan import (
    MAKING,
    SHORT_NAMES,
    checked_device_like,
    guests_in,
    in_full,
    list_models,
    make_plan,
    some_model,
)
from core.errors import UserError, nearest
from core.places import absolute, is_path
from core.privacy import told_word
from core.words import word as quoted_word
from reproduce.experiment import Experiment, Plan, View
from reproduce.plotting.models import look

if TYPE_CHECKING:
    from bench.config.settings import Configuration

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
    """The words of the command line, read; ``passed_on`` are those for every run, ``guests`` the
    models beside those that the figure compares."""

    view: View
    passed_on: tuple[str, ...]
    store: Path
    seeds: int | None
    strict: bool
    records: Path | None
    dry_run: bool
    committed: bool
    guests: tuple[str, ...] = ()
    device_like: str | None = None

    @classmethod
    def read(cls, words: Sequence[str], name: str, experiment: Experiment) -> Request:
        """The request of these words for the figure of this name. A word that nothing here
        understands, or that contradicts another one, raises UserError."""
        words = [list_models(word) for word in words]
        preset = next((w for w in reversed(words) if w.startswith("preset=")), "preset=smoke")
        task = task_keys(experiment, preset)
        own, given = dict(OWN), dict[str, str]()  # of a key that is given twice the last counts
        beside: dict[str, tuple[str, ...]] = {}  # the word -> its guests
        for said, override in zip(words, parse(words), strict=True):
            key, word = override.key_or_group, said
            if key in task and key not in own:  # corpus=local is short for tasks.corpus=local
                key, word = f"tasks.{key}", f"tasks.{word}"
            if key == "models" and (found := guests_in(override.value())):
                # Of a file without its folder: a view is the same wherever it lies.
                beside = {told_word(word): tuple(found)}
                continue
            _refuse_of_the_figure(said, key, name, experiment)
            if key.removeprefix("tasks.") in TEXTS:
                _check_text(said, override.value())
            if key in own:
                own[key] = override.value()
            else:
                given[f"sweep.{key}" if key in SHORT_NAMES else key] = word
        passed_on = tuple(sorted(given.values()))
        places = {f"tasks.{key}" for key, is_place in task.items() if is_place}
        changes = (
            word
            for key, word in given.items()
            if key not in {*EXECUTION, *places} and not _says_whence(word, experiment, preset)
        )
        _check_values(own, passed_on)
        return cls(
            view=View(own["preset"], tuple(sorted([*changes, *beside]))),
            passed_on=passed_on,
            store=absolute(str(own["store"])),
            seeds=own["seeds"],
            strict=own["strict"],
            records=None if own["records"] is None else absolute(str(own["records"])),
            dry_run=own["dry_run"],
            committed=own["committed"],
            guests=next(iter(beside.values()), ()),
            device_like=checked_device_like(own["device_like"], own["dry_run"]),
        )

    @property
    def asks_for_committed(self) -> bool:
        """Whether it asks for a figure as it is committed, and names no place of text."""
        keys = {override.key_or_group for override in parse(self.passed_on)}
        as_committed = self.committed and not self.guests and not self.view.overrides
        elsewhere = self.seeds is not None or self.dry_run
        return as_committed and not elsewhere and not any(f"tasks.{key}" in keys for key in TEXTS)

    def with_text(self, experiment: Experiment) -> Request:
        """With the words for text of the network, where a preset takes what can be had."""
        plan = self.plan(experiment)
        first = next(iter((*plan.sweeps, *plan.runs, *plan.baselines)))
        more = tuple(with_text(first)[len(first) :])
        view = View(self.view.preset, tuple(sorted((*self.view.overrides, *more))))
        return replace(self, view=view, passed_on=(*self.passed_on, *more))

    def plan(self, experiment: Experiment) -> Plan:
        """The reproduction's plan with complete command lines."""
        plan = experiment.plan(self.view.preset, self.seeds)
        preset, store = f"preset={self.view.preset}", quoted_word("store", str(self.store))
        self._check_keys(plan, preset)
        served = f"committed={str(self.committed).lower()}"
        single = [in_full(word, MAKING) for word in self.passed_on]
        seeds = [] if self.seeds is None else [f"sweep.seeds={self.seeds}"]
        made = Plan(
            runs=tuple((*words, preset, store, served, *single) for words in plan.runs),
            baselines=tuple((*words, preset, store, served, *single) for words in plan.baselines),
            sweeps=tuple(
                (*words, *seeds, preset, store, served, *self.passed_on) for words in plan.sweeps
            ),
        )
        if self.guests:
            self._check_guests(made)
        return made

    def _check_guests(self, plan: Plan) -> None:
        """Refuse guests of a figure without contenders, or without the sizes that it varies."""
        seats = [
            (w, e)
            for words in plan.sweeps
            for e in make_plan(words).entries
            if e.guest
            for w in words
        ]
        if not seats:
            raise UserError(
                f"models=+{self.guests[0]} cannot take part: this figure compares models that it "
                "names itself; python -m bench.sweep tasks=TASK models=+MODEL compares any"
            )
        for given, entry in seats:
            if given.startswith("models.") and given not in entry.words:
                name = entry.configuration.label
                raise UserError(
                    f"{name} cannot take part: this figure compares models by "
                    f"{given.partition('=')[0]}, which its constructor does not take"
                )

    def _check_keys(self, plan: Plan, preset: str) -> None:
        """Refuse a word that no run of the plan understands, by the nearest that one does."""
        known = {"device", "tracking", "dry_run", "preset", "records", "seeds", "store", "strict"}
        known |= {"committed", *MAKING, *(f"sweep.{name}" for name in MAKING)}
        known |= set(SHORT_NAMES if plan.sweeps else ())
        sections = ("tasks", "models", "training", *(("sweep",) if plan.sweeps else ()))
        for configuration in _examples(plan, preset):
            look(configuration.model)  # a card that cannot be drawn is refused before the runs
            for section in sections:
                known |= {f"{section}.{key}" for key in dict(getattr(configuration, section))}
        for word in self.passed_on:
            key = parse([word])[0].key_or_group
            if key not in known and ".".join(key.split(".")[:2]) not in known:
                raise UserError(f"there is no setting '{key}' here: {_closest(key, known)}")


def _refuse_of_the_figure(word: str, key: str, name: str, experiment: Experiment) -> None:
    """Refuse what a figure sets itself."""
    refusal = f"'{word}' cannot be chosen here"
    if key in CHOSEN_BY_THE_FIGURE:
        about = "a figure names its own tasks, models and seeds; seeds=N sets how many"
        raise UserError(f"{refusal}: {about}, and models=+MODEL adds a model")
    if key in experiment.varied:
        about = f"{name} sets {key} itself; leave it out, or use it with bench.train"
        raise UserError(f"{refusal}: {about}")


def _says_whence(word: str, experiment: Experiment, preset: str) -> bool:
    """Whether a word names known text for a preset that leaves its text to the machine: it says
    where text is from, and changes no setting."""
    if preset.removeprefix("preset=") not in choices("preset"):
        return False
    plan = experiment.plan(preset.removeprefix("preset="), None)
    task = settings_of_task([*(plan.sweeps or plan.runs or plan.baselines)[0], preset])
    (override,) = parse([word])
    key = override.key_or_group.removeprefix("tasks.")
    return bool(task and text_to_fetch(task) and names_a_sample(task, key, override.value()))


def _check_text(word: str, path: Any) -> None:
    """Refuse text that is not there before anything is planned: a plan reads none."""
    if isinstance(path, str) and is_path(path) and not absolute(path).exists():
        raise UserError(f"'{word}': there is no file or folder {path}: check the path")


def _check_values(own: Mapping[str, Any], passed_on: Sequence[str]) -> None:
    """Refuse what the command's own words cannot be, alone or together."""
    if own["preset"] not in choices("preset"):
        hint = nearest(str(own["preset"]), choices("preset"))
        raise UserError(f"there is no preset '{own['preset']}': {hint}")
    seeds = own["seeds"]
    if seeds is not None and type(seeds) is not int:  # true is none
        raise UserError(f"seeds={seeds} is not a number of seeds, such as seeds=5")
    if seeds is not None and seeds < 1:
        raise UserError(f"seeds={seeds}: at least one seed is needed")
    for key in ("strict", "dry_run", "committed"):
        if not isinstance(own[key], bool):
            raise UserError(f"{key}={own[key]} is neither true nor false")
    if own["records"] is not None and (passed_on or seeds or own["dry_run"]):
        about = [*passed_on, f"seeds={seeds}" if seeds else "dry_run=true"][0]
        raise UserError(f"'{about}' is about runs, but records=… runs nothing: leave one out")


def task_keys(experiment: Experiment, preset: str) -> dict[str, bool]:
    """Settings of the task that the first run of the plan has, and whether they name a place on
    this machine; none where the preset is unknown, which is refused later."""
    if preset.removeprefix("preset=") not in choices("preset"):
        return {}
    plan = experiment.plan(preset.removeprefix("preset="), None)
    first_words = (plan.sweeps or plan.runs or plan.baselines)[0]
    of_task = [word for word in first_words if word.startswith(("tasks=", "tasks."))]
    first = compose_seeded([f"models={some_model(of_task)}", *of_task, preset])
    return {key: key in first.locations for key in first.tasks if key != "_target_"}


def _examples(plan: Plan, preset: str) -> list[Configuration]:
    """The configurations of the first words of each sort: sweeps, runs, predictors."""
    sweeps = [make_plan([*words, preset]) for words in plan.sweeps[:1]]
    single = [compose([*words, preset]) for words in plan.runs[:1] + plan.baselines[:1]]
    return [*(entry.configuration for sweep in sweeps for entry in sweep.entries), *single]


def _closest(key: str, known: Collection[str]) -> str:
    """A clause with one key, however far: all of them would be a screen full."""
    if key in SINGULAR.values():
        plural = next(name for name, one in SINGULAR.items() if one == key)
        return f"it is written {plural}="
    same = sorted(name for name in known if name.rpartition(".")[2] == key)
    usable = sorted(set(known) - set(CHOSEN_BY_THE_FIGURE))
    return f"the nearest is '{(same or get_close_matches(key, usable, n=1, cutoff=0))[0]}'"
