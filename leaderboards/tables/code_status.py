"""Whether records were made by the code that is here, by equal code, by code that is equal up to
rounding, or by other code."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from bench.records.equivalence import FORMS, Form, form
from bench.records.schema import Provenance
from leaderboards.tables.lines import Board


def form_of(content: dict[str, Any]) -> Form:
    """The form of a record as the board keeps it."""
    return form(content["config"], Provenance.model_validate(content["provenance"]))


def count_forms(board: Board) -> Counter[Form]:
    """How many of a board's records are of which form."""
    return Counter(form_of(json.loads(record.content)) for record in board.records)


def forms_in_words(board: Board) -> str:
    """One sentence with the four numbers."""
    counts = count_forms(board)
    numbers = ", ".join(f"{counts[form]} {form}" for form in FORMS)
    return f"The code behind these records is {numbers} ([what the four mean](../identity.md))."
