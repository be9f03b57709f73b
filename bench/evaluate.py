"""Evaluate a saved run again: ``python -m bench.evaluate run=ID``."""

from __future__ import annotations

import json

from bench.config.command_line import Settings, read
from bench.config.source_files import trusted_names
from core.errors import OK, RUN_FAILED, VERIFICATION_FAILED, UserError, command
from core.files import write_atomically
from core.places import absolute
from core.words import command_line

TOLERANCE = 1e-6  # of a metric, on the kind of device that made the record

HELP = """\
usage: python -m bench.evaluate run=ID [tasks=TASK] [store=FOLDER] [device=cpu|cuda]
       [trust=PACKAGE|FILE.py] [output=FILE]

Run the task's whole protocol again from the saved weights of a run, and compare with its record.
ID is a run id (the name of a file in the folder records of the store), a part of one that no other
has, or the path of a record file.
With tasks=TASK the model is measured by another task that is trained on the same one (such as
wikipedia after babistories), and a record of that task is written. tasks.KEY=VALUE sets what that
task measures, or where the data lie: no place or address is taken from a record or a store.
A model or a task that is not of this project is imported only from the package, or the file, that
trust= names (several: "trust=[package,./FILE.py]").
The device is of the kind that made the record, unless another is given.
With output=FILE what was measured is written there too, as JSON: split -> metric -> value.
The weights are examined first, as by bench.examine: what sees the future is no result.
Exit code 4 when a metric differs from the record by more than 1e-6, or the model fails."""


@command_line(HELP, read)
def main(settings: Settings) -> int:
    """Exit code 0 when every metric is that of the record, 4 when one is not."""
    names = ("run", "store", "device", "tasks", "trust", "output")
    run, store, device, task, trust, output = (settings.pop(name, None) for name in names)
    keys = [key for key in settings if key.startswith("tasks.")]
    of_task = {key.removeprefix("tasks."): settings.pop(key) for key in keys}
    if settings or not run:
        unknown = next(iter(settings), None)
        wrong = f"there is no setting '{unknown}'" if unknown else "no run is named"
        raise UserError(f"{wrong}: usage is bench.evaluate run=ID [store=FOLDER] [device=cpu]")
    if store == "":
        raise UserError("store= is empty: give the folder of the runs, or leave it out for runs")
    from bench.records.report import print_comparison
    from bench.runs.evaluating import EvaluationRequest, evaluate_again, evaluate_by

    request = EvaluationRequest(
        run=str(run),
        store=absolute(str(store or "runs")),
        device=None if device is None else str(device),
        settings=of_task,
        trust=trusted_names(trust),
    )
    if task is not None:
        return OK if evaluate_by(str(task), request).outcome == "ok" else RUN_FAILED
    record, metrics = evaluate_again(request)
    if output is not None:
        write_atomically(absolute(str(output)), json.dumps(metrics).encode())
    return OK if print_comparison(record, metrics) <= TOLERANCE else VERIFICATION_FAILED


if __name__ == "__main__":
    command(main)
