"""What a record must satisfy beyond its schema and hash before it may stand on a board.

A record is data made by others: nothing in it names a path outside the board's folders, and nothing
in it can break the board's file or its page. What it says is worked out again as far as the record,
the YAML files of this checkout and the other records allow. That its numbers were measured is not
checked here: only running it again can tell. Nothing here imports a task, a model or torch.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from bench.records.equivalence import code_status
from bench.records.identity import canonical_record
from bench.records.record_files import records_below
from bench.records.registry import known_model
from bench.records.schema import RunRecord, read_record
from bench.records.segments import SUFFIX
from bench.records.store import COMMITTED, Store
from core.errors import RUN_FAILED, UserError
from core.files import ROOT
from core.privacy import DETAILS, public_word, without_places
from core.progress import Report, silent, with_progress
from core.reading import read_all
from leaderboards.checks import derived_by_code as derived
from leaderboards.checks import derived_metrics, naming, numbers, studies, training
from leaderboards.checks.agreement import SharedStatements, not_as_in
from leaderboards.checks.naming import check_name

SYSTEM = re.compile(r"\w+ \w+")  # as core.privacy.public_system has it
COMMON = ROOT / "leaderboards"  # the records below it are the project's, not one's own
RULES = (  # after those of names, by which the others know the settings
    *numbers.RULES,
    *derived_metrics.RULES,
    *derived.RULES,
    *training.RULES,
    *studies.RULES,
)


def check(record: RunRecord, file: Path | None = None) -> RunRecord:
    """The record itself, if it may stand on a board.

    Args:
        file: where it was read, if what to do about it depends on whose it is.

    Raises:
        UserError: one sentence that says what is wrong with it.
    """
    for name in ("task", "model", "preset", "run_id"):
        check_name(getattr(record, name), name)
    for rule in naming.RULES:
        if reason := rule(record):
            raise _refused(record.run_id, reason, file)
    # Older code that is proven equal had fewer settings, which the checks of numbers go by.
    canonical = canonical_record(record)
    for rule in RULES:
        if reason := rule(canonical):
            raise _refused(record.run_id, reason, file)
    return record


def take(together: SharedStatements, record: RunRecord, file: Path | None = None) -> set[str]:
    """Check a record against those before it; what of it they confirm.

    Raises:
        UserError: one of them contradicts it, in one sentence.
    """
    try:
        return together.take(check(record, file))
    except ValueError as error:
        raise _refused(record.run_id, str(error), file) from None


def in_store(name: str, store: Path) -> Path:
    """The file of a record of one's own, by its path or its run id in a store."""
    if is_path(name):
        return Path(name)
    return Store(store).records / f"{check_name(name, 'run id')}.json"


def is_path(name: str) -> bool:
    """Whether a word names a file, and not a run."""
    return name.endswith((".json", SUFFIX)) or "/" in name


def no_such_run(name: str, places: str, run_ids: Iterable[str]) -> UserError:
    """That no place has a run of that id, with the one that is spelled most like it."""
    close = get_close_matches(name, list(run_ids), n=1)
    hint = f"did you mean '{close[0]}'?" if close else "a run id is the name of such a file"
    return UserError(f"there is no record '{name}' in {places}: {hint}")


def examine(
    records: Sequence[RunRecord],
    among: Iterable[RunRecord] | None = None,
    refused: list[UserError] | None = None,
) -> dict[str, set[str]]:
    """Check new records, without running anything of them.

    Args:
        among: checked records of their tasks, with which they have to agree; the project's own if
            none are given.
        refused: where the errors of records go that may not stand on a board.

    Returns:
        Run id -> what of a record the others confirm, without those that are refused.

    Raises:
        UserError: without ``refused``, a record is none that may stand on a board, or another one
            contradicts it.
    """
    new, together = {record.run_id for record in records}, SharedStatements()
    for record in records_beside(records) if among is None else among:
        # What stands there may be asked about itself, and be made again with other numbers.
        if record.run_id not in new or record.role == "baseline":
            together.take(record)
    confirmed = {}
    for record in records:
        try:
            confirmed[record.run_id] = take(together, record)
        except UserError as error:
            if refused is None:
                raise
            refused.append(error)
    return confirmed


def records_beside(records: Iterable[RunRecord], target: Path = COMMITTED) -> Iterator[RunRecord]:
    """The committed records of the tasks of some others, checked, and before them those below
    ``target``.

    Raises:
        UserError: at the first that cannot be trusted.
    """
    tasks = sorted({record.task for record in records})
    places = dict.fromkeys(folder.resolve() for folder in (target, COMMITTED))
    return read_checked(place / task for place in places for task in tasks)


def contradiction(run_id: str, subject: str, other: str, file: Path | None = None) -> UserError:
    """The error of a record that says something else than another one."""
    return _refused(run_id, not_as_in(subject, other), file)


def _refused(run_id: str, reason: str, file: Path | None = None) -> UserError:
    """One's own code may have changed since one's own record was made; whoever reads the file names
    it. A record of the project is nobody's to delete, and one's own is in nobody's way."""
    remedy = "make it again with bench.train or bench.sweep"
    if reason.startswith("its task ") and reason.endswith("is unknown here"):
        remedy = (
            "a task of a package or a file is known only in the store of its runs, which keeps its "
            "card in the folder tasks; name that store, or a run in it"
        )
    elif file is not None and file.resolve().is_relative_to(COMMON):
        remedy = "restore the file from version control, or report it"
    elif file is not None:
        remedy = "to make it again, move the file elsewhere before bench.train or bench.sweep"
    return UserError(f"the record {run_id} is refused because {reason}: {remedy}", RUN_FAILED)


def left_open(record: RunRecord) -> str:
    """Why a record's headline cannot be worked out from the record itself, in a clause; "" if it
    can, and was when the record was checked."""
    metric = record.headline.name
    if code_status(record.config, record.provenance) == "stale":
        return "its code is neither here nor proven equal"
    if record.outcome != "ok" or derived_metrics.derives(record, metric):
        return ""
    return f"the card of its task does not say what else in a record {metric} follows from"


def checked_and_not(record: RunRecord, confirmed: Collection[str]) -> tuple[list[str], list[str]]:
    """What was checked of a record, and what was not, in words.

    Args:
        confirmed: what :meth:`SharedStatements.take` gave.
    """
    checked = ["content hash", "names", "settings", "identity", "headline", "ranges", "costs"]
    unchecked = ["that it was run at all, which only running it again can tell"]
    metric, role = record.headline.name, record.role
    follows = derived_metrics.derives(record, metric) and role != "control"
    (checked if follows else unchecked).append(f"{metric} from what the record says of each item")
    others = {"provenance.data": "data hashes", "cost.parameters": "number of parameters"}
    for subject, words in others.items() if training.is_trained(record) else ():
        (checked if subject in confirmed else unchecked).append(f"{words} by other records")
    if role != "baseline" and known_model(record) is None:
        unchecked.append("its model, which is of another package")
    if code_status(record.config, record.provenance) == "stale":
        checked.remove("settings")
        unchecked.append("its settings and code, which is stale")
    return checked, unchecked


def tells(record: RunRecord) -> list[str]:
    """What a record of an earlier version, or of another program, tells of the machine that made
    it: places and addresses in its command and its cause, the build of its system."""
    made_by, private_texts = record.provenance, []
    try:
        words = shlex.split(made_by.command)
    except ValueError:  # a quote without its end
        words = ["", *made_by.command.split()]
    private_texts += [word for word in words[1:] if "=" in word and public_word(word) != word]
    cause = DETAILS.sub("", record.cause or "")
    if without_places(cause) != cause:
        private_texts.append(cause)
    return private_texts + [made_by.platform] * (not SYSTEM.fullmatch(made_by.platform))


def read_checked(
    folders: Iterable[Path], refused: list[UserError] | None = None, report: Report = silent
) -> Iterator[RunRecord]:
    """All records below ``folders``, in their order; of equal run ids the first folder wins, and
    the others are read too: a damaged file is never passed over, but with ``refused`` put there.

    Raises:
        UserError: without ``refused``, at the first record that cannot be trusted.
    """
    paths_by_name: dict[str, list[Path]] = {}
    for folder in folders:
        for path in records_below(folder):
            paths_by_name.setdefault(path.stem, []).append(path)
    together = SharedStatements()

    def take_first(path: Path) -> RunRecord:
        record = read_record(path)
        take(together, record, path)
        return record

    for first, *others in with_progress([*paths_by_name.values()], "reading records", report):
        accepted = list(read_all([first], take_first, refused))
        accepted += read_all(others, lambda path: check(read_record(path), path), refused)
        yield from accepted[:1]
