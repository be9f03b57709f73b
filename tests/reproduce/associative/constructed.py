"""Records of measurements whose numbers are given, and the verdicts on them."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from bench.config.settings import Configuration
from bench.records.schema import Curve, RunRecord
from reproduce.experiment import Experiment
from tests.bench.records import make_record


def planned(experiment: Experiment, preset: str = "laptop") -> list[Configuration]:
    """Every run of a plan, with all settings."""
    runs = experiment.plan(preset, None).runs
    return [Configuration.of({**settings, "preset": preset}) for settings in runs]


def measured(
    run: Configuration,
    metrics: Mapping[str, float],
    arrays: Mapping[str, Any] = {},
    curves: Mapping[str, Curve] = {},
) -> RunRecord:
    """The record of a planned run with these numbers."""
    config = run.resolved()
    seeds = ("seed", "data_seed")
    setting = {k: v for k, v in config["tasks"].items() if k not in seeds}
    identity = repr((run.task, run.model, setting, config["models"]))
    return make_record(
        task=run.task,
        model=run.model,
        label=run.model,
        preset="laptop",
        seed=run.seed,
        identity=hashlib.sha256(identity.encode()).hexdigest(),
        config=config,
        metrics={"test": dict(metrics)},
        per_sequence={},
        arrays=dict(arrays),
        curves=dict(curves),
    )


def verdicts(experiment: Experiment, records: Iterable[RunRecord]) -> dict[str, str]:
    """Of each claim, beside its control."""
    selected = experiment.select(list(records))
    return {claim.name: claim.judge(selected).finding.verdict for claim in experiment.claims}
