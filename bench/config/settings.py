"""The shape of a resolved configuration; pydantic checks types and ranges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bench.config.limits import LARGEST_COUNT, LARGEST_THREADS, infinite_numbers
from core.database import is_server
from core.places import absolute, absolute_if_path

Place = Annotated[Path, AfterValidator(absolute)]  # of a person's words
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
MomentDecay = Annotated[float, Field(ge=0, lt=1)]


class Settings(BaseModel):
    """Frozen, without unknown keys; numbers are finite and no truth values."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        if isinstance(value, bool) and field.annotation is not bool:
            raise ValueError("true and false are no values of it")
        return value


class TrainingSettings(Settings):
    """How a model is trained; the comments in ``config.yaml`` say what each key means."""

    steps: Count | None
    epochs: Count | None
    batch_size: Count
    lr: float = Field(gt=0)
    schedule: Literal["cosine", "cosine_after_warmup", "linear", "constant"]
    warmup_steps: int | None = Field(ge=0, le=LARGEST_COUNT)
    warmup_fraction: float = Field(ge=0, le=1)
    initial_lr: float = Field(ge=0)
    minimum_lr_fraction: float = Field(ge=0, le=1)
    weight_decay: float = Field(ge=0)
    weight_decay_on: Literal["matrices", "all"]
    betas: tuple[MomentDecay, MomentDecay]
    bias_correction: bool
    gradient_clip: float = Field(ge=0)
    precision: Literal["float32", "bfloat16"]
    validate_every: Count | None
    select: Literal["last", "best_validation"]
    restarts: Count
    threads: int = Field(ge=1, le=LARGEST_THREADS)
    checkpoint_every: Count
    # Settings that came after records were published have defaults here, and a default is left out
    # of the identity, so that older runs stay the same runs.
    micro_batch_size: Count | None = None
    devices: Count = 1
    compile: bool = False
    pad_to_multiple_of: Count = 1

    @property
    def note_on_warmup(self) -> str | None:
        """A sentence where the training ends before its warm-up does; None where it does not, or
        where the number of steps depends on the data."""
        if self.steps is None or self.warmup_steps is None or self.warmup_steps < self.steps:
            return None
        return (
            f"warmup_steps={self.warmup_steps} of {self.steps} steps: the learning rate never "
            "reaches training.lr; a shorter warm-up is set by training.warmup_steps"
        )

    @model_validator(mode="after")
    def _decay_without_correction(self) -> TrainingSettings:
        if not self.bias_correction and self.weight_decay > 0:
            # The rule is a factor on the learning rate, which would scale the decay as well.
            raise ValueError("training.bias_correction=false needs training.weight_decay=0")
        return self


WORDS_OF_RAY = ("auto", "local")  # in the place of an address
LARGEST_PORT = 65535


class RaySettings(Settings):
    """What runs ask of a Ray cluster; see ``docs/clusters.md``.

    Attributes:
        address: of a cluster to join; None is the one of RAY_ADDRESS, or a new one on this machine.
        num_cpus, num_gpus: of one run; fractions share a device.
        checkpoint_every: seconds after which the driver has a run's last checkpoint.
    """

    address: str | None
    num_cpus: float = Field(ge=0, le=LARGEST_THREADS)
    num_gpus: float = Field(ge=0, le=LARGEST_THREADS)
    checkpoint_every: float = Field(gt=0)

    @field_validator("address")
    @classmethod
    def _a_place(cls, value: str | None) -> str | None:
        if not value or value in WORDS_OF_RAY or value.startswith("ray://"):
            return value
        found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]/]+):([0-9]{1,5})", value)
        if found is None or not 0 < int(found[2]) <= LARGEST_PORT:
            raise ValueError("it is HOST:PORT, such as 10.0.0.1:6379")
        return value

    @field_validator("num_gpus")
    @classmethod
    def _whole_above_one(cls, value: float) -> float:
        if value > 1 and value != int(value):
            raise ValueError("a fraction of one GPU, or whole GPUs")
        return value


LARGEST_STACK = 256
ALL_SEEDS = "all_seeds"  # of sweep.choose_over


class SweepSettings(Settings):
    """What ``bench.sweep`` tries for each model, and where its runs are made."""

    models: list[str]
    search_space: dict[str, list[Any]]
    n_trials: Count
    extend: int = Field(default=0, ge=0, le=20)
    seeds: Count
    data_seeds: Count
    sampler: Literal["random", "grid", "qmc", "tpe"]
    choose_over: Literal["all_seeds", "first_seed"]
    stack: int | Literal["auto"] | None = None
    workers: int | None = Field(default=None, ge=0, le=LARGEST_THREADS)
    executor: Literal["processes", "ray"]
    ray: RaySettings
    storage: str

    @field_validator("stack", mode="before")
    @classmethod
    def _auto_or_a_number(cls, value: object) -> object:
        in_range = isinstance(value, int) and 1 <= value <= LARGEST_STACK
        if value not in (None, "auto") and (isinstance(value, bool) or not in_range):
            raise ValueError(f"auto, or trainings in one stack, 1 to {LARGEST_STACK}")
        return value

    @model_validator(mode="after")
    def _spelt_in_full(self) -> SweepSettings:
        if re.match(r"postgres(\+\w+)?:", self.storage):  # there may be a password in the rest
            raise ValueError(
                "storage=postgres://… cannot be used: the address of a PostgreSQL database begins "
                "with postgresql://"
            )
        return self

    @model_validator(mode="after")
    def _stacks_of_this_driver(self) -> SweepSettings:
        shared = "executor=ray" if self.executor == "ray" else "a storage that drivers share"
        if self.stack is not None and (self.executor == "ray" or is_server(self.storage)):
            raise ValueError(f"sweep.stack={self.stack} does not go with {shared}: leave one out")
        return self

    @property
    def finals(self) -> int:
        """Final runs of each model."""
        return self.seeds * self.data_seeds


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
        elsewhere = "executor=ray" if self.sweep.executor == "ray" else f"workers={workers}"
        # Where each run has one device.
        if devices > 1 and elsewhere not in ("workers=0", "workers=None"):
            raise ValueError(
                f"training.devices={devices} shares one training among processes, and "
                f"{elsewhere} gives each training one: leave one of them out"
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
        others = [
            {"seed": self.seed + n * step, "tasks": {**self.tasks, "data_seed": first + n}}
            for n in range(1, self.sweep.data_seeds)
        ]
        return [self, *(self.model_copy(update=changes) for changes in others)]

    def final_runs(self) -> list[Configuration]:
        """All final runs of a sweep at this setting: its seeds, of each data seed."""
        return [
            first.model_copy(update={"seed": first.seed + n})
            for first in self.of_each_data_seed()
            for n in range(self.sweep.seeds)
        ]

    def resolved(self) -> dict[str, Any]:
        """What decides the result of a run, as plain JSON; the seed is kept apart."""
        training = self.training.model_dump(mode="json", exclude={"checkpoint_every"})
        later = {
            k: f.default for k, f in TrainingSettings.model_fields.items() if not f.is_required()
        }
        kept = {k: v for k, v in training.items() if k not in later or v != later[k]}
        return {
            "tasks": {k: v for k, v in self.tasks.items() if k not in self.locations},
            "models": self.models,
            "training": kept if self.takes is None else {"threads": kept["threads"]},
        }
