"""Count again what records say of data, sizes and work: ``python -m bench.recount run=FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.config.command_line import read_each
from bench.config.source_files import trusted_names
from bench.runs.requests import RecountRequest
from core.errors import UserError, command
from core.places import absolute
from core.words import command_line

HELP = """\
usage: python -m bench.recount run=FILE [run=FILE ...] [tasks.KEY=PLACE] [trust=PACKAGE|FILE.py]
       [output=FILE]

Make the data and the untrained model of each record again and count: the hash of every split, the
parameters, the bytes of state, and about how many tokens and FLOPs its training takes. Nothing is
trained. One line of JSON for each record, on the screen or in the file that output= names; exit
code 4 when a record says otherwise.
A model or a task that is not of this project is imported only from the package, or the file, that
trust= names (several: "trust=[package,./FILE.py]")."""


def request_of(settings: Sequence[tuple[str, Any]]) -> RecountRequest:
    """What the settings of the command line ask for.

    Raises:
        UserError: an unknown setting, or no record.
    """
    files = [str(value) for key, value in settings if key == "run"]
    places: dict[str, Any] = {key: value for key, value in settings if key != "run"}
    trust, output = places.pop("trust", None), places.pop("output", None)
    if unknown := next((key for key in places if not key.startswith("tasks.")), None):
        raise UserError(f"there is no setting '{unknown}': usage is bench.recount run=FILE")
    if not files:
        raise UserError("no record is named: usage is bench.recount run=FILE")
    return RecountRequest(
        paths=[absolute(file) for file in files],  # before a model's package changes the folder
        places=places,
        trust=trusted_names(trust),
        output=None if output is None else absolute(str(output)),
    )


main = command_line(HELP, read_each, request_of, "bench.runs.recounting:recount_all")


if __name__ == "__main__":
    command(main)
