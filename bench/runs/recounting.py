"""Counting again what a record says of its data and of its model, without training it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

from bench.config.settings import Configuration
from bench.config.source_files import source_name, use_trusted
from bench.records.code import code_hash
from bench.records.command import places_of, settings_of
from bench.records.counted import BATCHES, Counted, contradiction
from bench.records.registry import file_of, known_model, model_group, names
from bench.records.schema import Cost, RunRecord, read_record
from bench.runs.requests import RecountRequest
from bench.runs.sizes import count_cost
from bench.training.building import build_task, data_hashes, prepare_data, resolve_device
from bench.training.unfit import UnfitModel
from core.errors import OK, VERIFICATION_FAILED, UserError
from core.progress import Report, progress, silent


def recount_all(request: RecountRequest) -> int:
    """Count all records again, a line of JSON for each; exit code 0 when all of them say what is
    counted, 4 when one does not."""
    code = OK
    with progress() as report, ExitStack() as opened:
        answers = sys.stdout
        if request.output is not None:
            answers = opened.enter_context(request.output.open("w", encoding="utf-8"))
        for path in request.paths:
            record = read_record(path)
            counted = recount(record, request.places, request.trust, report)
            print(counted.model_dump_json(), file=answers, flush=True)
            if counted.refused or contradiction(record, counted):
                code = VERIFICATION_FAILED
    return code


def recount(
    record: RunRecord,
    places: Mapping[str, Any] | None = None,
    trust: str | None = None,
    report: Report = silent,
) -> Counted:
    """What is counted again of a record; a record that asks for what is not here is told why.

    Args:
        places: "tasks.key" -> where its data lie on this machine.
        trust: the package, or the file, that a model or a task of somebody else may be imported
            from; several with commas between them.
    """
    trust = use_trusted(trust)
    try:
        _refuse_strange_task(record, trust)
        configuration, trained = _configuration(record, places or {}, trust)
        prepare_data(configuration, report)
        cost = _cost(configuration, record) if trained else None
        counted = Counted(run_id=record.run_id, data=data_hashes(configuration), cost=cost)
        return counted.model_copy(update={"uncounted": _stranger(record, trust)})
    except (UserError, UnfitModel) as error:
        return Counted(run_id=record.run_id, refused=str(error))


def _configuration(
    record: RunRecord, places: Mapping[str, Any], trust: str | None
) -> tuple[Configuration, bool]:
    """The configuration of a record, and whether the engine trains its model. Any other model
    stands for one that is not to be imported: the data do not depend on it."""
    settings = settings_of(record)
    usable = record.role != "baseline" and not _stranger(record, trust)
    if not usable:
        of_model = ("models", "predictors")
        settings = {k: v for k, v in settings.items() if k.partition(".")[0] not in of_model}
        settings["models"] = names(model_group(record.task))[0]
    elif known_model(record) is None:
        target = str(record.config["models"]["_target_"])
        if code_hash(target) != record.provenance.model_code:  # it would say nothing of the record
            raise UserError(f"the code of {target:.200} is not that of its provenance.model_code")
    places_of_task = places_of(record)  # records of several tasks are counted in one call
    settings |= {key: value for key, value in places.items() if key in places_of_task}
    configuration = Configuration.of(settings)
    return configuration, usable and configuration.takes is None


def _refuse_strange_task(record: RunRecord, trust: str | None) -> None:
    """Refuse a record whose data only a class of somebody else makes, unless it is trusted and has
    the code that the record names.

    Raises:
        UserError: it is not trusted, or other code.
    """
    if file_of("tasks", record.task) is not None:
        return
    target = str(record.config.get("tasks", {}).get("_target_"))
    if clause := _not_trusted("task", target, trust):
        raise UserError(clause)
    if code_hash(target) != record.provenance.task_code:
        raise UserError(f"the code of {target:.200} is not that of its provenance.task_code")


def _stranger(record: RunRecord, trust: str | None) -> str:
    """Why the model of a record is not made here, in a clause; "" if it is."""
    if record.role == "baseline" or known_model(record) is not None:
        return ""
    return _not_trusted("model", str(record.config.get("models", {}).get("_target_")), trust)


def _not_trusted(what: str, target: str, trust: str | None) -> str:
    """Why a class of somebody else is not imported, in a clause; "" where it is trusted."""
    source = source_name(target)
    if source in (trust or "").split(","):
        return ""
    kind = "file" if source.endswith(".py") else "package"
    return (
        f"its {what} is of the {kind} {source!a:.80}, which is imported only if it is named, here "
        "by trust=, of leaderboards.verify by package= (several: [./net.py,./task.py])"
    )


def _cost(configuration: Configuration, record: RunRecord) -> Cost:
    task, steps = build_task(configuration), record.cost.training_steps
    cost = _sizes_of(configuration.model_copy(update={"seed": 0}).model_dump_json())
    batches = []
    for number in range(BATCHES):
        size, step = configuration.training.batch_size, number * steps // BATCHES
        batches.append(task.training_batch(configuration.seed, step, size))
    positions = sum(batch.inputs.shape[0] * batch.inputs.shape[1] for batch in batches) / BATCHES
    flops, tokens = cost.training_flops or 0.0, sum(batch.tokens for batch in batches) / BATCHES
    counts = {"training_flops": flops * positions * steps, "training_tokens": int(tokens * steps)}
    return cost.model_copy(update={**counts, "training_steps": steps})


@lru_cache(maxsize=64)  # the seeds of a setting have one size
def _sizes_of(text: str) -> Cost:
    configuration = Configuration.model_validate_json(text)
    return count_cost(configuration, build_task(configuration), resolve_device("cpu"))
