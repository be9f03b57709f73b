"""Prove that older code gives the same bytes: ``python -m bench.equivalence``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.config.command_line import Settings, read_with_lists
from core.errors import OK, VERIFICATION_FAILED, UserError, command, nearest
from core.places import absolute, is_path
from core.words import command_line

if TYPE_CHECKING:
    from bench.records.equality.renames import Renames
    from bench.runs.proving import Outcome

HELP = """\
usage: python -m bench.equivalence moved=true [commit=COMMIT] [store=PATH]
       python -m bench.equivalence renamed=FILE:NAME=NEW ... [commit=COMMIT] [store=PATH]
       python -m bench.equivalence tasks=TASK [models=MODEL|"models=[a,b]"] [commit=COMMIT]
       python -m bench.equivalence records=true [tasks=TASK] [preset=PRESET]

Prove that a task and its models compute what they did in an older commit, so that records and runs
of that code are served on. The commit is unpacked into a temporary folder, and this checkout is
compared with it as it is now. What is proven is written to leaderboards/equivalences.json, which is
to be committed.

Where definitions only moved to other files, or local variables got other names, moved=true proves
it without a run: every function, class and value behind a task and a model has the text that it
had, but for the names of local variables, and every name in it leads to what it led to. Other
names of functions, classes, values and files are told by renamed=. Otherwise both make the same
short runs in processes of their own, and the hashes of the data, all bytes of the weights and
everything that was measured must be the same.

  moved=true     by definitions; all tasks and models of the committed records and of your runs
  renamed=FILE:NAME=NEW
                 likewise, where NAME at the top of the older FILE is called NEW in this checkout;
                 FILE=NEW_FILE for a file; may be given several times
  store=PATH     where your runs are (default runs)
  tasks=TASK     a task after its code changed, or that of its models
  models=MODEL   default: the models with committed records, else those that the task lists
  commit=COMMIT  the older one (default HEAD: changes that are not committed yet)
  preset=PRESET  default: those of committed records, else smoke
  records=true   every committed record of an earlier form, each against the commit that made it
  tasks.KEY=…    for every run of a task that has the key, such as tasks.stories=PATH

What is run: each setting of the committed records once, with 12 training steps (a measurement: its
protocol at preset smoke), and the task's predictors without training.
Exit code 4 when something differs; the first difference is told.
example: python -m bench.equivalence tasks=regbench commit=HEAD"""

OWN = ("tasks", "models", "commit", "preset", "records", "moved", "renamed", "store")
RENAMED = "renamed="
OF_MOVES = ("moved", "commit", "store")


def _read(words: list[str]) -> tuple[Settings, list[str]]:
    """The settings, and what is renamed, which may be given several times."""
    renamed = [word.removeprefix(RENAMED) for word in words if word.startswith(RENAMED)]
    others = [word for word in words if not word.startswith(RENAMED)]
    return read_with_lists(others), renamed


@command_line(HELP, _read)
def main(asked: tuple[Settings, list[str]]) -> int:
    """Exit code 0 when everything asked for is proven, 4 when something is refused."""
    from bench.records.equality.renames import Renames
    from bench.runs.proving import prove
    from bench.runs.wanted import of_records, of_task
    from core.progress import progress

    given, renamed = asked
    if renamed:
        given.setdefault("moved", True)
    extra = {key: given.pop(key) for key in list(given) if key not in OWN}
    task, models, preset = (given.get(key) for key in ("tasks", "models", "preset"))
    models = [models] if isinstance(models, str) else models
    _check(given, models or [], extra, renamed)
    if given.get("moved"):
        commit, store = str(given.get("commit", "HEAD")), absolute(str(given.get("store", "runs")))
        return _moves(commit, store, Renames.read(renamed))
    if given.get("records"):
        wanted = of_records(task, preset)
    else:
        wanted = {(str(given.get("commit", "HEAD")), str(task)): of_task(str(task), models, preset)}
    if not wanted:
        print("nothing to prove: no such record is of an earlier form")
    refused = False
    for (commit, name), runs in sorted(wanted.items()):
        with progress() as report:
            found = prove(name, commit, runs, _with_places(extra, name), report)
        for model, outcome in found.items():
            _print(f"{name}, {model}", commit[:8], outcome)
        refused |= any(isinstance(outcome, str) for outcome in found.values())
    return VERIFICATION_FAILED if refused else OK


def _moves(commit: str, store: Path, renames: Renames) -> int:
    from bench.records.store import Store
    from bench.runs.moving import prove_moves

    found = prove_moves(commit, Store(store), renames)
    sides = f"{commit[:8]} and this checkout"
    moved: dict[str, str] = {}
    for task in dict.fromkeys(task for task, _ in found):
        own = {model: outcome for (name, model), outcome in found.items() if name == task}
        proven = {m: one for m, one in own.items() if not isinstance(one, str | None)}
        for one in proven.values():
            moved |= one.moved
        if proven:
            print(f"proven: {task} with {', '.join(proven)}, {sides}")
        for model, outcome in own.items():
            if isinstance(outcome, str):
                print(f"refused: {task}, {model}, {sides}: {outcome}", file=sys.stderr)
    for old, new in sorted(moved.items()):
        print(f"moved: {old} is {new}")
    same = sum(outcome is None for outcome in found.values())
    print(f"{same} of {len(found)} pairs of a task and a model have the same code in {commit[:8]}")
    refused = any(isinstance(outcome, str) for outcome in found.values())
    return VERIFICATION_FAILED if refused else OK


def _check(
    given: Mapping[str, Any], models: Sequence[Any], extra: Iterable[str], renamed: Sequence[str]
) -> None:
    """Refuse words that mean nothing here."""
    from bench.config.files import models_of
    from bench.config.groups import choices

    for key in extra:
        if key.partition(".")[0] not in ("tasks", "models", "training") or "." not in key:
            raise UserError(f"there is no setting '{key}': {nearest(key, OWN)}")
    task, records, moved = (
        given.get("tasks"),
        given.get("records", False),
        given.get("moved", False),
    )
    for key, value in (("records", records), ("moved", moved)):
        if not isinstance(value, bool):
            raise UserError(f"{key}={value} is neither true nor false")
    if renamed and not moved:
        raise UserError("renamed= proves by definitions, as moved=true does: leave moved= out")
    if moved and (other := [*(key for key in given if key not in OF_MOVES), *extra]):
        raise UserError(f"moved=true looks at all tasks and models: leave {other[0]}= out")
    if "store" in given and not moved:
        raise UserError("only moved=true looks at a store: leave store= out")
    if task is None and not records and not moved:
        raise UserError(
            "name a task by tasks=TASK, or ask for moved=true or records=true; --help explains"
        )
    if task is not None and task not in choices("tasks"):
        raise UserError(f"there is no task '{task}': {nearest(str(task), choices('tasks'))}")
    if records and (other := [key for key in ("models", "commit") if key in given]):
        raise UserError(
            f"records=true goes by what the records say of {other[0]}: leave {other[0]}= out"
        )
    known = choices(models_of(str(task))) if models else []
    for model in models:
        if model not in known:
            raise UserError(f"there is no model '{model}' for {task}: {nearest(str(model), known)}")


def _with_places(extra: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Places on this machine in full, because each side runs in a folder of its own."""
    from bench.config.files import group_file

    places = {f"tasks.{key}" for key in group_file("tasks", task).get("locations", ())}
    return {
        key: str(absolute(value).resolve()) if key in places and is_path(value) else value
        for key, value in extra.items()
    }


def _print(what: str, commit: str, outcome: Outcome) -> None:
    sides = f"{commit} and this checkout"
    if isinstance(outcome, str):
        print(f"refused: {what}, {sides}: {outcome}", file=sys.stderr)
    elif outcome is None:
        print(f"nothing to prove: {what} has the same code in {commit}")
    else:
        runs = len(outcome.compared)
        chosen = outcome.choices.items()
        only = "".join(f"; {key}={' or '.join(map(str, dict.fromkeys(v)))}" for key, v in chosen)
        print(f"proven: {what}, {sides} ({runs} run{'s' * (runs != 1)} of each{only})")


if __name__ == "__main__":
    command(main)
