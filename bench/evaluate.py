"""Evaluate a saved run again: ``python -m bench.evaluate run=ID``."""

from __future__ import annotations

from bench.config.command_line import Settings, read
from bench.config.source_files import trusted_names
from bench.runs.requests import EvaluationRequest, refuse_unused, store_of, take_task_settings
from core.errors import command
from core.places import absolute
from core.words import command_line

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


def request_of(settings: Settings) -> EvaluationRequest:
    """What the settings of the command line ask for.

    Raises:
        UserError: an unknown setting, or no run.
    """
    names = ("run", "store", "device", "tasks", "trust", "output")
    run, store, device, task, trust, output = (settings.pop(name, None) for name in names)
    of_task = take_task_settings(settings)
    refuse_unused(settings, run, "bench.evaluate run=ID [store=FOLDER] [device=cpu]")
    return EvaluationRequest(
        run=str(run),
        store=absolute(store_of(store)),
        device=None if device is None else str(device),
        task=None if task is None else str(task),
        settings=of_task,
        trust=trusted_names(trust),
        output=None if output is None else absolute(str(output)),
    )


main = command_line(HELP, read, request_of, "bench.runs.evaluating:evaluate_run")


if __name__ == "__main__":
    command(main)
