"""``python -m leaderboards.submit``: records as a folder that can be sent as a pull request."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import OK, UserError, command
from core.words import command_line
from leaderboards.arguments import Arguments, read

if TYPE_CHECKING:
    from bench.records.schema import RunRecord
    from leaderboards.verification.submission import Statement

SAID = {
    "who": "who made the runs: a name",
    "contact": "where a question reaches you: a page or an address",
    "licence": "of records and weights, such as CC-BY-4.0",
    "training_data": "what the models were trained on, in a sentence",
    "contamination": "what they may have seen of the test, in a sentence",
}

HELP = """\
usage: python -m leaderboards.submit RUN_ID|FILE ... to=FOLDER KEY=TEXT ... [store=FOLDER]

Checks each record as `leaderboards.add` does and writes a folder that can be sent as a pull
request, below leaderboards/submissions: records, weights up to 10 MiB, and submission.yaml with
what you say. docs/submit.md tells what becomes of it.

  to=FOLDER          a new folder, such as leaderboards/submissions/NAME
  who= contact= licence= training_data= contamination=
                     each is needed; quote a text with blanks: "who=Ada Lovelace"
  source=ADDRESS     where the code of a model of your own is to be read
  tuning_trials=N    settings that you tried, if more than the records' studies say
  weights=ADDRESS    where larger weights are to be had, RUN_ID.safetensors below it
  store=FOLDER       where the runs are (default runs)
example: python -m leaderboards.submit runs/records/*.json to=leaderboards/submissions/ada …"""


SETTINGS = (*SAID, "to", "source", "weights", "tuning_trials", "store")


@command_line(HELP, partial(read, settings=SETTINGS, takes_names=True))
def main(arguments: Arguments) -> int:
    """Check the records, then write the folder, its statement last."""
    if not arguments.names:
        raise UserError("name at least one record: RUN_ID or FILE; --help explains")
    missing = [key for key in ("to", *SAID) if key not in arguments.settings]
    if missing:
        meaning = SAID.get(missing[0], "the folder that is to be written")
        example = " ".join(f"{key}=…" for key in missing)
        raise UserError(f"{missing[0]}= is missing ({meaning}): give {example}")
    from leaderboards.verification.submission import LEAST_SAID

    for key in ("training_data", "contamination"):
        if len(text := arguments.one(key, "")) < LEAST_SAID:
            raise UserError(
                f"{key}={text} says too little: a reader has to learn {SAID[key]}, of "
                f"{LEAST_SAID} characters or more"
            )
    return _write(arguments)


def _write(arguments: Arguments) -> int:
    from bench.records.schema import read_record, write_record
    from bench.records.store import Store
    from core.files import write_atomically
    from leaderboards.checks.admission import (
        examine,
        in_store,
        is_path,
        no_such_run,
        records_beside,
    )
    from leaderboards.verification.messages import seeds_left_out
    from leaderboards.verification.submission import disagreement, read_submission, write_statement

    target, store = arguments.place("to", ""), arguments.place("store", "runs")
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is there already: name a new folder by to=")
    paths = [in_store(name, store) for name in arguments.names]
    records_of_store = Store(store).records
    for name, path in zip(arguments.names, paths, strict=True):
        if not is_path(name) and not path.is_file():
            raise no_such_run(
                name, str(records_of_store), (path.stem for path in records_of_store.glob("*.json"))
            )
    placed = [
        (read_record(p), p.parent.parent if p.parent.name == "records" else store) for p in paths
    ]
    records = [record for record, _ in placed]
    trusted = [*records_beside(records)]
    examine(records, trusted)
    statement = _statement(arguments, placed)
    for record in records:
        if reason := disagreement(statement, record):
            raise UserError(f"nothing was written, because {reason}")
    for record, root in placed:
        write_record(record, Store(target).records)
        if record.run_id in statement.weights and not statement.weights[record.run_id].address:
            weights = Store(root).weights(record.run_id).read_bytes()
            write_atomically(Store(target).weights(record.run_id), weights)
    write_statement(statement, target)
    read_submission(target)
    for line in seeds_left_out(records, trusted):
        print(f"{line}; verification and the board will say so")
    print(
        f"{target}: records: {len(records)}, with weights: {len(statement.weights)}; look at "
        f"it as others will: python -m leaderboards.verify {shlex.quote(str(target))}"
    )
    return OK


def _statement(arguments: Arguments, placed: list[tuple[RunRecord, Path]]) -> Statement:
    from leaderboards.verification.submission import STATEMENT

    tried = max(record.cost.tuning_trials for record, _ in placed)
    trials = arguments.one("tuning_trials", str(tried))
    if not trials.isdecimal():
        raise UserError(f"tuning_trials={trials} is no number: give how many settings were tried")
    content = {
        "schema_version": 1,
        **{key: arguments.one(key, "") for key in SAID},
        "tuning_trials": int(trials),
        "sources": dict(
            _source(r, arguments.one("source", "")) for r, _ in placed if "models" in r.config
        ),
        "records": {record.run_id: record.content_hash() for record, _ in placed},
        "weights": {
            record.run_id: weights
            for record, root in placed
            if (weights := _weights(record, root, arguments.one("weights", "")))
        },
    }
    return STATEMENT.typed(arguments.place("to", "") / "submission.yaml", content)


def _source(record: RunRecord, address: str) -> tuple[str, dict[str, str]]:
    """The class of a record's model, and where its code is to be read.

    Raises:
        UserError: it is of another package or a file, and no address is given.
    """
    from bench.records.code import is_own

    target = str(record.config["models"].get("_target_"))
    if not is_own(target) and not address:
        raise UserError(
            f"{target} is of a package or a file of yours: say where its code is to be read by "
            "source=ADDRESS"
        )
    where = f"this project at commit {record.provenance.commit}"
    return target, {
        "where": where if is_own(target) else address,
        "sha256": record.provenance.model_code,
    }


def _weights(record: RunRecord, root: Path, address: str) -> dict[str, str | None] | None:
    """What the statement says of a run's weights: sent along, at an address, or nothing."""
    from bench.records.store import Store
    from leaderboards.verification.submission import LARGEST_WEIGHTS

    path = Store(root).weights(record.run_id)
    if record.weights_sha256 is None or not path.exists():
        return None
    if path.stat().st_size <= LARGEST_WEIGHTS:
        return {"sha256": record.weights_sha256, "address": None}
    if not address:
        print(
            f"{record.run_id}: its weights are larger than {LARGEST_WEIGHTS >> 20} MiB and stay "
            "out; weights=ADDRESS says where others find them"
        )
        return None
    place = f"{address.rstrip('/')}/{record.run_id}.safetensors"
    return {"sha256": record.weights_sha256, "address": place}


if __name__ == "__main__":
    command(main)
