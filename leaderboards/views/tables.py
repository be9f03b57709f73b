"""The tables of the board: which there are, which one a task opens on, in what order, and with
which columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

from bench.config.groups import contenders, task_card
from leaderboards.contents import OpenBoard, Row
from leaderboards.render import PRESETS, name, plain, rank, task_label
from leaderboards.views.links import Address, in_app, to_record
from leaderboards.views.trust import YOURS, trust_of
from reproduce.claims.fairness import TUNED, WORDS
from reproduce.plotting.models import label as model_label
from reproduce.plotting.models import model_card

IN_README = "regbench"  # the task of which the README shows a table
BEST_FIRST = "rank"
ALONE = "as set"  # a configuration that no word tells from others
PLANNED = "planned"  # a model that contends by its card, and was not measured
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


class Brief(NamedTuple):
    """What tells of a row which table it is in and how much that tells: a few columns, which are
    read from a large board in no time."""

    task: str
    preset: str
    variant: str
    metric: str
    kind: str
    model: str
    label: str
    setting: str
    source: str
    outcome: str
    mark: str
    made_from: str


Line = TypeVar("Line", Row, Brief)


@dataclass(frozen=True)
class Table(Generic[Line]):
    """Rows that are ranked together: those of one configuration of a task, by one metric."""

    task: str
    preset: str
    variant: str
    metric: str
    rows: tuple[Line, ...]

    @property
    def measured(self) -> list[Line]:
        """The rows of ours that were trained or measured."""
        return [row for row in self.rows if row.kind == "measured"]

    @property
    def place(self) -> str:
        """Where it is on the board, in words."""
        variant = f", {self.variant}" if self.variant else ""
        return f"{task_label(self.task)}, {self.preset}{variant}"


def tasks(board: OpenBoard) -> list[str]:
    """All tasks by name, those with something measured first."""
    measured = {task for (task,) in board.distinct("summary", "", "task")}
    return sorted(board.tasks(), key=lambda task: (task not in measured, task))


def tables(rows: Iterable[Line]) -> list[Table[Line]]:
    """The tables that rows form, in the order of the rows."""
    found: dict[tuple[str, str, str, str], list[Line]] = {}
    for row in rows:
        found.setdefault((row.task, row.preset, row.variant, row.metric), []).append(row)
    return [Table(*key, tuple(own)) for key, own in found.items()]


def headline_tables(board: OpenBoard, task: str) -> list[Table[Brief]]:
    """The tables of a task by its headline, published numbers of it included; by its first metric,
    where nobody measured the task."""
    metrics = board.distinct("rows", task, "metric", headline=True)
    metrics = metrics or board.distinct("rows", task, "metric")
    asked = [metric for (metric,) in metrics]
    return tables(
        Brief(*line) for line in board.distinct("rows", task, *Brief._fields, metric=asked)
    )


def whole(board: OpenBoard, table: Table[Brief]) -> Table[Row]:
    """A table with all columns of its rows."""
    place = {"preset": table.preset, "variant": table.variant, "metric": table.metric}
    rows = board.rows(table.task, **place)
    return Table(table.task, table.preset, table.variant, table.metric, tuple(rows))


def first_task(board: OpenBoard) -> str:
    """The task that is shown where none is asked for: that of the README, or the one with the most
    telling table."""
    known = tasks(board)
    if IN_README in known or not known:
        return IN_README
    lines = board.distinct("summary", "", *Brief._fields, kind="measured")
    found = tables(Brief(*line) for line in lines)
    return opening(found).task if found else known[0]


def by_scale(preset: str) -> int:
    """Where a preset stands by scale; one that somebody added, below smoke."""
    return PRESETS.index(preset) if preset in PRESETS else -1


def telling(rows: Sequence[Row] | Sequence[Brief]) -> tuple[bool, int, int, int]:
    """By how much a table tells, the most for the largest: whether it is more than a test of the
    machinery, how many tuned contenders it has, how many models, and its scale."""
    measured = [row for row in rows if row.kind == "measured"]
    scale = by_scale(rows[0].preset)
    tuned = sum(row.mark == TUNED for row in measured)
    return bool(measured) and scale > 0, tuned, len({row.model for row in measured}), scale


def most_telling_first(found: Iterable[Table[Line]]) -> list[Table[Line]]:
    """The tables, the most telling first; of equals the last, which is the largest, since variants
    are sorted by their size."""
    last_first = list(found)[::-1]
    return sorted(last_first, key=lambda table: telling(table.rows), reverse=True)


def opening(found: Sequence[Table[Line]]) -> Table[Line]:
    """The table that a task opens on."""
    return most_telling_first(found)[0]


def presets(found: Iterable[Table[Any]]) -> list[str]:
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
    return " ".join(
        (row.label, row.model, row.setting, row.mark, row.kind, row.source, row.origin)
    ).lower()


def contents_of(board: OpenBoard, rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """What the first records of rows say, by run id; those that the board has not are left out."""
    firsts: dict[str, list[str]] = {}
    for row in rows:
        if row.run_ids:
            firsts.setdefault(row.task, []).append(row.run_ids[0])
    found = (one for task, run_ids in firsts.items() for one in board.records(task, run_id=run_ids))
    return {record.run_id: json.loads(record.content) for record in found}


def unique_names(rows: Sequence[Row]) -> list[str]:
    """A name for each row that no other row has: published rows add where they are from."""
    names = [name(row) for row in rows]
    counts = Counter(names)
    told = [
        f"{one} [{row.source or row.origin or row.kind}]" if counts[one] > 1 else one
        for one, row in zip(names, rows, strict=True)
    ]
    again = Counter(told)
    seen: Counter[str] = Counter()
    for place, one in enumerate(told):
        seen[one] += 1
        if again[one] > 1:
            told[place] = f"{one} #{seen[one]}"
    return told


ALWAYS = ("rank", "model", "score", "low", "high", "seeds", "mark", "level")
AT_FIRST = (*ALWAYS, "parameters", "training FLOPs", "state bytes", "seconds", "record")


def lines(
    rows: Sequence[Row], contents: Mapping[str, dict[str, Any]], address: Address = in_app
) -> list[dict[str, Any]]:
    """One dictionary for each row, with every column there is, for a table that sorts.

    Args:
        contents: of the records of the rows, for the settings that a search chose.
        address: of the link in the column ``record``.
    """
    labels = Counter((row.label, row.kind, row.origin) for row in rows)
    several = {key for key, count in labels.items() if count > 1}
    return [
        _line(row, contents, address, (row.label, row.kind, row.origin) in several) for row in rows
    ]


def _line(
    row: Row, contents: Mapping[str, dict[str, Any]], address: Address, several: bool
) -> dict[str, Any]:
    """The line of a row; its name has the setting where ``several`` rows have its label."""
    content = next((contents[run_id] for run_id in row.run_ids if run_id in contents), {})
    well = row.outcome == "ok"
    return {
        "rank": "" if row.rank_best is None else rank(row),
        "model": (name(row) if several else plain(row.label))
        + (f" ({YOURS})" if trust_of(row).yours else ""),
        "setting": row.setting,
        "score": row.mean if well else None,
        "low": row.low if well else None,
        "high": row.high if well else None,
        "seeds": row.seeds,
        "data seeds": row.data_seeds,
        "mark": row.mark,
        "level": trust_of(row).short if row.origin else "",
        "note": row.note,
        "outcome": row.cause or row.outcome,
        **{word: _why(row, word) for word in reversed(WORDS)},
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
        "trust": trust_of(row).words if row.origin else "",
        "origin": ", ".join(part for part in (row.kind, row.source, row.origin) if part),
        "record": address(to_record(row.run_ids[0], row.origin)) if row.run_ids else None,
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


def row_of(rows: Iterable[Row]) -> Row:
    """The row that tells most of a model that has several: its ranked one, or else its best."""
    return min(rows, key=lambda row: (row.rank_best is None, row.outcome != "ok"))


def settings_of_tables(board: OpenBoard, found: Iterable[Table[Row]]) -> dict[str, dict[str, Any]]:
    """Group → how the task was set there, by one record of each group."""
    firsts = {table.rows[0].group: table.measured[0] for table in found if table.measured}
    contents = contents_of(board, firsts.values())
    return {
        group: contents[row.run_ids[0]]["config"].get("tasks", {})
        for group, row in firsts.items()
        if row.run_ids[0] in contents
    }


def coverage(
    task: str, found: Iterable[Table[Brief]], planned: Callable[[str], Sequence[str]]
) -> list[dict[str, Any]]:
    """How far each model was measured at each preset: one dictionary for each pair, what is only
    planned last.

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
                    "state": PLANNED if not mine else "failed" if lost == len(mine) else "done",
                    "rows done": len(mine) - lost,
                    "rows failed": lost,
                    "command": "" if mine else command,
                }
            )
    return sorted(lines, key=lambda line: line["state"] == PLANNED)


def planned(task: str, preset: str) -> Sequence[str]:
    """The models that contend in a task at a preset, by their cards."""
    return contenders(task, preset) if preset in PRESETS else ()


def cards(table: Table[Row]) -> list[tuple[str, Mapping[str, Any]]]:
    """The cards of a table's task and of its models, by name."""
    about = [(table.task, task_card(table.task))] if task_card(table.task) else []
    shown = [(row.model, model_card(row.model)) for row in table.measured]
    return list(dict([*about, *((model, found) for model, found in shown if found)]).items())


def _last_if_unknown(value: float | None) -> float:
    return float("inf") if value is None else value
