"""How a run that was made again differs from its record, beyond what another machine explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.records.counted import data_are_rounded, other_data
from bench.records.equivalence import settled_name
from bench.records.schema import RunRecord

RESCORED = 1e-3  # of a number of size 1: the same weights on another processor
EXACT = ("parameters", "position_parameters", "state_bytes", "training_tokens", "training_steps")


def differs(record: RunRecord, again: RunRecord) -> str:
    """What another machine cannot change, and is otherwise nevertheless."""
    there, here = (settled_name(r.config, r.provenance).code for r in (record, again))
    for what in ("model", "task") if there != here else ():
        if getattr(there, f"{what}_code") != getattr(here, f"{what}_code"):
            return f"the code of its {what} is other than here, and not proven to give the same"
    if record.outcome != again.outcome:
        cause = f" ({again.cause:.500})" if again.cause else ""
        return f"it ended as {again.outcome} here{cause}, and its record says {record.outcome}"
    if not data_are_rounded(record) and (why := other_data(record, again.provenance.data)):
        return why
    for name in EXACT if record.outcome == "ok" else ():
        said, found = getattr(record.cost, name), getattr(again.cost, name)
        if said != found:
            return f"its cost.{name} is {said}, and {found} where it was made again"
    return ""


def other_libraries(record: RunRecord, again: RunRecord) -> str:
    """The libraries of other versions, in words."""
    there, here = record.provenance.libraries, again.provenance.libraries
    return "; ".join(
        f"{name} {there.get(name)} there, {version} here"
        for name, version in here.items()
        if there.get(name) != version
    )


def beside_the_headline(record: RunRecord, again: RunRecord) -> str:
    """What is otherwise beside the headline, though equal weights, and a predictor, which has none,
    give equal numbers everywhere."""
    if record.weights_sha256 != again.weights_sha256:
        return ""
    if record.weights_sha256 is None and record.role != "baseline":
        return ""
    there, here = _numbers(record), _numbers(again)
    if names := there.keys() ^ here.keys():
        name = min(names)
        where = "where it was made again alone" if name in here else "in its record alone"
        return f"{name} is {where}"
    for name, said in there.items():
        found = here[name]
        if len(said) != len(found) or not all(map(_is_rescored, said, found)):
            return f"its {name} is not what the same run gives here"
    return ""


def _numbers(record: RunRecord) -> Mapping[str, Sequence[float]]:
    """Each number of a record, and each list of them, that a run gives beside its costs."""
    curves = ((f"curves.{name}", curve) for name, curve in record.curves.items())
    metrics = {
        f"metrics.{split}.{name}": [value]
        for split, values in record.metrics.items()
        for name, value in values.items()
        if (split, name) != ("test", record.headline.name)
    }
    items = {f"per_sequence.{name}": values for name, values in record.per_sequence.items()}
    return metrics | items | {name: [*curve.x, *curve.y] for name, curve in curves}


def _is_rescored(said: float, found: float) -> bool:
    return abs(said - found) <= RESCORED * max(1.0, abs(said))
