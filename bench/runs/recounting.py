"""Counting again what a record says of its data and of its model, without training it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from bench.records.command import words_of
from bench.records.counted import Counted
from bench.records.registry import known_model, model_group, names
from bench.records.schema import Cost, RunRecord
from bench.runs.making import count_cost
from bench.training.building import build_task, data_hashes, prepare_data, resolve_device
from bench.training.probe import UnfitModel
from ground.errors import UserError
from ground.progress import Report, silent
from ground.words import word
from settings.config import compose
from settings.settings import Configuration
from tasks.interface import Batch, Task

BATCHES = 8  # of which the tokens and padded positions of a training are estimated


def recount(
    record: RunRecord,
    places: Mapping[str, Any] | None = None,
    trust: str | None = None,
    report: Report = silent,
) -> Counted:
    """What is counted again of a record; a record that asks for what is not here is told why.

    Args:
        places: "tasks.key" -> where its data lie on this machine.
        trust: the package that a model of somebody else may be imported from.
    """
    try:
        configuration, trained = _configuration(record, places or {}, trust)
        prepare_data(configuration, report)
        cost = _cost(configuration, record) if trained else None
        return Counted(run_id=record.run_id, data=data_hashes(configuration), cost=cost)
    except (UserError, UnfitModel) as error:
        return Counted(run_id=record.run_id, refused=str(error))


def _configuration(
    record: RunRecord, places: Mapping[str, Any], trust: str | None
) -> tuple[Configuration, bool]:
    """The configuration of a record, and whether the engine trains its model. Any other model
    stands for one that is not to be imported: the data do not depend on it."""
    words = words_of(record)
    target = str(record.config.get("models", {}).get("_target_"))
    known = known_model(record) is not None
    usable = record.role != "baseline" and (known or target.partition(".")[0] == trust)
    if not usable:
        kept = [w for w in words if not w.startswith(("models", "predictors="))]
        words = [*kept, f"models={names(model_group(record.task))[0]}"]
    words += [word(key, value) for key, value in places.items()]
    configuration = compose(words)
    return configuration, usable and configuration.takes is None


def _cost(configuration: Configuration, record: RunRecord) -> Cost:
    task, steps = build_task(configuration), record.cost.training_steps
    cost = _sizes(configuration.model_copy(update={"seed": 0}))
    some = [_batch(configuration, task, n * steps // BATCHES) for n in range(BATCHES)]
    positions = sum(batch.inputs.shape[0] * batch.inputs.shape[1] for batch in some) / BATCHES
    flops, tokens = cost.training_flops or 0.0, sum(batch.tokens for batch in some) / BATCHES
    counts = {"training_flops": flops * positions * steps, "training_tokens": int(tokens * steps)}
    return cost.model_copy(update={**counts, "training_steps": steps})


def _batch(configuration: Configuration, task: Task, step: int) -> Batch:
    size = configuration.training.batch_size
    return task.training_batch(configuration.seed, step, size)


def _sizes(configuration: Configuration) -> Cost:
    return _sizes_of(configuration.model_dump_json())


@lru_cache(maxsize=64)  # the seeds of a setting have one size
def _sizes_of(text: str) -> Cost:
    configuration = Configuration.model_validate_json(text)
    return count_cost(configuration, build_task(configuration), resolve_device("cpu"))
