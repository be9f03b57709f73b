"""A configuration: one typed value that cannot be changed, with checked ways to others."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from bench.config.budgets import BUDGETS, STATE, STATE_BYTES, WIDTH, split, width_for
from bench.config.external import kind_of
from bench.config.files import shared_file
from bench.config.limits import check_counts, check_sizes, infinite_numbers
from bench.config.problems import first_problem_in_a_sentence
from bench.config.sections import ALL_SEEDS as ALL_SEEDS
from bench.config.sections import LARGEST_STACK as LARGEST_STACK
from bench.config.sections import Count as Count
from bench.config.sections import Place as Place
from bench.config.sections import RaySettings as RaySettings
from bench.config.sections import Settings, SweepSettings, TrainingSettings
from bench.config.source_files import class_name, places_of
from bench.config.tree import TARGET, classes_noted, constructor_arguments, tree_of
from core.errors import UserError
from core.places import absolute, absolute_if_path

PLAIN = ("number", "word", "true or false value")  # kinds of a value that holds no others
SECTIONS = ("tasks", "models", "training", "sweep")
# Settings of a training that came after records were published, with the values that leave them out
# of an identity.
LATER = {
    name: field.default
    for name, field in TrainingSettings.model_fields.items()
    if not field.is_required()
}
# Settings of a training that are looked at beside others.
DEPENDENT = ("steps", "epochs", "warmup_steps", "warmup_fraction", "devices")


class Configuration(Settings):
    """Everything that one run or one sweep needs to know.

    ``tasks`` and ``models`` hold ``_target_`` and the constructor arguments, nothing else.

    Attributes:
        store: an absolute path.
        trained_on: the task whose training this task only evaluates in another way; None where a
            task trains its own models.
        takes: the folder below models/ whose models a measurement builds and measures itself; None
            for a task whose models are trained by the engine.
        needs: optional methods of ``models.specification.SequenceModel`` that a model must have for
            this task.
        committed: whether a record of the project's own is served where the store has none.
        locations: arguments of the task that say where data lies on this machine, as absolute
            paths. The data are known by their content, so these are neither in an identity nor in
            a record.
        source_files: where the files lie that classes are named by, as in ``net.py:GRU``. They are
            known by their content as well.
        overrides: dotted key -> value of all that was set over the files. Another way to say the
            same makes no other configuration, so that this is neither compared nor written.
    """

    task: str
    model: str
    label: str
    preset: str
    seed: int = Field(ge=0, lt=2**32)
    device: Literal["auto", "cpu", "cuda"]
    store: Path
    tracking: Literal["none", "mlflow"]
    committed: bool = False
    tasks: dict[str, Any]
    models: dict[str, Any]
    training: TrainingSettings
    sweep: SweepSettings
    takes: str | None = None
    trained_on: str | None = None
    needs: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    source_files: dict[str, Path] = Field(default_factory=dict)
    overrides: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Configuration:
        """The configuration with these settings over those of the files.

        Args:
            settings: dotted key -> value, with "tasks" and "models" among them: ``{"tasks":
                "regbench", "models": "gpt2", "preset": "laptop", "training.lr": 1e-3}``.

        Raises:
            UserError: an unknown task, model, preset or key, or a value that cannot be used.
        """
        settings = classes_noted(settings)
        in_full = settings
        if STATE in settings:
            without = {key: value for key, value in settings.items() if key != STATE}
            if "state" not in cls._of(split(without)[1]).models:
                in_full = {**without, STATE_BYTES: settings[STATE]}
        budget, others = split(in_full)
        if budget is not None:
            others[WIDTH] = width_for(cls._of(others), budget)
        return cls._of(others)._copy(overrides=settings)

    @classmethod
    def _of(cls, settings: Mapping[str, Any]) -> Configuration:
        """As :meth:`of`, where no budget is asked."""
        tree, chosen = tree_of(settings)
        task, model = tree["tasks"], tree["models"]
        name = class_name(model["_target_"])
        with first_problem_in_a_sentence():
            configuration = cls(
                task=chosen["tasks"],
                model=chosen.get("models", name),
                label=model.get("card", {}).get("label", name),
                preset=tree["preset"]["name"],
                tasks=constructor_arguments(task),
                models=constructor_arguments(model),
                takes=task.get("takes"),
                trained_on=task.get("trained_on"),
                needs=task.get("needs", ()),
                locations=task.get("locations", ()),
                source_files=places_of(task["_target_"], model["_target_"]),
                **{k: tree[k] for k in ("seed", "device", "store", "tracking", "committed")},
                training=tree["training"],
                sweep=tree["sweep"],
                overrides=dict(settings),
            )
        if configuration.store.exists() and not configuration.store.is_dir():
            raise UserError(f"store={configuration.store} is a file: the store is a folder")
        return configuration

    def with_(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Configuration:
        """This configuration with other values, each checked as a word of a command line is.

        Args:
            changes: dotted key -> value: ``{"training.lr": 1e-3}``.
            more: the same with _ for the point behind the section: ``training_lr=1e-3, seed=1``.

        Raises:
            UserError: an unknown key, or a value that cannot be used.
        """
        settings = {**(changes or {}), **{_dotted(name): value for name, value in more.items()}}
        if not settings:
            return self
        derived = self._with_independent(settings)
        return derived or Configuration.of({**self.overrides, **settings})

    def _with_independent(self, settings: Mapping[str, Any]) -> Configuration | None:
        """The same where the new values decide nothing else; None where they may, or where one
        cannot be used, which composing everything explains."""
        changed: dict[str, Any] = {"overrides": {**self.overrides, **settings}}
        training: dict[str, Any] = {}
        models: dict[str, Any] = {}
        # Which steps make void.
        by_epochs = "training.epochs" in settings or "training.epochs" in self.overrides
        for key, value in settings.items():
            section, _, name = key.partition(".")
            if key == "seed" and type(value) is int and 0 <= value < 2**32:
                changed["seed"] = value
            elif (
                section == "training"
                and self.takes is None
                and (name not in DEPENDENT or (name == "steps" and not by_epochs))
            ):
                old = getattr(self.training, name, None)
                if name == "steps" and old is None:  # a file has epochs, which steps replace
                    old = 1
                training[name] = _as_kind_of(old, value)
            elif section == "models" and self._models_are_independent and name != "_target_":
                models[name] = _as_kind_of(self.models.get(name), value)
            else:
                return None
        if None in training.values() or None in models.values():
            return None
        try:
            if training:
                changed["training"] = _training_with(self.training, tuple(training.items()))
            if models:
                check_sizes(models)
                check_counts(models, "models")
                changed["models"] = {**self.models, **models}
        except (UserError, ValidationError):
            return None
        return self._copy(**changed)

    @property
    def _models_are_independent(self) -> bool:
        """Whether no setting of the model decides another one: a class from elsewhere may mean
        something else by these names, and a budget finds the width."""
        return not self.overrides.keys() & {TARGET, STATE, *BUDGETS}

    def _copy(self, **changes: Any) -> Configuration:
        """The same with other values, which are known to be right."""
        return self.model_copy(update=changes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Configuration):
            return NotImplemented
        fields = [name for name in Configuration.model_fields if name != "overrides"]
        return all(getattr(self, name) == getattr(other, name) for name in fields)

    @model_validator(mode="before")
    @classmethod
    def _places_are_absolute(cls, values: Any) -> Any:
        """Here, so that the working directory no longer matters to whoever has a configuration."""
        if not isinstance(values, dict) or not isinstance(values.get("tasks"), dict):
            return values  # refused by its fields
        tasks = dict(values["tasks"])
        for name in values.get("locations", ()):
            if name in tasks:
                tasks[name] = absolute_if_path(tasks[name])
        return {**values, "tasks": tasks}

    @field_validator("store", mode="before")
    @classmethod
    def _has_a_name(cls, store: Any) -> Any:
        if store == "":
            raise ValueError("the store needs a name; store=. is the working directory")
        return str(absolute(store)) if isinstance(store, str | Path) else store

    @model_validator(mode="after")
    def _has_a_length_and_finite_numbers(self) -> Configuration:
        lengths = (self.training.steps, self.training.epochs)
        if self.takes is None and lengths == (None, None):
            raise ValueError("set training.steps, or training.epochs for a task with epochs")
        devices, workers = self.training.devices, self.sweep.workers
        placement = "executor=ray" if self.sweep.executor == "ray" else f"workers={workers}"
        # Where each run has one device.
        if devices > 1 and placement not in ("workers=0", "workers=None"):
            raise ValueError(
                f"training.devices={devices} shares one training among processes, and "
                f"{placement} gives each training one: leave one of them out"
            )
        space = self.sweep.search_space
        sections = {"tasks": self.tasks, "models": self.models, "sweep.search_space": space}
        for place, number in infinite_numbers(sections):
            raise ValueError(f"{place}={number} is not finite: give an ordinary number")
        return self

    def of_each_data_seed(self) -> list[Configuration]:
        """The first final run of a sweep for each data seed. No two have a training seed in common:
        what is drawn with it would be the same, and count as new."""
        first, step = int(self.tasks.get("data_seed") or 0), self.sweep.seeds
        of_data_seed = [self]
        for n in range(1, self.sweep.data_seeds):
            seed, data_seed = self.seed + n * step, first + n
            other = self._copy(
                seed=seed,
                tasks={**self.tasks, "data_seed": data_seed},
                overrides={**self.overrides, "seed": seed, "tasks.data_seed": data_seed},
            )
            of_data_seed.append(other)
        return of_data_seed

    def final_runs(self) -> list[Configuration]:
        """All final runs of a sweep at this setting: its seeds, of each data seed."""
        runs = []
        for first in self.of_each_data_seed():
            first.setting_is_shared()
            for number in range(self.sweep.seeds):
                runs.append(first.with_(seed=first.seed + number))
        return runs

    def of_training(self) -> Configuration:
        """The configuration whose training the task evaluates: this one, or that of another task.

        A task with ``trained_on: NAME`` in its YAML file builds on the file of NAME (``defaults:
        [NAME, _self_]``) and has all its arguments, so that the training is the same run.
        """
        name = self.trained_on
        if name is None:
            return self
        trained_task = shared_file("tasks", name)
        arguments = {k: self.tasks[k] for k in constructor_arguments(trained_task)}
        return self.model_copy(
            update={
                "task": name,
                "trained_on": None,
                "needs": tuple(trained_task.get("needs", ())),
                "tasks": {**arguments, "_target_": trained_task["_target_"]},
                "locations": tuple(trained_task.get("locations", ())),
            }
        )

    def resolved(self) -> dict[str, Any]:
        """What decides the result of a run, as plain JSON; the seed is kept apart."""
        return {
            "tasks": self._resolved_task(),
            "models": self.models,
            "training": self._resolved_training(),
        }

    def _resolved_task(self) -> dict[str, Any]:
        return {k: v for k, v in self.tasks.items() if k not in self.locations}

    def _resolved_training(self) -> dict[str, Any]:
        if self.takes is not None:
            return {"threads": self.training.threads}
        training = {}
        for key, value in self.training.__dict__.items():
            if key != "checkpoint_every" and (key not in LATER or value != LATER[key]):
                training[key] = list(value) if isinstance(value, tuple) else value
        return training

    @cached_property
    def setting(self) -> str:
        """:meth:`resolved` as text, equal for equal settings whatever their seed."""
        training = _text(self._resolved_training())
        return f'{{"models": {self.model_text}, "tasks": {self.task_text}, "training": {training}}}'

    @cached_property
    def model_text(self) -> str:
        """The part of :attr:`setting` that is about the model."""
        return _text(self.models)

    @cached_property
    def task_text(self) -> str:
        """The part of :attr:`setting` that is about the task."""
        return _text(self._resolved_task())

    def setting_is_shared(self) -> None:
        """Write :attr:`setting` once for all copies, which take over what is the same in them."""
        _ = self.setting

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Configuration:
        """The same with other values, which are not checked; see :meth:`with_`."""
        copy = super().model_copy(update=update, deep=deep)
        changed = {*(update or ())} - {"seed", "overrides"}
        if changed:
            copy.__dict__.pop("setting", None)
        if "models" in changed:
            copy.__dict__.pop("model_text", None)
        if changed & {"tasks", "locations"}:
            copy.__dict__.pop("task_text", None)
        return copy


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


@lru_cache(maxsize=4096)  # many models are tried at the same rates
def _training_with(
    before: TrainingSettings, changes: tuple[tuple[str, Any], ...]
) -> TrainingSettings:
    """The same with other values, of the kinds that the old ones have."""
    return TrainingSettings.model_validate({**before.__dict__, **dict(changes)})


def _as_kind_of(old: Any, new: Any) -> bool | int | float | str | None:
    """A value that may take the place of another one, as it does then; None where that is not plain
    to see."""
    if kind_of(old) not in PLAIN or kind_of(old) != kind_of(new):
        return None
    if kind_of(new) == "number":
        is_fraction_of_a_count = isinstance(old, int) and isinstance(new, float)
        if is_fraction_of_a_count or not math.isfinite(new):
            return None
        return float(new) if isinstance(old, float) else int(new)
    return bool(new) if isinstance(old, bool) else str(new)


def _dotted(name: str) -> str:
    """The key of a setting that is written as a name of Python: training_lr is training.lr."""
    section, _, rest = name.partition("_")
    return f"{section}.{rest}" if rest and section in SECTIONS else name
