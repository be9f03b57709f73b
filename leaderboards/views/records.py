"""One record as facts: what was run, what came out, and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.records.schema import Trial
from core.amounts import amount
from leaderboards.contents import ClaimLine, OpenBoard, RecordLine, Replication, Row
from leaderboards.render import ARROWS, plain, quantity
from leaderboards.tables.code_status import code_status_of
from leaderboards.tables.replications import summarised
from leaderboards.views.links import Address, in_app, to_claim, to_model, to_record, to_table
from leaderboards.views.parts import CodeBlock, Columns, Links, Part, SortableTable, Text, facts
from leaderboards.views.tables import by_scale, first_task, has_all
from leaderboards.views.trust import YOURS, explained, trust_of

Facts = list[tuple[str, str]]
SEARCHED = ("run_id", "origin", "label", "role")


class Seed(NamedTuple):
    """One of the records of a row."""

    run_id: str
    seed: int
    origin: str
    outcome: str
    checked: str


@dataclass(frozen=True)
class Record:
    """A record with what stands around it.

    Attributes:
        row: the headline row that it is a seed of; None for one that no table shows.
        beside: the records of that row, itself among them.
        claims: verdicts that it counts for.
        replications: of this run, or of the run that it repeats.
        others: origins of other records of the same name, such as "yours".
    """

    line: RecordLine
    content: Mapping[str, Any]
    row: Row | None
    beside: tuple[Seed, ...]
    claims: tuple[ClaimLine, ...]
    replications: tuple[Replication, ...] = ()
    others: tuple[str, ...] = ()


def first_record_shown(board: OpenBoard) -> str:
    """The record that the page opens on: one of the leader of the largest table; "" if the board
    has none."""
    rows = board.summary(task=first_task(board), kind="measured") or board.summary(kind="measured")
    leaders = sorted(rows, key=lambda row: (row.rank_best is None, -by_scale(row.preset)))
    return next((row.run_ids[0] for row in leaders if row.run_ids), "")


def record(board: OpenBoard, run_id: str, origin: str = "") -> Record | None:
    """A record of the board by its run id, and by its origin where that is given."""
    line = board.record(run_id, origin)
    if line is None:
        return None
    yours = line.origin == YOURS
    row_of_run = None
    for row in board.summary(task=line.task, preset=line.preset, model=line.model):
        if (row.origin == YOURS) == yours and run_id in row.run_ids and row_of_run is None:
            row_of_run = row
    run_ids = list(row_of_run.run_ids) if row_of_run else [run_id]
    seeds = board.distinct("records", line.task, *Seed._fields, run_id=run_ids)
    beside = [seed for seed in map(Seed._make, seeds) if (seed.origin == YOURS) == yours]
    claims = [claim for claim in board.claims() if run_id in claim.run_ids]
    replications = board.replications(line.task)
    again = [run for run in replications if run_id in (run.run_id, run.other_run_id)]
    origins = board.distinct("records", line.task, "origin", run_id=[run_id])
    return Record(
        line,
        json.loads(line.content),
        row_of_run,
        tuple(beside),
        tuple(claims),
        tuple(again),
        others=tuple(origin for (origin,) in origins if origin != line.origin),
    )


def record_page(found_record: Record, models: Container[str], address: Address) -> list[Part]:
    """The page of a record.

    Args:
        models: that have a page.
    """
    line, content = found_record.line, found_record.content
    related = [("its model", to_model(line.model))] if line.model in models else []
    related += [("its table", to_table(found_record.row))] if found_record.row else []
    seeds = [
        (f"seed {seed.seed}", to_record(seed.run_id, seed.origin)) for seed in found_record.beside
    ]
    others = [(f"the one that is {of}", to_record(line.run_id, of)) for of in found_record.others]
    parts: list[Part] = [
        Text(title=line.run_id),
        Links(tuple(related)),
        Links(tuple(seeds), "All seeds:"),
        Links(tuple(others), "The same run, made elsewhere:"),
        Columns(
            (
                (facts([*run_facts(found_record), *trust_facts(found_record)]),),
                (Text(heading="Where it comes from"), facts(provenance_facts(content))),
            )
        ),
        SortableTable(
            "How far each seed of its row was checked", seed_lines(found_record, address)
        ),
        CodeBlock("The command that made it", content["provenance"]["command"]),
    ]
    if found_record.replications:
        heading = "Runs that repeat it, or that it repeats"
        parts.append(SortableTable(heading, again_lines(found_record.replications)))
        parts.append(
            SortableTable("Replications by machine", machine_lines(found_record.replications))
        )
    if tried := study_lines(content):
        parts.append(SortableTable("Settings that its search tried", tried))
    claims = tuple((claim.name, to_claim(claim)) for claim in found_record.claims)
    configuration = CodeBlock("Configuration", content["config"], folded=True)
    everything = CodeBlock(
        "The whole record, without curves and arrays", dict(content), folded=True
    )
    return [
        *parts,
        Links(claims, "Claims of the figures that it is a run of:"),
        Columns(((configuration,), (everything,))),
    ]


def matching(board: OpenBoard, search: str) -> list[tuple[str, str]]:
    """Run id and origin of the records in whose id, label, role or origin every word occurs."""
    names = []
    for task in board.tasks():
        for texts in board.distinct("records", task, *SEARCHED):
            if has_all(search, texts):
                names.append((texts[0], texts[1]))
    return names


def seed_lines(shown_record: Record, address: Address = in_app) -> list[dict[str, Any]]:
    """One dictionary for each record of the row of a record: how far each was checked."""
    lines = []
    for seed in shown_record.beside:
        line = {
            "seed": seed.seed,
            "checked": seed.checked,
            "outcome": seed.outcome,
            "origin": seed.origin,
            "record": address(to_record(seed.run_id, seed.origin)),
        }
        lines.append(line)
    return lines


def trust_facts(shown_record: Record) -> Facts:
    """How far a record and its row were checked, with what the levels mean."""
    lines = [("checked", f"{trust_of(shown_record.line).words} ({explained()})")]
    if shown_record.row:
        lines.append(("its row", trust_of(shown_record.row).words))
    for when, passed in examined(shown_record.content).items():
        lines.append((when, passed))
    return lines


def examined(content: Mapping[str, Any]) -> dict[str, str]:
    """What the model of a record passed, with fresh and with trained weights; nothing for a record
    that does not say it: of a predictor, of a memory, or from before it was kept."""
    examination = content.get("examination") or {}
    passed = {
        "examined before its training": examination.get("before"),
        "examined with its trained weights": examination.get("trained"),
    }
    return {when: ", ".join(questions) for when, questions in passed.items() if questions}


def machine_lines(runs: Sequence[Replication]) -> list[dict[str, Any]]:
    """One dictionary for each machine: how far what it gave lies from the board."""
    lines = []
    for machine in summarised(runs).each:
        line = {
            "machine": machine.name,
            "runs": machine.runs,
            "same numbers": machine.same,
            "mean difference": machine.mean_difference,
            "largest difference": machine.largest_difference,
        }
        lines.append(line)
    return lines


def again_lines(runs: Iterable[Replication]) -> list[dict[str, Any]]:
    """One dictionary for each replication: its number beside that of the board."""
    return [
        {
            "model": plain(run.label),
            "seed": run.seed,
            "metric": run.metric,
            "board": run.value,
            "again": run.other_value,
            "difference": run.difference,
            "same numbers": "yes" if run.same_numbers else "no",
            "outside what seeds explain": {True: "yes", False: "no", None: ""}[run.outside],
            "machine of the board": run.machine,
            "machine again": run.other_machine,
            "made again": run.origin,
            "by": run.by,
        }
        for run in runs
    ]


def in_words(replications: Sequence[Replication]) -> str:
    """What replications gave, in a sentence."""
    summary = summarised(replications)
    runs = amount(summary.runs, "run was", "runs were")
    machines = amount(summary.machines, "kind of machine", "kinds of machine")
    return (
        f"{runs} made again, on {machines}: "
        f"{summary.confirmed} gave exactly the same numbers, and "
        f"{amount(summary.outside, 'a number', 'numbers')} that seeds do not explain."
    )


def run_facts(shown_record: Record) -> Facts:
    """What was run and what came out."""
    line, content = shown_record.line, shown_record.content
    label = plain(line.label) if line.role == "baseline" else line.label
    headline, cost = content["headline"], content["cost"]
    value = headline["value"]
    arrow = ARROWS[headline["direction"]]
    result = "no value" if value is None else f"{value:.6g} {headline['unit']}".strip()
    return [
        ("model", f"{label} ({line.model})"),
        ("task, preset", f"{line.task}, {line.preset}"),
        ("seed, role", f"{line.seed}, {line.role}"),
        ("origin", line.origin),
        ("outcome", ": ".join(part for part in (line.outcome, content["cause"]) if part)),
        (f"{headline['name']} {arrow} on test", result),
        (
            "parameters",
            f"{cost['parameters']:,}, of these positions {cost['position_parameters']:,}",
        ),
        ("training", f"{cost['training_steps']:,} steps, {cost['training_tokens']:,} tokens"),
        ("training FLOPs", quantity(cost["training_flops"])),
        ("wall time", f"{cost['wall_seconds']:.1f} s"),
        ("trials in tuning", str(cost["tuning_trials"])),
    ]


def provenance_facts(content: Mapping[str, Any]) -> Facts:
    """Facts of where a record comes from."""
    provenance = content["provenance"]
    dirty = {True: ", with uncommitted changes", False: "", None: ""}[provenance["dirty"]]
    return [
        ("identity", content["identity"]),
        ("commit", (provenance["commit"] or "unknown") + dirty),
        ("code", code_status_of(dict(content))),
        ("model code", provenance["model_code"]),
        ("task code", provenance["task_code"]),
        *((f"data, {split}", digest) for split, digest in provenance["data"].items()),
        ("libraries", ", ".join(f"{k} {v}" for k, v in provenance["libraries"].items())),
        ("device, precision", f"{provenance['device']}, {provenance['precision']}"),
        ("started", provenance["started_at"]),
        ("content hash", content["content_sha256"]),
    ]


def study_lines(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every setting that the search of a record tried, in the order of the search, with its mean
    over seeds where it was trained with all of them."""
    trials = list(map(Trial.model_validate, (content.get("study") or {}).get("trials", [])))
    has_means = any(trial.over_seeds for trial in trials)
    lines = []
    for trial in trials:
        line = {**trial.parameters, "value": trial.value}
        if has_means:
            line["mean over seeds"] = trial.score if trial.over_seeds else None
        lines.append({**line, "outcome": trial.outcome})
    return lines
