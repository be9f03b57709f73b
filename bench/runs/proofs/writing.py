"""Proofs are written to the table of equal code, a file for each task."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from bench.records import equivalence
from bench.records.equivalence import (
    STRENGTH,
    Equivalence,
    ProofTable,
    file_of_all_tasks,
    place_of,
    read_table,
)
from core.files import write_atomically


def _once(runs: Iterable[Sequence[Any]]) -> tuple[Any, ...]:
    """All runs of several proofs, each once."""
    in_order = [*chain.from_iterable(runs)]
    return tuple(run for number, run in enumerate(in_order) if run not in in_order[:number])


def add_entries(entries: Iterable[Equivalence]) -> None:
    """Write more proofs; what was compared of the same two states before is kept."""
    proofs = list(read_table())
    for entry in entries:
        before = [e for e in proofs if (e.old, e.new) == (entry.old, entry.new)]
        # One by definitions holds for all that one by runs does, and equal bytes are equal numbers.
        best = min((entry, *before), key=lambda proof: STRENGTH.index(proof.by))
        runs = ("compared", "rounded", "whole") if best.by == "rounding" else ("compared",)
        both = {name: _once(getattr(e, name) for e in (*before, entry)) for name in runs}
        proofs = [e for e in proofs if e not in before]
        proofs.append(best.model_copy(update=both))
    entries_by_task: dict[str, list[Equivalence]] = defaultdict(list)
    for entry in sorted(proofs, key=place_of):
        entries_by_task[entry.task].append(entry)
    for task, of_task in entries_by_task.items():
        content = ProofTable(entries=tuple(of_task)).model_dump(mode="json")
        for written in content["entries"]:
            if written["by"] == "runs":  # as they were written before there was another way
                del written["by"], written["moved"]
            if not written["rounded"]:
                del written["rounded"], written["whole"]
        text = (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()
        path = equivalence.TABLE / f"{task}.json"
        if not path.exists() or path.read_bytes() != text:
            write_atomically(path, text)
    file_of_all_tasks(equivalence.TABLE).unlink(missing_ok=True)
