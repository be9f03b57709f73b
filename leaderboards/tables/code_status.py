"""Whether records were made by the code that is here, by equal code, by code that is equal up to
rounding, or by other code."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from bench.records.equivalence import CODE_STATUSES, CodeStatus, code_status
from bench.records.schema import Provenance
from leaderboards.tables.lines import Board


def code_status_of(content: dict[str, Any]) -> CodeStatus:
    """The status of a record's code, by the record's content as the board keeps it."""
    return code_status(content["config"], Provenance.model_validate(content["provenance"]))


def count_code_statuses(board: Board) -> Counter[CodeStatus]:
    """How many of a board's records have code of which status."""
    return Counter(code_status_of(json.loads(record.content)) for record in board.records)


def code_statuses_in_words(board: Board) -> str:
    """One sentence with the four numbers."""
    counts = count_code_statuses(board)
    numbers = ", ".join(f"{counts[status]} {status}" for status in CODE_STATUSES)
    return f"The code behind these records is {numbers} ([what the four mean](../identity.md))."
