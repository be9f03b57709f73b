"""``python -m leaderboards.add``: check records and copy them to where the board is made from."""

from __future__ import annotations

from functools import partial

from core.errors import OK, UserError, command
from core.words import command_line
from leaderboards.arguments import Arguments, read
from leaderboards.build import FOLDER, STORE

HELP = """\
usage: python -m leaderboards.add RUN_ID|FILE ... [to=FOLDER]

Checks each record and copies it unchanged to leaderboards/records/TASK/PRESET/. What it says is
worked out again as far as it goes, and compared with the other records of its task; what was
checked and what was not is printed. Nothing is run again. A RUN_ID is looked up in runs/records.
Records of trials stay out: only final and single runs and baselines stand on a board.

  to=FOLDER   copy to FOLDER/TASK/PRESET/ instead of leaderboards/records
example: python -m leaderboards.add runs/records/*.json"""


def add_records(arguments: Arguments) -> int:
    """Check all records, then copy all of them: one that is refused leaves nothing behind."""
    if not arguments.names:
        raise UserError("name at least one record: RUN_ID or FILE; --help explains")
    from leaderboards.checks.adding import add

    add(arguments.names, STORE, arguments.place("to", FOLDER / "records"))
    print(
        "make the board again with `python -m leaderboards.build`; `python -m leaderboards.verify "
        "RUN_ID` counts data and sizes again, and makes the run"
    )
    return OK


ELSEWHERE = dict.fromkeys(
    ("records", "store"), "name each record by its file, such as FOLDER/records/RUN_ID.json"
)
READ = partial(read, settings=("to",), takes_names=True, elsewhere=ELSEWHERE)
main = command_line(HELP, READ, add_records)


if __name__ == "__main__":
    command(main)
