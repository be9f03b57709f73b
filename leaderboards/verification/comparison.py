"""How a run that was made again differs from its record, beyond what another machine explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.records.counted import data_are_rounded, other_data
from bench.records.identity import canonical_name
from bench.records.schema import RunRecord

RESCORED = 1e-3  # of a number of size 1: the same weights on another processor
EXACT = ("parameters", "position_parameters", "state_bytes", "training_tokens", "training_steps")


def differs(record: RunRecord, repeated: RunRecord) -> str:
    """What another machine cannot change, and is otherwise nevertheless."""
    recorded_code, present_code = (
        canonical_name(r.config, r.provenance).code for r in (record, repeated)
    )
    for part in ("model", "task") if recorded_code != present_code else ():
        if getattr(recorded_code, f"{part}_code") != getattr(present_code, f"{part}_code"):
            return f"the code of its {part} is other than here, and not proven to give the same"
    if record.outcome != repeated.outcome:
        cause = f" ({repeated.cause:.500})" if repeated.cause else ""
        return f"it ended as {repeated.outcome} here{cause}, and its record says {record.outcome}"
    if not data_are_rounded(record) and (reason := other_data(record, repeated.provenance.data)):
        return reason
    for name in EXACT if record.outcome == "ok" else ():
        expected, measured = getattr(record.cost, name), getattr(repeated.cost, name)
        if expected != measured:
            return f"its cost.{name} is {expected}, and {measured} where it was made again"
    return ""


def other_libraries(record: RunRecord, repeated: RunRecord) -> str:
    """The libraries of other versions, in words."""
    differences = []
    for name, version in repeated.provenance.libraries.items():
        recorded = record.provenance.libraries.get(name)
        if recorded != version:
            differences.append(f"{name} {recorded} there, {version} here")
    return "; ".join(differences)


def beside_the_headline(record: RunRecord, repeated: RunRecord) -> str:
    """What is otherwise beside the headline, though equal weights, and a predictor, which has none,
    give equal numbers everywhere."""
    if record.weights_sha256 != repeated.weights_sha256:
        return ""
    if record.weights_sha256 is None and record.role != "baseline":
        return ""
    recorded_numbers, present_numbers = _numbers(record), _numbers(repeated)
    if names := recorded_numbers.keys() ^ present_numbers.keys():
        name = min(names)
        where = (
            "where it was made again alone" if name in present_numbers else "in its record alone"
        )
        return f"{name} is {where}"
    for name, expected in recorded_numbers.items():
        measured = present_numbers[name]
        apart = len(expected) != len(measured)
        for value, other in zip(expected, measured, strict=False):
            apart |= abs(value - other) > RESCORED * max(1.0, abs(value))
        if apart:
            return f"its {name} is not what the same run gives here"
    return ""


def _numbers(record: RunRecord) -> Mapping[str, Sequence[float]]:
    """Each number of a record, and each list of them, that a run gives beside its costs."""
    numbers: dict[str, Sequence[float]] = {}
    for split, values in record.metrics.items():
        for name, value in values.items():
            if (split, name) != ("test", record.headline.name):
                numbers[f"metrics.{split}.{name}"] = [value]
    for name, items in record.per_sequence.items():
        numbers[f"per_sequence.{name}"] = items
    for name, curve in record.curves.items():
        numbers[f"curves.{name}"] = [*curve.x, *curve.y]
    return numbers
