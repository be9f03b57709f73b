"""Code that is equal up to rounding: its records are served and never gone on from."""

import json
import shutil
from pathlib import Path
from typing import Literal

import pytest

from bench.config.settings import Configuration
from bench.records import equivalence
from bench.records.equality.rounded_runs import RoundedRun
from bench.records.equivalence import (
    Code,
    Compared,
    Equivalence,
    Name,
    code_status,
    names,
    read_table,
)
from bench.records.identity import canonical_name, canonical_record, identity_of, one_of_each
from bench.records.schema import RunRecord, make_run_id, write_record
from bench.records.store import Store
from bench.runs.fresh import pending_run
from bench.runs.get_or_run import get_or_run, load_or_run
from bench.runs.proofs.writing import add_entries
from bench.runs.serving import identify
from core.errors import UserError
from core.files import write_atomically
from core.progress import silent
from leaderboards.checks.agreement import SharedStatements
from leaderboards.tables.grouping import arrange
from leaderboards.tables.summaries import summary_of
from tests.bench.conftest import TINY
from tests.bench.records import make_record
from tests.configurations import compose

Proof = Literal["definitions", "runs", "rounding"]
CONFIG = {"tasks": {"_target_": "tasks.t.T"}, "models": {"_target_": "models.m.M"}}
ROUNDED = RoundedRun(
    words='tasks=t models.positions="learned"',
    data={},
    initial_weights="0" * 64,
    steps=50,
    longest_sum=100,
    float64={"outputs": 0.001},
    float32={"outputs": 0.5},
    factor=4.0,
    perturbations=2,
)
COMPARED = Compared(words="", data={}, weights=None, results="0" * 64)


def code(number: int) -> Code:
    return Code(
        task="tasks.t.T", task_code=f"{number:064x}", model="models.m.M", model_code="a" * 64
    )


def proof(old: Code, new: Code, by: Proof) -> Equivalence:
    runs = {"rounded": (ROUNDED,)} if by == "rounding" else {"compared": (COMPARED,)}
    states = {"old": old, "new": new, "added": {}}
    return Equivalence(task="t", model="m", commit="c" * 40, by=by, **states, **runs)


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the one task of these tests."""
    monkeypatch.setattr(equivalence, "TABLE", tmp_path / "equivalences")
    return tmp_path / "equivalences" / "t.json"


A, B, C = code(1), code(2), code(3)


def test_a_chain_is_bitwise_where_every_proof_on_the_way_is() -> None:
    add_entries([proof(A, B, "runs"), proof(B, C, "rounding")])
    assert [(n.code, n.bitwise) for n in names(A, CONFIG)] == [(A, True), (B, True), (C, False)]
    assert [(n.code, n.bitwise) for n in names(C, CONFIG)] == [(C, True), (B, False), (A, False)]
    add_entries([proof(A, C, "definitions")])  # another way, on which nothing is rounded
    assert [(n.code, n.bitwise) for n in names(C, CONFIG)] == [(C, True), (A, True), (B, True)]


def test_the_table_says_which_kind_a_proof_is_and_equal_bytes_say_more(table: Path) -> None:
    add_entries([proof(A, B, "runs"), proof(B, C, "rounding")])
    by_runs, by_rounding = json.loads(table.read_bytes())["entries"]
    # As files from before there was another kind have it.
    assert {"by", "rounded", "whole"}.isdisjoint(by_runs)
    assert by_rounding["by"] == "rounding"
    assert read_table() == (proof(A, B, "runs"), proof(B, C, "rounding"))
    by_rounding["rounded"] = []
    write_atomically(table, json.dumps({"entries": [by_rounding]}).encode())
    with pytest.raises(UserError, match="a proof by rounding names the runs"):
        read_table()
    table.unlink()
    add_entries([proof(A, B, "runs")])
    add_entries([proof(A, B, "rounding"), proof(B, C, "rounding")])
    add_entries([proof(B, C, "runs")])
    assert [(e.by, e.rounded) for e in read_table()] == [("runs", ()), ("runs", ())]


def test_a_proof_of_other_choices_makes_no_run_one_of_older_code() -> None:
    """Of two models with one class the one that was not compared keeps its latest name."""
    add_entries([proof(A, B, "runs"), proof(B, C, "rounding")])
    for positions, latest in (("learned", C), ("rope", B)):
        config = {**CONFIG, "models": {**CONFIG["models"], "positions": positions}}
        made_by = record_of(A, config).provenance
        assert canonical_name(config, made_by).code == latest
        assert canonical_name(config, made_by, bitwise=True).code == B


def record_of(made_by: Code, config: dict[str, dict[str, object]]) -> RunRecord:
    hashes = {"task_code": made_by.task_code, "model_code": made_by.model_code}
    provenance = make_record().provenance.model_copy(update=hashes)
    return make_record(config=config, provenance=provenance)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Configuration, RunRecord]:
    """A run of today, in a store of its own."""
    store = tmp_path_factory.mktemp("made")
    asked = compose([*TINY, "models=lstm", "models.width=8", "models.layers=1", f"store={store}"])
    return asked, get_or_run(asked)


def as_older(record: RunRecord) -> RunRecord:
    """The same run, as other code made it: with other weights."""
    provenance = record.provenance.model_copy(update={"model_code": "0" * 64})
    name = Name(Code.of(record.config, provenance), record.config)
    identity = identity_of(name, record.preset, provenance, None)
    run_id = make_run_id(record.task, record.model, record.preset, identity, record.seed)
    changes = {"provenance": provenance, "identity": identity, "run_id": run_id}
    return record.model_copy(update={**changes, "weights_sha256": "f" * 64})


@pytest.mark.parametrize("by", ["runs", "rounding"])
def test_a_record_is_served_and_a_training_goes_on_from_equal_bytes_alone(
    trained: tuple[Configuration, RunRecord], tmp_path: Path, by: Proof
) -> None:
    asked, record = trained
    older = as_older(record)
    states = (Code.of(r.config, r.provenance) for r in (older, record))
    add_entries([proof(*states, by)])
    said = {"runs": "equivalent", "rounding": "equal up to rounding"}[by]
    assert code_status(older.config, older.provenance) == said
    assert code_status(record.config, record.provenance) == "current"
    # A half-made run of the older code: its checkpoint, or its weights without a record.
    here = asked.model_copy(update={"store": tmp_path})
    store = Store(tmp_path)
    shutil.copytree(Store(asked.store).work(record.run_id), store.work(older.run_id))
    pending = pending_run(here, "single", silent)
    assert pending is not None
    assert (pending.work / "trained.json").exists() == (by == "runs")
    identity = identify(here)
    assert (older.run_id in identity.run_ids(0, bitwise=True)) == (by == "runs")
    # Its record is what a run of today gives.
    write_record(older, store.records)
    assert load_or_run(here) == (older, True)


@pytest.mark.parametrize("by", ["runs", "rounding"])
def test_the_board_counts_a_run_once_says_how_it_is_equal_and_lets_its_weights_differ(
    trained: tuple[Configuration, RunRecord], by: Proof
) -> None:
    record = trained[1]
    older = as_older(record)
    add_entries([proof(*(Code.of(r.config, r.provenance) for r in (older, record)), by)])
    assert canonical_record(older).identity == record.identity
    assert len(one_of_each([older, record])) == 1
    (entry,) = arrange([summary_of(older)])
    (of_today,) = arrange([summary_of(record)])
    assert (entry.group, entry.name) == (of_today.group, of_today.name)
    note = "1 run by earlier code that is equal up to rounding"
    assert (note in entry.notes) == (by == "rounding")
    assert note not in of_today.notes
    together = SharedStatements()
    together.take(record)
    if by == "rounding":
        together.take(older)
        return
    with pytest.raises(ValueError, match="weights_sha256 by equal code is not as in"):
        together.take(older)
