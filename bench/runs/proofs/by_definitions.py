"""Proof that code which only moved, or got other names, is the same: by its definitions, without a
run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.records.code import code_hash
from bench.records.equality.definitions import Moves
from bench.records.equality.renames import NO_RENAMES, Renames
from bench.records.equality.statements import Source
from bench.records.equivalence import Code, Equivalence, names
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED, Store
from bench.runs.proofs.by_runs import Outcome, full_name, trees_of
from bench.runs.proofs.wanted import model_of
from bench.runs.proofs.writing import add_entries
from core.files import ROOT


def prove_moves(
    commit: str, store: Store, renames: Renames = NO_RENAMES
) -> dict[tuple[str, str], Outcome]:
    """Compare the definitions behind every task and model of the committed records, and of those in
    a store, with the definitions of an older commit, and write what is proven to the table.

    Args:
        renames: definitions and files of the commit that have other names here.

    Returns:
        What came of each task with each of its models, and with its predictors.

    Raises:
        UserError: the commit is not there, a file is no Python, or a name that is another one here
            was not there.
    """
    commit = full_name(commit)
    outcomes: dict[tuple[str, str], Outcome] = {}
    proven: list[Equivalence] = []
    with tempfile.TemporaryDirectory(prefix="equivalence-") as folder:
        older, _ = trees_of(commit, Path(folder))
        moves = Moves(Source(older.root, renames), Source(ROOT))
        records = read_records([COMMITTED, store.records, store.trials, store.controls])
        for task, model, code in _made_by(older.root, records):
            outcome = _outcome(task, model, commit, code, moves)
            if isinstance(outcome, Equivalence):
                proven.append(outcome)
            # Records of one model may hold its code in two spellings: what was proven is told.
            outcomes[task, model] = outcome or outcomes.get((task, model))
    add_entries(proven)
    return outcomes


def _made_by(root: Path, records: Iterable[RunRecord]) -> list[tuple[str, str, Code]]:
    """Task, model and code of every kind of run in the records, by the checkout at ``root``."""
    runs: dict[tuple[str, str, Code], None] = {}
    for record in records:
        for name in names(Code.of(record.config, record.provenance), record.config):
            code = name.code
            for later in (False, True):  # as either Python wrote the same code
                hashes = (
                    code_hash(code.task, root, by_later_python=later),
                    code_hash(code.model, root, by_later_python=later),
                )
                if hashes == (code.task_code, code.model_code):
                    runs[record.task, model_of(record), code] = None
    return [*runs]


def _outcome(task: str, model: str, commit: str, old: Code, moves: Moves) -> Outcome:
    targets = {target: moves.today(target) for target in (old.task, old.model)}
    new_task, new_model = targets[old.task], targets[old.model]
    if new_task is None or new_model is None:
        return moves.why_not(next(target for target in targets if targets[target] is None))
    hashes = {"task_code": code_hash(new_task), "model_code": code_hash(new_model)}
    new = Code(task=new_task, model=new_model, **hashes)
    if new == old:
        return None
    moved = {**moves.moved_behind(old.task), **moves.moved_behind(old.model)}
    return Equivalence(
        task=task,
        model=model,
        commit=commit,
        old=old,
        new=new,
        added={},
        by="definitions",
        moved=moved,
    )
