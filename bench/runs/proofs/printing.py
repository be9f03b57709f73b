"""What ``bench.equivalence`` does: proofs, by definitions, by runs or up to rounding, and what it
prints."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from bench.config.files import group_file
from bench.records.equivalence import Equivalence
from bench.records.store import Store
from bench.runs.proofs.by_definitions import prove_moves
from bench.runs.proofs.by_runs import Outcome, prove
from bench.runs.proofs.rounding.proving import prove_up_to_rounding
from bench.runs.proofs.wanted import of_records, of_task
from bench.runs.requests import ProofRequest
from core.amounts import amount
from core.errors import OK, VERIFICATION_FAILED
from core.places import absolute, is_path
from core.progress import progress


def prove_all(request: ProofRequest) -> int:
    """Prove what is asked for; exit code 0 when all of it is proven, 4 when it is not."""
    prove_them = {"definitions": _by_definitions, "runs": _by_runs, "rounding": _by_rounding}
    all_proven = prove_them[request.by](request)
    return OK if all_proven else VERIFICATION_FAILED


def _by_runs(request: ProofRequest) -> bool:
    """Compare short runs of older code with those of this checkout, print what came of it and write
    what is proven; whether nothing was refused."""
    if request.commit is None:
        wanted = of_records(request.task, request.preset)
    else:
        task = str(request.task)
        wanted = {(request.commit, task): of_task(task, request.models, request.preset)}
    if not wanted:
        print("nothing to prove: no such record is stale")
    all_proven = True
    for (older, name), runs in sorted(wanted.items()):
        with progress() as report:
            outcomes = prove(name, older, runs, _with_places(request.extra, name), report)
        for model, outcome in outcomes.items():
            _print(f"{name}, {model}", older[:8], outcome)
            all_proven &= not isinstance(outcome, str)
    return all_proven


def _by_rounding(request: ProofRequest) -> bool:
    """Compare trainings by older code with those of this checkout up to rounding, print what came
    of it and write what is proven; whether nothing was refused."""
    task, commit = str(request.task), str(request.commit)
    extra, store = _with_places(request.extra, task), Store(request.store)
    with progress() as report:
        outcomes = prove_up_to_rounding(
            task, request.models, request.preset, commit, extra, store, report
        )
    for model, outcome in outcomes.items():
        _print(f"{task}, {model}", commit[:8], outcome)
    return not any(isinstance(outcome, str) for outcome in outcomes.values())


def _by_definitions(request: ProofRequest) -> bool:
    """Compare the definitions behind all records with those of an older commit, print what came of
    it and write what is proven; whether nothing was refused."""
    commit = str(request.commit)
    outcomes = prove_moves(commit, Store(request.store), request.renames)
    sides = f"{commit[:8]} and this checkout"
    by_task: dict[str, dict[str, Outcome]] = {}
    for (task, model), outcome in outcomes.items():
        by_task.setdefault(task, {})[model] = outcome
    moved: dict[str, str] = {}
    for task, by_model in by_task.items():
        proven = []
        for model, outcome in by_model.items():
            if outcome is not None and not isinstance(outcome, str):
                proven.append(model)
                moved |= outcome.moved
        if proven:
            print(f"proven: {task} with {', '.join(proven)}, {sides}")
        for model, outcome in by_model.items():
            if isinstance(outcome, str):
                print(f"refused: {task}, {model}, {sides}: {outcome}", file=sys.stderr)
    for old, new in sorted(moved.items()):
        print(f"moved: {old} is {new}")
    same = sum(outcome is None for outcome in outcomes.values())
    pairs = amount(len(outcomes), "pair of a task and a model", "pairs of a task and a model")
    print(f"{same} of {pairs} have the same code in {commit[:8]}")
    return not any(isinstance(outcome, str) for outcome in outcomes.values())


def _with_places(extra: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Places on this machine in full, because each side runs in a folder of its own."""
    places = {f"tasks.{key}" for key in group_file("tasks", task).get("locations", ())}
    resolved = dict(extra)
    for key in places & extra.keys():
        if is_path(extra[key]):
            resolved[key] = str(absolute(extra[key]).resolve())
    return resolved


def _print(pair: str, commit: str, outcome: Outcome) -> None:
    sides = f"{commit} and this checkout"
    if isinstance(outcome, str):
        print(f"refused: {pair}, {sides}: {outcome}", file=sys.stderr)
    elif outcome is None:
        print(f"nothing to prove: {pair} has the same code in {commit}")
    else:
        runs = len(outcome.compared) or len(outcome.rounded)
        only = ""
        for key, values in outcome.choices.items():
            only += f"; {key}={' or '.join(map(str, dict.fromkeys(values)))}"
        extent = " up to rounding" if outcome.by == "rounding" else ""
        print(f"proven{extent}: {pair}, {sides} ({runs} run{'s' * (runs != 1)} of each{only})")
        _print_rounding(outcome)


def _print_rounding(entry: Equivalence) -> None:
    """How far the two sides of a proof by rounding are apart."""
    if not entry.rounded:
        return
    in_float64 = max(share for run in entry.rounded for share in run.float64.values())
    in_float32 = max(share for run in entry.rounded for share in run.float32.values())
    factor = entry.rounded[0].factor
    print(
        f"  largest difference: in float64 {in_float64:.2g} of the bound, in float32 "
        f"{in_float32:.2g} times what other last bits of the weights make ({factor:g} is allowed)"
    )
    for run in entry.whole:
        print(
            f"  across its jump: {run.record} has {run.metric} {run.recorded:.6g}, made again in "
            f"full {run.measured:.6g}; seeds explain {run.bound:.2g}"
        )
    if not entry.whole:
        print("  no committed loss of it falls by a jump, so no run was made in full")
