"""Which settings of a task and a model a proof by rounding compares."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.config.files import group_file
from bench.config.tree import void_settings
from bench.records.equivalence import Code, Config, flat, names
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED

# Of a training: what decides neither the code that a step runs nor the sizes of its tensors.
OF_LENGTH = ("steps", "epochs", "warmup_steps", "warmup_fraction", "validate_every", "restarts")
OF_RATE = ("lr", "minimum_lr_fraction", "initial_lr", "schedule", "select", "weight_decay")
SIZE_PREFIX = "training_"  # of a task's settings: how much data there is to train on
WARMUP_STEPS = 5


@dataclass(frozen=True)
class OlderRun:
    """A committed run by the older code, or by code that is proven equal to it.

    Attributes:
        config: as the older code names it.
    """

    record: RunRecord
    config: Config


def runs_of(task: str, model: str, older: Code, preset: str | None) -> tuple[list[OlderRun], int]:
    """The committed runs of a model that the older code, or equal code, has made; and how many
    committed runs the model has."""
    runs, total = [], 0
    for record in read_records([COMMITTED / task]):
        is_asked = preset in (None, record.preset) and record.role != "baseline"
        if record.model != model or not is_asked:
            continue
        total += 1
        for name in names(Code.of(record.config, record.provenance), record.config):
            if name.code == older:
                runs.append(OlderRun(record, name.config))
                break
    return runs, total


def settings_to_compare(runs: Iterable[OlderRun]) -> list[OlderRun]:
    """The settings that are run: of runs that execute the same code on tensors of the same sizes
    the one with the highest learning rate, at which rounding errors grow fastest."""
    chosen: dict[str, OlderRun] = {}
    for run in runs:
        training = run.config.get("training", {})
        code_settings = {
            "models": run.config.get("models"),
            "tasks": {
                key: value
                for key, value in run.config["tasks"].items()
                if not key.startswith(SIZE_PREFIX) and key != "data_seed"
            },
            "training": {
                key: value for key, value in training.items() if key not in (*OF_LENGTH, *OF_RATE)
            },
        }
        text = json.dumps(code_settings, sort_keys=True)
        other = chosen.get(text)
        if other is None or _order(run) > _order(other):
            chosen[text] = run
    return [*chosen.values()]


def _order(run: OlderRun) -> tuple[bool, float]:
    """A run that went well before one that diverged, then by learning rate."""
    rate = float(run.config.get("training", {}).get("lr") or 0.0)
    return run.record.outcome == "ok", rate


def shortened(config: Config, steps: int) -> dict[str, Any]:
    """The settings of a run by dotted keys, with so many steps, at its own learning rate."""
    short = {"steps": steps, "warmup_steps": WARMUP_STEPS, "epochs": None, "restarts": 1}
    return flat({**config, "training": {**config.get("training", {}), **short}})


def settings_of_run(
    task: str,
    model: str,
    preset: str,
    seed: int,
    values: Mapping[str, Any],
    known: Sequence[set[str]],
) -> dict[str, Any]:
    """The settings of one run by which both sides can be asked for it.

    Args:
        values: dotted key -> value.
        known: the settings that each side has.
    """
    task_settings = {key[6:]: value for key, value in values.items() if key.startswith("tasks.")}
    void = void_settings(values, {**group_file("tasks", task), **task_settings})
    keys = set(values).intersection(*known) - void.keys()
    chosen = {"tasks": task, "models": model, "preset": preset, "seed": seed, "device": "cpu"}
    return {**chosen, **{key: values[key] for key in sorted(keys)}}
