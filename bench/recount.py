"""Count again what records say of data, sizes and work: ``python -m bench.recount run=FILE``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from bench.config.command_line import read_each
from bench.config.source_files import trusted_names
from core.errors import OK, VERIFICATION_FAILED, UserError, command
from core.places import absolute
from core.progress import progress
from core.words import command_line

HELP = """\
usage: python -m bench.recount run=FILE [run=FILE ...] [tasks.KEY=PLACE] [trust=PACKAGE|FILE.py]
       [output=FILE]

Make the data and the untrained model of each record again and count: the hash of every split, the
parameters, the bytes of state, and about how many tokens and FLOPs its training takes. Nothing is
trained. One line of JSON for each record, on the screen or in the file that output= names; exit
code 4 when a record says otherwise.
A model that is not of this project is imported only from the package, or the file, that trust=
names."""


@command_line(HELP, read_each)
def main(settings: Sequence[tuple[str, Any]]) -> int:
    """Exit code 0 when all records say what is counted, 4 when one does not."""
    files = [str(value) for key, value in settings if key == "run"]
    places: dict[str, Any] = {key: value for key, value in settings if key != "run"}
    trust, output = places.pop("trust", None), places.pop("output", None)
    if unknown := next((key for key in places if not key.startswith("tasks.")), None):
        raise UserError(f"there is no setting '{unknown}': usage is bench.recount run=FILE")
    if not files:
        raise UserError("no record is named: usage is bench.recount run=FILE")
    from bench.runs.recounting import recount_again

    code = OK
    paths = [absolute(file) for file in files]  # before a model's package changes the folder
    with progress() as report, ExitStack() as opened:
        answers = sys.stdout
        if output is not None:
            answers = opened.enter_context(absolute(str(output)).open("w", encoding="utf-8"))
        for path in paths:
            counted, agrees = recount_again(path, places, trusted_names(trust), report)
            print(counted.model_dump_json(), file=answers, flush=True)
            code = code if agrees else VERIFICATION_FAILED
    return code


if __name__ == "__main__":
    command(main)
