"""``python -m reproduce verdicts``: the committed verdict files by the committed records of today.

Records that are added to a task may belong to any figure that draws on it, so all files are judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED
from ground.errors import OK, VERIFICATION_FAILED, UserError
from ground.escaping import terminal
from ground.files import write_atomically
from judging.claims import verdict_file
from judging.verdicts import NOT_ASKED
from reproduce.obtaining import belonging
from reproduce.reproduction import Reproduction

HELP = """\
usage: python -m reproduce verdicts [update=true]

  say which files of leaderboards/verdicts are not what the committed records give today (exit
  code 4), and which of their verdicts are others
  update=true   write them; build the board afterwards: python -m leaderboards.build"""


def main(words: Sequence[str], reproductions: Mapping[str, Reproduction]) -> int:
    """Compare every committed verdict file with the records, or write it. Exit code 4: compared,
    and one differs."""
    if list(words) not in ([], ["update=true"]):
        raise UserError(f"'{' '.join(words)}' cannot be given here\n{HELP}")
    paths = sorted((COMMITTED.parent / "verdicts").glob("*.json"))
    known = list(read_records([COMMITTED])) if paths else []
    others = 0
    for path in paths:
        before = json.loads(path.read_text())
        content = _judged(before["figure"], before["preset"], known, reproductions)
        if content == path.read_bytes():
            continue
        others += 1
        for line in _changes(before, json.loads(content)):
            print(terminal(f"{path.name}: {line}"))
        if words:
            write_atomically(path, content)
    if not others:
        print(f"all {len(paths)} verdict files are what the committed records give")
    elif words:
        print(f"{others} of {len(paths)} verdict files written: python -m leaderboards.build next")
    else:
        raise UserError(
            f"{others} of {len(paths)} verdict files are not what the committed records give: "
            "`python -m reproduce verdicts update=true` writes them",
            VERIFICATION_FAILED,
        )
    return OK


def _judged(
    figure: str, preset: str, known: Sequence[RunRecord], reproductions: Mapping[str, Reproduction]
) -> bytes:
    """The verdict file of one figure, from all the committed records that belong to it."""
    own = reproductions[figure]
    records = belonging(known, preset, own, COMMITTED)
    results = [claim.judge(records) for claim in own.claims]
    return verdict_file(figure, preset, own.title, records, results, own.cost)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What one file says otherwise than another one, a line for each."""
    old, new = ({c["name"]: c["verdict"] for c in f["claims"]} for f in (before, after))
    others = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    for name in others:
        was, now = old.get(name, NOT_ASKED), new.get(name, "gone")
        yield f"{name}: {was}, now {now}"
    if not others:
        yield "other records or numbers, the same verdicts"
