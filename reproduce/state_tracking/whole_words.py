"""Whole words: the share of test words in which every state is named right, by their length.

A model that names 0.98 of the states of 64 letters may name those of hardly a whole word: accuracy
by letter hides that it loses count. Records hold the accuracy of each test word over the training
length and between its multiples, which is 1 in all of them where the word has no mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

from bench.records.schema import Curve, RunRecord
from core.statistics import SHARE, mean_interval
from reproduce.claims.claims import Closed
from reproduce.claims.grammar import Number, Records, Runs, setting
from reproduce.drawing import tables
from reproduce.drawing.plots import Plot, Rows, Traces
from reproduce.drawing.traces import curve_over_seeds, summary
from reproduce.plotting.panels import Axis, Remark, Trace

FAR = Number("accuracy from two to four times the training length", "accuracy/4x")
NEAR = Number("mean accuracy over the training length", "accuracy/1x")
MORE_STEPS = {"laptop": Closed("Steps, and no seeds, would decide what follows at laptop")}


def sizes_at_laptop(length: int, factors: Sequence[int], steps: int) -> dict[str, Any]:
    """Sizes at which a row of one layer takes minutes on one core. All rows of a figure have the
    same words, steps, rates and seeds, so that none fails for want of what another one had."""
    return {
        "tasks.length": length,
        "tasks.factors": factors,
        "tasks.test_size": 256,
        "models.width": 32,
        "training.steps": steps,
        "training.validate_every": steps // 20,
        "sweep.search_space": {"training.lr": [3e-3, 1e-2, 3e-2]},
        "sweep.extend": 0,
    }


def lengths(record: RunRecord) -> dict[int, int]:
    """Letters of the words that are asked for, by how many times the training length that is."""
    letters = int(setting(record, "tasks.length"))
    return {times: times * letters for times in setting(record, "tasks.factors")}


def has_sizes(sizes: Mapping[str, Mapping[str, Any]], record: RunRecord) -> bool:
    """Whether a record has the settings of the task that are named for its preset.

    Args:
        sizes: preset -> settings such as ``{"tasks.length": 8}``.
    """
    for key, value in sizes.get(record.preset, {}).items():
        if key.startswith("tasks.") and setting(record, key) != value:
            return False
    return True


def right_words(times: int, record: RunRecord) -> list[bool]:
    """Whether all states of each test word are right, up to ``times`` the training length; empty
    of a run without results for each word."""
    parts = [part for part in lengths(record) if part <= times]
    shares = [record.per_sequence.get(f"accuracy/{part}x", []) for part in parts]
    return [all(share == 1 for share in word) for word in zip(*shares, strict=True)]


def share_of_right_words(times: int, record: RunRecord) -> float | None:
    """The exact-sequence score of a run; None where it has no results for each word."""
    words = right_words(times, record)
    return fmean(words) if words else None


def whole_words(times: int) -> Number:
    """The share of test words that are right to their end, at ``times`` the training length."""
    return Number(
        f"share of words without a mistake in {times} times the training length",
        partial(share_of_right_words, times),
        kind=SHARE,
        items=lambda record: int(setting(record, "tasks.test_size")),
    )


def share_by_length(record: RunRecord) -> Curve:
    """The exact-sequence score by the length of the words."""
    shares = {}
    for times, length in lengths(record).items():
        share = share_of_right_words(times, record)
        if share is not None:
            shares[length] = share
    return Curve(x=list(shares), y=list(shares.values()))


def curves_of(rows: Sequence[Runs], curve: str | Callable[[RunRecord], Curve]) -> Traces:
    """A curve of each row; of several rows of one model, all but the first have a line of their
    own."""

    def traces(records: Records) -> list[Trace]:
        drawn = []
        for row, look in zip(rows, looks(rows), strict=True):
            drawn.append(curve_over_seeds(row.label, row.of(records), curve, **look))
        return drawn

    return traces


def looks(rows: Sequence[Runs]) -> list[dict[str, Any]]:
    """Colour and line of each row."""
    drawn: list[dict[str, Any]] = []
    for row in rows:
        look = {"colour": row.model}
        drawn.append({**look, "line": "dashdot"} if look in drawn else look)
    return drawn


def by_rate(rows: Sequence[Runs]) -> Traces:
    """Accuracy on the validation words at every learning rate that a row's search tried: the mean
    over seeds where it has several."""

    def traces(records: Records) -> list[Trace]:
        drawn = []
        for row, look in zip(rows, looks(rows), strict=True):
            scores: dict[float, float | None] = {}
            for record in row.of(records):
                for trial in record.study.trials if record.study else ():
                    scores[float(trial.parameters["training.lr"])] = trial.score
            rates = sorted(scores)
            accuracies = [scores[rate] for rate in rates]
            drawn.append(Trace(row.label, rates, accuracies, mark="both", **look))
        return drawn

    return traces


def panels(rows: Sequence[Runs], guesses: Mapping[str, float]) -> Rows:
    """Letters, whole words and rates beside each other.

    Args:
        guesses: accuracy by letter of whoever follows nothing, by what it is called.
    """
    share = Axis("share", limits=(0, 1.05))
    return [
        Plot(
            "letters whose state is right",
            Axis("letter"),
            share,
            [curves_of(rows, "accuracy_by_position")],
            [Remark(name, y=accuracy) for name, accuracy in guesses.items()],
        ),
        Plot(
            "words without a mistake",
            Axis("letters of the word"),
            share,
            [curves_of(rows, share_by_length)],
        ),
        Plot(
            "letters beyond training, by rate",
            Axis("learning rate", scale="log"),
            share,
            [by_rate(rows)],
        ),
    ]


def table(rows: Sequence[Runs], records: Records) -> str:
    """Accuracy by letter, over the training length and between its multiples, and beside it the
    share of whole words of each length, of every row."""
    ran = [row for row in rows if row.of(records)]
    if not ran:
        return ""
    of_words = lengths(ran[0].of(records)[0])
    heads = ["row"]
    for start, end in pairwise([0, *of_words.values()]):
        heads.append(f"letters {start + 1} to {end}")
    heads += [f"whole words of {length}" for length in of_words.values()]
    lines = []
    for row in ran:
        runs = row.of(records)
        cells = [tables.cell(summary(runs, f"accuracy/{times}x")) for times in of_words]
        for times in of_words:
            sample = whole_words(times).of(row).sample(records)
            counted = any(right_words(times, run) for run in runs)
            mean = mean_interval(sample.values, sample.kind, sample.items)
            cells.append(tables.cell(mean) if counted else "")
        lines.append([row.label, *cells])
    return tables.markdown(heads, lines)
