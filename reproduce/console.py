"""What a reproduction says on the console: verdicts, evidence, and what to open."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console

from bench.config.groups import NOT_COMMITTED, guests
from bench.records.report import in_full
from bench.records.schema import RunRecord
from core.amounts import amount
from core.places import absolute
from core.places import readable as shown_path
from core.screen import console
from core.statistics import POWER
from reproduce.claims.claims import ClaimResult
from reproduce.claims.grammar import setting
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED

if TYPE_CHECKING:
    from reproduce.drawing.frame import View
    from reproduce.experiment import Experiment

# What stands before the ends of an interval, by `in_words` of reproduce/claims/verdicts.py.
COVERAGE = re.compile(r"(?<=\()[\d.]+% interval(?: (?:over|of) [^()]*?)? (?=-?\d[\d.]* to -?\d)")
COLOURS = {REPRODUCED: "green", CONTRADICTED: "red", UNDECIDED: "yellow"}


def print_verdicts(
    name: str,
    experiment: Experiment,
    results: Sequence[ClaimResult],
    records: Sequence[RunRecord],
    view: View,
    folder: Path,
    store: Path,
) -> None:
    """The verdicts in plain words, what the preset leaves out, failed runs, and the figure."""
    screen = console(soft_wrap=True)
    screen.print(f"{experiment.title}\n{experiment.source}")
    scale = "" if view.preset == "paper" else ", not the paper's scale"
    screen.print(f"preset {view.name}{scale}; {amount(len(records), 'record')}")
    note = "" if experiment.note is None else experiment.note(records)
    if note:
        screen.print(note)
    screen.print()
    rules: set[str] = set()  # claims often share one
    # What contradicts the source stands first.
    for result in sorted(results, key=lambda result: result.finding.verdict != CONTRADICTED):
        if result.finding.verdict != NOT_ASKED:
            _print_verdict(screen, name, result, view, rules, note)
    for line in not_asked_lines(experiment, results):
        screen.print(line, style="bright_black")
    failed = [record for record in records if record.outcome != "ok"]
    if failed:
        screen.print(f"\n{len(failed)} of {amount(len(records), 'run')} gave no result:")
        for record in failed:
            text = f"  {record.run_id}: {record.outcome.replace('_', ' ')}: "
            text += in_full(record.cause, store)
            screen.print(text)
    counts = Counter(result.finding.verdict for result in results)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in COLOURS)
    beside = f" ({counts[NOT_ASKED]} not asked here)" if counts[NOT_ASKED] else ""
    screen.print(f"\n{total}{beside}")
    for line in guest_lines(records, experiment.varied):
        screen.print(line)
    figure = folder / "figure.png"
    others = sorted(path.name for path in folder.iterdir() if path != figure)
    screen.print(f"open {shown_path(figure)}  (beside it: {', '.join(others)})")
    screen.print(_way_to_the_board(store))


def _way_to_the_board(store: Path) -> str:
    """The commands that show the runs of a store on the leaderboard, from any folder."""
    build, serve = "python -m leaderboards.build", "python -m leaderboards.serve"
    if absolute(store) == absolute("runs"):
        return f"on the leaderboard: {build} local=true, then {serve}"
    word = f"store={shlex.quote(shown_path(absolute(store)))}"
    return f"on the leaderboard: {build} {word}, then {serve} {word}"


def guest_lines(records: Iterable[RunRecord], varied: Iterable[str]) -> list[str]:
    """The headline of each guest, which no verdict names: the mean over its runs, for each value of
    the settings that a figure varies."""
    scored = [r for r in records if r.model in guests() and r.headline.value is not None]
    varied_keys = []
    for key in varied:
        if any(setting(record, key) != setting(scored[0], key) for record in scored):
            varied_keys.append(key)
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for record in scored:
        words = [f"{key.partition('.')[2]}={setting(record, key)}" for key in varied_keys]
        group = (f"{record.label} ({NOT_COMMITTED})", *words, record.headline.name)
        groups[group].append(record.headline.value or 0.0)
    lines = []
    for names, values in groups.items():
        runs = f"{len(values)} run{'s' * (len(values) != 1)}"
        lines.append(f"{', '.join(names)} {fmean(values):.4g}, mean of {runs}")
    return lines


def _print_verdict(
    screen: Console, name: str, result: ClaimResult, view: View, rules: set[str], note: str
) -> None:
    finding, rule = result.finding, result.claim.tolerance
    screen.print(finding.verdict, style=COLOURS[finding.verdict], end="  ")
    screen.print(result.claim.sentence, style="bold")
    # Evidence stands by itself in a file of verdicts; here the note is above it.
    screen.print(f"    {said_once(finding.evidence.removeprefix(f'{note}: '))}")
    if rule not in rules:
        rules.add(rule)
        screen.print(f"    counts as reproduced: {rule}", style="dim")
    if finding.seeds_needed is not None:
        # Places of data are on nobody's record, so words about them are the user's to add.
        words = f"{name} preset={view.name} seeds={finding.seeds_needed}"
        screen.print(
            f"    {finding.seeds_needed} seeds would settle it with a probability of "
            f"{POWER:.0%}, if spread and effect are as they seem: python -m reproduce {words}, "
            "with the words about data, if you gave any"
        )


def said_once(evidence: str) -> str:
    """Evidence in which what an interval covers stands at the first of intervals that cover the
    same, and not at those that follow it."""
    parts, last = [], ""
    start = 0
    for match in COVERAGE.finditer(evidence):
        parts.append(evidence[start : match.start()])
        parts.append("" if match[0] == last else match[0])
        start, last = match.end(), match[0]
    return "".join([*parts, evidence[start:]])


def not_asked_lines(experiment: Experiment, results: Iterable[ClaimResult]) -> list[str]:
    """What a preset leaves out, with the preset that asks it and what that would cost."""
    topics: dict[str, list[str]] = {}
    for result in results:
        if result.finding.verdict == NOT_ASKED:
            topics.setdefault(result.finding.asked_at, []).append(result.finding.topic)
    lines = []
    for preset, names in topics.items():
        where = f"; preset={preset} asks it, with {experiment.cost(preset)}" if preset else ""
        lines.append(f"not asked here: {join_topics(names)}{where}")
    return lines


def join_topics(topics: Iterable[str]) -> str:
    """Each once, and values of one quantity together: "N = 1,000, 2,500; n-gram levels"."""
    values: dict[str, list[str]] = {}
    for topic in dict.fromkeys(topics):
        quantity, _, value = topic.partition(" = ")
        values.setdefault(quantity, []).append(value)
    joined = []
    for quantity, values_of_quantity in values.items():
        listed = ", ".join(values_of_quantity)
        joined.append(f"{quantity} = {listed}" if any(values_of_quantity) else quantity)
    return "; ".join(joined)
