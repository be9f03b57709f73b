"""Capacity: how many associations each memory recalls, by the width of keys and by its size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from bench.ground.statistics import mean_interval
from bench.records.schema import RunRecord
from bench.settings.config import group_file
from reproduce.capacity.figure import TITLE, draw
from reproduce.capacity.records import (
    CLASSES,
    CONSTANTS,
    HALF,
    HEBB,
    LINEAR,
    LOW_RANK,
    MLP,
    NARROW,
    OWN,
    RANKS,
    RANKS_AT,
    TASK,
    TRAINED,
    WHOLE,
    WIDE,
    Constant,
    by_rank,
    overview,
    trials_at,
    widths_of,
)
from reproduce.judging.claims import Claim, Finding, Tolerance, every, mean_within
from reproduce.judging.observations import latest
from reproduce.judging.reproduction import Plan, Reproduction
from reproduce.judging.trials import in_seeds, missing, sample

PAPER = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
SLIDES = "Bietti 2024, Associative memories as a tractable building block in transformers, slides"
# The constants have runs of their own, at the widths and with the trials that they need. The first
# width of a run is its headline, which is measured on validation too, and so a cheap one. At d = 32
# a perceptron takes as long as all else together: a run of its own counts as well, if there is one.
PERCEPTRON = (f"tasks.classes={CLASSES}", "tasks.thresholds=[0.99]", "models.patience=8")
RUNS = (
    # An eighth past m d, where the published search ends, so that its end is not what is measured.
    (
        MLP,
        "tasks.widths=[8,16]",
        "tasks.headline_width=8",
        "tasks.trials=3",
        "tasks.largest=1.125",
        *PERCEPTRON,
    ),
    (
        MLP,
        "models.expansion=2.0",
        "tasks.widths=[8,16]",
        "tasks.headline_width=8",
        "tasks.trials=3",
        "tasks.largest=2.25",
        *PERCEPTRON,
    ),
    (
        HEBB,
        "tasks.widths=[32,45,64,90,128]",
        "tasks.headline_width=32",
        "tasks.trials=48",
        "tasks.thresholds=[0.5,1.0]",
        "tasks.largest=0.25",
    ),
    (
        LINEAR,
        "tasks.widths=[22,32,45]",
        "tasks.headline_width=22",
        "tasks.trials=5",
        "tasks.thresholds=[0.99]",
        "tasks.largest=0.5",
        "models.patience=16",
    ),
    *(
        (
            LOW_RANK,
            f"models.rank={rank}",
            f"tasks.widths=[8,{RANKS_AT}]",
            "tasks.headline_width=8",
            "tasks.trials=3",
            "tasks.thresholds=[0.99]",
            "tasks.largest=0.25",
            "models.patience=16",
        )
        for rank in RANKS
    ),
)

NEARLY = (
    "stores an association for nearly each entry of a layer, as far as the published search goes"
)
# With m = d = 8, two associations a class, the number is another than at larger widths. It became a
# claim of its own after it had been seen, so that neither hides the other.
PERCEPTRONS = (
    ("perceptron, 32 classes", NARROW, 16, 64, f"A perceptron of width m = d {NEARLY}."),
    (
        "perceptron of small keys, 32 classes",
        NARROW,
        8,
        8,
        f"A perceptron of width m = d {NEARLY}, for keys of 8 entries too.",
    ),
    ("perceptron twice as wide, 32 classes", WIDE, 8, 64, f"With m = 2 d it {NEARLY}."),
)


def plan(preset: str, seeds: int | None) -> Plan:
    """Every memory of the task's list, and from ``laptop`` on the runs of the constants; one seed,
    whose record holds several trials."""
    memories = [*group_file("tasks", TASK)["sweep"]["models"]]
    runs: list[tuple[str, ...]] = [(f"models={name}",) for name in memories]
    if preset != "smoke":  # the longest first
        runs = [(f"models={name}", "tasks.wide=[]", *words) for name, *words in RUNS] + runs
    return Plan(
        runs=tuple(
            (f"tasks={TASK}", *words, f"seed={seed}")
            for words in runs
            for seed in range(seeds or 1)
        )
    )


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """All runs of the task, the last made of each setting."""
    runs = [record for record in records if record.task == TASK]
    return latest(runs, key=lambda r: (r.model, r.role, r.seed, r.label, variant(r)))


def variant(record: RunRecord) -> str:
    """The setting of the search, and the width of a perceptron or the rank of a memory."""
    tasks, models = record.config["tasks"], record.config["models"]
    return repr((sorted(tasks.items()), models.get("expansion"), models.get("rank")))


def constant_within(
    records: Sequence[RunRecord], numbers: Mapping[str, float], constant: Constant
) -> Finding:
    """The constant at each width between two, by an interval over trials. Where the published
    search ends at m d, 1 is the most that it could have found: larger numbers count as 1, and are
    told beside it."""
    at = {width: trials_at(records, constant, width) for width in widths_of(records, constant)}
    found = {w: trials for w, trials in at.items() if numbers["from"] <= w <= numbers["to"]}
    if not found:
        what = f"width from {numbers['from']:g} to {numbers['to']:g} of this memory"
        return missing(what, [r for r in records if r.model == constant.model])
    ended = constant.capped
    tests = []
    for width, trials in found.items():
        data = sample(f"d = {width}:", [min(n, 1.0) for n in trials] if ended else trials)
        tests.append(partial(mean_within, data, numbers["low"], numbers.get("high", math.inf)))
    finding = every(tests)
    if ended:
        searched = "; ".join(f"d = {w}: {_spread(trials)}" for w, trials in at.items())
        evidence = f"{finding.evidence}; searched past m d, {searched}"
        finding = replace(finding, evidence=evidence)
    made = [r for r in records if r.model == constant.model and r.outcome == "ok"]
    return in_seeds(finding, made)


def ranks_saturate(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """What twice the rank adds, draw by draw."""
    found = by_rank(records)
    if not {*RANKS} <= {*found}:
        return missing("run of each rank", [r for r in records if r.model == LOW_RANK])
    tests = []
    for less, more in pairwise(RANKS):
        ratios = [b / a for a, b in zip(found[less], found[more], strict=True)]  # the same draws
        most = numbers["last"] if more == RANKS_AT else numbers["twice"]
        data = sample(f"N(m = {more}) / N(m = {less})", ratios)
        tests.append(partial(mean_within, data, 1.0, most))
    finding = every(tests)
    counts = ", ".join(f"m = {m}: {sum(n) / len(n):.0f}" for m, n in found.items() if m in RANKS)
    finding = replace(finding, evidence=f"{finding.evidence}; N at d = {RANKS_AT}: {counts}")
    return in_seeds(finding, [r for r in records if r.model == LOW_RANK])


def _spread(trials: Sequence[float]) -> str:
    mean = sum(trials) / len(trials)
    return f"{mean:.3f} ({min(trials):.3f} to {max(trials):.3f} over {len(trials)} trials)"


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """N of each memory by width and trial, and the constants with their intervals."""
    measured: dict[str, Any] = {}
    for record in overview(records):
        if record.outcome != "ok":
            continue
        entry = measured.setdefault(record.label, {})
        entry[f"seed {record.seed}"] = {
            "widths": record.arrays["widths"],
            **{name: array for name, array in record.arrays.items() if name != "widths"},
            **{name: curve.y for name, curve in record.curves.items()},
        }
    constants = []
    for constant in CONSTANTS:
        for width in widths_of(records, constant):
            found = trials_at(records, constant, width)
            summary = mean_interval(found)
            constants.append(
                {
                    "constant": constant.label.replace("\n", " "),
                    "width": width,
                    "trials": found,
                    "mean": summary.mean,
                    "interval": summary.interval,
                    "published": constant.published,
                }
            )
    ranks = {str(rank): trials for rank, trials in by_rank(records).items()}
    return {"memories": measured, "constants": constants, "ranks": ranks}


def _claim(
    name: str, source: str, sentence: str, constant: Constant, numbers: Mapping[str, float]
) -> Claim:
    window = "is between {low:g} and {high:g} with its whole 95 % interval"
    if constant.capped:
        window = (
            "is {low:g} or more with its whole 95 % interval, where numbers past m d, at which the "
            "published search ends, count as 1, so that none is too large"
        )
    return Claim(
        name,
        source,
        sentence,
        Tolerance(
            f"at every measured width from {{from:g}} to {{to:g}} the mean over trials {window}; "
            "contradicted if one of the intervals, corrected for their number, lies outside",
            numbers,
        ),
        partial(constant_within, constant=constant),
    )


REPRODUCTION = Reproduction(
    title=TITLE,
    source=f"{PAPER}, capacity of linear and MLP associative memories; {SLIDES}",
    plan=plan,
    select=select,
    variant=variant,
    draw=draw,
    curves=curves,
    claims=(
        _claim(
            "Hebbian memory, half recalled",
            f"{SLIDES}; derived for unit embeddings",
            "A sum of outer products recalls half of N associations where d² is about 2 N log N: "
            "N log N / d² is about one half at every width.",
            HALF,
            {"from": 32, "to": 128, "low": 0.5, "high": 0.6},
        ),
        _claim(
            "Hebbian memory, all recalled",
            f"{SLIDES}; derived for unit embeddings",
            "It recalls all of them as often as not where d² is about 8 N log N. (The limits were "
            "set after a first run of 16 draws.)",
            WHOLE,
            {"from": 64, "to": 128, "low": 0.09, "high": 0.14},
        ),
        _claim(
            "trained matrix",
            f"{PAPER}, linear associative memory: fit d² = 1.3 N log N",
            "A trained d × d matrix stores N ~ d² / log N associations; N log N / d² comes down to "
            "0.77 from above.",
            TRAINED,
            {"from": 22, "to": 45, "low": 0.7, "high": 1.05},
        ),
        _claim(
            "perceptron, a value for each key",
            f"{PAPER}, MLP memory: fit m d = 0.35 N log N",
            "A perceptron of width m = d stores N ~ m d / log N associations of a value each: "
            "N log N / (m d) is about 2.9.",
            OWN,
            {"from": 8, "to": 22, "low": 1.9, "high": 3.3},
        ),
        Claim(
            "trained low rank",
            f"a first measurement of this project; the theorem on low rank of {PAPER}, a "
            "construction, grows as the rank",
            "Trained factors of rank m store less than twice as much with twice the rank, and at "
            "half of full rank nearly all that a full matrix stores.",
            Tolerance(
                f"d = {RANKS_AT}: N(2 m) / N(m) of each draw is between 1 and {{twice:g}} in the "
                "mean for each doubling of m, and between 1 and {last:g} for the last, with the "
                "whole 95 % interval over draws",
                {"twice": 1.75, "last": 1.25},
            ),
            ranks_saturate,
        ),
        *(
            _claim(
                name,
                f"{PAPER}, MLP memory with 32 classes: fit m d = 1.2 N, search up to m d",
                sentence,
                constant,
                {"from": least, "to": most, "low": 0.85},
            )
            for name, constant, least, most, sentence in PERCEPTRONS
        ),
    ),
)
