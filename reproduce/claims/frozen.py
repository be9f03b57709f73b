"""``python -m reproduce claims``: when each claim was last set, and whether that is still it.

A claim that is written or loosened after its numbers were seen is weak evidence. ``frozen.yaml``
holds two hashes of every claim: of its words, numbers, tolerance and control, with the time at
which these were last set, and of its test (:mod:`.fingerprints.fingerprint`), with the time at
which that was last edited while the words stayed. It also holds the numbers by which all claims are
judged (:mod:`.numbers`). The commit that holds an entry says when it was really made.
``mended_sources.yaml`` lists claims of which the source alone was named wrongly and mended: they
keep their time, and a test makes their older hash from the older source.

Until 2026-11-28 names of local variables counted in the hash of a test. ``same_tests.yaml`` says
which test each hash of that kind is, so that these entries, and their times, stay as they are.
``restated_tests.yaml`` does so for tests that were put in another form later, and names the commit
beside which ``python -m reproduce same`` has compared all that they say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bench.records.schema import RunRecord
from core.amounts import amount
from core.errors import OK, VERIFICATION_FAILED, UserError
from core.files import write_atomically
from core.reading import own_yaml
from reproduce.claims.fingerprints.fingerprint import fingerprint
from reproduce.claims.numbers import numbers
from reproduce.claims.repeats import began, moment

FROZEN = Path(__file__).with_name("frozen.yaml")
SAME_TESTS = Path(__file__).with_name("same_tests.yaml")
RESTATED = Path(__file__).with_name("restated_tests.yaml")
DIGITS = 16
HEAD = """\
# When each claim was last set. Written by `python -m reproduce claims update=true`.
# words: hash of its name, sentence, source, tolerance, numbers and control; set: since when.
# test: hash of the code that judges it; edited: since when, if later than the words.
# numbers of judging: of the code that judges all claims, which stand in none; set: since when.
"""
NUMBERS = "numbers of judging"  # beside the figures
HELP = """\
usage: python -m reproduce claims [update=true]

  say which claims, and which numbers of the code that judges them all, differ from
  reproduce/claims/frozen.yaml (exit code 4)
  update=true   write them there, so that what differs is set now, and judge the committed records
                of every file in leaderboards/verdicts again"""


class Hashes(NamedTuple):
    """A claim by its name and the hashes of what it says and of what judges it."""

    name: str
    words: str
    test: str

    @classmethod
    def of(cls, name: str, statement: object, test: object) -> Hashes:
        """The hashes of everything that a claim says, and of the functions that judge it."""
        return cls(name, _hash([name, fingerprint(statement)]), _hash(fingerprint(test)))


Claims = Mapping[str, Sequence[Hashes]]  # of each figure


class FrozenClaim(NamedTuple):
    """What is kept of a claim; times are ISO 8601, UTC."""

    words: str
    set: str
    test: str
    edited: str = ""

    @property
    def since(self) -> str:
        """Since when it is as it is."""
        return max(self.set, self.edited)

    def has_test(self, claim: Hashes) -> bool:
        """Whether the test of a claim is the one that was frozen."""
        test = self.test
        while test != claim.test and test in same_tests():
            test = same_tests()[test]
        return claim.test == test


class FrozenNumber(NamedTuple):
    """What is kept of a number of judging; the time is ISO 8601, UTC."""

    value: float
    set: str


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:DIGITS]


def read_frozen(path: Path = FROZEN) -> dict[str, dict[str, FrozenClaim]]:
    """Figure -> name of the claim -> what is kept of it."""
    by_figure = {}
    for figure, claims in _content(path).items():
        if figure != NUMBERS:
            by_figure[figure] = {name: FrozenClaim(**entry) for name, entry in claims.items()}
    return by_figure


def read_numbers(path: Path = FROZEN) -> dict[str, FrozenNumber]:
    """Name of the number -> what is kept of it."""
    kept_numbers = {
        name: FrozenNumber(**entry) for name, entry in _content(path).get(NUMBERS, {}).items()
    }
    # YAML takes 1e-06, without a point, for a text.
    return {
        name: number._replace(value=json.loads(str(number.value)))
        for name, number in kept_numbers.items()
    }


def _content(path: Path) -> dict[str, dict[str, Any]]:
    return (own_yaml(path) if path.exists() else None) or {}


@cache
def _by_words() -> dict[str, FrozenClaim]:
    return {entry.words: entry for claims in read_frozen().values() for entry in claims.values()}


@cache
def same_tests() -> dict[str, str]:
    """Hash of a test -> the hash that the same test had next: without the names of its local
    variables, or in another form."""
    later = dict(own_yaml(SAME_TESTS))
    for comparison in own_yaml(RESTATED) or []:
        later |= comparison["same"]
    return later


def entry_of(claim: Hashes) -> FrozenClaim | None:
    """What is kept of a claim with these very words; None of one that is not frozen."""
    return _by_words().get(claim.words)


def set_after(claim: Hashes, records: Iterable[RunRecord]) -> bool:
    """Whether a claim was set, or its test edited, after the first of these runs had begun: with
    one run seen, the tolerance could have been chosen to fit."""
    entry = entry_of(claim)
    starts = [began(record) for record in records]
    if not starts:
        return False
    changed = entry is None or not entry.has_test(claim)
    return entry is None or changed or moment(entry.since) >= min(starts)


def begun_after(claim: Hashes, records: Iterable[RunRecord]) -> list[RunRecord]:
    """The runs that began after a claim was last set, or its test edited, and repeat none;
    none of one that is not frozen as it is. They had no part in what it says."""
    entry = entry_of(claim)
    if entry is None or not entry.has_test(claim):
        return []
    since = moment(entry.since)
    return [record for record in records if began(record) > since]


def differing(claims: Claims, frozen: Mapping[str, Mapping[str, FrozenClaim]]) -> list[str]:
    """What of ``frozen`` is not what the claims are now, in words."""
    lines = []
    for figure, claims_of_figure in claims.items():
        entries = frozen.get(figure, {})
        for claim in claims_of_figure:
            entry = entries.get(claim.name)
            if entry is None:
                lines.append(f"{figure}, {claim.name}: is new")
            elif entry.words != claim.words:
                lines.append(f"{figure}, {claim.name}: was set anew")
            elif not entry.has_test(claim):
                lines.append(f"{figure}, {claim.name}: its test was edited")
        gone = set(entries) - {claim.name for claim in claims_of_figure}
        lines += [f"{figure}, {name}: is gone" for name in sorted(gone)]
    return lines + [f"{figure}: is gone" for figure in sorted(set(frozen) - set(claims))]


def differing_numbers(now: Mapping[str, float], frozen: Mapping[str, FrozenNumber]) -> list[str]:
    """What of ``frozen`` is not what the numbers are now, in words."""
    lines = [
        f"{name}: is {value}, was {frozen[name].value}" if name in frozen else f"{name}: is new"
        for name, value in now.items()
        if name not in frozen or frozen[name].value != value
    ]
    return lines + [f"{name}: is gone" for name in sorted(set(frozen) - set(now))]


def updated_numbers(
    values: Mapping[str, float], frozen: Mapping[str, FrozenNumber], now: str
) -> dict[str, FrozenNumber]:
    """What is to be kept: times stay where nothing differs."""
    return {
        name: frozen[name]
        if name in frozen and frozen[name].value == value
        else FrozenNumber(value, now)
        for name, value in values.items()
    }


def updated(
    claims: Claims, frozen: Mapping[str, Mapping[str, FrozenClaim]], now: str
) -> dict[str, dict[str, FrozenClaim]]:
    """What is to be kept: times stay where nothing differs."""
    by_figure: dict[str, dict[str, FrozenClaim]] = {}
    for figure, claims_of_figure in claims.items():
        before = frozen.get(figure, {})
        by_figure[figure] = {
            claim.name: _entry(claim, before.get(claim.name), now) for claim in claims_of_figure
        }
    return by_figure


def _entry(claim: Hashes, old: FrozenClaim | None, now: str) -> FrozenClaim:
    if old is None or old.words != claim.words:
        return FrozenClaim(claim.words, now, claim.test)
    return old if old.has_test(claim) else old._replace(test=claim.test, edited=now)


def write_frozen(
    entries: Mapping[str, Mapping[str, FrozenClaim]],
    path: Path = FROZEN,
    kept_numbers: Mapping[str, FrozenNumber] | None = None,
) -> None:
    """One line for each number and claim, so that version control knows when each was set."""
    lines = [HEAD, f"{NUMBERS}:\n"] if kept_numbers else [HEAD]
    for name, number in (kept_numbers or {}).items():
        lines.append(f"  {name}: {json.dumps(number._asdict())}\n")
    for figure, claims_of_figure in sorted(entries.items()):
        lines.append(f"{figure}:\n")
        for name, entry in claims_of_figure.items():
            filled = {key: value for key, value in entry._asdict().items() if value}
            lines.append(f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(filled)}\n")
    write_atomically(path, "".join(lines).encode())
    _by_words.cache_clear()


def main(update: bool, claims: Claims, judge_again: Callable[[], None]) -> int:
    """Compare the claims and the numbers of judging with what is kept, or keep them and judge what
    is committed again."""
    known_entries, known_numbers, own_numbers = read_frozen(), read_numbers(), numbers()
    lines = [*differing_numbers(own_numbers, known_numbers), *differing(claims, known_entries)]
    for line in lines:
        print(line)
    if update:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        kept_numbers = updated_numbers(own_numbers, known_numbers, now)
        write_frozen(updated(claims, known_entries, now), kept_numbers=kept_numbers)
        judge_again()
        print(f"{FROZEN.name} holds {_counted(claims, own_numbers)}; {len(lines)} changed")
        if lines:
            print(
                "commit it before the runs; a claim whose runs are older has to be named in "
                "reproduce/claims/history.yaml, with the reason"
            )
    elif lines:
        command = "`python -m reproduce claims update=true` sets them now"
        raise UserError(
            f"{amount(len(lines), 'claim or number', 'claims or numbers')} of judging "
            f"{'is not as it was' if len(lines) == 1 else 'are not as they were'} frozen: "
            f"{command}",
            VERIFICATION_FAILED,
        )
    else:
        print(f"all {_counted(claims, own_numbers)} are as they were frozen")
    return OK


def _counted(claims: Claims, own_numbers: Mapping[str, float]) -> str:
    return f"{sum(map(len, claims.values()))} claims and {len(own_numbers)} numbers of judging"
