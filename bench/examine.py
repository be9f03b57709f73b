"""Examine the saved weights of a finished run: ``python -m bench.examine run=ID``."""

from __future__ import annotations

from pathlib import Path

from bench.config.command_line import Settings, read
from bench.config.source_files import trusted_names
from bench.runs.requests import ExaminationRequest, refuse_unused, store_of, take_task_settings
from core.errors import UserError, command
from core.words import command_line

HELP = """\
usage: python -m bench.examine run=ID [store=FOLDER] [device=cpu|cuda] [write=false]
       [trust=PACKAGE|FILE.py]

Examine the model of a finished run by its saved weights, as the engine does before it scores test
data: it is causal at several cuts and lengths, in training and eval mode, keeps nothing between
calls, treats each sequence of a batch by itself, and gives numbers. The same model with fresh
weights is examined too. Nothing is trained.
ID is a run id (the name of a file in the folder records of the store), a part of one that no other
has, or the path of a record file.
The record is completed by what was passed. If the model fails, the record becomes that of a failed
run, which has no rank, and the one before it is kept in the run's folder in work/. With write=false
the record stays as it is.
tasks.KEY=PLACE says where data lie; trust=PACKAGE or trust=FILE.py imports
a model that is not of this project (several: "trust=[package,./FILE.py]").
Exit code 4 when the model fails."""


def request_of(settings: Settings) -> ExaminationRequest:
    """What the settings of the command line ask for.

    Raises:
        UserError: an unknown setting, no run, or a value that cannot be used.
    """
    places = take_task_settings(settings)
    run, store, device, trust = (settings.pop(k, None) for k in ("run", "store", "device", "trust"))
    write = settings.pop("write", True)
    refuse_unused(settings, run, "bench.examine run=ID [store=FOLDER] [device=cpu]")
    if type(write) is not bool:
        raise UserError(f"write={write} is neither true nor false")
    root = Path(store_of(store))
    device = device and str(device)
    return ExaminationRequest(str(run), root, device, places, trusted_names(trust), write)


main = command_line(HELP, read, request_of, "bench.runs.reexamining:examine_run")


if __name__ == "__main__":
    command(main)
