"""``python -m leaderboards.pack``: committed records as few compressed files."""

from __future__ import annotations

from functools import partial

from core.errors import OK, UserError, command
from core.progress import progress
from core.words import command_line
from leaderboards.arguments import Arguments, read
from leaderboards.build import FOLDER

HELP = """\
usage: python -m leaderboards.pack [records=FOLDER]
       python -m leaderboards.pack join=TASK/PRESET ... [records=FOLDER]
       python -m leaderboards.pack withdraw=RUN_ID ... [records=FOLDER]
       python -m leaderboards.pack RUN_ID ... to=FOLDER [records=FOLDER]

Moves the records that are JSON files below leaderboards/records into segments: files of compressed
JSON lines, one or more for each TASK/PRESET. Every command reads both forms. A segment is never
written again, so records that are added later go into new ones. A file is removed when its record
was read from the segment and was the same. A record that replaces one of the same name in a
segment is packed too, and the older one is withdrawn.

  join=TASK/PRESET write the records of its segments into one, which takes less space; the history
                   of git keeps the older ones as well, so do it seldom
  withdraw=RUN_ID  let a record count no more: a line in withdrawn.txt beside its segment, which git
                   merges as text; take the line out to have the record again
  RUN_ID to=FOLDER write a record as one JSON file, as it was before it was packed
  records=FOLDER   another folder of records than leaderboards/records
example: python -m leaderboards.pack"""


def pack_records(arguments: Arguments) -> int:
    """Pack, withdraw or take out."""
    records = arguments.place("records", FOLDER / "records")
    if not records.is_dir():
        raise UserError(f"there is no folder {records}: give one with run records")
    to_withdraw = arguments.settings.get("withdraw", [])
    to_join = arguments.settings.get("join", [])
    if bool(arguments.names) != ("to" in arguments.settings):
        raise UserError("name the records to take out, and where to: RUN_ID ... to=FOLDER")
    if bool(to_withdraw) + bool(to_join) + bool(arguments.names) > 1:
        raise UserError("join segments, withdraw records, or take them out: give one of the three")
    from leaderboards.checks import packing

    if to_withdraw:
        packing.withdraw(to_withdraw, records)
    elif to_join:
        packing.join(to_join, records)
    elif arguments.names:
        packing.unpack(arguments.names, records, arguments.place("to", ""))
    else:
        with progress() as report:
            packing.pack(records, report)
    return OK


SETTINGS = ("join", "withdraw", "to", "records")
ELSEWHERE = {"store": "records=FOLDER names the folder of records"}
READ = partial(read, settings=SETTINGS, takes_names=True, elsewhere=ELSEWHERE)
main = command_line(HELP, READ, pack_records)


if __name__ == "__main__":
    command(main)
