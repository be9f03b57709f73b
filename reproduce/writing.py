"""What a reproduction leaves: the figure and its numbers, and the verdicts on its claims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.config.groups import guests, with_guests
from bench.records.named_text import with_named_text
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED
from core.errors import UserError
from core.files import write_atomically
from reproduce.claims.claims import ClaimResult, verdict_file
from reproduce.claims.controls import without_untrained
from reproduce.drawing.frame import View, framed
from reproduce.experiment import Experiment


def write(
    name: str, experiment: Experiment, records: Sequence[RunRecord], view: View, folder: Path
) -> list[ClaimResult]:
    """Judge the claims, draw, and write ``figure.png``, ``figure.svg``, ``curves.json``,
    ``records.txt``, ``verdicts.json`` and perhaps ``table.md``: the same bytes for equal records.
    Guests are drawn, and no claim is about them.
    """
    all_records, records = records, without_untrained(records)
    beside = guests()
    with with_guests([]):
        judged = [record for record in all_records if record.model not in beside]
        results = [claim.judge(judged) for claim in experiment.claims]
        verdicts = verdict_file(name, view.name, experiment.title, judged, results, experiment.cost)
    note = "" if experiment.note is None else experiment.note(records)
    # matplotlib takes half a second to import, which a list of the figures does without.
    from reproduce.plotting.renderer import images

    picture = framed(experiment.draw(records), records, view, note)
    files = {f"figure.{ending}": content for ending, content in images(picture, name).items()}
    files["curves.json"] = picture.to_json()
    if experiment.table is not None:
        files["table.md"] = experiment.table(records).encode()
    files["records.txt"] = "".join(f"{record.run_id}\n" for record in records).encode()
    files["verdicts.json"] = verdicts
    for file, content in files.items():
        write_atomically(folder / file, content)
    return results


def judge_again(reproductions: Mapping[str, Experiment]) -> None:
    """Write every committed verdict file anew, from the records that it names."""
    record_by_id = {record.run_id: record for record in read_records([COMMITTED])}
    for path in sorted((COMMITTED.parent / "verdicts").glob("*.json")):
        old = json.loads(path.read_text())
        figure, named = reproductions[old["figure"]], [*old["records"], *old.get("controls", [])]
        if lost := [run for run in named if run not in record_by_id]:
            raise UserError(
                f"{path.name} is judged from {lost[0]}, whose record is not there: restore it, or "
                f"delete {path.name} and make it with `python -m reproduce {old['figure']}`"
            )
        records = [with_named_text(record_by_id[run]) for run in named]
        results = [claim.judge(records) for claim in figure.claims]
        arguments = (old["figure"], old["preset"], figure.title, records, results, figure.cost)
        write_atomically(path, verdict_file(*arguments))
