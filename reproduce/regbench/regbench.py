"""What figure 9 and table 3 share: sweeps on RegBench, their records by model and size, published
numbers.

Orderings are judged at every preset. Levels are judged on the published languages only: how much
can be learned at all depends on the length of strings and on the size of automata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from bench.ground.files import ROOT
from bench.ground.statistics import Mean, mean_interval
from bench.records.schema import RunRecord
from pictures import models
from reproduce.judging.claims import UNDECIDED, Finding, Test, difference_above, every
from reproduce.judging.console import LeftOut
from reproduce.judging.observations import Sample, observe

if TYPE_CHECKING:
    from published.numbers import PublishedFile

PAPER = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394)"
MOSAIC = "memory_mosaic"
BASELINES = ("gpt2", "mamba", "s4d", "lstm")
MODELS = (MOSAIC, *BASELINES)
LABELS = {model: models.label(model) for model in MODELS}
PUBLISHED_LABELS = {**LABELS, "gpt2": "Transformer", "s4d": "S4"}
COLOURS = {model: models.look(model).colour for model in MODELS}
METRICS = {"accuracy": "accuracy", "tvd": "total variation distance"}
# What a level is compared on; both ends of the ranges are included.
PUBLISHED_LANGUAGES = {
    "states": [4, 12],
    "alphabet": [4, 18],
    "out_degree": [1, 3],
    "strings": [10, 19],
    "string_length": [1, 49],
}
VARIED = ("tasks.training_automata", "tasks.variant", "tasks.protocol")
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


def select(records: Sequence[RunRecord], variants: Sequence[str]) -> list[RunRecord]:
    """Finals of the five models under the fair protocol, and the predictors without training."""

    def belongs(record: RunRecord) -> bool:
        if record.task != "regbench":
            return False
        task = record.config["tasks"]
        known = record.role == "baseline" or (record.role == "final" and record.model in MODELS)
        return known and task["variant"] in variants and task["protocol"] == "fair"

    return sorted(filter(belongs, records), key=lambda record: record.run_id)


def variant(record: RunRecord) -> tuple[int, str]:
    """What tells the settings of a model apart in a figure."""
    return size_of(record), variant_of(record)


def size_of(record: RunRecord) -> int:
    """N, the number of training automata."""
    return int(record.config["tasks"]["training_automata"])


def variant_of(record: RunRecord) -> str:
    """ "held_out" automata, or "iid" with those of the training set."""
    return str(record.config["tasks"]["variant"])


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
        and variant_of(record) == variant
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
    diverged: float | None = None,
) -> Sample:
    """A metric over seeds. A diverged run may have given anything, unless a claim that favours the
    model says what it counts as: see :func:`reproduce.judging.observations.observe`."""
    return observe(
        label or LABELS[model],
        at(records, model, size, variant),
        lambda record: value(record, metric),
        diverged=diverged,
    )


def summary(
    records: Sequence[RunRecord], model: str, metric: str, size: int, variant: str = "held_out"
) -> Mean:
    """Mean and interval over seeds; runs without a number are counted as failures."""
    return mean_interval([value(record, metric) for record in at(records, model, size, variant)])


def on_published_languages(topic: str, test: Test) -> Test:
    """A test of levels, the topic, which says nothing where the preset's languages are smaller."""

    def guarded(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        smaller = any(
            list(record.config["tasks"][key]) != value
            for record in records
            for key, value in PUBLISHED_LANGUAGES.items()
        )
        if not smaller:
            return test(records, numbers)
        reason = "this preset has smaller languages than the published ones, so levels differ"
        return LeftOut(UNDECIDED, f"{reason}: use preset=gpu or preset=paper", 0, topic=topic)

    return guarded


def mosaic_beats_every_baseline(
    records: Sequence[RunRecord], numbers: Mapping[str, float], metric: str, size: int
) -> Finding:
    """Higher accuracy, or lower distance, than each of the other four models."""
    if not any(at(records, model, size) for model in MODELS):
        reason = f"no runs with N = {size} at this preset"
        return LeftOut(UNDECIDED, reason, 0, topic=f"N = {size:,}")
    ours = sample(records, MOSAIC, metric, size, diverged=WORST[metric])
    theirs = [sample(records, model, metric, size) for model in BASELINES]
    higher = metric == "accuracy"
    pairs = [(ours, rival) if higher else (rival, ours) for rival in theirs]
    return every([partial(difference_above, *pair, numbers["margin"]) for pair in pairs])


@cache
def published(short: str) -> PublishedFile:
    """The data file of that short name."""
    from published.numbers import read_published

    files = read_published(ROOT / "published")
    return next(file for file in files if file.short == short)


def published_points(file: PublishedFile, metric: str, model: str) -> list[tuple[int, float]]:
    """(N, value) of one of our models under its published name."""
    values = file.metrics[metric].values[PUBLISHED_LABELS[model]]
    read = zip(file.size.values, (file.read(value)[0] for value in values), strict=True)
    return [(size, number) for size, number in read if number is not None]
