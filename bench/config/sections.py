"""The sections of a configuration; pydantic checks types and ranges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from bench.config.limits import LARGEST_COUNT, LARGEST_THREADS
from bench.config.problems import TRUTH_VALUE
from core.places import absolute, is_server

Place = Annotated[Path, AfterValidator(absolute)]  # of a person's words
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
MomentDecay = Annotated[float, Field(ge=0, lt=1)]


class Settings(BaseModel):
    """Frozen, without unknown keys; numbers are finite and no truth values."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, dict) else ():
            if value is True or value is False:  # pydantic takes them for 1 and 0
                field = cls.model_fields.get(name)
                if field is not None and field.annotation is not bool:
                    sentence = "true and false are no values of it"
                    raise PydanticCustomError(TRUTH_VALUE, sentence, {"field": name})
        return values


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
        match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]/]+):([0-9]{1,5})", value)
        if match is None or not 0 < int(match[2]) <= LARGEST_PORT:
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

    @field_validator("search_space", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        for key, values in value.items() if isinstance(value, dict) else ():
            if not isinstance(values, list | tuple):
                raise ValueError(f"the values of a key are a list in brackets, {key}:[{values}]")
        return value

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
