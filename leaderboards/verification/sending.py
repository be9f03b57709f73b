"""Records of one's own as a submission: checked, copied with their weights, and stated."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.records.code import is_own
from bench.records.record_files import is_record, records_in
from bench.records.schema import RunRecord, read_record, write_record
from bench.records.store import Store
from core.errors import UserError
from core.files import write_atomically
from leaderboards.checks.admission import examine, in_store, is_path, no_such_run, records_beside
from leaderboards.verification.messages import seeds_left_out
from leaderboards.verification.submission import (
    FILE,
    LARGEST_WEIGHTS,
    STATEMENT,
    disagreement,
    read_submission,
    write_statement,
)


class RecordInStore(NamedTuple):
    """A record and the store that it lies in, with its weights."""

    record: RunRecord
    store: Store


def send(
    names: Sequence[str],
    store: Path,
    target: Path,
    stated: Mapping[str, str],
    tuning_trials: int | None,
    source_address: str,
    weights_address: str,
) -> None:
    """Write a submission, and print how it can be looked at.

    Args:
        names: run ids of the store, or files of records.
        target: the new folder.
        stated: what the statement says in words.
        tuning_trials: settings that were tried; None is as many as the records tell of.
        source_address: where the code of a model of one's own is to be read; "" for nowhere.
        weights_address: where larger weights are to be had; "" for nowhere.

    Raises:
        UserError: the folder exists, a record is refused, or something is not stated.
    """
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is there already: name a new folder by to=")
    all_sent = [
        RecordInStore(read_record(path), _store_of(path, store)) for path in _paths(names, store)
    ]
    records = [sent.record for sent in all_sent]
    trusted = list(records_beside(records))
    examine(records, trusted)
    sources: dict[str, dict[str, str]] = {}
    all_weights: dict[str, dict[str, str | None]] = {}
    for sent in all_sent:
        if "models" in sent.record.config:
            sources |= _source(sent.record, source_address)
        all_weights |= _weights(sent, weights_address)
    if tuning_trials is None:
        tuning_trials = max(record.cost.tuning_trials for record in records)
    content = {
        "schema_version": 1,
        **stated,
        "tuning_trials": tuning_trials,
        "sources": sources,
        "records": {record.run_id: record.content_hash() for record in records},
        "weights": all_weights,
    }
    statement = STATEMENT.typed(target / FILE, content)
    for record in records:
        if reason := disagreement(statement, record):
            raise UserError(f"nothing was written, because {reason}")
    for record, store_of_record in all_sent:
        write_record(record, Store(target).records)
        if record.run_id in statement.weights and not statement.weights[record.run_id].address:
            weights = store_of_record.weights(record.run_id).read_bytes()
            write_atomically(Store(target).weights(record.run_id), weights)
    write_statement(statement, target)
    read_submission(target)
    for line in seeds_left_out(records, trusted):
        print(f"{line}; verification and the board will say so")
    print(
        f"{target}: records: {len(records)}, with weights: {len(statement.weights)}; look at "
        f"it as others will: python -m leaderboards.verify {shlex.quote(str(target))}"
    )


def _paths(names: Sequence[str], store: Path) -> list[Path]:
    paths = []
    for name in names:
        path = in_store(name, store)
        if not is_path(name) and not is_record(path):
            run_ids = [other.stem for other in records_in(path.parent)]
            raise no_such_run(name, str(path.parent), run_ids)
        paths.append(path)
    return paths


def _store_of(path: Path, store: Path) -> Store:
    """The store that a file lies in, else the one that was named."""
    return Store(path.parent.parent if path.parent.name == "records" else store)


def _source(record: RunRecord, address: str) -> dict[str, dict[str, str]]:
    """The class of a record's model, and where its code is to be read.

    Raises:
        UserError: it is of another package or a file, and no address is given.
    """
    target = str(record.config["models"].get("_target_"))
    where = f"this project at commit {record.provenance.commit}" if is_own(target) else address
    if not where:
        raise UserError(
            f"{target} is of a package or a file of yours: say where its code is to be read by "
            "source=ADDRESS"
        )
    return {target: {"where": where, "sha256": record.provenance.model_code}}


def _weights(sent: RecordInStore, address: str) -> dict[str, dict[str, str | None]]:
    """What the statement says of a run's weights: sent along, at an address, or nothing."""
    run_id, sha256 = sent.record.run_id, sent.record.weights_sha256
    path = sent.store.weights(run_id)
    if sha256 is None or not path.exists():
        return {}
    if path.stat().st_size <= LARGEST_WEIGHTS:
        return {run_id: {"sha256": sha256, "address": None}}
    if address:
        place = f"{address.rstrip('/')}/{run_id}.safetensors"
        return {run_id: {"sha256": sha256, "address": place}}
    print(
        f"{run_id}: its weights are larger than {LARGEST_WEIGHTS >> 20} MiB and stay "
        "out; weights=ADDRESS says where others find them"
    )
    return {}
