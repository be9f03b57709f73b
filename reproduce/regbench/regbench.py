"""What figure 9 and table 3 share: sweeps on RegBench, their records by model and size, published
numbers.

Orderings are judged at every preset. Levels are judged on the published languages only: how much
can be learned at all depends on the length of strings and on the size of automata.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.records.schema import RunRecord
from judging.grammar import Number, Ready, Records, Runs, any_of, setting, where
from pictures import models

PAPER = "Zhang et al. 2025, Memory Mosaics (ICLR 2025, arXiv 2405.06394)"
MOSAIC = "memory_mosaic"
BASELINES = ("gpt2", "mamba", "s4d", "lstm")
MODELS = (MOSAIC, *BASELINES)
LABELS = {model: models.label(model) for model in MODELS}
PUBLISHED_LABELS = {**LABELS, "gpt2": "Transformer", "s4d": "S4"}
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


def select(records: Records, variants: Sequence[str]) -> list[RunRecord]:
    """Finals of the five models under the fair protocol, and the predictors without training."""

    def belongs(record: RunRecord) -> bool:
        known = record.role == "baseline" or (record.role == "final" and record.model in MODELS)
        protocol = setting(record, "tasks.protocol")
        fair = record.task == "regbench" and known and protocol == "fair"
        return fair and variant_of(record) in variants

    return any_of(belongs)(records)


def variant(record: RunRecord) -> tuple[int, str]:
    """What tells the settings of a model apart in a figure."""
    return size_of(record), variant_of(record)


def size_of(record: RunRecord) -> int:
    """N, the number of training automata."""
    return int(record.config["tasks"]["training_automata"])


def variant_of(record: RunRecord) -> str:
    """ "held_out" automata, or "iid" with those of the training set."""
    return str(record.config["tasks"]["variant"])


def runs(model: str, size: int, variant: str = "held_out", label: str = "") -> Runs:
    """The finals of one model at one training size."""
    settings = {"tasks.training_automata": size, "tasks.variant": variant}
    return Runs(label or LABELS[model], "regbench", model, settings)


def number(metric: str) -> Number:
    """A metric of the test split."""
    return Number(metric, metric)


def on_published_languages(topic: str) -> Ready:
    """Ready where the languages are the published ones: levels depend on their size."""
    wanted = {f"tasks.{key}": value for key, value in PUBLISHED_LANGUAGES.items()}
    return where(
        lambda records: all(list(setting(r, k)) == v for r in records for k, v in wanted.items()),
        topic,
        "this preset has smaller languages than the published ones, so levels differ",
        "gpu",
    )
