"""What the records of multi-query recall hold, by model, kind of cell and width."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from bench.records.schema import RunRecord
from reproduce.judging.observations import Sample, latest, observe

LABELS = {
    "memory_mosaic": "memory units",
    "conv_attention": "attention with a short convolution",
    "titans": "Titans",
    "gpt2": "attention",
    "mamba": "Mamba",
    "s4d": "S4D",
    "lstm": "LSTM",
}
# What they keep of the past does not grow with it.
FIXED_STATE = ("lstm", "s4d", "mamba")
EASY, PLAIN, FORGETTING = "easy", "plain", "forgetting"


def kind(record: RunRecord) -> str | None:
    """``EASY``, one number of pairs; ``PLAIN``, several; ``FORGETTING``, several, and keys that are
    written again. None of other tasks, models and cells."""
    if record.task != "multi_query_recall" or record.model not in LABELS:
        return None
    task = record.config["tasks"]
    if task["protocol"] == "easy" and task["pairs"] == [4] and not task["rewritten"]:
        return EASY
    if task["protocol"] != "as_set" or len(task["pairs"]) < 2:
        return None
    return FORGETTING if task["rewritten"] else PLAIN


def width(record: RunRecord) -> int:
    """Of the hidden vectors."""
    return int(record.config["models"]["width"])


def steps(record: RunRecord) -> int:
    """Of training."""
    return int(record.config["training"]["steps"] or 0)


def variant(record: RunRecord) -> Hashable:
    """What one figure shows side by side."""
    task = record.config["tasks"]
    return kind(record), tuple(task["pairs"]), task["rewritten"], width(record)


def of(
    records: Sequence[RunRecord], cell: str, model: str | None = None, of_width: int | None = None
) -> list[RunRecord]:
    """Runs of a kind of cell, one for each model, width and seed."""
    found = [
        record
        for record in records
        if kind(record) == cell
        and model in (None, record.model)
        and of_width in (None, width(record))
    ]
    return latest(found, lambda record: (record.model, variant(record), record.seed))


def widths(records: Sequence[RunRecord], cell: str, model: str | None = None) -> list[int]:
    """From narrow to wide."""
    return sorted({width(record) for record in of(records, cell, model)})


def widest(records: Sequence[RunRecord], cell: str, model: str) -> list[RunRecord]:
    """Runs of a model at the largest width of a kind of cell."""
    sizes = widths(records, cell)
    return of(records, cell, model, sizes[-1]) if sizes else []


def pairs(records: Sequence[RunRecord]) -> list[int]:
    """Numbers of pairs that all these records were evaluated at."""
    each = [
        set(record.config["tasks"]["evaluated_pairs"] or record.config["tasks"]["pairs"])
        for record in records
    ]
    return sorted(set.intersection(*each)) if each else []


def metric(name: str) -> Callable[[RunRecord], float | None]:
    """Reads a metric of the test split."""
    return lambda record: record.metrics.get("test", {}).get(name)


def sample(
    records: Sequence[RunRecord], model: str, name: str = "accuracy", says: str = ""
) -> Sample:
    """A metric of a model's runs over seeds; ``says`` follows its label."""
    mine = [record for record in records if record.model == model]
    return observe(" ".join(filter(None, (LABELS[model], says))), mine, metric(name))
