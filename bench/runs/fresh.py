"""Runs and predictors without training that are made here: their data, then the run, its record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench.config.outside_tasks import keep_card
from bench.config.settings import Configuration
from bench.examination.contract.measuring import SPLITS, refuse_unfit_predictor
from bench.records.code import is_own
from bench.records.schema import Cost, Role, RunRecord, Study, write_record
from bench.records.store import Store
from bench.runs.examined import examine_fresh
from bench.runs.making import TrainingRun, only_one
from bench.runs.measuring import MeasuringRun
from bench.runs.recording import Run, measured_fields
from bench.runs.serving import (
    Identity,
    find,
    identify,
    identity_of_predictor,
    note_beginning,
    predictors_of,
    track,
)
from bench.runs.together import together_of
from bench.training.budget import width_for as width_for  # for bench.runs.get_or_run
from bench.training.building import (
    build_task,
    build_to_train,
    data_hashes,
    prepare_data,
    task_or_measurement,
)
from bench.training.mistakes import data_in_sentences
from bench.training.numerics import set_numerics
from bench.training.seeding import kept_random_state
from bench.training.training import Member, Stopped
from bench.training.unfit import UnfitModel
from core.errors import UserError
from core.progress import Report, phase


def make(
    configuration: Configuration, role: Role, study: Study | None, report: Report
) -> tuple[RunRecord, bool]:
    """The record of a run, and whether it was there by the data that were made to name it.

    Raises:
        UserError: as :func:`bench.runs.get_or_run.load_or_run`.
        KeyboardInterrupt: the run was stopped; its checkpoint is kept.
    """
    prepare_data(configuration, report)
    name = f"{configuration.label} seed {configuration.seed}"
    with phase(report, f"{name}: reading the data"):  # which are part of the identity
        identity = identify(configuration)
    note_beginning(identity)
    record = find(identity, role)
    if record is not None:
        track(record, configuration)
        return record, True
    store = Store(configuration.store)
    run_id = identity.run_id(configuration.seed)
    with only_one(store.work(run_id)):
        record = _run(identity, store, report).make(role, study)
        if record.outcome == "diverged" and configuration.trained_on is not None:
            # The cause names the training, which has nothing to evaluate: its record is complete.
            role_of_training: Role = "single" if role == "final" else role
            make(configuration.of_training(), role_of_training, None, report)
        write_record(record, store.record_folder(role))
    track(record, configuration)
    return record, False


def pending_run(configuration: Configuration, role: Role, report: Report) -> TrainingRun | None:
    """The run of a model that the engine trains; None if its record is there."""
    identity = identify(configuration)
    if find(identity, role) is not None:
        return None
    return _training_run(identity, Store(configuration.store), report)


def _run(identity: Identity, store: Store, report: Report) -> Run:
    """The run of a configuration, of the kind that its task makes."""
    if identity.configuration.takes is None:
        return _training_run(identity, store, report)
    run_id = identity.run_id(identity.configuration.seed)
    return MeasuringRun(identity, store.work(run_id), report)


def _training_run(identity: Identity, store: Store, report: Report) -> TrainingRun:
    configuration = identity.configuration
    run_ids = identity.run_ids(configuration.seed, bitwise=True)
    work, *earlier = [store.work(run_id) for run_id in run_ids]
    trained = configuration.of_training()
    training = None
    if trained is not configuration:
        training = _training_run(identify(trained), store, report)
    run = TrainingRun(identity, work, report, training)
    run.inherit(earlier)
    return run


def train_together(runs: Sequence[tuple[Configuration, Role]], report: Report) -> None:
    """Train what is missing of runs of one shape, as far as it can be computed as one. Afterwards
    :func:`make` finds each training at its end, or goes on with it alone.

    Raises:
        UserError: another process makes one of them.
        KeyboardInterrupt: stopped; their checkpoints are kept.
    """
    # Lightning costs a second to import; runs that are there need none.
    from bench.training.stack import fit_together

    with ExitStack() as locks:
        stack: list[tuple[TrainingRun, Member]] = []
        for configuration, role in runs:
            run = pending_run(configuration, role, report)
            if run is None:
                continue
            locks.enter_context(only_one(run.work))
            try:
                member = run.member()
            except UserError:  # its own run says so
                continue
            if member is not None:
                stack.append((run, member))
        # Fewer than were asked, where some have a record: `auto` takes measured numbers alone.
        stack = stack[: together_of(runs[0][0], len(stack))]
        if len(stack) < 2:
            return
        first, member = stack[0]
        try:  # all are of one model
            batch = first.task.training_batch(member.seed, 0, member.settings.batch_size)
            model = member.model.to(first.device)
            examined = examine_fresh(model, first.task, batch.to(first.device), first.configuration)
            if examined.writes or examined.changes:  # by the calls of each model alone
                return
        except UnfitModel:  # each run alone says so, before it is trained
            return
        set_numerics(first.configuration.training.threads)
        text = f"{first.configuration.label}, {len(stack)} trainings together"
        try:
            with kept_random_state(first.device):
                failures = fit_together([m for _, m in stack], first.device, text, report)
                for place, failure in failures.items():
                    stack[place][0].end_diverged(failure)
        except Stopped:
            raise KeyboardInterrupt from None


def make_data(configuration: Configuration, report: Report) -> dict[str, str]:
    """Make what the task keeps on disk; the SHA-256 of each split's content."""
    prepare_data(configuration, report)
    return data_hashes(configuration)


def make_baselines(configuration: Configuration, report: Report) -> list[RunRecord]:
    """Records of the task's predictors that need no training: those that are there, and the others
    made."""
    task = task_or_measurement(configuration)
    prepare_data(configuration, report)
    store = Store(configuration.store)
    store.state_layout()
    predictors = predictors_of(configuration)
    collected = identify(predictors).provenance
    keep_card(configuration.task, configuration.store)
    records = []
    baselines = task.baselines()
    for number, (label, predict) in enumerate(baselines.items()):
        identity = identity_of_predictor(predictors, collected, label)
        record = find(identity, "baseline")
        if record is not None:
            records.append(record)
            continue
        started = time.perf_counter()
        target = configuration.tasks["_target_"]
        with data_in_sentences(target):
            evaluations = {"validation": predict("validation"), "test": predict("test")}
            for split in () if is_own(target) else SPLITS:
                refuse_unfit_predictor(target, label, split, evaluations[split], predict(split))
        record = RunRecord(
            run_id=identity.run_id(0),
            identity=identity.identity,
            seed=0,
            task=configuration.task,
            model=identity.configuration.model,
            label=label,
            preset=configuration.preset,
            role="baseline",
            outcome="ok",
            config={"tasks": configuration.resolved()["tasks"]},
            cost=Cost(wall_seconds=time.perf_counter() - started),
            provenance=collected,
            **measured_fields(task, evaluations, "test"),
        )
        write_record(record, store.records)
        records.append(record)
        report("predictors without training", number + 1, len(baselines))
    return records


def refusal_of(configuration: Configuration) -> UserError | None:
    """Why the model cannot be built so; anything else that stops a run is no trial's failure."""
    if configuration.takes is not None:  # it builds its models itself, and said what was refused
        return None
    task = build_task(configuration)
    try:
        build_to_train(configuration, task, configuration.seed)
    except UserError as error:
        return error
    return None
