"""One run, or the predictors of a task, as ``bench.train`` makes them. PyTorch is imported where
something has to be made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.config.network import with_available_text
from bench.config.settings import Configuration
from bench.records.report import print_record
from bench.records.schema import RunRecord
from bench.records.store import COMMITTED, record_path
from bench.runs.obtain import find_widths, obtain_baselines, serve_or_make
from bench.search.plan import SHORT_NAMES, some_model, warn_of_warmup
from core.errors import OK, RUN_FAILED, UserError
from core.files import write_atomically
from core.progress import progress

Settings = dict[str, Any]  # dotted key -> value


def refuse_settings_of_sweeps(settings: Iterable[str]) -> None:
    """
    Raises:
        UserError: one of them is about a sweep.
    """
    for key in settings:
        if key.split(".")[0] in ("sweep", "ray", "dry_run", *SHORT_NAMES):
            raise UserError(f"'{key}' is a setting of bench.sweep; bench.train makes one run")


def make_run(settings: Settings, output: Path | None) -> int:
    """Serve or make a run, and print its record; the exit code of the command.

    Args:
        output: the file that takes where the record lies.
    """
    find_widths()
    configuration = Configuration.of(with_available_text(settings))
    warn_of_warmup([configuration])
    with progress() as report:
        record, served = serve_or_make(configuration, report=report)
    if served and record_path(record, configuration.store).is_relative_to(COMMITTED):
        print("nothing to do: this is one of the project's own records (committed=false makes it)")
    elif served:
        print("nothing to do: the record of this very run is there (delete it to evaluate again)")
    print_record(record, configuration.store)
    _write_places([record], configuration.store, output)
    return OK if record.outcome == "ok" else RUN_FAILED


def make_predictors(settings: Settings, output: Path | None) -> int:
    """Serve or make the records of a task's predictors without training, as :func:`make_run`."""
    if settings.pop("predictors") is not True or "models" in settings or "tasks" not in settings:
        raise UserError(
            "predictors=true is for tasks=NAME without models=: a task's predictors are no model"
        )
    configuration = configuration_for_data(settings)
    with progress() as report:
        records = obtain_baselines(configuration, report)
    for record in records:
        print_record(record, configuration.store)
    _write_places(records, configuration.store, output)
    if not records:
        print(f"{settings['tasks']} has no predictors without training")
    return OK


def configuration_for_data(settings: Settings) -> Configuration:
    """The configuration of a task without a model. Neither data nor predictors depend on one, so
    any that the task takes fills the place of one that is not named."""
    with_model = {"models": some_model(settings), **settings}
    return Configuration.of(with_available_text(with_model))


def _write_places(records: Sequence[RunRecord], store: Path, output: Path | None) -> None:
    """Answer whoever started this command: what stands on the screen may be a model's words."""
    if output is not None:
        places = [str(record_path(record, store)) for record in records]
        write_atomically(output, json.dumps(places).encode())
