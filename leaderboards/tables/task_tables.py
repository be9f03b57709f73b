"""All tables of one task, from the summaries of its records.

A record is read where its numbers are asked for, one setting at a time. What the last build made of
the same records is taken over from its tables. So there is one builder: a whole build is one with
nothing before it, and an incremental build gives the same bytes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa

from bench.records.identity import canonical_record
from bench.records.schema import RunRecord
from core.progress import Report, silent, with_progress
from leaderboards.tables import published
from leaderboards.tables.curves import SizedRow, has_size, lines_by_size, lines_of, made_from
from leaderboards.tables.folder import BY_TASK, KINDS, lines_in, schema_of, table_of
from leaderboards.tables.grouping import Setting, SettingRecords, arrange
from leaderboards.tables.lines import RecordLine, Replication, Row
from leaderboards.tables.replications import (
    entries_beside,
    replications,
    split_by_origin,
    verified_again,
)
from leaderboards.tables.rows import REPLICATION, UNVERIFIED, Directions, rows_of
from leaderboards.tables.status import VerificationStatuses
from leaderboards.tables.summaries import YOURS, RecordSummary
from reproduce.published.numbers import PublishedFile, directions

BULK = {"curves", "arrays", "per_sequence"}  # not shown; the record's file has them
RECORD_KEY = ("run_id", "origin", "sha256", "checked")
PACKED_TOGETHER = 2000  # lines: as objects they take many times the memory of a table

ReadRecord = Callable[[RecordSummary], RunRecord]
Tables = dict[str, pa.Table]  # section, such as "rows" -> its lines


class PreviousTables:
    """What the last build made of a task, by what it was made from; without tables, nothing."""

    def __init__(self, tables: Mapping[str, pa.Table] | None = None) -> None:
        empty = {section: schema_of(KINDS[section]).empty_table() for section in BY_TASK}
        self.tables = {**empty, **(tables or {})}
        self._rows: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        groups, hashes = (self.tables["rows"][name].to_pylist() for name in ("group", "made_from"))
        for number, (group, made_from_hash) in enumerate(zip(groups, hashes, strict=True)):
            if group:  # else it is published, and made anew
                self._rows[group][made_from_hash].append(number)
        self._curves: dict[str, list[int]] = defaultdict(list)
        for number, made_from_hash in enumerate(self.tables["curves"]["made_from"].to_pylist()):
            self._curves[made_from_hash].append(number)
        columns = [self.tables["records"][name].to_pylist() for name in RECORD_KEY]
        self._records = {key: number for number, key in enumerate(zip(*columns, strict=True))}

    def row_numbers(self, group: str) -> dict[str, list[int]]:
        """Hash of the records of a setting -> its rows in a table."""
        return self._rows.get(group, {})

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """The rows of these numbers."""
        return lines_in(Row, self.tables["rows"].take(pa.array(numbers, pa.int64())))

    def curve_numbers(self, made_from_hash: str) -> list[int]:
        """The curves that were made from these records; none if they are unknown."""
        return self._curves.get(made_from_hash, [])

    def record_number(self, summary: RecordSummary, checked: str) -> int | None:
        """The line of the very record, of which no more is known than then."""
        return self._records.get((summary.run_id, summary.origin, summary.content, checked))


class MergedTable:
    """Lines of one kind: some of the last build's table, and new ones, in their order."""

    def __init__(self, section: str, previous: PreviousTables) -> None:
        self._kind = KINDS[section]
        self._tables = [previous.tables[section]]
        self._count = len(self._tables[0])
        self._unpacked: list[Any] = []
        self._order: list[int] = []
        self._variants: dict[int, str] = {}  # place in the order -> words that have changed

    def keep(self, numbers: Sequence[int], variant: str = "") -> None:
        """Take over lines of the last build; with a variant, under these words."""
        if variant and numbers and self._tables[0]["variant"][numbers[0]].as_py() != variant:
            start = len(self._order)
            self._variants |= dict.fromkeys(range(start, start + len(numbers)), variant)
        self._order += numbers

    def add(self, lines: Iterable[Any]) -> None:
        """Take new lines."""
        for line in lines:
            self._unpacked.append(line)
            self._order.append(self._count)
            self._count += 1
            if len(self._unpacked) == PACKED_TOGETHER:
                self._pack()

    def table(self) -> pa.Table:
        """All of them."""
        self._pack()
        table = pa.concat_tables(self._tables)
        if self._order != list(range(self._count)):
            table = table.take(pa.array(self._order, pa.int64()))
        if self._variants:
            variants = table["variant"].to_pylist()
            for place, variant in self._variants.items():
                variants[place] = variant
            column = table.schema.get_field_index("variant")
            table = table.set_column(column, table.schema.field(column), pa.array(variants))
        return table

    def _pack(self) -> None:
        if self._unpacked:
            self._tables.append(table_of(self._kind, self._unpacked))
            self._unpacked = []


def tables_of_task(
    summaries: Iterable[RecordSummary],
    read_record: ReadRecord,
    published_files: Sequence[PublishedFile] = (),
    previous: PreviousTables | None = None,
    statuses: VerificationStatuses | None = None,
    report: Report = silent,
) -> Tables:
    """All tables of a task by their section.

    Args:
        read_record: the record of a summary, as it was made.
        previous: what the last build made of the task.
        statuses: how far the records were checked.

    Raises:
        UserError: a record occurs twice under two names.
    """
    previous, statuses = previous or PreviousTables(), statuses or VerificationStatuses()
    builder = _TaskBuilder(read_record, published_files, previous, statuses, report)
    return builder.tables(summaries)


class _TaskBuilder:
    """Makes the tables of one task; see :func:`tables_of_task`."""

    def __init__(
        self,
        read_record: ReadRecord,
        published_files: Sequence[PublishedFile],
        previous: PreviousTables,
        statuses: VerificationStatuses,
        report: Report,
    ) -> None:
        self._read_record, self._published_files = read_record, published_files
        self._previous, self._statuses, self._report = previous, statuses, report
        self._directions: Directions = directions(published_files)
        self._rows = MergedTable("rows", previous)
        self._curves = MergedTable("curves", previous)
        self._records = MergedTable("records", previous)
        # Records are read setting by setting, and their lines are made then, so that none is read
        # twice. The table has them by name.
        self._new_records: set[tuple[str, str]] = set()
        self._record_lines: dict[tuple[str, str], RecordLine] = {}

    def tables(self, summaries: Iterable[RecordSummary]) -> Tables:
        parts = split_by_origin(summaries, self._statuses)
        on_board = [*parts.ranked, *parts.yours, *parts.unverified]
        known_records: dict[tuple[str, str], int | None] = {}
        for summary in on_board:
            number = self._previous.record_number(summary, self._statuses.of_record(summary))
            known_records[_key(summary)] = number
            if number is None:
                self._new_records.add(_key(summary))
        entries = [self._with_status(entry) for entry in arrange(parts.ranked)]
        yours = self._entries_beside(entries, parts.yours, REPLICATION)
        unverified = self._entries_beside(entries, parts.unverified, UNVERIFIED)
        repeated: list[Replication] = []
        for number, entry in sorted(yours.items()):
            repeated += replications(entries[number], entry)
        repeated += verified_again(
            [*entries, *yours.values(), *unverified.values()], self._statuses
        )
        rows_of_yours = _without_repeated_predictors(yours, repeated)
        self._add_rows_and_curves(entries, [rows_of_yours, unverified])
        for summary in sorted(on_board, key=_key):
            known_number = known_records[_key(summary)]
            if known_number is not None:
                self._records.keep([known_number])
            else:
                line = self._record_lines.pop(_key(summary), None)
                self._records.add([line or self._record_line(self._read_record(summary), summary)])
        self._add_published(entries)
        return {
            "rows": self._rows.table(),
            "curves": self._curves.table(),
            "records": self._records.table(),
            "replications": table_of(Replication, repeated),
        }

    def _with_status(self, entry: SettingRecords) -> SettingRecords:
        return replace(entry, status=self._statuses.of_row(entry.summaries))

    def _entries_beside(
        self, entries: Sequence[SettingRecords], summaries: Sequence[RecordSummary], kind: str
    ) -> dict[int, SettingRecords]:
        """Number of an entry -> the runs of the same setting that stand beside it."""
        beside = entries_beside(entries, summaries, kind)
        return {number: self._with_status(entry) for number, entry in beside.items()}

    def _add_rows_and_curves(
        self, entries: Sequence[SettingRecords], beside: Sequence[Mapping[int, SettingRecords]]
    ) -> None:
        entries_by_group: dict[str, list[SettingRecords]] = {}
        entries_by_curve: dict[tuple[str, str], list[SettingRecords]] = {}
        for number, entry in enumerate(entries):
            group = entries_by_group.setdefault(entry.group, [])
            group.append(entry)
            group += [others[number] for others in beside if number in others]
            if has_size(entry):
                entries_by_curve.setdefault(_curve_key(entry), []).append(entry)
        hashes = {key: made_from(sized) for key, sized in entries_by_curve.items()}
        new_curves = {key for key in hashes if not self._previous.curve_numbers(hashes[key])}
        new_points: dict[tuple[str, str], list[SizedRow]] = defaultdict(list)
        tables = list(entries_by_group.values())
        for table in with_progress(tables, "ranking rows, averaging curves", self._report):
            # The points of a curve by size are rows of several tables.
            wanted = not new_curves.isdisjoint(map(_curve_key, table))
            for entry, row in self._add_table(table, wanted):
                new_points[_curve_key(entry)].append((entry, row))
        for key in sorted(hashes):
            if key in new_curves:
                self._curves.add(lines_by_size(new_points[key], hashes[key]))
            else:
                self._curves.keep(self._previous.curve_numbers(hashes[key]))

    def _add_table(self, entries: Sequence[SettingRecords], wanted: bool) -> list[SizedRow]:
        """Add the rows and curves of one table; its points by size, if they are wanted."""
        variant = entries[0].variant
        known_rows = self._previous.row_numbers(entries[0].group)
        entry_by_hash = {entry.made_from: entry for entry in entries}
        settings: dict[str, Setting] = {}
        rows: list[Row] = []
        if known_rows.keys() == entry_by_hash.keys():
            numbers = sorted(chain.from_iterable(known_rows.values()))
            self._rows.keep(numbers, variant)
            rows = self._previous.rows(numbers) if wanted else []
        else:
            numbers = []  # of rows of the last build that are those of today
            for made_from_hash, entry in entry_by_hash.items():
                # A setting with a run that did not end well has a row under every metric of its
                # table, and is made anew.
                ended_well = all(summary.outcome == "ok" for summary in entry.summaries)
                if made_from_hash in known_rows and ended_well:
                    numbers += known_rows[made_from_hash]
                else:
                    settings[made_from_hash] = self._setting(entry)
            old_rows = self._previous.rows(numbers)
            if old_rows and old_rows[0].variant != variant:
                old_rows = [replace(row, variant=variant) for row in old_rows]
            rows = rows_of(list(settings.values()), self._directions, old_rows)
            self._rows.add(rows)
        for entry in entries:
            if entry.beside:
                continue
            if curve_numbers := self._previous.curve_numbers(entry.made_from):
                self._curves.keep(curve_numbers, entry.variant)
            elif entry.made_from in settings or entry.made_from not in known_rows:
                # Else its rows were there before, and it has no curve.
                setting = settings.get(entry.made_from) or self._setting(entry)
                self._curves.add(lines_of(setting))
        points = []
        for row in rows if wanted else []:
            entry = entry_by_hash[row.made_from]
            if row.outcome == "ok" and has_size(entry):
                points.append((entry, row))
        return points

    def _setting(self, entry: SettingRecords) -> Setting:
        """The records of an entry, under the one name that all equal code gives them."""
        records = []
        for summary in entry.summaries:
            record = self._read_record(summary)
            if _key(summary) in self._new_records:
                self._new_records.discard(_key(summary))
                self._record_lines[_key(summary)] = self._record_line(record, summary)
            records.append(canonical_record(record))
        return Setting(entry, tuple(records))

    def _record_line(self, record: RunRecord, summary: RecordSummary) -> RecordLine:
        """What the board shows of a record, and how far it was checked."""
        content = record.model_dump(mode="json", exclude=BULK)
        content["content_sha256"] = summary.content
        return RecordLine(
            run_id=record.run_id,
            task=record.task,
            preset=record.preset,
            model=record.model,
            label=record.label,
            role=record.role,
            seed=record.seed,
            outcome=record.outcome,
            content=json.dumps(content, sort_keys=True),
            origin=summary.origin,
            sha256=summary.content,
            checked=self._statuses.of_record(summary),
        )

    def _add_published(self, entries: Sequence[SettingRecords]) -> None:
        """Published numbers, which stand in every measured table of their settings."""
        first_by_group: dict[str, SettingRecords] = {}
        for entry in entries:
            if entry.first.preset == published.PRESET:
                first_by_group.setdefault(entry.group, entry)
        tables = [
            published.MeasuredTable(entry.first.task, entry.variant, entry.first.facts.task)
            for entry in first_by_group.values()
        ]
        self._rows.add(published.rows(self._published_files, tables))
        self._curves.add(published.lines(self._published_files))


def _without_repeated_predictors(
    yours: Mapping[int, SettingRecords], repeated: Iterable[Replication]
) -> dict[int, SettingRecords]:
    """One's own runs beside rows, but for predictors without training that gave the numbers of
    theirs: they are deterministic, so that a second row of them would tell nothing."""
    same = {line.other_run_id for line in repeated if line.origin == YOURS and line.same_numbers}
    others = {}
    for number, entry in yours.items():
        is_repeated = all(summary.run_id in same for summary in entry.summaries)
        if not (entry.first.is_reference and is_repeated):
            others[number] = entry
    return others


def _key(summary: RecordSummary) -> tuple[str, str]:
    return summary.run_id, summary.origin


def _curve_key(entry: SettingRecords) -> tuple[str, str]:
    return entry.first.preset, entry.line_group
