"""What the page of a task has below its tables, in the app and on the site."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from leaderboards.contents import OpenBoard
from leaderboards.views import claims
from leaderboards.views.links import Address, link
from leaderboards.views.parts import Links, Part, SortableTable, Text
from leaderboards.views.records import again_lines, in_words, machine_lines
from leaderboards.views.tables import Brief, RankedTable, coverage, planned


def replication_parts(board: OpenBoard, task: str, **where: Any) -> list[Part]:
    """The runs of a task, or of some of its tables, that were made once more."""
    runs = board.replications(task, **where)
    if not runs:
        return []
    return [
        SortableTable("Replications", again_lines(runs), lead=in_words(runs)),
        SortableTable("Replications by machine", machine_lines(runs)),
    ]


def claim_parts(board: OpenBoard, task: str, address: Address) -> list[Part]:
    """The published claims that a task's runs decide."""
    of_task = [claim for claim in claims.counted(board) if task in claims.tasks_of(claim)]
    if not of_task:
        return []
    all_of_them = (f"{len(of_task)} published claims", link("claims", task=task))
    lead = claims.in_words(of_task)
    return [
        SortableTable("Claims", claims.lines(of_task, address), claims.AT_FIRST, lead=lead),
        Links((all_of_them,)),
    ]


def coverage_parts(task: str, tables: Sequence[RankedTable[Brief]]) -> list[Part]:
    """Which model was measured at which preset, and the heading of the cards that follow."""
    words = f"Which model was measured on {task} at which preset"
    lines = coverage(task, tables, partial(planned, task))
    return [
        SortableTable("Who was measured", lines, words=words),
        Text(heading="About the task and its models"),
    ]
