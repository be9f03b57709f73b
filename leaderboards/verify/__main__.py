"""``python -m leaderboards.verify``: how far a record or a submission can be believed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

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

Checks a submission (FOLDER), records of the board (RUN_ID) or any record (FILE), as far as asked:

  consistent   schema, names and identity; the headline follows from the items; data, parameters and
               FLOPs are counted again
  re-scored    the task's whole protocol by the weights that were sent along
  re-run       the run made again by its command, and its headline within the spread over seeds

and writes what it found to leaderboards/verifications. A record that says what is not so is refused
with the reason. Exit code 4 when one is refused, lies outside the spread or cannot be made again.

  level=consistent|re-scored|re-run
                     how far to go (default re-run)
  package=PACKAGE    the package whose models may be imported, in a process of its own; nothing
                     that was submitted is imported otherwise
  tasks.KEY=PLACE    where data lie on this machine
  sample=N seed=N    N records of leaderboards/records drawn at random, of those that this checkout
                     can make
  store=FOLDER       where runs are made (default runs/verify); what is there is not made again
  to=FOLDER          where the result goes instead of leaderboards/verifications
  by=NAME            who verifies, to be shown
  report=FILE        write what was found, and how the board changes, as Markdown
example: python -m leaderboards.verify leaderboards/submissions/ada"""

STORE = Path("runs")  # of whoever verifies, for a run id that is not on the board
SETTINGS = ("level", "package", "sample", "seed", "store", "to", "by", "report")


def main(words: list[str]) -> int:
    """Exit code 0 when everything that was asked for holds, 4 when something does not."""
    if wants_help(words):
        print(HELP)
        return OK
    places = dict(_place(w) for w in words if w.startswith("tasks."))
    given = read([w for w in words if not w.startswith("tasks.")], SETTINGS, (), True)
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
    from leaderboards.standing.levels import FOLDER
    from leaderboards.submission import examine, of_tasks_of
    from leaderboards.verify.again import Bench
    from leaderboards.verify.steps import Verifier

    level = given.one("level", "re-run")
    if level not in ("consistent", "re-scored", "re-run"):
        raise UserError(f"level={level} is unknown: consistent, re-scored or re-run")
    batches = _drawn(given) if "sample" in given.settings else [_asked(n) for n in given.names]
    every = [one.record for batch in batches for one in batch]
    trusted = [*of_tasks_of(every)]
    examine(every, trusted)
    others: dict[str, list[RunRecord]] = defaultdict(list)
    for record in trusted:
        others[record.task].append(record)
    package = given.one("package", "") or None
    bench = Bench(Path(given.one("store", "runs/verify")), package, places)
    to, by = Path(given.one("to", str(FOLDER))), given.one("by", "")
    return Verifier(bench, to, level, by, others, report), batches  # type: ignore[arg-type]


def _asked(name: str) -> list[Asked]:
    """What a name on the command line stands for.

    Raises:
        UserError: nothing of that name can be read.
    """
    from bench.records.schema import read_record
    from bench.records.store import COMMITTED, Store
    from leaderboards.standing.levels import SUBMISSIONS
    from leaderboards.standing.statement import read_submission
    from leaderboards.submission import in_store
    from leaderboards.verify.steps import Asked

    if Path(name).is_dir():
        folder = Path(name)
        _, records = read_submission(folder)
        return [Asked(one, Store(folder).records / f"{one.run_id}.json") for one in records]
    own = in_store(name, STORE)
    stem = own.stem
    board = [*COMMITTED.glob(f"*/*/{stem}.json"), *SUBMISSIONS.glob(f"*/records/{stem}.json")]
    path = board[0] if board and name == stem else own
    return [Asked(read_record(path), path)]


def _drawn(given: Arguments) -> list[list[Asked]]:
    """Committed records that this checkout can make, each by itself.

    Raises:
        UserError: there are fewer.
    """
    from bench.records.equivalence import FORMS, form
    from bench.records.schema import read_record
    from bench.records.store import COMMITTED
    from leaderboards.verify.steps import Asked

    number, seed = (_number(key, given.one(key, "0")) for key in ("sample", "seed"))
    found = [Asked(read_record(path), path) for path in sorted(COMMITTED.rglob("*.json"))]
    made_here = [
        one for one in found if form(one.record.config, one.record.provenance) != FORMS[-1]
    ]
    if not 0 < number <= len(made_here):
        raise UserError(f"sample={number}: this checkout can make {len(made_here)} of its records")
    others = len(found) - len(made_here)
    print(f"{number} of {len(made_here)} records, seed {seed}; {others} are of other code")
    return [[one] for one in random.Random(seed).sample(made_here, number)]


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
