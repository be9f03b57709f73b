"""Records, published numbers and verdicts → the board. Pure functions: equal input, equal board.

Everything is held in memory here; ``leaderboards.tables.builder`` makes the same lines on disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from bench.records.schema import RunRecord
from ground.progress import Report, silent
from leaderboards.tables.lines import Board
from leaderboards.tables.summaries import (
    COMMITTED,
    OFF_THE_BOARD,
    SUBMITTED,
    YOURS,
    Sketch,
    sketch_of,
)
from leaderboards.tables.task_tables import Listed, Nothing, TaskLines, TaskMaker
from leaderboards.tables.verdicts import VerdictFile, claim_lines
from leaderboards.verification.status import Standings
from published.numbers import PublishedFile


def build_board(
    records: Iterable[RunRecord],
    published_files: Sequence[PublishedFile] = (),
    verdicts: Sequence[VerdictFile] = (),
    report: Report = silent,
    own: Iterable[RunRecord] = (),
    submitted: Iterable[RunRecord] = (),
    standings: Standings | None = None,
) -> Board:
    """The whole board; ``report`` counts records as they come, then tables.

    Args:
        own: records of this machine. Those of a setting that ``records`` has stand beside it.
        submitted: records that came from elsewhere. Of equal names those of ``records`` count.
        standings: how far the records were checked; without it none was.

    Raises:
        UserError: a record occurs twice under two names.
    """
    known: dict[tuple[str, str], RunRecord] = {}
    by_task: dict[str, list[Sketch]] = defaultdict(list)
    for origin, some in ((COMMITTED, records), (SUBMITTED, submitted), (YOURS, own)):
        for record in some:
            served = origin == SUBMITTED and (record.run_id, COMMITTED) in known
            if record.role not in OFF_THE_BOARD and not served:
                known[record.run_id, origin] = record
                by_task[record.task].append(sketch_of(record, origin))
    made = []
    for task in sorted({*by_task, *(file.task for file in published_files)}):
        files = [file for file in published_files if file.task == task]
        lines = TaskLines(Listed(), Listed(), Listed(), [])
        maker = TaskMaker(
            lines, lambda s: known[s.run_id, s.origin], Nothing(), files, report, standings
        )
        maker.make(by_task[task])
        made.append(lines)
    return Board(
        rows=tuple(row for one in made for row in one.rows),  # type: ignore[attr-defined]
        lines=tuple(line for one in made for line in one.curves),  # type: ignore[attr-defined]
        claims=tuple(claim_lines(verdicts)),
        records=tuple(line for one in made for line in one.records),  # type: ignore[attr-defined]
        replications=tuple(line for one in made for line in one.replications),
    )
