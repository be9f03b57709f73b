"""From a configuration to a run record: found in the store, or trained, evaluated and written."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_weights
from safetensors.torch import save as save_weights
from torch import Tensor, nn

from bench import PROTOCOL_VERSION, provenance
from bench.config import load_class
from bench.errors import RUN_FAILED, UserError
from bench.files import write_atomically
from bench.flops import count_training_flops
from bench.memory import peak_memory
from bench.progress import Report, silent
from bench.records import (
    Cost,
    Curve,
    Headline,
    Outcome,
    Restart,
    Role,
    RunRecord,
    Study,
    make_run_id,
    read_record,
    write_record,
)
from bench.seeding import derive_seed
from bench.settings import Configuration
from bench.store import Store
from bench.training import Diverged, Stopped, TrainingReport
from tasks.interface import Evaluation, Split, Task

FINISHED: tuple[Outcome, ...] = ("ok", "diverged")  # the others are worth another try


@dataclass(frozen=True)
class Identity:
    """What makes a run the same run; the seed is apart."""

    configuration: Configuration
    identity: str
    provenance: provenance.Provenance

    def run_id(self, seed: int) -> str:
        """The name of the run with ``seed``."""
        c = self.configuration
        return make_run_id(c.task, c.model, c.preset, self.identity, seed)


def resolve_device(name: str) -> torch.device:
    """``auto`` is the GPU where there is one.

    Raises:
        UserError: a GPU is asked for and there is none.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("device=cuda, but PyTorch finds no GPU here: use device=auto or device=cpu")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def build_task(configuration: Configuration) -> Task:
    """The task of a configuration; equal settings share one object and so its data."""
    return _build_task(json.dumps(configuration.tasks, sort_keys=True))


@lru_cache(maxsize=4)
def _build_task(text: str) -> Task:
    return _construct(json.loads(text), "tasks")


@lru_cache(maxsize=4)
def _data_hashes(text: str) -> dict[str, str]:
    return _build_task(text).data_hashes()


def build_model(configuration: Configuration, task: Task, seed: int) -> nn.Module:
    """A model with the initial weights of ``seed``."""
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, "initial weights"))
        return _construct(configuration.models, "models", task.specification())


def _construct(node: Mapping[str, Any], group: str, *positional: Any) -> Any:
    arguments = {key: value for key, value in node.items() if key != "_target_"}
    try:
        return load_class(node["_target_"])(*positional, **arguments)
    except (ValueError, TypeError) as error:
        raise UserError(f"{group} ({node['_target_']}): {error}") from error


def identify(configuration: Configuration) -> Identity:
    """The identity of a configuration on this machine; makes the data to hash it."""
    device = resolve_device(configuration.device)
    collected = provenance.collect(
        model_code=provenance.code_hash(configuration.models["_target_"]),
        task_code=provenance.code_hash(configuration.tasks["_target_"]),
        data=_data_hashes(json.dumps(configuration.tasks, sort_keys=True)),
        precision=configuration.training.precision,
        device_class="cpu" if device.type == "cpu" else torch.cuda.get_device_name(device),
        started=datetime.now(UTC),
    )
    content = {
        "config": configuration.resolved(),
        "preset": configuration.preset,
        **_identifying(collected),
    }
    return Identity(configuration, provenance.sha256_of(content), collected)


def _identifying(collected: provenance.Provenance) -> dict[str, Any]:
    names = ("model_code", "task_code", "data", "library_lock", "precision", "device_class")
    fields = {name: getattr(collected, name) for name in names}
    return {**fields, "protocol_version": PROTOCOL_VERSION}


def find(configuration: Configuration, role: Role = "single") -> RunRecord | None:
    """The finished record of exactly this run, if the store holds it.

    Raises:
        UserError: the record is there but was truncated or edited.
    """
    return _find(identify(configuration), role)


def _find(identity: Identity, role: Role) -> RunRecord | None:
    configuration = identity.configuration
    folder = Store(configuration.store).record_folder(role)
    path = folder / f"{identity.run_id(configuration.seed)}.json"
    if not path.exists():
        return None
    record = read_record(path)
    if record.identity != identity.identity or record.seed != configuration.seed:
        raise UserError(f"{path} belongs to another run: delete it and run again", RUN_FAILED)
    return record if record.outcome in FINISHED else None


def obtain(
    configuration: Configuration,
    *,
    role: Role = "single",
    study: Study | None = None,
    report: Report | None = None,
) -> RunRecord:
    """The record of a run: served if identity, seed and role are the same, else made.

    A run that diverges, runs out of memory or fails in the model's code is a record with its
    cause, not an exception. Role "trial" sees the validation split only.

    Raises:
        UserError: a user's mistake, or a record or weights that cannot be trusted.
        KeyboardInterrupt: the run was stopped; its checkpoint is kept.
    """
    identity = identify(configuration)
    found = _find(identity, role)
    if found is not None:
        return found
    store = Store(configuration.store)
    run_id = identity.run_id(configuration.seed)
    with _only_one(store.work(run_id)):
        run = _Run(identity, store, run_id, report or silent)
        record = run.make(role, study)
        path = write_record(record, store.record_folder(role))
    if configuration.tracking == "mlflow":
        from bench.tracking import track

        track(record, path, store)
    return record


@dataclass
class _Trained:
    """What is kept of a training beside the weights."""

    report: TrainingReport
    restarts: list[Restart]
    cost: Cost
    weights_sha256: str


def _read_trained(path: Path) -> _Trained:
    try:
        content = json.loads(path.read_bytes())
        return _Trained(
            TrainingReport(**content["report"]),
            [Restart(**restart) for restart in content["restarts"]],
            Cost(**content["cost"]),
            content["weights_sha256"],
        )
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{path} is truncated or edited: delete the folder {path.parent} and run again",
            RUN_FAILED,
        ) from None


class _Run:
    """One run on its way to a record."""

    def __init__(self, identity: Identity, store: Store, run_id: str, report: Report) -> None:
        self.identity, self.run_id, self.report = identity, run_id, report
        self.configuration = identity.configuration
        self.work = store.work(run_id)
        self.task = build_task(self.configuration)
        self.device = resolve_device(self.configuration.device)
        self.description = f"{self.configuration.label} seed {self.configuration.seed}"

    def make(self, role: Role, study: Study | None) -> RunRecord:
        torch.set_num_threads(self.configuration.training.threads)
        trained: _Trained | None = None
        evaluations: dict[str, Evaluation] = {}
        outcome: Outcome = "ok"
        cause: str | None = None
        with peak_memory(self.device) as memory, torch.random.fork_rng():
            try:
                trained = self._trained()
                model = self._model_with_weights(trained)
                splits: list[Split] = ["validation"] if role == "trial" else ["validation", "test"]
                for split in splits:
                    evaluations[split] = evaluate(self.task, model, split, self.device)
            except UserError:
                raise
            except Stopped:
                raise KeyboardInterrupt from None
            except Diverged as error:
                outcome, cause = "diverged", str(error)
            except Exception as error:
                outcome, cause = self._failure(error)
        return self._record(role, study, trained, evaluations, outcome, cause, memory.peak)

    def _trained(self) -> _Trained:
        summary, weights = self.work / "trained.json", self.work / "weights.safetensors"
        if summary.exists() and weights.exists():
            return _read_trained(summary)
        from bench.loop import fit  # Lightning costs seconds to import; a served record needs none

        settings, seed = self.configuration.training, self.configuration.seed
        cost = self._count_cost(seed)
        tried: list[tuple[int, TrainingReport, dict[str, Tensor]]] = []
        failure: Diverged | None = None
        for k in range(settings.restarts):
            own_seed = seed if k == 0 else derive_seed(seed, "restart", k) % 2**32
            model = build_model(self.configuration, self.task, own_seed)
            suffix = f", start {k + 1} of {settings.restarts}" if settings.restarts > 1 else ""
            try:
                done = fit(
                    model,
                    self.task,
                    settings,
                    seed=own_seed,
                    device=self.device,
                    checkpoint=self.work / f"checkpoint-{k}.pt",
                    description=self.description + suffix,
                    report=self.report,
                )
            except Diverged as error:
                failure = error
                tried.append((own_seed, TrainingReport(), {}))
                continue
            tried.append((own_seed, done, model.state_dict()))
        finished = [k for k, (_, done, _) in enumerate(tried) if done.losses]
        if not finished:
            assert failure is not None
            raise failure
        best = min(finished, key=lambda k: tried[k][1].final_loss())
        restarts = [
            Restart(
                seed=own_seed,
                training_loss=done.final_loss() if done.losses else None,
                kept=k == best,
            )
            for k, (own_seed, done, _) in enumerate(tried)
        ]
        return self._keep_trained(tried[best][1], tried[best][2], restarts, cost, tried)

    def _keep_trained(
        self,
        report: TrainingReport,
        weights: dict[str, Tensor],
        restarts: list[Restart],
        cost: Cost,
        tried: list[tuple[int, TrainingReport, dict[str, Tensor]]],
    ) -> _Trained:
        flops = cost.training_flops
        cost = cost.model_copy(
            update={
                "training_flops": flops and flops * sum(t.padded_positions for _, t, _ in tried),
                "training_tokens": sum(t.tokens for _, t, _ in tried),
                "training_steps": sum(t.steps for _, t, _ in tried),
                "wall_seconds": sum(t.seconds for _, t, _ in tried),
            }
        )
        content = save_weights({k: v.detach().cpu().contiguous() for k, v in weights.items()})
        sha256 = hashlib.sha256(content).hexdigest()
        trained = _Trained(report, restarts if len(restarts) > 1 else [], cost, sha256)
        write_atomically(self.work / "weights.safetensors", content)
        summary = {
            "report": asdict(report),
            "restarts": [restart.model_dump() for restart in trained.restarts],
            "cost": cost.model_dump(),
            "weights_sha256": sha256,
        }
        write_atomically(self.work / "trained.json", json.dumps(summary).encode())
        for checkpoint in self.work.glob("checkpoint-*.pt"):
            checkpoint.unlink()
        return trained

    def _count_cost(self, seed: int) -> Cost:
        """Sizes, and FLOPs for one padded position of a batch (multiplied out at the end)."""
        model = build_model(self.configuration, self.task, seed).to(self.device).train()
        batch = self.task.training_batch(seed, 0, self.configuration.training.batch_size)
        batch = batch.to(self.device)
        flops = count_training_flops(model, batch, self.task.loss)
        length = self.task.specification().maximum_length
        state_bytes = getattr(model, "state_bytes", None)
        return Cost(
            parameters=sum(p.numel() for p in model.parameters()),
            position_parameters=getattr(model, "position_parameters", int)(),
            state_bytes=state_bytes(length) if state_bytes else None,
            state_length=length if state_bytes else None,
            training_flops=flops / (batch.inputs.shape[0] * batch.inputs.shape[1]),
        )

    def _model_with_weights(self, trained: _Trained) -> nn.Module:
        path = self.work / "weights.safetensors"
        model = build_model(self.configuration, self.task, self.configuration.seed)
        model.load_state_dict(read_weights(path, trained.weights_sha256))
        return model.to(self.device).eval()

    def _failure(self, error: Exception) -> tuple[Outcome, str]:
        text = str(error).strip().splitlines()[0] if str(error).strip() else ""
        if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate" in text:
            return "out_of_memory", text or "out of memory"
        if isinstance(error, OSError):
            raise error  # a full disk is no property of the model
        log = self.work / "traceback.txt"
        write_atomically(log, traceback.format_exc().encode())
        return "failed", f"{type(error).__name__}: {text} (details in {log})"

    def _record(
        self,
        role: Role,
        study: Study | None,
        trained: _Trained | None,
        evaluations: dict[str, Evaluation],
        outcome: Outcome,
        cause: str | None,
        peak: int | None,
    ) -> RunRecord:
        configuration = self.configuration
        cost = trained.cost if trained else Cost()
        trials = len(study.trials) if study else 0
        curves: dict[str, Curve] = {}
        if trained:
            done = trained.report
            curves["training_loss"] = Curve(x=_floats(done.loss_steps), y=done.losses)
            curves["validation_loss"] = Curve(
                x=_floats(done.validation_steps), y=done.validation_losses
            )
        fields = measured_fields(self.task, evaluations)
        fields["curves"] = {**curves, **fields["curves"]}
        return RunRecord(
            run_id=self.run_id,
            identity=self.identity.identity,
            seed=configuration.seed,
            task=configuration.task,
            model=configuration.model,
            label=configuration.label,
            preset=configuration.preset,
            role=role,
            outcome=outcome,
            cause=cause,
            config=configuration.resolved(),
            cost=cost.model_copy(update={"tuning_trials": trials, "peak_memory_bytes": peak}),
            restarts=trained.restarts if trained else [],
            study=study,
            provenance=self.identity.provenance,
            weights_sha256=trained.weights_sha256 if trained else None,
            **fields,
        )


def evaluate(task: Task, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
    """The task's protocol on one split, without gradients and dropout."""
    with torch.no_grad():
        return task.evaluate(model.eval(), split, device)


def measured_fields(task: Task, evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Headline, metrics, per-sequence values, curves and arrays of a record. What is not finite is
    left out: a record holds numbers."""
    metrics = {
        split: {k: v for k, v in measured.metrics.items() if math.isfinite(v)}
        for split, measured in evaluations.items()
    }
    last = evaluations.get("test", evaluations.get("validation"))
    value = metrics.get("test", metrics.get("validation", {})).get(task.headline.name)
    return {
        "headline": Headline(
            name=task.headline.name,
            direction=task.headline.direction,
            unit=task.headline.unit,
            value=value,
        ),
        "metrics": metrics,
        "per_sequence": last.per_sequence if last else {},
        "curves": {k: Curve(**v) for k, v in last.curves.items()} if last else {},
        "arrays": last.arrays if last else {},
    }


def read_weights(path: Path, sha256: str | None) -> dict[str, Tensor]:
    """Weights of a record, if they are the ones that it names.

    Raises:
        UserError: the file is missing or is not the one that was saved.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"the weights {path} are missing: train again with the record's command "
            "(delete its record first), or put the file back",
            RUN_FAILED,
        ) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(
            f"the weights {path} are not the ones that the record names (SHA-256 differs): "
            f"delete {path.parent} and the record, then train again",
            RUN_FAILED,
        )
    return load_weights(content)


def obtain_baselines(configuration: Configuration, report: Report | None = None) -> list[RunRecord]:
    """Records of the task's predictors that need no training."""
    task = build_task(configuration)
    store = Store(configuration.store)
    own = configuration.model_copy(
        update={"models": {"_target_": configuration.tasks["_target_"]}, "seed": 0}
    )
    collected = identify(own).provenance
    config = {"tasks": configuration.tasks}
    records = []
    baselines = task.baselines()
    for number, (label, predict) in enumerate(baselines.items()):
        name = "".join(c if c.isalnum() else "_" for c in label.lower())
        content = {
            "baseline": label,
            "config": config,
            "preset": configuration.preset,
            **_identifying(collected),
        }
        identity = provenance.sha256_of(content)
        run_id = make_run_id(configuration.task, name, configuration.preset, identity, 0)
        path = store.records / f"{run_id}.json"
        if path.exists():
            records.append(read_record(path))
            continue
        started = time.perf_counter()
        evaluations = {"validation": predict("validation"), "test": predict("test")}
        record = RunRecord(
            run_id=run_id,
            identity=identity,
            seed=0,
            task=configuration.task,
            model=name,
            label=label,
            preset=configuration.preset,
            role="baseline",
            outcome="ok",
            config=config,
            cost=Cost(wall_seconds=time.perf_counter() - started),
            provenance=collected,
            **measured_fields(task, evaluations),
        )
        write_record(record, store.records)
        records.append(record)
        (report or silent)("predictors without training", number + 1, len(baselines))
    return records


@contextmanager
def _only_one(work: Path) -> Iterator[None]:
    """Refuse to make the same run in two processes at once."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another process is making this very run ({work.name}): wait for it"
            ) from None
        yield


def _floats(values: list[int]) -> list[float]:
    return [float(value) for value in values]
