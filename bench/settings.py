"""The shape of a resolved configuration; pydantic checks types and ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.records import RunRecord


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class TrainingSettings(_Settings):
    """How a model is trained; the comments in ``bench/config.yaml`` say what each key means."""

    steps: int | None = Field(ge=1)
    epochs: int | None = Field(ge=1)
    batch_size: int = Field(ge=1)
    lr: float = Field(gt=0)
    schedule: Literal["cosine", "cosine_after_warmup", "linear", "constant"]
    warmup_steps: int | None = Field(ge=0)
    warmup_fraction: float = Field(ge=0, le=1)
    initial_lr: float = Field(ge=0)
    minimum_lr_fraction: float = Field(ge=0, le=1)
    weight_decay: float = Field(ge=0)
    weight_decay_on: Literal["matrices", "all"]
    betas: tuple[float, float]
    bias_correction: bool
    gradient_clip: float = Field(ge=0)
    precision: Literal["float32", "bfloat16"]
    validate_every: int | None = Field(ge=1)
    select: Literal["last", "best_validation"]
    restarts: int = Field(ge=1)
    threads: int = Field(ge=1)
    checkpoint_every: int = Field(ge=1)

    @model_validator(mode="after")
    def _needs_a_length(self) -> TrainingSettings:
        if self.steps is None and self.epochs is None:
            raise ValueError("set training.steps, or training.epochs for a task with epochs")
        if not self.bias_correction and self.weight_decay > 0:
            # The rule is a factor on the learning rate, which would scale the decay as well.
            raise ValueError("training.bias_correction=false needs training.weight_decay=0")
        return self


class SweepSettings(_Settings):
    """What ``bench.sweep`` tries for each model."""

    models: list[str]
    search_space: dict[str, list[Any]]
    n_trials: int = Field(ge=1)
    seeds: int = Field(ge=1)
    sampler: Literal["random", "grid", "qmc", "tpe"]
    workers: int = Field(ge=0)
    storage: str


class Configuration(_Settings):
    """Everything that one run or one sweep needs to know.

    ``tasks`` and ``models`` hold ``_target_`` and the constructor arguments, nothing else.
    """

    task: str
    model: str
    label: str
    preset: str
    seed: int = Field(ge=0, lt=2**32)
    device: Literal["auto", "cpu", "cuda"]
    store: Path
    tracking: Literal["none", "mlflow"]
    tasks: dict[str, Any]
    models: dict[str, Any]
    training: TrainingSettings
    sweep: SweepSettings

    def resolved(self) -> dict[str, Any]:
        """What decides the result of a run, as plain JSON; the seed is kept apart."""
        return {
            "tasks": self.tasks,
            "models": self.models,
            "training": self.training.model_dump(mode="json", exclude={"checkpoint_every"}),
        }

    @classmethod
    def from_record(cls, record: RunRecord, store: Path, device: str) -> Configuration:
        """The configuration that made a record, for another look at its weights."""
        return cls.model_validate(
            {
                "task": record.task,
                "model": record.model,
                "label": record.label,
                "preset": record.preset,
                "seed": record.seed,
                "device": device,
                "store": store,
                "tracking": "none",
                "tasks": record.config["tasks"],
                "models": record.config["models"],
                "training": {**record.config["training"], "checkpoint_every": 1},
                "sweep": {
                    "models": [],
                    "search_space": {},
                    "n_trials": 1,
                    "seeds": 1,
                    "sampler": "random",
                    "workers": 0,
                    "storage": "journal",
                },
            }
        )
