"""One run, or the predictors of a task, as ``bench.train`` makes them. PyTorch is imported where
something has to be made."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.config.network import with_available_text
from bench.config.settings import Configuration
from bench.records.report import how_to_be_ranked, print_record
from bench.records.schema import RunRecord
from bench.records.store import COMMITTED, record_path
from bench.runs.get_or_run import find_widths, get_or_run_baselines, load_or_run, make_data
from bench.search.plan import SHORT_NAMES, Settings, some_model, warn_of_sizes, warn_of_warmup
from core.errors import OK, RUN_FAILED, UserError
from core.files import write_atomically
from core.places import absolute
from core.progress import progress

SWEEP = "python -m bench.sweep, the same tasks= and models=, and"


def make(settings: Settings) -> int:
    """Serve or make the run that settings ask for, or the predictors of a task, and print it.

    Returns:
        Exit code 0, or 1 when the run diverged or failed (its record says why).

    Raises:
        UserError: a setting that cannot be used, or one that is about a sweep.
    """
    for key in settings:
        if key.split(".")[0] in ("sweep", "ray", "dry_run", *SHORT_NAMES):
            raise UserError(f"'{key}' is a setting of bench.sweep; bench.train makes one run")
    place = settings.pop("output", None)
    # Before a model's package changes the working directory.
    output = None if place is None else absolute(str(place))
    if "predictors" in settings:
        return _make_predictors(settings, output)
    find_widths()
    configuration = Configuration.of(with_available_text(settings))
    warn_of_warmup([configuration])
    warn_of_sizes([configuration])
    with progress() as report:
        record, served = load_or_run(configuration, report=report)
    if served and record_path(record, configuration.store).is_relative_to(COMMITTED):
        print("nothing to do: this is one of the project's own records (committed=false makes it)")
    elif served:
        print("nothing to do: the record of this very run is there (delete it to evaluate again)")
    _print_and_write([record], configuration.store, output)
    if record.outcome == "ok" and (note := how_to_be_ranked(record.preset, SWEEP)):
        print(f"note: {note}", file=sys.stderr)  # the last line of the output is the record's
    return OK if record.outcome == "ok" else RUN_FAILED


def prepare(settings: Settings) -> int:
    """Make the data of the task that settings name, and print their hashes; the exit code.

    Raises:
        UserError: the data cannot be had.
    """
    configuration = configuration_for_data(settings)
    with progress() as report:
        hashes = make_data(configuration, report)
    for split, digest in hashes.items():
        print(f"{split:12} {digest}")
    return OK


def _make_predictors(settings: Settings, output: Path | None) -> int:
    """The records of a task's predictors without training."""
    if settings.pop("predictors") is not True or "models" in settings or "tasks" not in settings:
        raise UserError(
            "predictors=true is for tasks=NAME without models=: a task's predictors are no model"
        )
    configuration = configuration_for_data(settings)
    with progress() as report:
        records = get_or_run_baselines(configuration, report)
    _print_and_write(records, configuration.store, output)
    if not records:
        print(f"{settings['tasks']} has no predictors without training")
    return OK


def _print_and_write(records: Sequence[RunRecord], store: Path, output: Path | None) -> None:
    """Answer whoever started this command by a file: what stands on the screen may be a model's
    words."""
    for record in records:
        print_record(record, store)
    if output is not None:
        places = [str(record_path(record, store)) for record in records]
        write_atomically(output, json.dumps(places).encode())


def configuration_for_data(settings: Settings) -> Configuration:
    """The configuration of a task without a model. Neither data nor predictors depend on one, so
    any that the task takes fills the place of one that is not named."""
    with_model = {"models": some_model(settings), **settings}
    return Configuration.of(with_available_text(with_model))
