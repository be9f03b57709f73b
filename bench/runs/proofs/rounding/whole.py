"""A committed run that learns by a jump, made again in full by the newer code.

Where a loss falls by a jump, rounding errors decide when it does, so no bound on a short training
says that the newer code learns as the older one did. There a whole run of the record's own setting
is made, and its headline must lie within what the seeds of the committed records explain, as
``leaderboards.verify`` asks of a run that is made again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.records.equality.rounded_runs import WholeRun
from bench.records.equivalence import Code
from bench.records.schema import RunRecord, read_record, read_records
from bench.records.spread import spread_of
from bench.records.store import COMMITTED, Store
from bench.runs.proofs.rounding.settings import OlderRun
from core.children import run_to_end
from core.errors import RUN_FAILED, UserError
from core.files import ROOT
from core.processes import module_command
from core.words import words_of

JUMP = 1 / 3  # of all that a loss changes by, within a tenth of the steps after their first tenth
SMOOTHED = 3  # points of a curve
FEWEST_POINTS = 20  # of a curve that is looked at
CHANGED_MEANWHILE = "the code of this checkout changed while it was compared"
HOURS = 48.0  # of one run


def largest_fall(losses: list[float]) -> float:
    """How far a curve falls at most within a tenth of its length, after its first tenth, as a share
    of all that it changes by."""
    tenth = len(losses) // 10
    if len(losses) < FEWEST_POINTS:
        return 0.0
    smooth = []
    for place in range(len(losses) - SMOOTHED + 1):
        smooth.append(sum(losses[place : place + SMOOTHED]) / SMOOTHED)
    whole = max(smooth) - min(smooth)
    falls = [smooth[k] - smooth[k + tenth] for k in range(tenth, len(smooth) - tenth)]
    return max(falls) / whole if whole > 0 else 0.0


def run_across_a_jump(runs: Iterable[OlderRun]) -> OlderRun | None:
    """The run that is made again in full: of committed runs on a CPU whose loss falls by a jump the
    one that took the least time."""
    jumping = []
    for run in runs:
        record = run.record
        curve = record.curves.get("training_loss")
        is_whole = record.outcome == "ok" and record.role in ("single", "final")
        if curve is None or not is_whole or record.provenance.device_class != "cpu":
            continue
        if largest_fall(curve.y) >= JUMP:
            jumping.append(run)
    return min(jumping, key=lambda run: run.record.cost.wall_seconds, default=None)


def made_whole(
    run: OlderRun, settings: Mapping[str, Any], newer: Code, store: Store
) -> WholeRun | str:
    """Make a run again by this checkout, and compare; a clause if it is not what seeds explain.

    Args:
        settings: of the run, which ``bench.train`` is asked for.
        newer: the code of this checkout, when the proof began.
        store: where it is made. What was interrupted goes on, and what is there is not made again.

    Raises:
        UserError: it could not be made.
    """
    record = run.record
    repeated = _trained(settings, store)
    if Code.of(repeated.config, repeated.provenance) != newer:
        return CHANGED_MEANWHILE
    spread = spread_of(record, read_records([COMMITTED / record.task]))
    recorded, measured = record.headline.value, repeated.headline.value
    if recorded is None or measured is None or not spread.holds(recorded, measured):
        return (
            f"the run {record.run_id}, made again in full, has {record.headline.name} {measured}, "
            f"and its record {recorded}: further than seeds explain ({spread.bound:.2g}, from "
            f"{spread.source})"
        )
    return WholeRun(
        record=record.run_id,
        largest_fall=round(largest_fall(record.curves["training_loss"].y), 3),
        metric=record.headline.name,
        recorded=recorded,
        measured=measured,
        bound=spread.bound,
        bound_from=spread.source,
    )


def _trained(settings: Mapping[str, Any], store: Store) -> RunRecord:
    with tempfile.TemporaryDirectory(prefix="rounding-") as folder:
        output = Path(folder) / "records.json"
        words = {**settings, "store": str(store.root), "output": str(output)}
        words |= {"committed": False, "tracking": "none"}
        command = module_command("bench.train", words_of(words))
        ended = run_to_end(command, HOURS * 3600, ROOT, {"PYTHONPATH": str(ROOT)})
        places = json.loads(output.read_bytes()) if output.exists() else []
    if ended.code or not places:
        raise UserError(f"a run across the jump could not be made: {ended.sentence}", RUN_FAILED)
    return read_record(store.records / Path(places[0]).name)
