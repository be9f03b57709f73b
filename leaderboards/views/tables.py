"""The tables of the board: which there are, which one a task opens on, in what order, and with
which columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from judging.fairness import EDGE, IMPROVING, TUNED, UNTUNED
from leaderboards.contents import Board, RecordLine, Row
from leaderboards.render import PRESETS, name, plain, rank
from leaderboards.views.links import Address, in_app, to_record
from leaderboards.views.trust import trust_of
from pictures.models import label as model_label
from settings.groups import card, choices

BEST_FIRST = "rank"
ORDERS: Mapping[str, Callable[[Row], Any]] = {
    BEST_FIRST: lambda row: 0,  # rows of a board are in this order
    "model": lambda row: name(row).lower(),
    "parameters": lambda row: _last_if_unknown(row.parameters),
    "training FLOPs": lambda row: _last_if_unknown(row.training_flops),
    "state bytes": lambda row: _last_if_unknown(row.state_bytes),
    "seconds": lambda row: _last_if_unknown(row.wall_seconds),
    "trials": lambda row: -(row.trials or 0),
    "seeds": lambda row: -(row.seeds or 0),
}


@dataclass(frozen=True)
class Table:
    """Rows that are ranked together: those of one configuration of a task, by one metric."""

    task: str
    preset: str
    variant: str
    metric: str
    rows: tuple[Row, ...]

    @property
    def measured(self) -> list[Row]:
        """The rows of ours that were trained or measured."""
        return [row for row in self.rows if row.kind == "measured"]

    @property
    def place(self) -> str:
        """Where it is on the board, in words."""
        variant = f", {self.variant}" if self.variant else ""
        return f"{task_label(self.task)}, {self.preset}{variant}"


def task_label(task: str) -> str:
    """What a task is called: its card's label, or its name."""
    return str(card("tasks", task).get("label", task)) if task in choices("tasks") else task


def tasks(board: Board) -> list[str]:
    """All tasks by name, those with something measured first."""
    measured = {row.task for row in board.rows if row.group}
    return sorted({row.task for row in board.rows}, key=lambda task: (task not in measured, task))


def tables(rows: Iterable[Row]) -> list[Table]:
    """The tables that rows form, in the order of the rows."""
    found: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.task, row.preset, row.variant, row.metric), []).append(row)
    return [Table(*key, tuple(own)) for key, own in found.items()]


def headline_tables(board: Board, task: str | None = None) -> list[Table]:
    """The headline tables of a task, or of all, published numbers of the same metric included."""
    rows = [row for row in board.rows if task in (None, row.task)]
    known = {row.task: row.metric for row in rows if row.headline}
    for row in rows:  # of a task that nobody measured
        known.setdefault(row.task, row.metric)
    return tables(
        row for row in rows if row.headline or (row.source and row.metric == known[row.task])
    )


def by_scale(preset: str) -> int:
    """Where a preset stands by scale; one that somebody added, below smoke."""
    return PRESETS.index(preset) if preset in PRESETS else -1


def telling(rows: Sequence[Row]) -> tuple[bool, int, int, int]:
    """By how much a table tells, the most for the largest: whether it is more than a test of the
    machinery, how many tuned contenders it has, how many models, and its scale."""
    measured = [row for row in rows if row.kind == "measured"]
    scale = by_scale(rows[0].preset)
    tuned = sum(row.mark == TUNED for row in measured)
    return bool(measured) and scale > 0, tuned, len({row.model for row in measured}), scale


def most_telling_first(found: Iterable[Table]) -> list[Table]:
    """The tables, the most telling first; of equals the last, which is the largest, since variants
    are sorted by their size."""
    last_first = list(found)[::-1]
    return sorted(last_first, key=lambda table: telling(table.rows), reverse=True)


def opening(found: Sequence[Table]) -> Table:
    """The table that a task opens on."""
    return most_telling_first(found)[0]


def presets(found: Iterable[Table]) -> list[str]:
    """The presets of tables, by growing scale."""
    return sorted({table.preset for table in found}, key=lambda preset: (by_scale(preset), preset))


def ordered(rows: Sequence[Row], order: str) -> list[Row]:
    """The rows in one of ``ORDERS``; those that are equal in it stay as they were."""
    return sorted(rows, key=ORDERS[order])


def matching(rows: Iterable[Row], words: str) -> list[Row]:
    """The rows in whose model, setting, mark or origin every word occurs."""
    wanted = words.lower().split()
    return [row for row in rows if all(word in _searched(row) for word in wanted)]


def _searched(row: Row) -> str:
    return " ".join((row.label, row.model, row.setting, row.mark, row.kind, row.source)).lower()


def contents_of(board: Board, run_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What records say, by run id; those that are not on the board are left out."""
    wanted = set(run_ids)
    return {r.run_id: json.loads(r.content) for r in board.records if r.run_id in wanted}


def records_of(board: Board, rows: Iterable[Row]) -> list[RecordLine]:
    """The records behind rows, in the order of the rows."""
    wanted = {run_id: place for place, run_id in enumerate(r for row in rows for r in row.run_ids)}
    found = [record for record in board.records if record.run_id in wanted]
    return sorted(found, key=lambda record: wanted[record.run_id])


def unique_names(rows: Sequence[Row]) -> list[str]:
    """A name for each row that no other row has: published rows add where they are from."""
    names = [name(row) for row in rows]
    counts = Counter(names)
    told = [
        f"{one} [{row.source or row.kind}]" if counts[one] > 1 else one
        for one, row in zip(names, rows, strict=True)
    ]
    again = Counter(told)
    seen: Counter[str] = Counter()
    for place, one in enumerate(told):
        seen[one] += 1
        if again[one] > 1:
            told[place] = f"{one} #{seen[one]}"
    return told


ALWAYS = ("rank", "model", "score", "low", "high", "seeds", "mark")
AT_FIRST = (*ALWAYS, "parameters", "training FLOPs", "state bytes", "seconds", "record")


def lines(
    rows: Sequence[Row], contents: Mapping[str, dict[str, Any]], address: Address = in_app
) -> list[dict[str, Any]]:
    """One dictionary for each row, with every column there is, for a table that sorts.

    Args:
        contents: of the records of the rows, for the settings that a search chose.
        address: of the link in the column ``record``.
    """
    return [_line(row, contents, address) for row in rows]


def _line(row: Row, contents: Mapping[str, dict[str, Any]], address: Address) -> dict[str, Any]:
    content = next((contents[run_id] for run_id in row.run_ids if run_id in contents), {})
    well = row.outcome == "ok"
    return {
        "rank": "" if row.rank_best is None else rank(row),
        "model": plain(row.label),
        "setting": row.setting,
        "score": row.mean if well else None,
        "low": row.low if well else None,
        "high": row.high if well else None,
        "seeds": row.seeds,
        "data seeds": row.data_seeds,
        "mark": row.mark,
        "outcome": row.cause or row.outcome,
        **{word: _why(row, word) for word in (TUNED, EDGE, IMPROVING, UNTUNED)},
        "chosen settings": chosen_settings(content),
        "steps": row.training_steps,
        "trials": row.trials,
        "parameters": row.parameters,
        "training FLOPs": row.training_flops,
        "training tokens": row.training_tokens,
        "state bytes": row.state_bytes,
        "state at length": row.state_length,
        "seconds": row.wall_seconds,
        "peak memory": row.peak_memory_bytes,
        "test items": row.items,
        "device": row.device,
        "trust": trust_of(row).words if row.kind == "measured" else "",
        "origin": ", ".join(part for part in (row.kind, row.source) if part),
        "record": address(to_record(row.run_ids[0])) if row.run_ids else None,
    }


def _why(row: Row, word: str) -> str:
    """Why a row has a mark; empty where it has not."""
    return "; ".join(
        mark.partition(": ")[2] for mark in row.marks if mark.partition(":")[0] == word
    )


def chosen_settings(content: Mapping[str, Any]) -> str:
    """What the search of a record chose among, with the values that it chose."""
    study = content.get("study") or {}
    config = content.get("config", {})
    found = []
    for key in study.get("search_space", {}):
        section, _, setting = key.partition(".")
        found.append(f"{setting}={config.get(section, {}).get(setting)}")
    return ", ".join(found)


def settings_of_tables(board: Board, found: Iterable[Table]) -> dict[str, dict[str, Any]]:
    """Group → how the task was set there, by one record of each group."""
    firsts = {row.run_ids[0]: row.group for table in found for row in table.rows if row.run_ids}
    by_group = {group: run_id for run_id, group in firsts.items()}
    contents = contents_of(board, by_group.values())
    return {
        group: contents[run_id]["config"].get("tasks", {})
        for group, run_id in by_group.items()
        if run_id in contents
    }


def coverage(
    task: str, found: Iterable[Table], planned: Callable[[str], Sequence[str]]
) -> list[dict[str, Any]]:
    """How far each model was measured at each preset: one dictionary for each pair.

    Args:
        planned: preset → the models that contend there by their cards.
    """
    own = sorted(found, key=lambda table: (-by_scale(table.preset), table.preset))
    lines = []
    for preset, group in groupby(own, key=lambda table: table.preset):
        rows = [row for table in group for row in table.measured]
        labels = {row.model: plain(row.label) for row in rows}
        for model in dict.fromkeys([*labels, *planned(preset)]):
            mine = [row for row in rows if row.model == model]
            lost = sum(row.outcome != "ok" for row in mine)
            command = f"python -m bench.sweep tasks={task} models={model} preset={preset}"
            lines.append(
                {
                    "model": labels.get(model) or model_label(model),
                    "preset": preset,
                    "state": "planned" if not mine else "failed" if lost == len(mine) else "done",
                    "rows done": len(mine) - lost,
                    "rows failed": lost,
                    "command": "" if mine else command,
                }
            )
    return lines


def _last_if_unknown(value: float | None) -> float:
    return float("inf") if value is None else value
