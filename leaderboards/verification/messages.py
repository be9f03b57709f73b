"""What was found of a record, in lines for a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import get_args

from bench.records.identity import beside_data, canonical_record
from bench.records.numbers import data_seed
from bench.records.schema import RunRecord
from core.escaping import terminal
from leaderboards.checks.seeds import missing_seeds
from leaderboards.tables.status import Check, Checked, Verification

WIDE = 0.2  # of what is recorded: a bound by seeds that differ by more
ORDER: tuple[Checked, ...] = get_args(Checked)


def latest(verification: Verification, level: Checked) -> list[Check]:
    """The checks that were just made: the last of each level up to the one that was asked for."""
    last = {check.level: check for check in verification.checks}
    return [last[name] for name in ORDER[: ORDER.index(level) + 1] if name in last]


def holds(verification: Verification, level: Checked) -> bool:
    """Whether everything that was just checked holds. What could not be counted again, such as data
    that another processor rounds otherwise, is nothing against a run that was made again."""
    checks = latest(verification, level)
    was_made_again = any(check.passed and check.level == "re-run" for check in checks)
    return all(check.passed or (was_made_again and check.level == "consistent") for check in checks)


def lines_about(record: RunRecord, verification: Verification, level: Checked) -> list[str]:
    """The level that a record has reached, what stands in the way of more, and each check."""
    reached = (
        f"{verification.level} ×{verification.machines}"
        if verification.machines > 1
        else verification.level
    )
    lines = [f"{record.run_id}: {reached}"]
    if verification.open and verification.level == "reported":
        lines.append(f"  stays reported until it is run again: {verification.open}")
    lines += [
        f"  {check.level}: {_in_words(record, check)}" for check in latest(verification, level)
    ]
    return [terminal(line) for line in lines]


def seeds_left_out(records: Sequence[RunRecord], others: Iterable[RunRecord]) -> list[str]:
    """For each setting of which seeds are missing, which, in a line for a terminal.

    Args:
        others: records that the board has, whose seeds count too.
    """
    rows: dict[str, list[RunRecord]] = defaultdict(list)
    for record in (*records, *others):
        rows[beside_data(canonical_record(record))].append(record)
    lines = []
    for setting in dict.fromkeys(beside_data(canonical_record(record)) for record in records):
        first = rows[setting][0]
        if missing := missing_seeds((data_seed(run), run.seed) for run in rows[setting]):
            lines.append(f"{first.label} on {first.task}, preset {first.preset}: {missing}")
    return list(map(terminal, lines))


def _in_words(record: RunRecord, check: Check) -> str:
    if check.bound is None:
        done = "what was counted is as recorded" if check.passed else "not confirmed"
        return f"{done}; {check.told}" if check.told else done
    name, recorded, measured = record.headline.name, _number(check.recorded), _number(check.found)
    numbers = f"{name} {recorded} recorded, {measured} here"
    if check.recorded is not None and check.found is not None:
        numbers += f", {_number(abs(check.found - check.recorded))} apart"
    where = "within" if check.passed else "OUTSIDE" if check.is_outside else "NOT THE SAME RUN"
    remark = f"; {check.told}" if check.told else ""
    wide = check.recorded is not None and check.bound > WIDE * abs(check.recorded)
    tells_little = ", so wide that being within tells little" if wide and check.passed else ""
    explained = f"explained up to {_number(check.bound)} ({check.bound_from}{tells_little})"
    return f"{where}: {numbers}; {explained}{remark}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
