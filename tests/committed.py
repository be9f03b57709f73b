"""The committed records, read once for all tests of a process: reading them takes seconds."""

from __future__ import annotations

from functools import cache

from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED


@cache
def committed_records() -> tuple[RunRecord, ...]:
    """All of them, as a figure reads them."""
    return tuple(read_records([COMMITTED]))
