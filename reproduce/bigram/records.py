"""What the records of the bigram task, its probes and the three gradient steps hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from bench.records.schema import RunRecord

TASKS = ("bigram", "bigram_probes", "three_gradient_steps")
# model/layers -> what it is called.
LABELS = {
    "gpt2/1": "attention, 1 layer",
    "gpt2/2": "attention, 2 layers",
    "memory_mosaic/1": "memory units, 1 layer",
    "lstm/2": "LSTM",
    "s4d/2": "S4D",
    "mamba/2": "Mamba",
    "titans/2": "Titans",
    "conv_attention/2": "attention with a short convolution",
}
# One row whatever the preset's depth.
ANY_DEPTH = ("lstm", "s4d", "mamba", "titans", "conv_attention")
CHANCE = 1 / 65
PROBES = {
    "output_recall": "W_O² (outputs)",
    "token_recall": "W_K² (tokens)",
    "position_recall": "W_K¹ (all positions)",
    "early_position_recall": "W_K¹ (early positions)",
}
STEPS = {
    "accuracy": "accuracy",
    "output_recall": "W_O²",
    "token_recall": "W_K²",
    "early_position_recall": "W_K¹",
}


def known_runs(record: RunRecord) -> bool:
    """Whether a record is of the figure: a listed model on one of its tasks."""
    if record.task != "bigram":
        return record.task in TASKS and record.role != "baseline"
    return record.role == "baseline" or row_of(record) in LABELS


def row_of(record: RunRecord) -> str:
    """ "gpt2/1": the key of ``LABELS``."""
    if record.model in ANY_DEPTH:
        return f"{record.model}/2"
    return f"{record.model}/{record.config['models'].get('layers')}"


def variant(record: RunRecord) -> Hashable:
    """What one figure shows side by side: tasks, depths and kinds of triggers."""
    if record.task != "bigram" or record.role == "baseline":
        return record.task
    return row_of(record), record.config["tasks"]["triggers"]


def of_task(records: Sequence[RunRecord], task: str) -> list[RunRecord]:
    """The records of a task."""
    return [record for record in records if record.task == task]


def of_model(records: Sequence[RunRecord], model: str, triggers: str = "fixed") -> list[RunRecord]:
    """Trained runs of a row of ``LABELS``."""
    return [
        record
        for record in of_task(records, "bigram")
        if record.role != "baseline"
        and row_of(record) == model
        and record.config["tasks"]["triggers"] == triggers
    ]


def metric(name: str) -> Callable[[RunRecord], float | None]:
    """Reads a metric of the test split."""
    return lambda record: record.metrics.get("test", {}).get(name)
