"""The tables of the board: which there are, which one a task opens on, in what order, and with
which columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from bench.config.groups import contenders, task_card
from leaderboards.contents import OpenBoard, Row
from leaderboards.render import PRESETS, name, rank, shown_label, task_label
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
class RankedTable(Generic[Line]):
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


def tables(rows: Iterable[Line]) -> list[RankedTable[Line]]:
    """The tables that rows form, in the order of the rows."""
    rows_by_place: dict[tuple[str, str, str, str], list[Line]] = {}
    for row in rows:
        place = row.task, row.preset, row.variant, row.metric
        rows_by_place.setdefault(place, []).append(row)
    return [RankedTable(*place, tuple(rows_there)) for place, rows_there in rows_by_place.items()]


def headline_tables(board: OpenBoard, task: str) -> list[RankedTable[Brief]]:
    """The tables of a task by its headline, published numbers of it included; by its first metric,
    where nobody measured the task."""
    metrics = board.distinct("rows", task, "metric", headline=True)
    metrics = metrics or board.distinct("rows", task, "metric")
    names = [metric for (metric,) in metrics]
    return tables(map(Brief._make, board.distinct("rows", task, *Brief._fields, metric=names)))


def whole(board: OpenBoard, table: RankedTable[Brief]) -> RankedTable[Row]:
    """A table with all columns of its rows."""
    place = {"preset": table.preset, "variant": table.variant, "metric": table.metric}
    rows = board.rows(table.task, **place)
    return RankedTable(table.task, table.preset, table.variant, table.metric, tuple(rows))


def first_task(board: OpenBoard) -> str:
    """The task that is shown where none is asked for: that of the README, or the one with the most
    telling table."""
    names = tasks(board)
    if IN_README in names or not names:
        return IN_README
    lines = board.distinct("summary", "", *Brief._fields, kind="measured")
    measured = tables(map(Brief._make, lines))
    return opening(measured).task if measured else names[0]


def by_scale(preset: str) -> int:
    """Where a preset stands by scale; one that somebody added, below smoke."""
    return PRESETS.index(preset) if preset in PRESETS else -1


def telling(rows: Sequence[Row] | Sequence[Brief]) -> tuple[bool, int, int, int]:
    """What tables are sorted by, the largest first: how much a table tells. That is whether it is
    more than a test of the machinery, how many tuned contenders it has, how many models, and its
    scale."""
    measured = [row for row in rows if row.kind == "measured"]
    scale = by_scale(rows[0].preset)
    tuned = sum(row.mark == TUNED for row in measured)
    return bool(measured) and scale > 0, tuned, len({row.model for row in measured}), scale


def most_telling_first(candidates: Iterable[RankedTable[Line]]) -> list[RankedTable[Line]]:
    """The tables, the most telling first; of equals the last, which is the largest, since variants
    are sorted by their size."""
    last_first = list(candidates)[::-1]
    return sorted(last_first, key=lambda table: telling(table.rows), reverse=True)


def opening(candidates: Sequence[RankedTable[Line]]) -> RankedTable[Line]:
    """The table that a task opens on."""
    return most_telling_first(candidates)[0]


def presets(of_tables: Iterable[RankedTable[Any]]) -> list[str]:
    """The presets of tables, by growing scale."""
    names = {table.preset for table in of_tables}
    return sorted(names, key=lambda preset: (by_scale(preset), preset))


def ordered(rows: Sequence[Row], order: str) -> list[Row]:
    """The rows in one of ``ORDERS``; those that are equal in it stay as they were."""
    return sorted(rows, key=ORDERS[order])


def has_all(search: str, texts: Iterable[str]) -> bool:
    """Whether every word of a search occurs in one of the texts, however it is written."""
    searched = " ".join(texts).lower()
    return all(word in searched for word in search.lower().split())


def matching(rows: Iterable[Row], search: str) -> list[Row]:
    """The rows in whose model, setting, mark or origin every word occurs."""
    names = ("label", "model", "setting", "mark", "kind", "source", "origin")
    return [row for row in rows if has_all(search, (getattr(row, name) for name in names))]


def contents_of(board: OpenBoard, rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """What the first records of rows say, by run id; those that the board has not are left out."""
    firsts: dict[str, list[str]] = {}
    for row in rows:
        if row.run_ids:
            firsts.setdefault(row.task, []).append(row.run_ids[0])
    contents = {}
    for task, run_ids in firsts.items():
        for record in board.records(task, run_id=run_ids):
            contents[record.run_id] = json.loads(record.content)
    return contents


def unique_names(rows: Sequence[Row]) -> list[str]:
    """A name for each row that no other row has: published rows add where they are from."""
    counts = Counter(map(name, rows))
    names = []
    for row in rows:
        where = f" [{row.source or row.origin or row.kind}]"
        names.append(name(row) + (where if counts[name(row)] > 1 else ""))
    counts, numbers = Counter(names), Counter[str]()
    for place, row_name in enumerate(names):
        numbers[row_name] += 1
        if counts[row_name] > 1:
            names[place] = f"{row_name} #{numbers[row_name]}"
    return names


ALWAYS = ("rank", "model", "score", "low", "high", "seeds", "mark", "checked")
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
    table_lines = []
    for row in rows:
        has_rivals = labels[row.label, row.kind, row.origin] > 1
        table_lines.append(_line(row, contents, address, has_rivals))
    return table_lines


def _line(
    row: Row, contents: Mapping[str, dict[str, Any]], address: Address, several: bool
) -> dict[str, Any]:
    """The line of a row; its name has the setting where ``several`` rows have its label."""
    content = next((contents[run_id] for run_id in row.run_ids if run_id in contents), {})
    well = row.outcome == "ok"
    reasons: dict[str, list[str]] = {word: [] for word in reversed(WORDS)}
    for mark in row.marks:
        word, _, reason = mark.partition(": ")
        if word in reasons:  # else it is of a board of another version
            reasons[word].append(reason)
    return {
        "rank": "" if row.rank_best is None else rank(row),
        "model": (name(row) if several else shown_label(row))
        + (f" ({YOURS})" if trust_of(row).yours else ""),
        "setting": row.setting,
        "score": row.mean if well else None,
        "low": row.low if well else None,
        "high": row.high if well else None,
        "seeds": row.seeds,
        "data seeds": row.data_seeds,
        "mark": row.mark,
        "checked": trust_of(row).checked if row.origin else "",
        "admitted": ("yes" if row.verified else "no") if row.origin else "",
        "note": row.note,
        "outcome": row.cause or row.outcome,
        **{word: "; ".join(texts) for word, texts in reasons.items()},
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
        "kind": row.kind,
        "source": row.source,
        "origin": row.origin,
        "record": address(to_record(row.run_ids[0], row.origin)) if row.run_ids else None,
    }


def chosen_settings(content: Mapping[str, Any]) -> str:
    """What the search of a record chose among, with the values that it chose."""
    study = content.get("study") or {}
    config = content.get("config", {})
    settings = []
    for key in study.get("search_space", {}):
        section, _, setting = key.partition(".")
        settings.append(f"{setting}={config.get(section, {}).get(setting)}")
    return ", ".join(settings)


def row_of(rows: Iterable[Row]) -> Row:
    """The row that tells most of a model that has several: its ranked one, or else its best."""
    return min(rows, key=lambda row: (row.rank_best is None, row.outcome != "ok"))


def coverage(
    task: str, of_tables: Iterable[RankedTable[Brief]], planned: Callable[[str], Sequence[str]]
) -> list[dict[str, Any]]:
    """How far each model was measured at each preset: one dictionary for each pair, what is only
    planned last.

    Args:
        planned: preset → the models that contend there by their cards.
    """
    rows_by_preset: dict[str, list[Brief]] = {}
    for table in sorted(of_tables, key=lambda table: (-by_scale(table.preset), table.preset)):
        rows_by_preset.setdefault(table.preset, []).extend(table.measured)
    lines = []
    for preset, rows in rows_by_preset.items():
        labels = {row.model: shown_label(row) for row in rows}
        for model in dict.fromkeys([*labels, *planned(preset)]):
            outcomes = [row.outcome for row in rows if row.model == model]
            done = outcomes.count("ok")
            command = f"python -m bench.sweep tasks={task} models={model} preset={preset}"
            line = {
                "model": labels.get(model) or model_label(model),
                "preset": preset,
                "state": PLANNED if not outcomes else "done" if done else "failed",
                "rows done": done,
                "rows failed": len(outcomes) - done,
                "command": "" if outcomes else command,
            }
            lines.append(line)
    return sorted(lines, key=lambda line: line["state"] == PLANNED)


def planned(task: str, preset: str) -> Sequence[str]:
    """The models that contend in a task at a preset, by their cards."""
    return contenders(task, preset) if preset in PRESETS else ()


def cards(table: RankedTable[Row]) -> dict[str, Mapping[str, Any]]:
    """The cards of a table's task and of its models, by name."""
    card_by_name = {table.task: task_card(table.task)}
    for row in table.measured:
        card_by_name[row.model] = model_card(row.model) or {}
    return {name: card for name, card in card_by_name.items() if card}


def _last_if_unknown(value: float | None) -> float:
    return float("inf") if value is None else value
