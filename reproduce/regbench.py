"""What figure 9 and table 3 share: sweeps on RegBench, their records by model and size, published
numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bench.claims import Finding, difference_above, every
from bench.config import ROOT
from bench.observations import Sample, observe
from bench.records import RunRecord
from bench.statistics import Mean, mean_interval
from reproduce.style import BLUE, GREEN, ORANGE, PURPLE, VERMILLION

if TYPE_CHECKING:
    from leaderboards.published import PublishedFile

PAPER = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394)"
MOSAIC = "memory_mosaic"
BASELINES = ("gpt2", "mamba", "s4d", "lstm")
MODELS = (MOSAIC, *BASELINES)
LABELS = {MOSAIC: "Memory Mosaic", "gpt2": "GPT2", "mamba": "Mamba", "s4d": "S4D", "lstm": "LSTM"}
PUBLISHED_LABELS = {**LABELS, "gpt2": "Transformer", "s4d": "S4"}
COLOURS = {MOSAIC: BLUE, "gpt2": VERMILLION, "mamba": GREEN, "s4d": PURPLE, "lstm": ORANGE}
METRICS = {"accuracy": "accuracy", "tvd": "total variation distance"}
WORST = {"accuracy": 0.0, "tvd": 1.0}


def sweep_words(preset: str, size: int, variant: str) -> tuple[str, ...]:
    """The sweep over all models at one training size."""
    words = [
        "tasks=regbench",
        f"models=[{','.join(MODELS)}]",
        f"tasks.training_automata={size}",
        f"tasks.variant={variant}",
    ]
    if variant == "iid":  # as many sequences as table 3 has
        words += ["tasks.validation_size=100", "tasks.test_size=100"]
    if preset == "paper":  # the best of all epochs is kept, whatever their length
        words.append(f"training.validate_every={-(-size // 32)}")
    return tuple(words)


def selects(record: RunRecord, variant: str) -> bool:
    """Finals of the five models under the fair protocol, and the predictors without training."""
    if record.task != "regbench":
        return False
    task = record.config["tasks"]
    known = record.role == "baseline" or (record.role == "final" and record.model in MODELS)
    return known and task["variant"] == variant and task["protocol"] == "fair"


def size_of(record: RunRecord) -> int:
    """N, the number of training automata."""
    return int(record.config["tasks"]["training_automata"])


def at(
    records: Sequence[RunRecord], model: str, size: int, variant: str = "held_out"
) -> list[RunRecord]:
    """The finals of one model at one training size, by seed."""
    found = [
        record
        for record in records
        if record.role != "baseline"
        and record.model == model
        and size_of(record) == size
        and record.config["tasks"]["variant"] == variant
    ]
    return sorted(found, key=lambda record: record.seed)


def value(record: RunRecord, metric: str) -> float | None:
    """A metric of the test split."""
    return record.metrics.get("test", {}).get(metric)


def sample(
    records: Sequence[RunRecord],
    model: str,
    metric: str,
    size: int,
    variant: str = "held_out",
    label: str | None = None,
) -> Sample:
    """A metric over seeds. The claims favour the Mosaic, so that its diverged runs count as worst
    and those of the others as unknown."""
    return observe(
        label or LABELS[model],
        at(records, model, size, variant),
        lambda record: value(record, metric),
        diverged=WORST[metric] if model == MOSAIC else None,
    )


def summary(
    records: Sequence[RunRecord], model: str, metric: str, size: int, variant: str = "held_out"
) -> Mean:
    """Mean and interval over seeds; runs without a number are counted as failures."""
    return mean_interval([value(record, metric) for record in at(records, model, size, variant)])


def mosaic_beats_every_baseline(
    records: Sequence[RunRecord], numbers: Mapping[str, float], metric: str, size: int
) -> Finding:
    """Higher accuracy, or lower distance, than each of the other four models."""
    if not any(at(records, model, size) for model in MODELS):
        return Finding("not enough evidence", f"no runs with N = {size} at this preset", 0)
    ours = sample(records, MOSAIC, metric, size)
    theirs = [sample(records, model, metric, size) for model in BASELINES]
    higher = metric == "accuracy"
    pairs = [(ours, rival) if higher else (rival, ours) for rival in theirs]
    return every([partial(above, *pair, numbers["margin"]) for pair in pairs])


def above(a: Sample, b: Sample, margin: float, level: float) -> Finding:
    """Is the mean of ``a`` more than ``margin`` above that of ``b``? The level comes last."""
    return difference_above(a, b, margin, level)


def published(short: str) -> PublishedFile:
    """The data file of that short name."""
    from leaderboards.published import read_published

    files = read_published(ROOT / "leaderboards" / "published")
    return next(file for file in files if file.short == short)


def published_points(file: PublishedFile, metric: str, model: str) -> list[tuple[int, float]]:
    """(N, value) of one of our models under its published name."""
    values = file.metrics[metric].values[PUBLISHED_LABELS[model]]
    read = zip(file.size.values, (file.read(value)[0] for value in values), strict=True)
    return [(size, number) for size, number in read if number is not None]
