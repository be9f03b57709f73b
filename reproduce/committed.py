"""``python -m reproduce verdicts``: the committed verdict files by the committed records of today.

Records that are added to a task may belong to any figure that draws on it, so all files are judged
before the first is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED
from core.amounts import amount
from core.errors import OK, VERIFICATION_FAILED, UserError, nearest
from core.escaping import terminal
from core.files import write_atomically
from core.progress import Report, progress
from core.reading import Kind
from reproduce.claims.claims import verdict_file
from reproduce.experiment import Experiment
from reproduce.obtaining import belonging

LONGEST = 300  # characters of an evidence


class Verdict(BaseModel):
    """What a verdict file says of a claim, as far as these commands read it."""

    name: str
    verdict: str
    evidence: str
    tolerance: str
    set: str | None
    after_runs: bool
    confirmed: bool | None = None
    asked_again: bool = False


class VerdictFile(BaseModel):
    """One figure at one preset."""

    figure: str
    preset: str
    records: list[str]
    controls: list[str] = []
    claims: list[Verdict]

    @property
    def runs(self) -> set[str]:
        return {*self.records, *self.controls}


VERDICTS = Kind("verdict file", VerdictFile, how="restore it, or delete it and make it again")


def main(update: bool, reproductions: Mapping[str, Experiment]) -> int:
    """Compare every committed verdict file with the records, or write it. Exit code 4: compared,
    and one differs."""
    paths = sorted((COMMITTED.parent / "verdicts").glob("*.json"))
    with progress() as report:
        changed = _changed(paths, reproductions, report)
    for path, (before, content) in changed.items():
        for line in _changes(before, VerdictFile.model_validate_json(content)):
            print(terminal(f"{path.name}: {line}"))
        if update:
            write_atomically(path, content)
    if not changed:
        print(f"all {len(paths)} verdict files are what the committed records give")
    elif update:
        print(f"{len(changed)} of {len(paths)} written: python -m leaderboards.build next")
    else:
        raise UserError(
            f"{len(changed)} of {len(paths)} verdict files are not what the committed records "
            "give: `python -m reproduce verdicts update=true` writes them",
            VERIFICATION_FAILED,
        )
    return OK


def _changed(
    paths: Sequence[Path], reproductions: Mapping[str, Experiment], report: Report
) -> dict[Path, tuple[VerdictFile, bytes]]:
    """The files that are not what the records give: what each says, and its content of today."""
    files = {path: VERDICTS.read_json(path) for path in paths}
    records = list(read_records([COMMITTED])) if paths else []
    changed = {}
    for number, (path, before) in enumerate(files.items()):
        report("verdict files judged", number, len(paths))
        try:
            content = _judged(before, records, reproductions)
        except UserError as error:
            raise UserError(f"{path.name} cannot be judged: {error}", error.exit_code) from None
        if content != path.read_bytes():
            changed[path] = before, content
    report("verdict files judged", len(paths), len(paths))
    return changed


def _judged(
    file: VerdictFile, records: Sequence[RunRecord], reproductions: Mapping[str, Experiment]
) -> bytes:
    """The verdict file of one figure, from all the committed records that belong to it."""
    if file.figure not in reproductions:
        raise UserError(f"no reproduction is called so: {nearest(file.figure, reproductions)}")
    figure = reproductions[file.figure]
    chosen = belonging(records, file.preset, figure, COMMITTED)
    results = [claim.judge(chosen) for claim in figure.claims]
    return verdict_file(file.figure, file.preset, figure.title, chosen, results, figure.cost)


def _changes(before: VerdictFile, after: VerdictFile) -> Iterator[str]:
    """What one file says otherwise than another one, a line for each."""
    old, new = ({claim.name: claim for claim in file.claims} for file in (before, after))
    others = 0
    for name in {**old, **new}:
        was = old[name].verdict if name in old else "new"
        now = new[name].verdict if name in new else "gone"
        if was != now:
            others += 1
            reason = new[name].evidence[:LONGEST] if name in new else "there is no such claim"
            yield f"{name}: {was}, now {now}: {reason}"
    if not others:
        more, fewer = len(after.runs - before.runs), len(before.runs - after.runs)
        runs = (
            f"{amount(more, 'record')} more, {fewer} fewer"
            if more or fewer
            else "other words or effects"
        )
        yield f"{runs}, the same verdicts"
