"""Records as the engine writes them, with plausible numbers, and a board made from them."""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bench.records.schema import (
    Cost,
    Curve,
    Headline,
    Outcome,
    Provenance,
    Role,
    RunRecord,
    Study,
    Trial,
    make_run_id,
    read_record,
)
from leaderboards.contents import Board, Row
from tests.committed import committed_paths

MakeRecord = Callable[..., RunRecord]


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def tuned(rates: Sequence[float] = (1e-4, 5e-4, 2e-3), **changes: Any) -> Study:
    """A search in which the rate of every record here, 5e-4, was best."""
    trials = [
        Trial(
            number=number,
            parameters={"training.lr": rate},
            value=0.9 if rate == 5e-4 else 0.5,
            outcome="ok",
        )
        for number, rate in enumerate(rates)
    ]
    fields: dict[str, Any] = {
        "name": "a-search",
        "sampler": "grid, in order",
        "optuna": "4.5.0",
        "search_space": {"training.lr": list(rates)},
        "selected_by": "accuracy on validation",
        "trials": trials,
    }
    return Study(**(fields | changes))


def as_searched(runs: list[RunRecord]) -> list[RunRecord]:
    """Finals of one model over seeds, with a search that saw on validation what the first has."""
    best = runs[0].metrics["validation"]["accuracy"]
    changed = []
    for run in runs:
        assert run.study is not None
        highest = max(trial.value or 0.0 for trial in run.study.trials)
        trials = [
            trial.model_copy(update={"value": best if trial.value == highest else best / 2})
            for trial in run.study.trials
        ]
        study = run.study.model_copy(update={"trials": trials})
        changed.append(run.model_copy(update={"study": study}))
    return changed


def record(
    model: str = "memory_mosaic",
    label: str = "Memory Mosaic",
    seed: int = 0,
    accuracy: float | None = 0.93,
    *,
    task: str = "regbench",
    preset: str = "smoke",
    size: int = 100,
    width: int = 64,
    role: Role = "single",
    outcome: Outcome = "ok",
    cause: str | None = None,
    validation_loss: float = 1.0,
    trials: int = 0,
    task_settings: dict[str, Any] | None = None,
    **changes: Any,
) -> RunRecord:
    tasks = {"_target_": "tasks.regbench.RegBench", "training_automata": size}
    tasks |= task_settings or {}
    config: dict[str, Any] = {"tasks": tasks}
    if role != "baseline":
        config["models"] = {"_target_": f"models.{model}.Model", "width": width, "layers": 2}
        config["training"] = {"steps": 800, "lr": 5e-4, "batch_size": 32}
    identity = digest(model, preset, config)
    ended_well = outcome == "ok" and accuracy is not None
    metrics = {}
    curves = {}
    if ended_well:
        tvd = round(0.9 * (1 - accuracy) + 0.1, 6)
        metrics = {
            "validation": {"loss": validation_loss, "accuracy": accuracy - 0.01},
            "test": {"accuracy": accuracy, "tvd": tvd, "loss": validation_loss + 0.02},
        }
        position = [float(n) for n in range(0, 300, 3)]
        curves = {
            "accuracy_by_position": Curve(
                x=position, y=[accuracy * (1 - 0.6 * math.exp(-p / 40)) for p in position]
            ),
            "training_loss": Curve(x=[1.0, 400.0, 800.0], y=[2.9, 1.2, validation_loss]),
        }
    if ended_well and role != "baseline":
        steps, late = [200.0, 400.0, 600.0, 640.0, 800.0], validation_loss + 0.001
        losses = [2.0, 1.5, late, late, validation_loss]
        curves["validation_loss"] = Curve(x=steps, y=losses)
    fields: dict[str, Any] = {
        "run_id": make_run_id(task, model, preset, identity, seed),
        "identity": identity,
        "seed": seed,
        "task": task,
        "model": model,
        "label": label,
        "preset": preset,
        "role": role,
        "outcome": outcome,
        "cause": cause,
        "headline": Headline(
            name="accuracy", direction="maximise", value=accuracy if ended_well else None
        ),
        "metrics": metrics,
        "curves": curves,
        "config": config,
        "cost": Cost(
            parameters=0 if role == "baseline" else 12 * width * width * 2,
            position_parameters=512 * width if model == "gpt2" else 0,
            state_bytes=4 * 2 * 1024 * width,
            state_length=512,
            training_flops=3.2e12 * width,
            training_tokens=9_472_000,
            training_steps=800,
            tuning_trials=trials,
            wall_seconds=41.5 + seed,
            peak_memory_bytes=300 * 2**20,
        ),
        "provenance": Provenance(
            model_code=digest("code", model),
            task_code=digest("code", task),
            data={split: digest(split, tasks) for split in ("train", "validation", "test")},
            library_lock=digest("lock"),
            libraries={"lightning": "2.6.6", "numpy": "2.4.6", "torch": "2.13.0"},
            precision="float32",
            device_class="cpu",
            protocol_version=1,
            device="Some Processor 3000",
            platform="Linux",
            python="3.11.7",
            commit="0123456789abcdef0123456789abcdef01234567",
            dirty=False,
            command=f"python -m bench.train tasks={task} models={model} seed={seed}",
            started_at="2026-08-01T10:00:00+00:00",
        ),
        "study": None if role == "baseline" else tuned(),
        "weights_sha256": None if role == "baseline" else digest("weights", identity, seed),
    }
    return RunRecord(**(fields | changes))


@pytest.fixture(scope="session")
def honest() -> list[RunRecord]:
    """Three seeds of a tuned model, as they were committed: what they say can be worked out."""
    found = committed_paths("regbench/smoke/regbench-gpt2-*-s?")
    finals = [one for one in map(read_record, found) if one.role == "final"]
    return [one for one in finals if one.identity == finals[0].identity]


@pytest.fixture(name="make_record")
def _make_record() -> MakeRecord:
    return record


@pytest.fixture
def sample_records() -> list[RunRecord]:
    """The records of :func:`samples`."""
    return samples()


def samples() -> list[RunRecord]:
    """Three sizes, two models that differ and two that do not, failures, trials, references."""
    records = []
    levels = {
        ("memory_mosaic", "Memory Mosaic"): (0.925, 0.934, 0.941),
        ("gpt2", "GPT2"): (0.523, 0.533, 0.925),
        ("lstm", "LSTM"): (0.508, 0.531, 0.628),
    }
    for (model, label), means in levels.items():
        for size, mean in zip((100, 1000, 2500), means, strict=True):
            for seed, offset in enumerate((-0.012, 0.003, 0.009)):
                records.append(
                    record(model, label, seed, mean + offset, size=size, trials=8, role="final")
                )
    records.append(record("mamba", "Mamba", 0, 0.6, trials=8))
    records.append(record("lstm", "LSTM", 0, 0.99, width=32, role="trial"))
    for seed, outcome in enumerate(("ok", "diverged", "ok")):
        cause = "loss is not finite at step 12" if outcome == "diverged" else None
        records.append(record("rwkv", "RWKV", seed, 0.45, outcome=outcome, cause=cause))
    records.append(
        record("hyena", "Hyena", 0, None, outcome="out_of_memory", cause="12 GiB were asked for")
    )
    records.append(record("3_gram", "3-gram", 0, 0.931, role="baseline"))
    return records


def find(board: Board, metric: str = "accuracy", **wanted: object) -> list[Row]:
    """The rows of a board that are wanted."""
    return [
        row
        for row in board.rows
        if row.metric == metric and all(getattr(row, k) == v for k, v in wanted.items())
    ]
