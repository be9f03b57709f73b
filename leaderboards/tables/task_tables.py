"""All lines of one task, from the sketches of its records. A record is read where its numbers are
asked for, one setting at a time, and what the board's files already hold of the same records is
taken from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from bench.records.identity import settled
from bench.records.schema import RunRecord
from ground.progress import Report, counted, silent
from leaderboards.tables import published as published
from leaderboards.tables.curves import Point, has_size, lines_by_size, lines_of, made_from
from leaderboards.tables.grouping import Place, Setting, arrange
from leaderboards.tables.lines import RecordLine, Replication, Row
from leaderboards.tables.replications import apart, places_beside, replications, verified_again
from leaderboards.tables.rows import REPLICATION, UNVERIFIED, Directions, rows_of
from leaderboards.tables.summaries import Sketch
from leaderboards.verification.status import Standings
from published.numbers import PublishedFile, directions

BULK = {"curves", "arrays", "per_sequence"}  # not shown; the record's file has them

Read = Callable[[Sketch], RunRecord]


class Lines(Protocol):
    """Where the lines of one kind go, in their order."""

    def keep(self, numbers: Sequence[int], variant: str) -> None:
        """Take over lines that were there before, by their numbers."""

    def add(self, lines: Iterable[Any]) -> None:
        """Take new lines."""


class Before(Protocol):
    """What the files of a board hold of a task, by what it was made from."""

    def row_numbers(self, group: str) -> dict[str, list[int]]:
        """Hash of a setting's records -> its rows in a table."""

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """The rows of these numbers."""

    def line_numbers(self, made: str) -> list[int]:
        """The curves that were made from these records; none if they are unknown."""

    def record_number(self, sketch: Sketch, checked: str) -> int | None:
        """The line of the very record, of which no more is known than then."""


class Nothing:
    """No files before."""

    def row_numbers(self, group: str) -> dict[str, list[int]]:
        return {}

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        return []

    def line_numbers(self, made: str) -> list[int]:
        return []

    def record_number(self, sketch: Sketch, checked: str) -> int | None:
        return None


class Listed(list[Any]):
    """Lines in memory."""

    def keep(self, numbers: Sequence[int], variant: str) -> None:
        raise AssertionError("nothing was there before")

    def add(self, lines: Iterable[Any]) -> None:
        self.extend(lines)


@dataclass
class TaskLines:
    """The lines of one task."""

    rows: Lines
    curves: Lines
    records: Lines
    replications: list[Replication]


class TaskMaker:
    """Makes the lines of one task.

    Args:
        read: the record of a sketch, as it was made.
        before: what the board's files hold of the task.
        standings: how far the records were checked.
    """

    def __init__(
        self,
        into: TaskLines,
        read: Read,
        before: Before,
        files: Sequence[PublishedFile] = (),
        report: Report = silent,
        standings: Standings | None = None,
    ) -> None:
        self._standings = standings or Standings()
        self._into, self._read_record, self._before = into, read, before
        self._files, self._report = files, report
        self._known: Directions = directions(files)
        self._records: dict[tuple[str, str], RecordLine] = {}
        self._waiting: set[tuple[str, str]] = set()

    def make(self, sketches: Iterable[Sketch]) -> None:
        """Make all of them.

        Raises:
            UserError: a record occurs twice under two names.
        """
        found = apart(sketches, self._standings)
        every = [*found.main, *found.yours, *found.unverified]
        places = [self._judged(place) for place in arrange(found.main)]
        again = self._beside(places, found.yours, REPLICATION)
        sent = self._beside(places, found.unverified, UNVERIFIED)
        kept = {_key(s): self._before.record_number(s, self._standings.of_record(s)) for s in every}
        self._waiting = {key for key, number in kept.items() if number is None}
        for number, place in sorted(again.items()):
            self._into.replications += replications(places[number], place)
        of_places = [*places, *again.values(), *sent.values()]
        self._into.replications += verified_again(of_places, self._standings)
        self._tables(places, [again, sent])
        self._all_records(every, kept)
        self._published(places)

    def _beside(
        self, places: Sequence[Place], sketches: Sequence[Sketch], kind: str
    ) -> dict[int, Place]:
        found = places_beside(places, sketches, kind).items()
        return {number: self._judged(place) for number, place in found}

    def _judged(self, place: Place) -> Place:
        return replace(place, standing=self._standings.of_row(place.sketches))

    def _tables(self, places: Sequence[Place], beside: Sequence[dict[int, Place]]) -> None:
        tables: dict[str, list[Place]] = {}
        for number, place in enumerate(places):
            tables.setdefault(place.group, []).append(place)
            tables[place.group] += [own[number] for own in beside if number in own]
        points: dict[tuple[str, str], list[Point]] = {}
        sized: dict[tuple[str, str], list[Place]] = {}
        for place in filter(has_size, places):
            sized.setdefault((place.first.preset, place.line_group), []).append(place)
        changed = {key for key, own in sized.items() if not self._numbers_by_size(own)}
        for table in counted([*tables.values()], "ranking rows, averaging curves", self._report):
            wanted = {(p.first.preset, p.line_group) for p in table} & changed
            for point in self._table(table, bool(wanted)):
                key = (point.place.first.preset, point.place.line_group)
                points.setdefault(key, []).append(point)
        for key in sorted(sized):
            if key in changed:
                made = made_from(sized[key])
                self._into.curves.add(lines_by_size(points.get(key, []), made))
            else:
                for number in self._numbers_by_size(sized[key]):
                    self._into.curves.keep([number], "")

    def _numbers_by_size(self, places: Sequence[Place]) -> list[int]:
        return self._before.line_numbers(made_from(places))

    def _table(self, places: Sequence[Place], wanted: bool) -> Iterator[Point]:
        """Rows and curves of one table; its points, if they are wanted."""
        variant = places[0].variant
        old = self._before.row_numbers(places[0].group)
        new = {place.made_from: place for place in places}
        settings = {}
        if old.keys() == new.keys():
            numbers = sorted(number for own in old.values() for number in own)
            self._into.rows.keep(numbers, variant)
            rows = self._before.rows(numbers) if wanted else []
        else:
            kept = self._kept(old, new)
            settings = {m: self._setting(new[m]) for m in new if m not in kept}
            before = [row for own in kept.values() for row in own]
            if before and before[0].variant != variant:
                before = [replace(row, variant=variant) for row in before]
            rows = rows_of(list(settings.values()), self._known, before)
            self._into.rows.add(rows)
        for place in places:
            if not place.beside:
                self._curves(place, settings.get(place.made_from))
        if wanted:
            yield from (
                Point.of(new[row.made_from], row)
                for row in rows
                if row.outcome == "ok" and has_size(new[row.made_from])
            )

    def _kept(self, old: dict[str, list[int]], new: dict[str, Place]) -> dict[str, list[Row]]:
        """The rows of before that are those of today. A setting with a run that did not end well
        has a row under every metric of its table, and is made anew."""
        same = [m for m in new if m in old and all(s.outcome == "ok" for s in new[m].sketches)]
        rows = iter(self._before.rows([number for made in same for number in old[made]]))
        return {made: list(islice(rows, len(old[made]))) for made in same}

    def _curves(self, place: Place, setting: Setting | None) -> None:
        numbers = self._before.line_numbers(place.made_from)
        if numbers:
            self._into.curves.keep(numbers, place.variant)
            return
        if setting is None and self._before.row_numbers(place.group).get(place.made_from):
            return  # its rows are there, and it has no curve
        self._into.curves.add(lines_of(setting or self._setting(place)))

    def _setting(self, place: Place) -> Setting:
        return place.setting(self._settled)

    def _settled(self, sketch: Sketch) -> RunRecord:
        record = self._read_record(sketch)
        if _key(sketch) in self._waiting:
            self._waiting.discard(_key(sketch))
            self._records[_key(sketch)] = self._line(record, sketch)
        return settled(record)

    def _all_records(
        self, sketches: Sequence[Sketch], kept: dict[tuple[str, str], int | None]
    ) -> None:
        for sketch in sorted(sketches, key=_key):
            number = kept[_key(sketch)]
            if number is not None:
                self._into.records.keep([number], "")
            else:
                made = self._records.pop(_key(sketch), None)
                self._into.records.add([made or self._line(self._read_record(sketch), sketch)])

    def _line(self, record: RunRecord, sketch: Sketch) -> RecordLine:
        return record_line(record, sketch, self._standings.of_record(sketch))

    def _published(self, places: Sequence[Place]) -> None:
        tables = [
            published.MeasuredTable(place.first.task, place.variant, place.first.facts.task)
            for place in {place.group: place for place in reversed(places)}.values()
            if place.first.preset == published.PRESET
        ]
        self._into.rows.add(published.rows(self._files, tables))
        self._into.curves.add(published.lines(self._files))


def record_line(record: RunRecord, sketch: Sketch, checked: str) -> RecordLine:
    """What the board shows of a record, and how far it was checked."""
    shown = record.model_dump(mode="json", exclude=BULK)
    shown["content_sha256"] = sketch.content
    return RecordLine(
        run_id=record.run_id,
        task=record.task,
        preset=record.preset,
        model=record.model,
        label=record.label,
        role=record.role,
        seed=record.seed,
        outcome=record.outcome,
        content=json.dumps(shown, sort_keys=True),
        origin=sketch.origin,
        sha256=sketch.content,
        checked=checked,
    )


def _key(sketch: Sketch) -> tuple[str, str]:
    return sketch.run_id, sketch.origin
