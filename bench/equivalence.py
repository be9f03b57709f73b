"""Prove that older code gives the same bytes, or the same numbers up to rounding:
``python -m bench.equivalence``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.config.command_line import Settings, read_with_lists
from bench.config.files import models_of
from bench.config.groups import choices
from bench.records.equality.renames import Renames
from bench.records.equivalence import Proof
from bench.runs.requests import ProofRequest
from core.errors import UserError, command, nearest
from core.places import absolute
from core.words import command_line

HELP = """\
usage: python -m bench.equivalence moved=true [commit=COMMIT] [store=PATH]
       python -m bench.equivalence renamed=FILE:NAME=NEW ... [commit=COMMIT] [store=PATH]
       python -m bench.equivalence tasks=TASK [models=MODEL|"models=[a,b]"] [commit=COMMIT]
       python -m bench.equivalence rounding=true tasks=TASK [models=MODEL] [commit=COMMIT]
       python -m bench.equivalence records=true [tasks=TASK] [preset=PRESET]

Prove that a task and its models compute what they did in an older commit, so that records and runs
of that code are served on. The commit is unpacked into a temporary folder, and this checkout is
compared with it as it is now. What is proven goes to leaderboards/equivalences/TASK.json, to be
committed.

Where definitions only moved to other files, or local variables got other names, moved=true proves
it without a run: every function, class and value behind a task and a model has the text that it
had, but for the names of local variables, and every name in it leads to what it led to. Other
names of functions, classes, values and files are told by renamed=. Otherwise both make the same
short runs in processes of their own, and the hashes of the data, all bytes of the weights and
everything that was measured must be the same.

A faster form of a model sums in another order, so its bytes differ. rounding=true proves that its
numbers differ by no more than rounding explains: both sides make trainings of 50 steps, in float64
and in float32, from the same weights, batches and dropout. Where a committed loss falls by a jump,
one such run is made again in full, which takes as long as the record says. Records are then served
and ranked as "equal up to rounding", and nothing goes on from their checkpoints or weights.

  moved=true     by definitions; all tasks and models of the committed records and of your runs
  renamed=FILE:NAME=NEW
                 likewise, where NAME at the top of the older FILE is called NEW in this checkout;
                 FILE=NEW_FILE for a file; may be given several times
  rounding=true  up to rounding; what was compared is kept, and a stopped command goes on
  store=PATH     where your runs are (default runs); with rounding=true where runs are made in full,
                 and what was compared is kept (default runs/rounding)
  tasks=TASK     a task after its code changed, or that of its models
  models=MODEL   default: the models with committed records, else those that the task lists
  commit=COMMIT  the older one (default HEAD: changes that are not committed yet)
  preset=PRESET  default: those of committed records, else smoke
  records=true   every stale committed record, each against the commit that made it
  tasks.KEY=…    for every run of a task that has the key, such as tasks.stories=PATH

What is run for equal bytes: each setting of the committed records once, with 12 training steps (a
measurement: its protocol at preset smoke), and the task's predictors without training.
Exit code 4 when something differs; the first difference is told.
example: python -m bench.equivalence tasks=regbench commit=HEAD"""

KEYS = (
    *("tasks", "models", "commit", "preset", "records", "moved", "renamed", "rounding", "store"),
)
RENAMED = "renamed="
OF_MOVES = ("moved", "commit", "store")


def _read(words: list[str]) -> tuple[Settings, list[str]]:
    """The settings, and what is renamed, which may be given several times."""
    renamed = [word.removeprefix(RENAMED) for word in words if word.startswith(RENAMED)]
    others = [word for word in words if not word.startswith(RENAMED)]
    return read_with_lists(others), renamed


def request_of(settings_and_renamed: tuple[Settings, list[str]]) -> ProofRequest:
    """What the settings of the command line ask for.

    Raises:
        UserError: settings that mean nothing here, or not together.
    """
    settings, renamed = settings_and_renamed
    if renamed:
        settings.setdefault("moved", True)
    extra = {key: settings.pop(key) for key in list(settings) if key not in KEYS}
    models = settings.get("models")
    models = [models] if isinstance(models, str) else models
    _check(settings, models or [], extra, renamed)
    by: Proof = "definitions" if settings.get("moved") else "runs"
    if settings.get("rounding"):
        by = "rounding"
    usual_store = "runs/rounding" if by == "rounding" else "runs"
    return ProofRequest(
        commit=None if settings.get("records") else str(settings.get("commit", "HEAD")),
        by=by,
        renames=Renames.read(renamed),
        store=absolute(str(settings.get("store", usual_store))),
        task=settings.get("tasks"),
        models=models,
        preset=settings.get("preset"),
        extra=extra,
    )


def _check(
    settings: Mapping[str, Any], models: Sequence[Any], extra: Iterable[str], renamed: Sequence[str]
) -> None:
    """Refuse words that mean nothing here."""
    for key in extra:
        if key.partition(".")[0] not in ("tasks", "models", "training") or "." not in key:
            raise UserError(f"there is no setting '{key}': {nearest(key, KEYS)}")
    task, records = settings.get("tasks"), settings.get("records", False)
    moved, rounding = settings.get("moved", False), settings.get("rounding", False)
    for key, value in (("records", records), ("moved", moved), ("rounding", rounding)):
        if not isinstance(value, bool):
            raise UserError(f"{key}={value} is neither true nor false")
    if renamed and not moved:
        raise UserError("renamed= proves by definitions, as moved=true does: leave moved= out")
    if moved and (other := [*(key for key in settings if key not in OF_MOVES), *extra]):
        raise UserError(f"moved=true looks at all tasks and models: leave {other[0]}= out")
    if "store" in settings and not moved and not rounding:
        raise UserError("only moved=true and rounding=true have a store: leave store= out")
    if rounding and records:
        raise UserError(
            "rounding=true compares one task with one older commit: give tasks= and commit=, and "
            "leave records= out"
        )
    if task is None and not records and not moved:
        raise UserError(
            "name a task by tasks=TASK, or ask for moved=true or records=true; --help explains"
        )
    if task is not None and task not in choices("tasks"):
        raise UserError(f"there is no task '{task}': {nearest(str(task), choices('tasks'))}")
    if records and (other := [key for key in ("models", "commit") if key in settings]):
        raise UserError(
            f"records=true goes by what the records say of {other[0]}: leave {other[0]}= out"
        )
    names = choices(models_of(str(task))) if models else []
    for model in models:
        if model not in names:
            raise UserError(f"there is no model '{model}' for {task}: {nearest(str(model), names)}")


main = command_line(HELP, _read, request_of, "bench.runs.proofs.printing:prove_all")


if __name__ == "__main__":
    command(main)
