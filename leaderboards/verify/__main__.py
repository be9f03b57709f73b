"""``python -m leaderboards.verify``: how far a record or a submission can be believed."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ground.errors import OK, VERIFICATION_FAILED, UserError, command
from ground.words import wants_help
from leaderboards.arguments import Arguments, read

if TYPE_CHECKING:
    from bench.records.schema import RunRecord
    from ground.progress import Report
    from leaderboards.standing.levels import Verification
    from leaderboards.verify.steps import Asked, Verifier

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
  package=PACKAGE    the package whose models may be imported, in a process of its own; nothing
                     that was submitted is imported otherwise
  tasks.KEY=PLACE    where data lie on this machine
  sample=N seed=N    N records of leaderboards/records drawn at random, of those that this checkout
                     can make
  store=FOLDER       where runs are made (default runs/verify); what is there is not made again
  to=FOLDER          where the result goes instead
  by=NAME            who verifies, to be shown
  report=FILE        write what was found, and how the board changes, as Markdown
example: python -m leaderboards.verify leaderboards/submissions/ada"""

STORE = Path("runs")  # of whoever verifies
SETTINGS = ("level", "package", "sample", "seed", "store", "to", "by", "report")


def main(words: list[str]) -> int:
    """Exit code 0 when everything that was asked for holds, 4 when something does not."""
    if wants_help(words):
        print(HELP)
        return OK
    places = dict(_place(w) for w in words if w.startswith("tasks."))
    given = read([w for w in words if not w.startswith("tasks.")], SETTINGS, (), True)
    level = given.one("level", "re-run")
    from leaderboards.standing.levels import Checked

    if level not in get_args(Checked):
        raise UserError(f"level={level} is unknown: {', '.join(get_args(Checked))}")
    all_of_ones_own = given.settings.get("level") == ["consistent"] and STORE.is_dir()
    if not given.names and "sample" not in given.settings and all_of_ones_own:
        given.names.append(str(STORE))
    if bool(given.names) == ("sample" in given.settings):
        raise UserError("name a folder, a run id or a file, or give sample=N; --help explains")
    from ground.progress import progress

    try:
        with progress() as tell:
            verifier, batches = _prepare(given, places, tell)
            return _verify(verifier, batches, given)
    except UserError as error:
        if "report" in given.settings:
            from leaderboards.verify.report import refusal

            _write(given, refusal(str(error)))
        raise


def _write(given: Arguments, text: str) -> None:
    from ground.files import write_atomically

    write_atomically(Path(given.one("report", "")), text.encode())


def _place(word: str) -> tuple[str, str]:
    key, equals, place = word.partition("=")
    if not equals or not place:
        raise UserError(f"{key} has no value: give {key}=PLACE")
    return key, place


def _prepare(
    given: Arguments, places: dict[str, str], report: Report
) -> tuple[Verifier, list[list[Asked]]]:
    """The verifier, and the records that belong together; all are checked without running.

    Raises:
        UserError: one of them is refused, or a word is wrong.
    """
    from leaderboards.checks.admission import examine, records_beside
    from leaderboards.verify.again import Bench
    from leaderboards.verify.asked import asked, beside, drawn
    from leaderboards.verify.steps import Verifier

    to = Path(given.one("to", "")) if "to" in given.settings else None
    if "sample" in given.settings:
        number, seed = (_number(key, given.one(key, "0")) for key in ("sample", "seed"))
        batches = drawn(number, seed, to)
    else:
        batches = [asked(name, STORE, to) for name in given.names]
    every = [one.record for batch in batches for one in batch]
    trusted = [*records_beside(every)]
    own = [one.record for batch in batches for one in batch if one.own]
    examine([one.record for batch in batches for one in batch if not one.own], trusted)
    examine(own, beside(own, trusted))
    others: dict[str, list[RunRecord]] = defaultdict(list)
    for record in trusted:
        others[record.task].append(record)
    package = given.one("package", "") or None
    bench = Bench(Path(given.one("store", "runs/verify")), package, places)
    by = given.one("by", "")
    return Verifier(bench, given.one("level", "re-run"), by, others, report), batches  # type: ignore[arg-type]


def _number(key: str, text: str) -> int:
    if not text.isdecimal():
        raise UserError(f"{key}={text} is no number")
    return int(text)


def _verify(verifier: Verifier, batches: list[list[Asked]], given: Arguments) -> int:
    """Verify, tell what was found, and how the board changes."""
    from leaderboards.verify.report import report
    from leaderboards.verify.telling import holds, lines_about

    every = [one for batch in batches for one in batch]
    counted = verifier.count(every)
    found: list[Verification] = []
    lines: list[str] = []
    for batch in batches:
        for one, verification in zip(batch, verifier.verify(batch, counted), strict=True):
            found.append(verification)
            told = lines_about(one.record, verification, verifier.level)
            print("\n".join(told), flush=True)
            lines += told
    levels = Counter(verification.level for verification in found)
    print(", ".join(f"{count} {level}" for level, count in sorted(levels.items())))
    if "report" in given.settings:
        _write(given, report([one.record for one in every], found, lines))
    return OK if all(holds(one, verifier.level) for one in found) else VERIFICATION_FAILED


if __name__ == "__main__":
    command(main)
