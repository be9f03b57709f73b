"""What can be counted again without training: the data of a run, and the size and work of its
model. The engine counts (``python -m bench.recount``); this compares, and needs no torch."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from bench.records.equivalence import code_status
from bench.records.registry import file_of
from bench.records.schema import Cost, RunRecord

SIZES = ("parameters", "position_parameters", "state_bytes", "state_length")
WORK = ("training_tokens", "training_flops")
BATCHES = 8  # of which the tokens and padded positions of a training are estimated
SAME_WORK = 1.25  # they differ so much at most, by what batches are padded with,
# and, where few sequences were drawn, by how long these happen to be. The means of two draws of n
# lengths, whose deviation is no larger than their mean, lie 1.4/√n of it apart by one deviation:
# four of these are a chance of one in ten thousand.
BY_CHANCE = 6.0


class Counted(BaseModel):
    """What was counted of one record.

    Attributes:
        data: split -> SHA-256 of its content, as its configuration gives it here.
        cost: sizes, and tokens and FLOPs of as many steps as the record says, estimated from some
            of their batches; None where the engine trains nothing, or ``uncounted``.
        uncounted: why sizes and work were not counted, though there is a model to count.
        refused: why nothing could be counted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    data: dict[str, str] = {}
    cost: Cost | None = None
    uncounted: str = ""
    refused: str = ""


def same_length(sequences: int) -> float:
    """The factor by which the tokens of two draws of so many sequences may differ.

    Example: 1.25 of 4,800 sequences, and 3 of 9.
    """
    return max(SAME_WORK, 1 + BY_CHANCE / max(sequences, 1) ** 0.5)


def other_data(record: RunRecord, data: Mapping[str, str]) -> str | None:
    """How the data of a record are not those that its configuration gives here, in a clause."""
    for split, sha256 in record.provenance.data.items():
        if data.get(split) != sha256:
            return f"its provenance.data.{split:.80} is not the hash of the data that it names"
    return None


def data_are_rounded(record: RunRecord) -> bool:
    """Whether the hash of a task's data is of sums that another processor may round otherwise, as
    ``card.data_hashes`` of its YAML file says: then another hash proves nothing."""
    card = (file_of("tasks", record.task) or {}).get("card", {})
    return bool(card.get("data_hashes") == "rounded")


def contradiction(record: RunRecord, counted: Counted) -> str | None:
    """What of a record is not as it was counted, in a clause; None if all is."""
    if not data_are_rounded(record) and (reason := other_data(record, counted.data)):
        return reason
    if counted.cost is None:
        return None
    for name in SIZES:
        stated, count = getattr(record.cost, name), getattr(counted.cost, name)
        if stated != count:
            return f"its cost.{name} is {stated}, and the model of its config has {count}"
    batch_size = int((record.config.get("training") or {}).get("batch_size") or 1)
    factor = same_length(BATCHES * batch_size)
    # A form of the model that is equal up to rounding may do other operations.
    same_work = code_status(record.config, record.provenance) != "equal up to rounding"
    work = WORK if same_work else WORK[:1]
    for name in work if record.outcome == "ok" else ():
        stated, count = getattr(record.cost, name) or 0, getattr(counted.cost, name) or 0
        if max(stated, count) > factor * min(stated, count):
            return f"its cost.{name} is {stated:g}, and its steps are about {count:g}"
    return None
