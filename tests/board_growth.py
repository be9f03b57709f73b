"""``python -m tests.board_growth``: what a board of many records costs to make, renew and read.

The records are committed ones under other seeds and other numbers of threads, whose weights, losses
and identities are their own: every check accepts them. They are written to a folder; a board is
built from them, then once more with one record added; then a reader visits every task. Each step
runs in a process of its own, and its CPU-seconds and peak of memory are printed. Nothing is
asserted: what it costs depends on the machine.
"""

import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.records.equivalence import Code, Name
from bench.records.identity import identity_of
from bench.records.record_files import records_below
from bench.records.schema import Provenance, json_of, make_run_id
from bench.records.store import COMMITTED
from core.errors import OK, UserError, command
from core.files import ROOT
from leaderboards.arguments import read
from leaderboards.tables.open_board import OpenBoard
from leaderboards.tables.summaries import OFF_THE_BOARD

USAGE = "python -m tests.board_growth [records=8100 folder=FOLDER largest=KILOBYTES]"
SEEDS = 5  # copies of a record under another seed, before the next number of threads
TABLES, CURVES = ("variant", "metric", "group"), ("variant", "metric")  # of a menu
MIB = 2**20
Tree = dict[str, Any]


def main(words: list[str]) -> int:
    """Write the records, build, add one, build again, and read; or, with ``read=``, read alone."""
    given = read(words, settings=("records", "folder", "largest", "read"))
    if place := given.one("read", ""):
        visit(OpenBoard(Path(place)))
        return OK
    try:
        count, largest = int(given.one("records", "8100")), int(given.one("largest", "16384"))
    except ValueError:
        raise UserError(f"records= and largest= are whole numbers: {USAGE}") from None
    folder = Path(given.one("folder", "runs/board_growth"))
    records, board = folder / "records", folder / "board.parquet"
    shutil.rmtree(folder, ignore_errors=True)
    begun = time.process_time()
    made = copies(largest * 1024)
    size = sum(write(records, next(made)) for _ in range(count))
    seconds = time.process_time() - begun
    print(f"{count} records of {size / MIB:.0f} MiB written in {seconds:.0f} CPU-s", flush=True)
    build = ["leaderboards.build", f"records={records}", f"output={board}"]
    measured("build from nothing", build)
    measured("build of no change", build)
    write(records, next(made))
    measured("build of one more", build)
    size = sum(path.stat().st_size for path in board.rglob("*.parquet"))
    print(f"the board has {size / MIB:.0f} MiB", flush=True)
    measured("reader", ["tests.board_growth", f"read={board}"])
    return OK


def copies(largest: int) -> Iterator[Tree]:
    """Records without end, in the order of chance: the committed ones up to a size, then theirs of
    other seeds, then these by more threads, and so on."""
    paths = [path for path in records_below(COMMITTED) if len(json_of(path)) <= largest]
    random.Random(0).shuffle(paths)
    turn = 0
    while True:
        for path in paths:
            tree = json.loads(json_of(path))
            is_model = tree["role"] not in (*OFF_THE_BOARD, "baseline")
            if is_model or (turn == 0 and tree["role"] == "baseline"):
                yield tree if turn == 0 else another(tree, turn)
        turn += 1


def another(tree: Tree, turn: int) -> Tree:
    """A run of the same setting, or of its setting by more threads, with another seed."""
    more, seed = divmod(turn, SEEDS)
    tree["seed"] += 1000 * (seed + 1)
    tree["config"]["training"]["threads"] += more
    provenance = Provenance.model_validate(tree["provenance"])
    name = Name(Code.of(tree["config"], provenance), tree["config"])
    tree["identity"] = identity_of(name, tree["preset"], provenance, None)
    words = (tree[key] for key in ("task", "model", "preset", "identity", "seed"))
    tree["run_id"] = make_run_id(*words)
    if tree["weights_sha256"]:
        tree["weights_sha256"] = hashlib.sha256(tree["run_id"].encode()).hexdigest()
    shift = 1 + 1e-4 * random.Random(tree["run_id"]).random()
    validation, curve = tree["metrics"].get("validation", {}), tree["curves"].get("training_loss")
    if validation.get("loss"):
        validation["loss"] *= shift
    if validated := tree["curves"].get("validation_loss"):
        validated["y"] = [y * shift for y in validated["y"]]
    if curve and curve["y"]:
        curve["y"][0] *= shift  # the last may be 0
    return tree


def write(folder: Path, tree: Tree) -> int:
    """Write a record as it may be, in one line; its bytes."""
    tree.pop("content_sha256", None)
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = folder / tree["task"] / tree["preset"] / f"{tree['run_id']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.write_text(f'{{"content_sha256":"{digest}",{text[1:]}')


def measured(what: str, words: list[str]) -> None:
    """Run a command, and print what it cost."""
    process = subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, env=dict(os.environ))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise UserError(f"{what} failed")
    seconds = usage.ru_utime + usage.ru_stime
    print(f"{what}: {seconds:.2f} CPU-s, {usage.ru_maxrss / 1024:.0f} MiB", flush=True)


def visit(board: OpenBoard) -> None:
    """Ask what the pages of every task ask, and print the slowest question and the memory."""
    slowest: dict[str, tuple[float, str]] = {}

    def ask(what: str, task: str, question: Callable[[], Any]) -> Any:
        begun = time.process_time()
        found = question()
        slowest[what] = max(slowest.get(what, (0.0, "")), (time.process_time() - begun, task))
        return found

    print(f"  before a question: {_memory():.0f} MiB")
    for again in range(2):
        slowest.clear()
        ask("verdicts", "", board.claims)
        for task in board.tasks():
            _visit(board, task, ask)
        each = ", ".join(f"{what} {s:.3f} ({task})" for what, (s, task) in slowest.items())
        words = "next" if again else "first"
        print(f"  {words} visit, slowest CPU-s of each: {each}; {_memory():.0f} MiB", flush=True)


def _visit(board: OpenBoard, task: str, ask: Callable[[str, str, Callable[[], Any]], Any]) -> None:
    for preset in ask("presets", task, lambda: board.distinct("rows", task, "preset")):
        chosen: dict[str, Any] = {"preset": preset[0]}
        tables = ask("tables", task, partial(board.distinct, "rows", task, *TABLES, **chosen))
        ask("overview", task, partial(board.summary, task=task, **chosen))
        table = chosen | {"variant": tables[0][0], "metric": tables[0][1]}
        ask("table", task, partial(board.rows, task, **table))
        curves = ask("curves", task, partial(board.distinct, "curves", task, *CURVES, **chosen))
        if curves:
            curve = chosen | {"variant": curves[0][0], "metric": curves[0][1]}
            ask("curve", task, partial(board.lines, task, **curve))
        runs = ask("records", task, partial(board.distinct, "records", task, "run_id", **chosen))
        if runs:
            ask("record", task, partial(board.record, runs[-1][0]))


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    command(main)
