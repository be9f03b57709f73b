"""Evaluate a saved run again: ``python -m bench.evaluate run=ID``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.errors import OK, VERIFICATION_FAILED, UserError, command
from bench.store import Store
from bench.words import wants_help

TOLERANCE = 1e-6  # of a metric, on the kind of device that made the record

HELP = """\
usage: python -m bench.evaluate run=ID [store=FOLDER] [device=cpu|cuda]

Run the task's whole protocol again from the saved weights of a run, and compare with its record.
ID is a run id (the name of a file in the folder records of the store), a part of one that no other
has, or the path of a record file.
The device is of the kind that made the record, unless another is given.
Exit code 4 when a metric differs from the record by more than 1e-6."""


def main(words: list[str]) -> int:
    """Exit code 0 when every metric is that of the record, 4 when one is not."""
    if wants_help(words):
        print(HELP)
        return OK
    from bench.config import parse

    given = {override.key_or_group: override.value() for override in parse(words)}
    unknown = set(given) - {"run", "store", "device"}
    if unknown or "run" not in given:
        wrong = f"there is no setting '{unknown.pop()}'" if unknown else "no run is named"
        raise UserError(f"{wrong}: usage is bench.evaluate run=ID [store=FOLDER] [device=cpu]")
    store = Path(str(given.get("store", "runs")))
    return _evaluate(str(given["run"]), store, given.get("device"))


def _find(part: str, store: Store) -> Path:
    """The record whose run id is, or alone contains, ``part``."""
    known = sorted(store.records.glob("*.json"))
    found = [path for path in known if path.stem == part] or [p for p in known if part in p.stem]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.stem for path in found[:3])
        raise UserError(
            f"{len(found)} runs have '{part}' in their id ({names}, …): give more of it"
        )
    raise UserError(
        f"no run in {store.records} has '{part}' in its id: ids are the names of its "
        f"{len(known)} files"
    )


def _evaluate(run: str, root: Path, device: Any) -> int:
    from bench.records import read_record

    store = Store(root)
    path = Path(run) if run.endswith(".json") else _find(run, store)
    record = read_record(path)
    if record.role == "baseline":
        raise UserError(f"{run} is a predictor without weights: bench.sweep makes it again")

    from bench.building import build_model, build_task, read_weights, resolve_device
    from bench.making import evaluate, measured_fields
    from bench.report import print_comparison
    from bench.settings import Configuration

    default = "cpu" if record.provenance.device_class == "cpu" else "cuda"
    device_name = str(device or default)
    configuration = Configuration.from_record(record, root, device_name)
    import torch

    torch.set_num_threads(configuration.training.threads)
    task, place = build_task(configuration), resolve_device(device_name)
    model = build_model(configuration, task, record.seed)
    model.load_state_dict(read_weights(store.weights(record.run_id), record.weights_sha256))
    model.to(place)
    splits = [s for s in ("validation", "test") if s in record.metrics]
    measured = measured_fields(
        task, {s: evaluate(task, model, s, place) for s in splits}, splits[-1]
    )
    largest = print_comparison(record, measured["metrics"])
    return OK if largest <= TOLERANCE else VERIFICATION_FAILED


if __name__ == "__main__":
    command(main)
