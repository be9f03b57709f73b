"""A board from its request to what is told of it: which files it is made of, built or checked."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow

from bench.config.outside_tasks import use_cards_of
from bench.records.store import Store
from core.amounts import amount
from core.errors import OK, VERIFICATION_FAILED, UserError
from core.escaping import terminal
from core.places import absolute, readable
from core.progress import progress
from leaderboards import build as places
from leaderboards.arguments import Arguments
from leaderboards.render import PRESETS
from leaderboards.tables import status
from leaderboards.tables.builder import Inputs, build
from leaderboards.tables.difference import difference_from_records
from leaderboards.tables.open_board import OpenBoard
from leaderboards.tables.sources import RecordFolder
from leaderboards.tables.summaries import COMMITTED, SUBMITTED, YOURS
from leaderboards.views.yours import places_of_yours


@dataclass(frozen=True)
class BoardRequest:
    """Which board is to be made or checked.

    Attributes:
        house: the folder with the committed records and verdicts.
        folders: of records, in place of the committed and submitted ones.
        store: of one's own runs, which stand on the board too; None leaves them out.
        output: where the board goes, or lies.
        only_check: compare the board with the records, and write nothing.
        skip_refused: whether files that cannot be shown are no failure.
        drop_stale: whether verifications of records that are gone are deleted.
        of_store: the words of a command line that name the store, with a space before them.
    """

    house: Path
    folders: Sequence[Path]
    store: Path | None
    output: Path
    only_check: bool
    skip_refused: bool
    drop_stale: bool
    of_store: str = ""


def build_board(arguments: Arguments) -> int:
    """What ``leaderboards.build`` does: build the board, or compare it with the records.

    Raises:
        UserError: arguments that cannot be given together, or as :func:`make`.
    """
    only_check = "--check" in arguments.flags
    store, of_store = _store(arguments)
    folders = [absolute(folder) for folder in arguments.settings.get("records", [])]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(
                f"there is no folder {readable(folder)}: records=FOLDER holds run records"
            )
    skip_refused, drop_stale = arguments.true("skip_refused"), arguments.true("drop_stale")
    if drop_stale and (folders or skip_refused or only_check):
        raise UserError(
            "drop_stale=true goes by all records there are: leave records=, skip_refused= and "
            "--check out"
        )
    request = BoardRequest(
        house=places.FOLDER,
        folders=folders,
        store=store,
        output=arguments.place("output", places.board_of(store) if store else places.COMMITTED),
        only_check=only_check,
        skip_refused=skip_refused,
        drop_stale=drop_stale,
        of_store=of_store,
    )
    return make(request)


def _store(arguments: Arguments) -> tuple[Path | None, str]:
    """The store whose runs stand on the board too, if there is one, and the words that name it.

    Raises:
        UserError: there is no such store, or two are named.
    """
    if "store" not in arguments.settings:
        return (places.STORE, " local=true") if arguments.true("local") else (None, "")
    store = arguments.place("store", places.STORE)
    if not store.is_dir():
        raise UserError(f"there is no store {readable(store)}: store=FOLDER holds runs of your own")
    if "local" in arguments.settings and not arguments.true("local"):
        raise UserError("store=FOLDER adds runs of your own, and local=false leaves them out")
    return store, f" store={shlex.quote(readable(store))}"


def build_in_own_process(arguments: Arguments) -> int:
    """:func:`build_board` in a process of its own, which needs no pandas and ends soon."""
    # What is made of a task lives until it is written, so that a search for garbage finds none; and
    # pyarrow's own allocator asks the kernel for more than one pass over a task needs.
    gc.set_threshold(20_000, 20, 100)
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    # pyarrow looks for pandas at its first array, to know what a data frame is; loading it takes
    # longer than adding a record to a board.
    path, sys.path = sys.path, []
    pyarrow.array([0])
    sys.path = path
    return build_board(arguments)


def make(request: BoardRequest) -> int:
    """Build the board, or compare it with the records, and print what came of it; the exit code.

    Raises:
        UserError: the board that is checked is not what its records give.
    """
    folders = request.folders or [request.house / "records", status.SUBMISSIONS]
    sources = inputs(folders, request.house, request.store)
    if request.store and not request.folders and not request.only_check:
        sources = replace(sources, committed=request.house / "board.parquet")
    own_words = request.of_store
    stale: list[status.Verification] = []
    wrong_cards = use_cards_of(request.store) if request.store else []
    refused: list[UserError] = []
    difference = ""
    with progress() as report:
        if request.only_check:
            board = OpenBoard(request.output)
            difference = difference_from_records(board, sources, refused, report, stale)
        else:
            board = build(sources, request.output, refused, report, stale)
    if difference:
        raise UserError(
            f"{readable(request.output)} is not what its records give: {difference}; make it again "
            f"with `python -m leaderboards.build{own_words}`",
            VERIFICATION_FAILED,
        )
    for error in [*wrong_cards, *refused]:
        print(terminal(f"not shown: {error}"), file=sys.stderr)
    if stale and not request.folders:  # else there are records that were not looked at
        # What a record that is not shown was verified as may count again, once that is mended.
        if request.drop_stale and not refused:
            dropped = status.drop(stale, sources.verifications)
            sentence = f"dropped {amount(len(dropped), 'stale verification')}"
        else:
            are_stale = (
                "1 verification is stale and counts for nothing, since its record is gone or was "
                "replaced: drop it"
                if len(stale) == 1
                else f"{len(stale)} verifications are stale and count for nothing, since their "
                "records are gone or were replaced: drop them"
            )
            sentence = f"{are_stale} with `python -m leaderboards.build drop_stale=true{own_words}`"
        print(sentence, file=sys.stderr)
    size = _size_in_words(board, len(refused))
    if request.only_check:
        print(f"{readable(request.output)} is what its records give ({size})")
    else:
        print(f"{readable(request.output)}: {size}")
        for line in places_of_yours(board) if request.store else []:
            print(terminal(line))
        other = absolute(request.output) != absolute(places.default_board())
        board_words = f" board={shlex.quote(readable(request.output))}" if other else ""
        print(f"open it with `python -m leaderboards.serve{board_words}`")
    return VERIFICATION_FAILED if refused and not request.skip_refused else OK


def inputs(folders: Sequence[Path], house: Path, store: Path | None = None) -> Inputs:
    """What a board is made of: records below ``folders``, published numbers, verdicts, and what was
    checked of records. Those below ``leaderboards/submissions`` came from elsewhere."""
    committed, submitted = [], []
    for folder in folders:
        if folder.resolve().is_relative_to(status.SUBMISSIONS.resolve()):
            submitted.append(RecordFolder(folder, SUBMITTED))
        else:
            committed.append(RecordFolder(folder, COMMITTED))
    sources = committed + submitted  # of equal run ids the first counts
    verifications = [status.FOLDER]
    own_verdicts = []
    if store is not None:
        sources.append(RecordFolder(Store(store).records, YOURS))
        verifications.insert(0, store / status.OWN)  # of one record the last counts
        # A reproduction with changed settings lies in a folder of another name, and its verdicts
        # are not those of the preset.
        for path in sorted((store / "reproductions").rglob("verdicts.json")):
            if path.parent.name in PRESETS:
                own_verdicts.append(path)
    verdicts = sorted((house / "verdicts").rglob("*.json"))
    published = house.parent / "reproduce" / "published"
    return Inputs(sources, published, verdicts, verifications, own_verdicts)


def _size_in_words(board: OpenBoard, refused: int) -> str:
    """How much a board holds."""
    texts = [
        amount(board.count("records"), "record"),
        amount(board.count("rows"), "row"),
        amount(board.count("curves"), "curve"),
        amount(board.count("claims"), "verdict"),
    ]
    if replications := board.count("replications"):
        texts.append(amount(replications, "replication"))
    if refused:
        texts.append(f"{amount(refused, 'file')} not shown")
    return ", ".join(texts)
