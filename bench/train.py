"""Make one run and write its record: ``python -m bench.train``.

``python -m bench.measure`` is another name of the same command.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.config.command_line import Settings, read
from core.errors import OK, RUN_FAILED, UserError, command
from core.places import absolute
from core.words import SETTINGS_HELP, command_line

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


@command_line(HELP, read)
def main(settings: Settings) -> int:
    """Exit code 0, or 1 when the run diverged or failed (its record says why)."""
    from bench.config.network import with_available_text
    from bench.config.settings import Configuration
    from bench.search.plan import SHORT_NAMES, warn_of_warmup
    from bench.search.widths import find_widths

    for key in settings:
        if key.split(".")[0] in ("sweep", "ray", "dry_run", *SHORT_NAMES):
            raise UserError(f"'{key}' is a setting of bench.sweep; bench.train makes one run")
    place = settings.pop("output", None)
    # Before a model's package changes the working directory.
    output = None if place is None else absolute(str(place))
    if "predictors" in settings:
        return _predictors(settings, output)
    find_widths()
    configuration = Configuration.of(with_available_text(settings))
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


def _predictors(settings: Settings, output: Path | None) -> int:
    """Make the records of a task's predictors without training."""
    from bench.config.network import with_available_text
    from bench.config.settings import Configuration
    from bench.search.plan import some_model

    if settings.pop("predictors") is not True or "models" in settings or "tasks" not in settings:
        raise UserError(
            "predictors=true is for tasks=NAME without models=: a task's predictors are no model"
        )
    # No predictor knows of a model, so any that the task takes fills the place of one.
    settings["models"] = some_model(settings)
    configuration = Configuration.of(with_available_text(settings))
    from bench.records.report import print_record
    from bench.runs.obtain import obtain_baselines
    from core.progress import progress

    with progress() as report:
        records = obtain_baselines(configuration, report)
    for record in records:
        print_record(record, configuration.store)
    _write_places(records, configuration.store, output)
    if not records:
        print(f"{settings['tasks']} has no predictors without training")
    return OK


if __name__ == "__main__":
    command(main)
