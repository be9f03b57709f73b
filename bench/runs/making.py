"""The making of one run of a trained model: train (or go on), keep the weights, evaluate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bench.examination.answers import answers_are_numbers, give_copies
from bench.examination.contract.faults import fault_of_evaluation
from bench.examination.contract.measuring import SPLITS, refuse_unfit_protocol
from bench.examination.examined import Examined
from bench.examination.fresh_process import start_server
from bench.examination.repeatability import examine_configured_model
from bench.examination.splits import refuse_shared_sequences, watched_sequences
from bench.examination.task_data import examine_task_again
from bench.records.code import is_own
from bench.records.identity import Identity
from bench.records.schema import Cost, Curve, Restart, initial_seed
from bench.runs.changed_buffers import changed_numbers
from bench.runs.examined import ExaminedWeights
from bench.runs.recording import Run
from bench.runs.sizes import examined_and_counted
from bench.runs.summaries import DivergedSummary, TrainedSummary, read_summary
from bench.training.building import build_model, build_task, build_to_train
from bench.training.seeding import evaluation_seed, kept_random_state, seed_generators
from bench.training.storage import as_safetensors, load_weights, read_weights
from bench.training.training import Member, TrainingDiverged, TrainingReport, total_steps
from bench.training.unfit import UnfitModel
from core.errors import RUN_FAILED, UserError
from core.files import flush_folder, link, lock, write_atomically, write_sealed
from core.progress import Report
from core.seeding import derive_seed
from tasks.interface import Evaluation, Split, Task

DIVERGED = "diverged.json"  # in the folder of a run, in place of weights
_tried: set[tuple[str, str]] = set()  # settings and code of tasks that can measure a model
_rehearsed: set[tuple[str, str]] = set()  # settings and code of tasks whose evaluation has worked


class _Start(NamedTuple):
    """One start of a training, of which the best is kept; without weights where it diverged."""

    seed: int
    report: TrainingReport
    weights: dict[str, Tensor] | None


def _total_cost(cost: Cost, reports: Iterable[TrainingReport]) -> Cost:
    """What all starts together cost; ``cost.training_flops`` is that of one padded position."""
    total = TrainingReport()
    for report in reports:
        total.padded_positions += report.padded_positions
        total.tokens += report.tokens
        total.steps += report.steps
        total.seconds += report.seconds
        total.together = max(total.together, report.together)
    return cost.model_copy(
        update={
            "training_flops": cost.training_flops and cost.training_flops * total.padded_positions,
            "training_tokens": total.tokens,
            "training_steps": total.steps,
            "wall_seconds": total.seconds,
            "stacked": total.together if total.together > 1 else None,
        }
    )


class TrainingRun(Run):
    """One run of a model that the engine trains on its way to a record.

    Args:
        work: folder of its checkpoint and weights.
        training: the run that trains the model, for a task that only evaluates it.
    """

    def __init__(
        self, identity: Identity, work: Path, report: Report, training: TrainingRun | None = None
    ) -> None:
        super().__init__(identity, work, report)
        self.task: Task = build_task(self.configuration)
        self.training = training
        self.cost = Cost()  # what is known of it if the training fails
        self.unfinished: TrainingReport | None = None
        self.trained: TrainedSummary | None = None
        self.fresh = Examined()
        self.changed_buffers = 0  # numbers in them that the training made others
        self.examined: ExaminedWeights | None = None

    def inherit(self, earlier: Iterable[Path]) -> None:
        """Go on from what the same run, by code that gives the same bytes, left in one of these
        folders."""
        patterns = ("trained.json", "weights.safetensors", DIVERGED, "checkpoint-*.pt")
        for folder in (self.work, *earlier):
            paths = [path for pattern in patterns for path in folder.glob(pattern)]
            for path in paths if folder != self.work else ():
                link(self.work / path.name, path)
            if paths:
                return

    def prepare(self) -> None:
        self.trained = self._trained()
        with self.phase("examining the trained model"):
            self._examine_trained()

    def _examine_trained(self) -> None:
        assert self.trained is not None
        self.model = self._model_with_weights(self.trained)
        trained_by = self.training.task if self.training else self.task
        positions = self.trained.report.padded_positions
        seed = initial_seed(self.trained.restarts, self.configuration.seed)
        self.examined = ExaminedWeights(
            self.model, self.task, trained_by, self.configuration, positions, seed
        )

    def measure(self, split: Split) -> Evaluation:
        watched = self.examined.during_evaluation() if self.examined is not None else nullcontext()
        with self.phase(f"evaluating on {split}"), watched:
            restarts = self.trained.restarts if self.trained else []
            seed = initial_seed(restarts, self.configuration.seed)
            return evaluate(self.task, self.model, split, self.device, seed)

    def conclude(self) -> None:
        runs = [self, *([self.training] if self.training else [])]
        for run in runs:
            if not is_own(run.configuration.tasks["_target_"]):
                steps = total_steps(run.task, run.configuration.training)
                with self.phase("examining the data again"):
                    examine_task_again(
                        run.configuration, run.task, run.identity.provenance.data, steps
                    )

    def spent(self, evaluations: Mapping[str, Evaluation], seconds: float) -> dict[str, Any]:
        """What a record says of the training: of one that ended, or as far as it came."""
        trained = self.trained
        done = trained.report if trained else self.unfinished
        examined, curves = self.examined, {}
        if done:
            curves = {
                "training_loss": _curve(done.loss_steps, done.losses),
                "validation_loss": _curve(done.validation_steps, done.validation_losses),
            }
        return {
            "cost": self._cost_of(trained) if trained else self.cost,
            "curves": curves,
            "restarts": trained.restarts if trained else [],
            "weights_sha256": trained.weights_sha256 if trained else None,
            "examination": examined.record(trained.examined) if examined and trained else None,
        }

    def _cost_of(self, trained: TrainedSummary) -> Cost:
        changed = self.changed_buffers or None
        return trained.cost.model_copy(update={"changed_buffers": changed})

    def _trained(self) -> TrainedSummary:
        summary, weights = self.work / "trained.json", self.work / "weights.safetensors"
        if self.training is not None:
            # Whether this task can measure the model is known before another one trains it.
            build_to_train(self.configuration, self.task, self.configuration.seed)
            self._take_over(self.training)
        if summary.exists() and weights.exists():
            trained = read_summary(summary, TrainedSummary)
            self._drop_checkpoints()  # a kill may have come before
            return trained
        if (self.work / DIVERGED).exists():
            unfinished = read_summary(self.work / DIVERGED, DivergedSummary)
            self.cost, self.unfinished = unfinished.cost, unfinished.report
            self._drop_checkpoints()
            raise TrainingDiverged(unfinished.cause, unfinished.report)
        if not is_own(self.configuration.models["_target_"]):
            start_server()  # it imports what it needs beside what follows
        # Lightning costs seconds to import; a served record needs none.
        from bench.training.loop import fit

        settings, seed = self.configuration.training, self.configuration.seed
        self._try_protocol()
        cost = self.cost = self._count_cost()
        self._examine()
        self._rehearse()
        starts: list[_Start] = []
        failure: TrainingDiverged | None = None
        for k in range(settings.restarts):
            start_seed = seed if k == 0 else derive_seed(seed, "restart", k) % 2**32
            model = build_model(self.configuration, self.task, start_seed)
            if self.fresh.writes:
                give_copies(model)
            suffix = f", start {k + 1} of {settings.restarts}" if settings.restarts > 1 else ""
            try:
                done = fit(
                    model,
                    self.task,
                    settings,
                    seed=start_seed,
                    device=self.device,
                    checkpoint=self.work / f"checkpoint-{k}.pt",
                    description=self.description + suffix,
                    report=self.report,
                )
            except TrainingDiverged as error:
                failure = error
                starts.append(_Start(start_seed, error.report, None))
                continue
            starts.append(_Start(start_seed, done, model.state_dict()))
        reports = [start.report for start in starts]
        finished = [start for start in starts if start.weights is not None]
        if not finished:
            assert failure is not None
            self.cost, self.unfinished = _total_cost(cost, reports), failure.report
            self._keep_diverged(failure)
            raise failure
        best = min(finished, key=lambda start: start.report.final_loss())
        restarts = []
        for start in starts:
            loss = None if start.weights is None else start.report.final_loss()
            restarts.append(Restart(seed=start.seed, training_loss=loss, kept=start is best))
        return self._keep_trained(best, restarts, _total_cost(cost, reports))

    def member(self) -> Member | None:
        """This training for a stack; None where it has ended already.

        Raises:
            UserError: the model refuses its settings.
        """
        ends = (self.work / name for name in ("trained.json", DIVERGED))
        if any(path.exists() for path in ends):
            return None
        configuration = self.configuration
        seed, checkpoint = configuration.seed, self.work / "checkpoint-0.pt"
        model = build_to_train(configuration, self.task, seed)
        try:
            self._try_protocol()
            if self._examine():
                return None  # buffers that training changes are those of one model
            self._rehearse()
        except Exception:  # its own run says so
            return None
        return Member(model, self.task, configuration.training, seed, checkpoint)

    def end_diverged(self, failure: TrainingDiverged) -> None:
        """Keep how it diverged in a stack, for the run that asks for its record."""
        self.cost = _total_cost(self._count_cost(), [failure.report])
        self._keep_diverged(failure)

    def _take_over(self, training: TrainingRun) -> None:
        """Let another run train, and keep its weights here too; a link costs no space."""
        with only_one(training.work):
            try:
                training._trained()
            except TrainingDiverged as error:
                self.cost, self.unfinished = training.cost, training.unfinished
                cause = f"in its training, {training.work.name}: {error}"
                raise TrainingDiverged(cause, error.report) from None
        for name in ("weights.safetensors", "trained.json"):
            link(self.work / name, training.work / name)

    def _keep_trained(self, best: _Start, restarts: list[Restart], cost: Cost) -> TrainedSummary:
        assert best.weights is not None
        content = as_safetensors(best.weights)
        sha256 = hashlib.sha256(content).hexdigest()
        several = restarts if len(restarts) > 1 else []
        trained = TrainedSummary(best.report, several, cost, sha256, [*self.fresh.passed])
        write_atomically(self.work / "weights.safetensors", content)
        summary = {
            "report": asdict(best.report),
            "restarts": [restart.model_dump() for restart in trained.restarts],
            "cost": cost.model_dump(),
            "weights_sha256": sha256,
            "examined": trained.examined,
        }
        write_sealed(self.work / "trained.json", json.dumps(summary).encode())
        self._drop_checkpoints()
        return trained

    def _keep_diverged(self, failure: TrainingDiverged) -> None:
        """Other tasks that this training is for need not try it again."""
        content = {
            "cause": str(failure),
            "report": asdict(failure.report),
            "cost": self.cost.model_dump(),
        }
        write_sealed(self.work / DIVERGED, json.dumps(content).encode())
        self._drop_checkpoints()

    def _drop_checkpoints(self) -> None:
        for checkpoint in self.work.glob("checkpoint-*.pt"):
            checkpoint.unlink()
        flush_folder(self.work)

    def _examine(self) -> tuple[str, ...]:
        """Names of the buffers that training changes, of a model that can be trained, saved and
        made again.

        Raises:
            UnfitModel: it cannot; says why.
        """
        with self.phase("examining the model"):
            return examine_configured_model(self.configuration, self.task, self.device)

    def _try_protocol(self) -> None:
        """Measure a small model of ours by a task of somebody else, whose fault it is if that does
        not go well, which raises a UserError; once in a process for each of its settings."""
        if (key := self._key_of_outside_task()) is None or key in _tried:
            return
        with self.phase("trying the protocol"):
            target = str(self.configuration.tasks["_target_"])
            refuse_unfit_protocol(self.task, target, self.device, self._measure_other)
        _tried.add(key)

    def _rehearse(self) -> None:
        """The same with fresh weights of the model, so that what stops the evaluation, or makes its
        numbers worthless, is known before a training.

        Raises:
            UserError: it lacks what a record needs, or its sequences are those of the training.
        """
        if (key := self._key_of_outside_task()) is None or key in _rehearsed:
            return
        seed, target = self.configuration.seed, str(self.configuration.tasks["_target_"])
        model = build_model(self.configuration, self.task, seed).to(self.device)
        measured_by = []
        try:
            for split in SPLITS:
                with self.phase("rehearsing"), watched_sequences(model) as sequences:
                    evaluation = self._measure_other(model, split)
                measured_by.append(sequences)
                if fault := fault_of_evaluation(evaluation, split, self.task.headline.name):
                    raise UserError(f"tasks ({target}): {fault}")
        except UnfitModel:  # what training can still change is judged when it has
            return
        trained_by = self.training.task if self.training else self.task
        refuse_shared_sequences(trained_by, target, seed, *measured_by)
        _rehearsed.add(key)

    def _key_of_outside_task(self) -> tuple[str, str] | None:
        """Settings and code of a task of somebody else; None for one of this project."""
        settings = self.configuration.tasks
        if is_own(settings["_target_"]):
            return None
        return json.dumps(settings, sort_keys=True), self.identity.provenance.task_code

    def _measure_other(self, model: nn.Module, split: Split) -> Evaluation:
        return evaluate(self.task, model, split, self.device, self.configuration.seed)

    def _count_cost(self) -> Cost:
        with self.phase("counting a step"):
            cost, self.fresh = examined_and_counted(self.configuration, self.task, self.device)
        return cost

    def _model_with_weights(self, trained: TrainedSummary) -> nn.Module:
        path = self.work / "weights.safetensors"
        # What a model draws and no file holds, such as a buffer that is not persistent, is that
        # of the start whose weights were kept.
        seed = initial_seed(trained.restarts, self.configuration.seed)
        model = build_model(self.configuration, self.task, seed)
        weights = read_weights(path, trained.weights_sha256)
        self.changed_buffers = changed_numbers(model, weights)
        load_weights(model, weights, path)
        return model.to(self.device).eval()


@contextmanager
def only_one(work: Path) -> Iterator[None]:
    """Refuse to make the same run in two processes at once."""
    try:
        lock_file = lock(work / "lock")
    except BlockingIOError:
        raise UserError(
            f"another process is making this very run ({work.name}): wait for it", RUN_FAILED
        ) from None
    with lock_file:
        yield


def evaluate(
    task: Task, model: nn.Module, split: Split, device: torch.device, seed: int
) -> Evaluation:
    """The task's protocol on one split, without gradients and dropout.

    Args:
        seed: of the initial weights; a model that draws as it is evaluated draws the same each
            time, as it did for the curve of validation.

    Raises:
        UnfitModel: an output on the way is no number.
    """
    with torch.no_grad(), kept_random_state(device), answers_are_numbers(model):
        seed_generators(evaluation_seed(seed, split), device)
        return task.evaluate(model.eval(), split, device)


def _curve(steps: list[int], losses: list[float]) -> Curve:
    return Curve(x=[float(step) for step in steps], y=losses)
