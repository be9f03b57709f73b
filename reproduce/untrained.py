"""``python -m reproduce untrained``: the networks of a sweep before their training, after one step.

A figure makes the controls of its claims by itself. A model that no claim is about has them by this
command, so that its row, too, stands beside networks that have learned nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.config.network import with_available_text
from bench.records.store import record_path
from bench.search.batch import make_all
from bench.search.plan import plan_sweep
from core.errors import OK, RUN_FAILED, UserError
from core.places import readable
from core.progress import progress
from reproduce.claims.controls import UNTRAINED


def main(settings: Mapping[str, Any]) -> int:
    """Make the untrained run of every final run of a sweep, or find it in the store. Exit code 1
    when one failed.

    Raises:
        UserError: settings that are no sweep, or a task that the engine trains nothing for.
    """
    untrained_runs = UNTRAINED.untrained_runs_of((), (plan_sweep(with_available_text(settings)),))
    if not untrained_runs:
        raise UserError(
            "no network of this task is trained by the engine, so that none has an untrained run: "
            "give the words of a sweep of another one, such as tasks=regbench models=gpt2"
        )
    with progress() as show:
        records = make_all([], show, untrained_runs)
    for record in sorted(records, key=lambda record: (record.model, record.seed)):
        value = record.headline.value
        score = record.outcome if value is None else f"{value:.4f}"
        path = readable(record_path(record, untrained_runs[0].store))
        print(f"{record.label}, seed {record.seed}: {score}  {path}")
    return OK if all(record.outcome == "ok" for record in records) else RUN_FAILED
