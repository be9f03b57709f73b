"""``python -m reproduce claims``: when each claim was last set, and whether that is still it.

A claim that is written or loosened after its numbers were seen is weak evidence. ``frozen.yaml``
holds two hashes of every claim: of its words, numbers, tolerance and control, with the time at
which these were last set, and of its test (:mod:`judging.meaning`), with the time at which that was
last edited while the words stayed. The commit that holds an entry says when it was really made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from bench.records.schema import RunRecord
from ground.errors import OK, VERIFICATION_FAILED, UserError
from ground.files import write_atomically
from judging.meaning import meaning

FROZEN = Path(__file__).with_name("frozen.yaml")
DIGITS = 16
HEAD = """\
# When each claim was last set. Written by `python -m reproduce claims update=true`.
# words: hash of its name, sentence, source, tolerance, numbers and control; set: since when.
# test: hash of the code that judges it; edited: since when, if later than the words.
"""
HELP = """\
usage: python -m reproduce claims [update=true | page=FILE]

  say which claims differ from judging/frozen.yaml (exit code 4), and how many were set when
  update=true   write them there, so that what differs is set now, and judge the committed records
                of every file in leaderboards/verdicts again
  page=FILE     write there every claim of these files that was set after its first run had begun"""


class Hashes(NamedTuple):
    """A claim by its name and the hashes of what it says and of what judges it."""

    name: str
    words: str
    test: str

    @classmethod
    def of(cls, name: str, words: object, test: object) -> Hashes:
        """Of everything that a claim says, and of the functions that judge it."""
        return cls(name, _hash([name, meaning(words)]), _hash(meaning(test)))


Claims = Mapping[str, Sequence[Hashes]]  # of each figure


class Entry(NamedTuple):
    """What is kept of a claim; times are ISO 8601, UTC."""

    words: str
    set: str
    test: str
    edited: str = ""

    @property
    def since(self) -> str:
        """Since when it is as it is."""
        return max(self.set, self.edited)


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:DIGITS]


def read_frozen(path: Path = FROZEN) -> dict[str, dict[str, Entry]]:
    """Figure -> name of the claim -> what is kept of it."""
    content = yaml.safe_load(path.read_text()) if path.exists() else {}
    return {
        figure: {name: Entry(**entry) for name, entry in claims.items()}
        for figure, claims in (content or {}).items()
    }


@cache
def _by_words() -> dict[str, Entry]:
    return {entry.words: entry for claims in read_frozen().values() for entry in claims.values()}


def entry_of(claim: Hashes) -> Entry | None:
    """What is kept of a claim with these very words; None of one that is not frozen."""
    return _by_words().get(claim.words)


def set_after(claim: Hashes, records: Iterable[RunRecord]) -> bool:
    """Whether a claim was set, or its test edited, after the first of these runs had begun: with
    one run seen, the tolerance could have been chosen to fit."""
    found = entry_of(claim)
    starts = [moment(record.provenance.started_at) for record in records]
    if not starts:
        return False
    changed = found is None or found.test != claim.test
    return found is None or changed or moment(found.since) >= min(starts)


def begun_after(claim: Hashes, records: Iterable[RunRecord]) -> list[RunRecord]:
    """The runs that began after a claim was last set, or its test edited; none of one that is not
    frozen as it is. They had no part in what it says."""
    found = entry_of(claim)
    if found is None or found.test != claim.test:
        return []
    since = moment(found.since)
    return [record for record in records if moment(record.provenance.started_at) > since]


def moment(text: str) -> datetime:
    """The time that ISO 8601 says; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def differing(claims: Claims, known: Mapping[str, Mapping[str, Entry]]) -> list[str]:
    """What of ``known`` is not what the claims are now, in words."""
    found = []
    for figure, own in claims.items():
        entries = known.get(figure, {})
        for claim in own:
            entry = entries.get(claim.name)
            if entry is None:
                found.append(f"{figure}, {claim.name}: is new")
            elif entry.words != claim.words:
                found.append(f"{figure}, {claim.name}: was set anew")
            elif entry.test != claim.test:
                found.append(f"{figure}, {claim.name}: its test was edited")
        gone = set(entries) - {claim.name for claim in own}
        found += [f"{figure}, {name}: is gone" for name in sorted(gone)]
    return found + [f"{figure}: is gone" for figure in sorted(set(known) - set(claims))]


def updated(
    claims: Claims, known: Mapping[str, Mapping[str, Entry]], now: str
) -> dict[str, dict[str, Entry]]:
    """What is to be kept: times stay where nothing differs."""
    return {
        figure: {one.name: _entry(one, known.get(figure, {}).get(one.name), now) for one in own}
        for figure, own in claims.items()
    }


def _entry(claim: Hashes, old: Entry | None, now: str) -> Entry:
    if old is None or old.words != claim.words:
        return Entry(claim.words, now, claim.test)
    return old if old.test == claim.test else old._replace(test=claim.test, edited=now)


def write_frozen(entries: Mapping[str, Mapping[str, Entry]], path: Path = FROZEN) -> None:
    """One line for each claim, so that version control knows when each was set."""
    lines = [HEAD]
    for figure, own in sorted(entries.items()):
        lines.append(f"{figure}:\n")
        for name, entry in own.items():
            kept = {key: value for key, value in entry._asdict().items() if value}
            lines.append(f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(kept)}\n")
    write_atomically(path, "".join(lines).encode())
    _by_words.cache_clear()


def main(words: Sequence[str], claims: Claims, judge_again: Callable[[], None]) -> int:
    """Compare the claims with what is kept, or keep them and judge what is committed again."""
    known = read_frozen()
    found = differing(claims, known)
    if list(words) not in ([], ["update=true"]):
        raise UserError(f"'{' '.join(words)}' cannot be given here\n{HELP}")
    for line in found:
        print(line)
    if words:
        write_frozen(updated(claims, known, datetime.now(UTC).isoformat(timespec="seconds")))
        judge_again()
        print(f"{FROZEN.name} holds {sum(map(len, claims.values()))} claims; {len(found)} changed")
        if found:
            print(
                "commit it before the runs; a claim whose runs are older is named in "
                "docs/decisions.md, under 'Set after a number was seen'"
            )
    elif found:
        how = "`python -m reproduce claims update=true` sets them now"
        raise UserError(
            f"{len(found)} claims are not as they were frozen: {how}", VERIFICATION_FAILED
        )
    else:
        print(f"all {sum(map(len, claims.values()))} claims are as they were frozen")
    return OK
