"""What a reproduction says on the console: verdicts, evidence, and what to open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench.records.schema import RunRecord
from reproduce.judging.claims import CONTRADICTED, REPRODUCED, UNDECIDED, ClaimResult, Finding

if TYPE_CHECKING:
    from reproduce.judging.reproduction import Reproduction, View

COLOURS = {REPRODUCED: "green", CONTRADICTED: "red", UNDECIDED: "yellow"}


@dataclass(frozen=True)
class LeftOut(Finding):
    """There is no evidence because the preset leaves something out: ``topic``, such as "N = 500"
    or "n-gram levels"."""

    topic: str = ""


def print_verdicts(
    name: str,
    reproduction: Reproduction,
    results: Sequence[ClaimResult],
    records: Sequence[RunRecord],
    view: View,
    folder: Path,
) -> None:
    """The verdicts in plain words, what the preset leaves out, failed runs, and the figure."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{reproduction.title}\n{reproduction.source}", markup=False)
    scale = "" if view.preset == "paper" else ", not the paper's scale"
    console.print(f"preset {view.name}{scale}; {len(records)} records", markup=False)
    if reproduction.note is not None:
        console.print(reproduction.note(records), markup=False)
    console.print()
    rules: set[str] = set()  # claims often share one
    topics: list[str] = []
    for result in results:
        finding = result.finding
        if isinstance(finding, LeftOut):
            topics.append(finding.topic)
            continue
        console.print(f"[{COLOURS[finding.verdict]}]{finding.verdict}[/]", end="  ")
        console.print(result.claim.sentence, style="bold", markup=False)
        console.print(f"    {finding.evidence}", markup=False)
        rule = result.claim.tolerance.text
        if rule not in rules:
            rules.add(rule)
            console.print(f"    counts as reproduced: {rule}", style="dim", markup=False)
        if finding.seeds_needed is not None:
            # Places of data are on nobody's record, so words about them are the user's to add.
            words = f"{name} preset={view.name} seeds={finding.seeds_needed}"
            console.print(
                f"    about {finding.seeds_needed} seeds would settle it: python -m reproduce "
                f"{words}, with the words about data, if you gave any",
                markup=False,
            )
    if topics:
        left_out = f"{join_topics(topics)} (verdicts.json says why)"
        console.print(f"not judged at this preset: {left_out}", markup=False)
    failed = [record for record in records if record.outcome != "ok"]
    if failed:
        console.print(f"\n{len(failed)} of {len(records)} runs gave no result:")
        for record in failed:
            text = f"  {record.run_id}: {record.outcome.replace('_', ' ')}: {record.cause}"
            console.print(text, markup=False)
    counts = Counter(result.finding.verdict for result in results)
    console.print("\n" + ", ".join(f"{counts[verdict]} {verdict}" for verdict in COLOURS))
    figure = folder / "figure.png"
    others = sorted(path.name for path in folder.iterdir() if path != figure)
    console.print(f"open {figure}  (beside it: {', '.join(others)})", markup=False)
    console.print(
        "on the leaderboard: python -m leaderboards.build local=true, then nox -s leaderboard"
    )


def join_topics(topics: Iterable[str]) -> str:
    """Each once, and values of one quantity together: "N = 1,000, 2,500; n-gram levels"."""
    values: dict[str, list[str]] = {}
    for topic in dict.fromkeys(topics):
        quantity, _, value = topic.partition(" = ")
        values.setdefault(quantity, []).append(value)
    return "; ".join(
        f"{quantity} = {', '.join(given)}" if any(given) else quantity
        for quantity, given in values.items()
    )
