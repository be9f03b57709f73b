"""What a user waits for where all is there: ``python -m bench.waits``."""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from core.errors import OK, UserError, command, nearest
from core.files import ROOT, write_atomically
from core.places import absolute
from core.words import command_line, texts


class TimedCommand(NamedTuple):
    """A command that is measured.

    Attributes:
        command: the words after "python".
        prepared_by: those of a command that is given once before, where it does not prepare itself.
        made_anew: what is deleted before each round, by its place in the store.
    """

    command: str
    prepared_by: str = ""
    made_anew: tuple[str, ...] = ()


WAITS = {
    "figure9": TimedCommand("-m reproduce figure9 preset=laptop"),
    "table3": TimedCommand("-m reproduce table3 preset=laptop"),
    "figure8": TimedCommand("-m reproduce figure8 preset=laptop"),
    "sweep": TimedCommand("-m bench.sweep tasks=in_context_regression committed=true"),
    "evidence": TimedCommand("-m evidence dry_run=true"),  # as older checkouts call it, too
    "list": TimedCommand("-m bench"),
    "board": TimedCommand(
        "-m leaderboards.build local=true",
        "-m bench.sweep tasks=three_moons models=lstm n_trials=1 seeds=2",
        ("board.parquet", ".board.parquet.index"),
    ),
}
HELP = f"""\
usage: python -m bench.waits [KEY=VALUE ...]

CPU-seconds of commands that train nothing, the processes that they start included. Each is run
once before it counts, in a store of its own, so that what is not committed is there.

  before=FOLDER   another checkout of this project, run in turn with this one
  rounds=3        how often; the medians are printed
  only=NAME       one of {", ".join(WAITS)}
  output=FILE     JSON with every number; those of other commands stay in it

example: python -m bench.waits before=../older only=figure9"""


def measure(settings: Mapping[str, str | None]) -> int:
    """Measure, print, and save where ``output=`` says; the exit code."""
    request = {"before": "", "rounds": "3", "only": "", "output": ""}
    for key, value in settings.items():
        if key not in request:
            raise UserError(f"there is no setting '{key}': {nearest(key, request)}")
        request[key] = value or ""
    if not request["rounds"].isdecimal() or int(request["rounds"]) < 1:
        raise UserError(f"rounds={request['rounds']} is not a number of at least 1")
    if request["only"] and request["only"] not in WAITS:
        raise UserError(f"only={request['only']}: {nearest(request['only'], WAITS)}")
    trees = {"before": absolute(request["before"])} if request["before"] else {}
    if trees and not (trees["before"] / "bench").is_dir():
        raise UserError(f"before={request['before']} is no checkout of this project")
    trees["here"] = ROOT
    seconds: dict[str, dict[str, list[float]]] = {}
    for name in [request["only"]] if request["only"] else WAITS:
        seconds[name] = _measured(WAITS[name], trees, int(request["rounds"]))
        medians = {tree: statistics.median(measured) for tree, measured in seconds[name].items()}
        print(name, *(f"{tree} {median:.2f} CPU-s" for tree, median in medians.items()), sep="  ")
    if request["output"]:
        path = absolute(request["output"])
        before = json.loads(path.read_text()) if path.exists() else {}
        write_atomically(path, (json.dumps({**before, **seconds}, indent=1) + "\n").encode())
    return OK


def _measured(wait: TimedCommand, trees: dict[str, Path], rounds: int) -> dict[str, list[float]]:
    """CPU-seconds of a command in each tree, in turns, each with a store of its own."""
    seconds: dict[str, list[float]] = {tree: [] for tree in trees}
    with tempfile.TemporaryDirectory() as folder:
        for count in range(rounds + 1):
            for tree, root in trees.items():
                place = Path(folder, tree)
                place.mkdir(exist_ok=True)
                # Otherwise the command prepares itself, by a first round that does not count.
                if not count and wait.prepared_by:
                    _cpu_seconds(wait.prepared_by.split(), root, place)
                for name in wait.made_anew:
                    output = place / "runs" / name
                    shutil.rmtree(output) if output.is_dir() else output.unlink(missing_ok=True)
                spent = _cpu_seconds(wait.command.split(), root, place)
                if count:
                    seconds[tree].append(spent)
    return seconds


def _cpu_seconds(arguments: list[str], root: Path, folder: Path) -> float:
    """What a command that is given in a folder, and the processes that it waits for, spend."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != OK:
        raise UserError(f"python {' '.join(arguments)} failed in {root}: {done.stderr[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


main = command_line(HELP, texts, measure)


if __name__ == "__main__":
    command(main)
