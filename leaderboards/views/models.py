"""What is known of one model: its card, every number of it on the board, and the claims on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.config.groups import choices, model_groups
from core.amounts import amount
from leaderboards.contents import ClaimLine, OpenBoard, Row, runs_of
from leaderboards.render import PRESETS, rank, shown_label, task_label
from leaderboards.views import claims
from leaderboards.views.links import Address, in_app, to_table
from leaderboards.views.parts import Part, SortableTable, Text, facts
from leaderboards.views.tables import by_scale, chosen_settings, contents_of
from leaderboards.views.trust import trust_of
from reproduce.plotting.models import look, model_card

SOURCES = "models"
AT_FIRST = (
    "task",
    "preset",
    "configuration",
    "setting",
    "metric",
    "score",
    "rank",
    "seeds",
    "mark",
    "checked",
    "parameters",
    "training FLOPs",
    "state bytes",
    "table",
)


@dataclass(frozen=True)
class Model:
    """One model of the board.

    Attributes:
        source: its file in the project; "" for a model of another package.
        rows: its headline rows, the most demanding preset first.
    """

    name: str
    label: str
    colour: str
    card: Mapping[str, Any]
    source: str
    rows: tuple[Row, ...]
    claims: tuple[ClaimLine, ...]


def models(board: OpenBoard) -> dict[str, str]:
    """Every measured model and its label, by label."""
    names_and_labels = board.distinct("summary", "", "model", "label", kind="measured")
    by_label = sorted(names_and_labels, key=lambda pair: pair[1].lower())
    return dict(by_label)


def model(board: OpenBoard, wanted: str) -> Model:
    """All that the board knows of a model."""
    rows_of_model = board.summary(model=wanted, kind=["measured", "replication", "unverified"])
    rows = sorted(
        rows_of_model, key=lambda row: (-by_scale(row.preset), task_label(row.task), row.variant)
    )
    runs = runs_of(rows_of_model)
    decided = tuple(claim for claim in board.claims() if not runs.isdisjoint(claim.run_ids))
    label = shown_label(rows_of_model[0]) if rows_of_model else wanted
    card = model_card(wanted) or {}
    group = group_of(wanted)
    folder = SOURCES if group == SOURCES else f"{SOURCES}/{group}"
    source = f"{folder}/{wanted}.yaml" if group else ""
    return Model(wanted, label, look(wanted).colour, card, source, tuple(rows), decided)


def group_of(model: str) -> str:
    """The group of a model among those of this project; "" of another package."""
    return next((group for group in model_groups() if model in choices(group)), "")


def origin_facts(shown_model: Model) -> list[tuple[str, str]]:
    """Facts of where a model comes from."""
    pairs = [
        ("source", str(shown_model.card.get("source", ""))),
        ("deviations", str(shown_model.card.get("note", ""))),
        ("file", shown_model.source or "of another package"),
    ]
    return [pair for pair in pairs if pair[1]]


def model_page(board: OpenBoard, shown_model: Model, address: Address) -> list[Part]:
    """The page of a model."""
    parts: list[Part] = [
        Text(title=shown_model.label, colour=shown_model.colour, lead=best_known(shown_model)),
        facts(origin_facts(shown_model)),
    ]
    if shown_model.rows:
        heading = "Every setting that was measured"
        parts.append(SortableTable(heading, lines(board, shown_model, address), AT_FIRST))
    if shown_model.claims:
        lead = claims.in_words(shown_model.claims)
        claim_lines = claims.lines(shown_model.claims, address)
        heading = "Claims that its runs decide"
        parts.append(SortableTable(heading, claim_lines, claims.AT_FIRST, lead=lead))
    return parts


def lines(board: OpenBoard, shown_model: Model, address: Address = in_app) -> list[dict[str, Any]]:
    """One dictionary for each setting that was tried, in every task."""
    contents = contents_of(board, shown_model.rows)
    return [
        {
            "task": task_label(row.task),
            "preset": row.preset,
            "configuration": row.variant,
            "setting": row.setting,
            "metric": row.metric,
            "score": row.mean if row.outcome == "ok" else None,
            "low": row.low,
            "high": row.high,
            "rank": "" if row.rank_best is None else rank(row),
            "seeds": row.seeds,
            "mark": row.mark,
            "note": row.note,
            "checked": trust_of(row).checked,
            "admitted": "yes" if row.verified else "no",
            "outcome": row.cause or row.outcome,
            "chosen settings": chosen_settings(contents.get(row.run_ids[0], {})),
            "steps": row.training_steps,
            "trials": row.trials,
            "parameters": row.parameters,
            "training FLOPs": row.training_flops,
            "state bytes": row.state_bytes,
            "state at length": row.state_length,
            "seconds": row.wall_seconds,
            "kind": row.kind,
            "origin": row.origin,
            "table": address(to_table(row, selected=row.model)),
        }
        for row in shown_model.rows
    ]


def best_known(shown_model: Model) -> str:
    """What the model is good at in a sentence: the tables that it leads, smoke left out."""
    led = [row for row in shown_model.rows if row.rank_best == 1 and row.preset != PRESETS[0]]
    tables = amount(len({(row.task, row.preset, row.variant) for row in shown_model.rows}), "table")
    if not led:
        return f"{shown_model.label} is in {tables}, and leads none of those that are ranked."
    where = list(dict.fromkeys(f"{task_label(row.task)} ({row.preset})" for row in led))
    places = ", ".join(where[:4]) + (f" and {len(where) - 4} more" if where[4:] else "")
    return f"{shown_model.label} is in {tables}. It is first, or may be, in {places}."
