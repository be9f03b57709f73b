"""Make one run and write its record: ``python -m bench.train``.

``python -m bench.measure`` is another name of the same command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import OK, RUN_FAILED, UserError, command
from core.places import absolute
from core.words import SETTINGS_HELP, wants_help

if TYPE_CHECKING:
    from bench.records.schema import RunRecord

HELP = f"""\
usage: python -m bench.train tasks=TASK models=MODEL [key=value ...]

Train one model on one task, evaluate it by the task's protocol and write a run record; or measure
a memory, or another model that a task builds and trains within its own protocol.
The same command again serves the record; a training that was interrupted goes on from its
checkpoint. predictors=true in place of models= makes the records of the task's predictors, which
need no training.

{SETTINGS_HELP}
  output=FILE            write where the records lie there, as a list in JSON

examples: python -m bench.train tasks=regbench models=memory_mosaic preset=smoke seed=0
          python -m bench.train tasks=capacity models=delta_rule preset=smoke seed=0"""


def main(words: list[str]) -> int:
    """Exit code 0, or 1 when the run diverged or failed (its record says why)."""
    if wants_help(words):
        print(HELP)
        return OK
    from bench.config.config import compose, parse
    from bench.config.network import with_text
    from bench.search.plan import SHORT_NAMES, warn_of_warmup, with_width
    from bench.search.widths import find_widths

    given = {override.key_or_group: override.value() for override in parse(words)}
    for key in given:
        if key.split(".")[0] in ("sweep", "ray", "dry_run", *SHORT_NAMES):
            raise UserError(f"'{key}' is a setting of bench.sweep; bench.train makes one run")
    words = [word for word in words if word.partition("=")[0] != "output"]
    # Before a model's package changes the working directory.
    output = absolute(str(given.pop("output"))) if given.get("output") is not None else None
    if "predictors" in given:
        return _predictors(words, given, output)
    find_widths()
    configuration = compose(with_width(with_text(words)))
    warn_of_warmup([configuration])
    from bench.records.report import print_record
    from bench.records.store import COMMITTED, record_path
    from bench.runs.obtain import serve_or_make
    from core.progress import progress

    with progress() as report:
        record, served = serve_or_make(configuration, report=report)
    if served and record_path(record, configuration.store).is_relative_to(COMMITTED):
        print("nothing to do: this is one of the project's own records (committed=false makes it)")
    elif served:
        print("nothing to do: the record of this very run is there (delete it to evaluate again)")
    print_record(record, configuration.store)
    _write_places([record], configuration.store, output)
    return OK if record.outcome == "ok" else RUN_FAILED


def _write_places(records: Sequence[RunRecord], store: Path, output: Path | None) -> None:
    """Answer whoever started this command: what stands on the screen may be a model's words."""
    from bench.records.store import record_path
    from core.files import write_atomically

    if output is not None:
        places = [str(record_path(record, store)) for record in records]
        write_atomically(output, json.dumps(places).encode())


def _predictors(words: list[str], given: Mapping[str, Any], output: Path | None) -> int:
    """Make the records of a task's predictors without training."""
    from bench.config.config import compose, models_of
    from bench.config.groups import choices
    from bench.config.network import with_text

    if given["predictors"] is not True or "models" in given or "tasks" not in given:
        raise UserError(
            "predictors=true is for tasks=NAME without models=: a task's predictors are no model"
        )
    task = str(given["tasks"])
    group = models_of(task) if task in choices("tasks") else "models"
    kept = [word for word in words if not word.startswith("predictors=")]
    # No predictor knows of a model, so any that the task takes fills the place of one.
    configuration = compose([*with_text(kept), f"models={choices(group)[0]}"])
    from bench.records.report import print_record
    from bench.runs.obtain import obtain_baselines
    from core.progress import progress

    with progress() as report:
        records = obtain_baselines(configuration, report)
    for record in records:
        print_record(record, configuration.store)
    _write_places(records, configuration.store, output)
    if not records:
        print(f"{task} has no predictors without training")
    return OK


if __name__ == "__main__":
    command(main)
