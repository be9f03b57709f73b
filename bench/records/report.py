"""What a person reads at the end of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from bench.config.groups import PRESETS
from bench.config.source_files import is_of_this_project
from bench.records.equivalence import CodeStatus, code_status
from bench.records.schema import Cost, Examination, RunRecord
from bench.records.store import Store, record_path
from core.errors import library_folders
from core.files import ROOT, open_regular
from core.places import readable as shown_path
from core.privacy import DETAILS
from core.screen import console

SAID: dict[CodeStatus, str] = {
    "current": "current: that of this checkout",
    "equivalent": "equivalent: an earlier one, proven to give the same bytes as this checkout",
    "equal up to rounding": "equal up to rounding: an earlier one, proven to give the same numbers "
    "as this checkout but for rounding errors, and not the same bytes",
    "stale": "stale: another than here; python -m bench.equivalence can "
    "prove that both give the same bytes",
}


FRAME = re.compile(r'  File "(.+)", line (\d+)')
LARGEST_TRACEBACK = 2**20  # bytes that are looked through


def how_to_be_ranked(preset: str, words: str = "the same words and") -> str | None:
    """Why rows of a preset get no rank, and what to type for those that do, in a sentence; None
    where the preset gives such rows.

    Args:
        words: of the command to type, its preset left out.
    """
    if preset != PRESETS[0]:
        return None
    return (
        f"preset {preset}, the default, shows that everything works; most of its rows get no rank, "
        f"since they are not tuned or still improve. For a rank: {words} preset={PRESETS[1]} "
        "(the sweep says with dry_run=true how long that takes)"
    )


def in_full(cause: str | None, store: Path) -> str:
    """A cause with all that the error said, if its traceback is in the store. A record leaves out
    what may be the name of a place or a person, since records are published; a screen is not. So
    it is also told in which line the error arose."""
    text = str(cause)
    match = DETAILS.search(text)
    lines: list[str] = []
    if match is not None:
        with suppress(OSError), open_regular(Store(store).work(match[1]) / "traceback.txt") as file:
            lines = file.read(LARGEST_TRACEBACK).decode(errors="replace").splitlines()
    code = max((n for n, line in enumerate(lines) if line.startswith("    ")), default=len(lines))
    message = next(iter(lines[code + 1 :]), "")  # below the last line of code
    place = _place_in(lines)
    at = f" in {place}" if place else ""
    if not message or message in text:
        before, is_there, after = text.rpartition(" (details in ")
        return f"{before}{at}{is_there}{after}" if is_there else text
    # In place of the words that a record may say, from the name of the error on.
    kind = message.partition(":")[0].rpartition(".")[2]
    before, is_there, after = text.partition(f"{kind}: ")
    words, _, details = after.rpartition(" (details in ")
    if not is_there or not details:
        return f"{text}; in full: {message}"
    _, raised_from, cause = words.partition(", from ")
    return f"{before}{message}{raised_from}{cause}{at} (details in {details}"


def _place_in(lines: Iterable[str]) -> str:
    """The innermost line of a traceback in a file of somebody's own; in one of this project where
    all others are of libraries; "" if there is none."""
    of_users, of_ours = "", ""
    for matched in filter(None, map(FRAME.match, lines)):
        path = Path(matched[1])
        if any(path.is_relative_to(library) for library in library_folders()):
            continue
        place = f"{shown_path(path)}, line {matched[2]}"
        top = path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) else ""
        if is_of_this_project(top):
            of_ours = place
        elif path.is_absolute():
            of_users = place
    return of_users or of_ours


def table_of(text_columns: Iterable[str], number_columns: Iterable[str], **titles: Any) -> Table:
    """A table with columns of text, then of numbers; ``titles`` are its title and caption."""
    right = (Column(name, justify="right") for name in number_columns)
    return Table(*text_columns, *right, title_justify="left", caption_justify="left", **titles)


def print_record(record: RunRecord, store: Path) -> None:
    """The outcome of one run, its metrics and where its record lies."""
    screen = console(soft_wrap=True)
    path = record_path(record, store)
    title = f"{record.label} on {record.task}, preset {record.preset}, seed {record.seed}"
    if record.outcome != "ok":
        cause = in_full(record.cause, store)
        screen.print(f"{title}: {record.outcome.replace('_', ' ')}: {cause}")
    else:
        splits = sorted(record.metrics, reverse=True)  # validation, test: the order of the work
        table = table_of(["metric"], splits, title=title)
        for name in sorted(set().union(*record.metrics.values())):
            values = [record.metrics[split].get(name) for split in splits]
            cells = ["" if value is None else _digits(value) for value in values]
            table.add_row(name + (" *" if name == record.headline.name else ""), *cells)
        screen.print(table)
        cost = record.cost
        training = (
            f"{numbers_of(cost)}, {cost.training_steps:,} steps, "
            f"{cost.training_tokens:,} tokens, {cost.training_flops or 0:.3g} training FLOPs, "
        )
        trained = training if cost.training_steps else ""
        screen.print(f"{trained}{cost.wall_seconds:.1f} s   (* is the headline)")
        if trained and record.examination is None:
            screen.print(
                f"examined before training only; bench.examine run={record.run_id} does more"
            )
    if code_status(record.config, record.provenance) == "equal up to rounding":
        screen.print(f"its code is {SAID['equal up to rounding']}")
    screen.print(f"record: {shown_path(path)}")


def print_examination(record: RunRecord, examination: Examination | None, cause: str) -> None:
    """What the model of a run has passed, or why it failed."""
    screen = console(soft_wrap=True)
    title = f"{record.label} on {record.task}, preset {record.preset}, seed {record.seed}"
    if examination is None:
        screen.print(f"{title}: failed: {cause}")
        return
    screen.print(f"{title}: passed")
    screen.print(f"  with fresh weights: {', '.join(examination.before) or 'not examined'}")
    screen.print(f"  with its trained weights: {', '.join(examination.trained)}")
    if record.cost.changed_buffers:
        screen.print(f"  it has {numbers_of(record.cost)}")
    if examination.unused_parameters:
        screen.print(f"  no output depends on: {', '.join(examination.unused_parameters)}")


def numbers_of(cost: Cost) -> str:
    """How many numbers training changes, in words: parameters, and what lies in buffers."""
    parameters = f"{cost.parameters:,} parameters"
    if cost.changed_buffers is None:
        return parameters
    return f"{parameters} and {cost.changed_buffers:,} numbers in buffers that training changed"


def _digits(value: float) -> str:
    """Four decimals, or a power of ten where these are all zero."""
    return f"{value:.1e}" if 0 < abs(value) < 5e-5 else f"{value:.4f}"


def print_comparison(record: RunRecord, measured: Mapping[str, Mapping[str, float]]) -> float:
    """Recorded against measured metrics; returns the largest difference (inf if one is missing)."""
    title = f"{record.run_id}: protocol run again"
    table = table_of(["split", "metric"], ["record", "now", "difference"], title=title)
    largest = 0.0
    for split, values in record.metrics.items():
        for name in dict.fromkeys([*values, *measured[split]]):
            old, new = values.get(name, math.inf), measured[split].get(name, math.inf)
            difference = abs(new - old) if math.isfinite(new) and math.isfinite(old) else math.inf
            largest = max(largest, difference)
            table.add_row(split, name, f"{old:.6f}", f"{new:.6f}", f"{difference:.1e}")
    screen = console()
    screen.print(table)
    screen.print(
        "every metric is that of the record"
        if largest <= 1e-6
        else f"the largest difference is {largest:.3g}: not the numbers of the record"
    )
    screen.print(f"its code is {SAID[code_status(record.config, record.provenance)]}")
    return largest
