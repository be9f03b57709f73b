"""What every figure and every claim of a checkout say of the committed records, as one JSON file.

``python reproduce/judgements.py FILE`` is run in two checkouts by ``python -m reproduce same``; so
it takes no more of either than what both have. It judges at several levels, and by parts of the
records too, since a rule may come to one verdict by two ways.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED
from core.errors import UserError
from reproduce.__main__ import reproductions
from reproduce.obtaining import belonging

if TYPE_CHECKING:
    from reproduce.claims.claims import Claim
    from reproduce.claims.verdicts import Finding
    from reproduce.experiment import Experiment

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
NOTHING: Mapping[str, Any] = {"metrics": {}, "curves": {}, "arrays": {}, "per_sequence": {}}


def main(path: Path) -> None:
    """Write what all figures say."""
    records = list(read_records([COMMITTED]))
    content = {name: _figure(figure, records) for name, figure in reproductions().items()}
    path.write_text(json.dumps(content, indent=1, sort_keys=True))


def _figure(figure: Experiment, all_records: Sequence[RunRecord]) -> dict[str, Any]:
    content: dict[str, Any] = {"claims": {claim.name: _said(claim) for claim in figure.claims}}
    for preset in ("smoke", "laptop", "gpu", "paper"):
        try:
            records = belonging(all_records, preset, figure, COMMITTED)
        except UserError:  # of which there is none
            continue
        of_preset: dict[str, Any] = {"drawn": {}, "judged": {}}
        content.setdefault("presets", {})[preset] = of_preset
        for label, part in _parts(records).items():
            # Not by a function of claims.controls, which has another name in older checkouts.
            without_controls = [record for record in part if record.role != "control"]
            of_preset["drawn"][label] = _drawn(figure, without_controls)
            for claim in figure.claims:
                findings = [_attempt(claim.rule.judge, without_controls, level) for level in LEVELS]
                # Beside its control; in older checkouts the method was not public.
                name = "finding" if hasattr(claim, "finding") else "_finding"
                findings.append(_attempt(getattr(claim, name), part))
                of_claim = of_preset["judged"].setdefault(claim.name, {})
                of_claim[label] = findings
    return content


def _said(claim: Claim) -> dict[str, Any]:
    """What a claim says, and the hash of its test."""
    hashes = claim.hashes
    return {
        "words": hashes.words,
        "test": hashes.test,
        "says": [claim.sentence, claim.source, claim.tolerance, claim.asked_with, claim.closed],
    }


def _parts(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """All records, and parts of them; in one of these every fourth run has diverged."""
    failed = []
    for number, record in enumerate(records):
        lost = number % 4 == 0 and record.role != "baseline"
        changes = {"outcome": "diverged", "cause": "for a test", **NOTHING} if lost else {}
        failed.append(record.model_copy(update=changes))
    return {
        "all": list(records),
        "one seed": [record for record in records if record.seed == 0],
        "two of three": [record for number, record in enumerate(records) if number % 3],
        "some diverged": failed,
    }


def _drawn(figure: Experiment, records: Sequence[RunRecord]) -> list[Any]:
    draw: Any = getattr(figure, "draw", figure.panels)  # as it was called before there was data
    texts = []
    for write in (figure.table, figure.note):
        text = "" if write is None else _attempt(write, records)
        texts.append(str(text).replace("---", " --- ").split())
    picture = _attempt(lambda: json.loads(draw(records).to_json()))
    return [[record.run_id for record in records], picture, *texts]


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives, or what it raises: a part of the records may be too little for it."""
    try:
        value = function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return _numbers(value) if dataclasses.is_dataclass(value) else value


def _numbers(finding: Finding | Any) -> dict[str, str]:
    """All fields but functions."""
    fields = {}
    for field in dataclasses.fields(finding):
        value = getattr(finding, field.name)
        if not callable(value):
            fields[field.name] = repr(value)
    return fields


if __name__ == "__main__":
    main(Path(sys.argv[1]))
