"""``python -m leaderboards.verify``: how far a record or a submission can be believed."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from core.errors import OK, VERIFICATION_FAILED, UserError, command
from core.words import command_line
from leaderboards.arguments import Arguments, read

if TYPE_CHECKING:
    from bench.records.schema import RunRecord
    from core.progress import Report
    from leaderboards.tables.status import Checked, Verification
    from leaderboards.verification.verifier import Asked, Verifier

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

and writes what it found to leaderboards/verifications, where the committed board reads it, and of
your own records to verifications in their store, for the board of local=true. A record that says
what is not so is refused with the reason. Exit code 4 when one is refused, lies outside the spread
or cannot be made again.

  level=consistent|re-scored|re-run
                     how far to go (default re-run)
  package=PACKAGE|FILE.py
                     the package, or the file, whose models may be imported, in a process of its
                     own; nothing that was submitted is imported otherwise
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
SETTINGS = ("level", "package", "sample", "seed", "store", "to", "by", "report", "hours")


def _read(words: list[str]) -> tuple[Arguments, dict[str, str]]:
    """The settings, and where the data of tasks lie."""
    places = {}
    for word in (word for word in words if word.startswith("tasks.")):
        key, _, places[key] = word.partition("=")
        if not places[key]:
            raise UserError(f"{key} has no value: give {key}=PLACE")
    others = [word for word in words if not word.startswith("tasks.")]
    return read(others, SETTINGS, takes_names=True), places


@command_line(HELP, _read)
def main(given: tuple[Arguments, dict[str, str]]) -> int:
    """Exit code 0 when everything that was asked for holds, 4 when something does not."""
    arguments, places = given
    level = _level(arguments)
    all_of_ones_own = level == "consistent" and STORE.is_dir()
    if not arguments.names and "sample" not in arguments.settings and all_of_ones_own:
        arguments.names.append(str(STORE))
    if bool(arguments.names) == ("sample" in arguments.settings):
        raise UserError("name a folder, a run id or a file, or give sample=N; --help explains")
    from core.progress import progress

    try:
        with progress() as tell:
            # Of a store the records that hold are told with those that do not.
            stores = any(Path(name).is_dir() for name in arguments.names)
            refused: list[UserError] | None = [] if stores else None
            verifier, batches = _prepare(arguments, level, places, refused, tell)
            return _verify(verifier, batches, refused, arguments)
    except UserError as error:
        if "report" in arguments.settings:
            from leaderboards.verification.report import refusal

            _write(arguments, refusal(str(error)))
        raise


def _level(arguments: Arguments) -> Checked:
    """How far to go.

    Raises:
        UserError: there is no such level.
    """
    from leaderboards.tables.status import Checked

    levels: dict[str, Checked] = {name: name for name in get_args(Checked)}
    level = arguments.one("level", "re-run")
    if level not in levels:
        raise UserError(f"level={level} is unknown: {', '.join(levels)}")
    return levels[level]


def _write(arguments: Arguments, text: str) -> None:
    from core.files import write_atomically

    write_atomically(arguments.place("report", ""), text.encode())


def _prepare(
    arguments: Arguments,
    level: Checked,
    places: dict[str, str],
    refused: list[UserError] | None,
    report: Report,
) -> tuple[Verifier, list[list[Asked]]]:
    """The verifier, and the records that belong together; all are checked without running.

    Args:
        refused: where the errors of one's own records go that are refused.

    Raises:
        UserError: a record is refused that has no place there, or a word is wrong.
    """
    from leaderboards.checks.admission import examine, records_beside
    from leaderboards.verification.rerun import Bench
    from leaderboards.verification.targets import asked, beside, drawn
    from leaderboards.verification.verifier import Verifier

    to = arguments.place("to", "") if "to" in arguments.settings else None
    if "sample" in arguments.settings:
        number, seed = (_number(key, arguments.one(key, "0")) for key in ("sample", "seed"))
        batches = drawn(number, seed, to)
    else:
        batches = [asked(name, STORE, to, refused) for name in arguments.names]
    all_records = [target.record for batch in batches for target in batch]
    trusted = [*records_beside(all_records)]
    own_records = [target.record for batch in batches for target in batch if target.own]
    examine([target.record for batch in batches for target in batch if not target.own], trusted)
    accepted = examine(own_records, beside(own_records, trusted), refused)
    batches = [[t for t in batch if not t.own or t.record.run_id in accepted] for batch in batches]
    others: dict[str, list[RunRecord]] = defaultdict(list)
    for record in trusted:
        others[record.task].append(record)
    package = arguments.one("package", "") or None
    bench = Bench(arguments.place("store", "runs/verify"), package, places, hours=_hours(arguments))
    by = arguments.one("by", "")
    return Verifier(bench, level, by, others, report), batches


def _hours(arguments: Arguments) -> float | None:
    text = arguments.one("hours", "")
    if not text:
        return None
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= LARGEST_HOURS:
        raise UserError(f"hours={text} is not a time above 0, such as hours=8 or hours=0.5")
    return hours


def _number(key: str, text: str) -> int:
    if not text.isdecimal():
        raise UserError(f"{key}={text} is no number")
    return int(text)


def _verify(
    verifier: Verifier,
    batches: list[list[Asked]],
    refused: list[UserError] | None,
    arguments: Arguments,
) -> int:
    """Verify, tell what was found, and how the board changes."""
    from core.escaping import terminal
    from leaderboards.verification.messages import holds, lines_about, seeds_left_out
    from leaderboards.verification.report import report

    counted = verifier.count([target for batch in batches for target in batch], refused)
    batches = [[target for target in batch if target.record.run_id in counted] for batch in batches]
    verifications: list[Verification] = []
    lines = [terminal(f"refused: {error}") for error in refused or ()]
    print("\n".join(lines), end="\n" * bool(lines), flush=True)
    for batch in batches:
        for target, verification in zip(batch, verifier.verify(batch, counted), strict=True):
            verifications.append(verification)
            lines_of_record = lines_about(target.record, verification, verifier.level)
            print("\n".join(lines_of_record), flush=True)
            lines += lines_of_record
        if any(target.submitted for target in batch):
            lines_of_record = seeds_left_out([target.record for target in batch], verifier.trusted)
            print("\n".join(lines_of_record), end="\n" * bool(lines_of_record), flush=True)
            lines += lines_of_record
    levels = Counter[str](verification.level for verification in verifications)
    levels.update("refused" for _ in refused or ())
    print(", ".join(f"{count} {level}" for level, count in sorted(levels.items())))
    if "report" in arguments.settings:
        _write(
            arguments,
            report([target.record for batch in batches for target in batch], verifications, lines),
        )
    held = not refused and all(holds(done, verifier.level) for done in verifications)
    return OK if held else VERIFICATION_FAILED


if __name__ == "__main__":
    command(main)
