"""``python -m leaderboards.verify``: how far a record or a submission can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from core.errors import UserError, command
from core.words import command_line
from leaderboards.arguments import OF_TASKS, Arguments, read

HELP = """\
usage: python -m leaderboards.verify FOLDER|RUN_ID|FILE ... [key=value ...]
       python -m leaderboards.verify sample=N [seed=N] [key=value ...]
       python -m leaderboards.verify level=consistent

Checks a submission (FOLDER), records of the board (RUN_ID), or your own: a store (FOLDER), the
folder of a run in it, a RUN_ID, a FILE. A run id without its seed names all seeds. The last line
checks all records of the store runs. It goes as far as asked:

  consistent   schema, names and identity; the headline follows from the items; data, parameters and
               FLOPs are counted again
  re-scored    the task's whole protocol by the weights that were sent along
  re-run       the run made again by its command, and its headline within the spread over seeds

and writes what it found to a folder that the last line names: leaderboards/verifications, where
the committed board reads it, for what lies beside it; verifications in their store of your own
records, for the board of local=true; verifications beside the folder of a submission elsewhere.
A record that says what is not so is refused with the reason. Exit code 4 when one is refused, lies
outside the spread or cannot be made again.

  level=consistent|re-scored|re-run
                     how far to go (default re-run)
  package=PACKAGE|FILE.py
                     the package, or the file, whose models and tasks may be imported, in a process
                     of its own; nothing that was submitted is imported otherwise. Several are a
                     list, "package=[./net.py,./task.py]", or one word each
  tasks.KEY=PLACE    where data lie on this machine
  sample=N seed=N    N records of leaderboards/records drawn at random, of those that this checkout
                     can make
  store=FOLDER       where runs are made (default runs/verify); what is there is not made again
  hours=N            the longest time of one process (default 24, or ten times what the record says)
  to=FOLDER          where the result goes instead
  by=NAME            who verifies, to be shown
  report=FILE        write what was found, and how the board changes, as Markdown
example: python -m leaderboards.verify leaderboards/submissions/ada"""

STORE = Path("runs")  # of whoever verifies
LARGEST_HOURS = 24.0 * 366
LEVELS = ("consistent", "re-scored", "re-run")
SETTINGS = ("level", "package", "sample", "seed", "store", "to", "by", "report", "hours")
ELSEWHERE = {"records": "name the folder, a run id or a file without a key"}


def places_of_data(arguments: Arguments) -> dict[str, str]:
    """Setting of a task, such as "tasks.stories" -> where its data lie on this machine."""
    settings = arguments.settings
    return {key: settings[key][-1] for key in settings if key.startswith(OF_TASKS)}


def verify_records(arguments: Arguments) -> int:
    """Exit code 0 when everything that was asked for holds, 4 when something does not."""
    level = arguments.one("level", "re-run")
    if level not in LEVELS:
        raise UserError(f"level={level} is unknown: {', '.join(LEVELS)}")
    names = list(arguments.names)
    sample = _number(arguments, "sample")
    if not names and sample is None and level == "consistent" and STORE.is_dir():
        names.append(str(STORE))
    if bool(names) == (sample is not None):
        raise UserError("name a folder, a run id or a file, or give sample=N; --help explains")
    from leaderboards.verification.session import VerificationRequest, verify

    request = VerificationRequest(
        names=names,
        sample=sample,
        seed=_number(arguments, "seed") or 0,
        level=level,  # type: ignore[arg-type]
        places=places_of_data(arguments),
        package=_packages(arguments.settings.get("package", [])),
        own_store=STORE,
        store=arguments.place("store", "runs/verify"),
        to=arguments.place("to", "") if "to" in arguments.settings else None,
        hours=_hours(arguments),
        by=arguments.one("by", ""),
        report=arguments.place("report", "") if "report" in arguments.settings else None,
    )
    return verify(request)


def _packages(values: Sequence[str]) -> str | None:
    """The names after every ``package=``, each one name or a list, with commas between them."""
    names: list[str] = []
    for value in values:
        is_list = value.startswith("[") and value.endswith("]")
        for name in (value[1:-1] if is_list else value).split(","):
            names.append(name.strip().strip("'\""))
    return ",".join(filter(None, names)) or None


def _number(arguments: Arguments, key: str) -> int | None:
    if key not in arguments.settings:
        return None
    text = arguments.one(key, "")
    if not text.isdecimal():
        raise UserError(f"{key}={text} is no number")
    return int(text)


def _hours(arguments: Arguments) -> float | None:
    if "hours" not in arguments.settings:
        return None
    text = arguments.one("hours", "")
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= LARGEST_HOURS:
        raise UserError(f"hours={text} is not a time above 0, such as hours=8 or hours=0.5")
    return hours


main = command_line(
    HELP,
    partial(read, settings=SETTINGS, takes_names=True, of_tasks=True, elsewhere=ELSEWHERE),
    verify_records,
)


if __name__ == "__main__":
    command(main)
