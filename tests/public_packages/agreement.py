"""How far another machine's results may lie from those of a page, and whether they do.

Three seeds tell little of how far seeds lie apart: a training that ends while its accuracy jumps
may end at 1.0 three times. So the variance of a score is the larger one of its own seeds' and of
the mean over all models with that task.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.statistics import LEVEL, student_quantile

SCORES = ("scores/", "rival_scores/")
Rows = list[dict[str, Any]]  # as in public_packages.json


@dataclass(frozen=True)
class Spread:
    """The mean variance over seeds of a task's scores, and its degrees of freedom."""

    variance: float
    freedom: int


@dataclass(frozen=True)
class Agreement:
    """Two examinations of the same packages.

    Attributes:
        answers, scores: how many both have.
        other_answers, outside: what differs, a line each.
    """

    answers: int
    other_answers: list[str]
    scores: int
    outside: list[str]

    def sentences(self) -> list[str]:
        """What to print."""
        equal = self.answers - len(self.other_answers)
        inside = self.scores - len(self.outside)
        return [
            f"{equal:,} of {self.answers:,} answers are equal",
            *(f"  {line}" for line in self.other_answers),
            f"{inside:,} of {self.scores:,} scores lie in their intervals",
            *(f"  {line}" for line in self.outside),
        ]


def spread_by_task(rows: Rows) -> dict[str, Spread]:
    """Task -> spread over all models that were trained on it, each counted once."""
    samples: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for row in rows:
        for name, score in row.get("trainings", {}).items():
            kind, _, task = name.partition("/")
            if f"{kind}/" in SCORES and len(numbers := _numbers(score)) > 1:
                model = (row["rival"],) if kind == "rival_scores" else (row["label"], "")
                samples.setdefault(task, {})[model] = numbers
    return {
        task: Spread(
            float(np.mean([np.var(values, ddof=1) for values in of_task.values()])),
            sum(len(values) - 1 for values in of_task.values()),
        )
        for task, of_task in samples.items()
    }


def expected_interval(values: list[float], spread: Spread) -> list[float] | None:
    """Where the mean of as many other trainings lies with 95 %, for shares of 1; None for one
    seed."""
    count = len(values)
    if count < 2:
        return None
    own = Spread(float(np.var(values, ddof=1)), count - 1)
    wider = max(own, spread, key=lambda s: s.variance)
    # Both means vary: the one that is here and the one that is expected.
    half = student_quantile(LEVEL, wider.freedom) * math.sqrt(wider.variance * 2 / count)
    mean = math.fsum(values) / count
    return [max(0.0, mean - half), min(1.0, mean + half)]


def with_intervals(rows: Rows) -> Rows:
    """The rows with the interval of every score."""
    spreads = spread_by_task(rows)

    def completed(name: str, score: Any) -> Any:
        if not name.startswith(SCORES) or "values" not in score:
            return score
        numbers, spread = _numbers(score), spreads.get(name.partition("/")[2])
        return {**score, "interval": spread and expected_interval(numbers, spread)}

    return [
        {**row, "trainings": {n: completed(n, s) for n, s in row["trainings"].items()}}
        if "trainings" in row
        else row
        for row in rows
    ]


def agreement(here: Rows, there: Path) -> Agreement:
    """Compare rows with those of a public_packages.json that was written elsewhere."""
    others = {row["label"]: row for row in json.loads(there.read_text(encoding="utf-8"))}
    answers = scores = 0
    other_answers: list[str] = []
    outside: list[str] = []
    for row in here:
        other = others.get(row["label"], {})
        for name, outcome in row.get("behaviour", {}).items():
            expected = other.get("behaviour", {}).get(name)
            if isinstance(outcome, dict) and "holds" in outcome and expected is not None:
                answers += 1
                if outcome["holds"] != expected["holds"]:
                    what = f"{outcome['holds']}, there {expected['holds']}"
                    other_answers.append(f"{row['label']}, {name}: {what}")
        for name, score in row.get("trainings", {}).items():
            expected = other.get("trainings", {}).get(name)
            if not name.startswith(SCORES) or expected is None:
                continue
            scores += 1
            if not _inside(score, expected):
                outside.append(f"{row['label']}, {name}: {_said(score)}, there {_said(expected)}")
    return Agreement(answers, other_answers, scores, outside)


def _numbers(score: Any) -> list[float]:
    values = score.get("values", []) if isinstance(score, dict) else []
    return [value for value in values if value is not None and math.isfinite(value)]


def _inside(score: dict[str, Any], expected: dict[str, Any]) -> bool:
    if "raises" in score or "raises" in expected:
        return ("raises" in score) == ("raises" in expected)
    if score["mean"] is None or expected["interval"] is None:
        return bool(score["mean"] == expected["mean"])
    low, high = expected["interval"]
    return bool(low <= score["mean"] <= high)


def _said(score: dict[str, Any]) -> str:
    if "raises" in score:
        return str(score["raises"])
    interval = score["interval"]
    within = "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"
    return "no number" if score["mean"] is None else f"{score['mean']:.3f}{within}"
