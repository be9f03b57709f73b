"""Scaling laws of associative memories: error against size and against samples, by scheme."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.records.schema import RunRecord
from reproduce.judging.claims import CONTRADICTED, REPRODUCED, UNDECIDED, Claim, Finding, Tolerance
from reproduce.judging.console import LeftOut
from reproduce.judging.observations import how_it_ended
from reproduce.judging.power_laws import (
    Fit,
    band_over_trials,
    fit_power_law,
    resampled_means,
    signed,
    slope_within,
)
from reproduce.judging.reproduction import Reproduction
from reproduce.scaling_laws import records as runs
from reproduce.scaling_laws.figure import TITLE, draw
from reproduce.scaling_laws.records import POPULATION, SCHEMES, SMALL

PAPER = (
    "Cabannes, Dohmatob and Bietti 2024, Scaling Laws for Associative Memories (ICLR, arXiv "
    "2310.02984)"
)
SLIDES = (
    "Bietti, Associative memories as a tractable building block in transformers (slides, EPFL, "
    "December 2024)"
)
THEOREM = f"{SLIDES}, scaling laws with finite capacity, theorem (informal)"
# How many are kept is that of the paper's figures, as the released code draws them (repository
# VivienCabannes/memory-theory, commit 99cca43).
CUT = f"{THEOREM}, part 3; keeping d/8 as in the code of {PAPER}"
HUTTER = f"Hutter 2021, as stated in {SLIDES}, setup with heavy-tailed data"
MANY_SAMPLES = "n=100000"
CERTAIN = 0.975  # share of the bootstrap samples that decides between yes and no
TRIALS = 50

Test = Callable[[Sequence[RunRecord], Mapping[str, float]], Finding]


def at_the_scale(test: Test) -> Test:
    """The test, on the cell that the windows belong to; at another scale nothing is judged."""

    def judged(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        task = runs.settings(records)
        if not task:
            return Finding(UNDECIDED, "no runs", 0)
        cell = (task["alpha"], task["classes"]) == (2, 5)
        if not cell or task["tokens"] < 1000 or max(task["dimensions"]) < 1000:
            reason = "judged where α = 2, M = 5, N ≥ 1000 and d reaches 1000: use preset=laptop"
            return LeftOut(UNDECIDED, reason, 0, topic="slopes and shapes of the curves")
        return test(records, numbers)

    return judged


def without_number(
    records: Sequence[RunRecord], scheme: str, part: str = "main", fewest: int = TRIALS
) -> Finding | None:
    """Why there is no verdict on a scheme: no run, one that failed, or too few trials."""
    found = runs.runs_of(records, scheme, part)
    label = SCHEMES[scheme].label
    if not found:
        return Finding(UNDECIDED, f"no runs of {label}", 0)
    failed = [f"{label} seed {r.seed} {how_it_ended(r)}" for r in found if r.outcome != "ok"]
    if failed:
        return Finding(UNDECIDED, "; ".join(failed), len(found))
    trials = sum(int(run.config["tasks"]["trials"]) for run in found)
    if trials < fewest:
        needed = math.ceil(fewest * len(found) / trials)
        return Finding(UNDECIDED, f"{label}: {trials} trials of {fewest}", len(found), needed)
    return None


def fit_in_d(records: Sequence[RunRecord], scheme: str, row: str) -> Fit | None:
    """The power law in d over the sizes that the task names."""
    values = runs.errors(records, scheme, row)
    window = runs.settings(records)["fit_dimensions"]
    return None if values is None else fit_power_law(runs.dimensions(records), values, *window)


def fit_in_n(records: Sequence[RunRecord], scheme: str, size: int) -> Fit | None:
    """The power law in n at one size, over the samples that the task names."""
    values = runs.errors_by_samples(records, scheme, size)
    window = runs.settings(records)["fit_samples"]
    return None if values is None else fit_power_law(runs.samples(records), values, *window)


def slope_in_d(
    records: Sequence[RunRecord], numbers: Mapping[str, float], scheme: str, row: str
) -> Finding:
    """The slope of a scheme over sizes, at "population" or "n=…"."""
    if row != POPULATION and int(row.removeprefix("n=")) not in runs.samples(records):
        return LeftOut(UNDECIDED, f"no run has {row}", 0, topic=f"slopes at {row}")
    fit = fit_in_d(records, scheme, row)
    return _judge_slope(records, numbers, scheme, f"{SCHEMES[scheme].label}, {row}", fit)


def slope_in_n(records: Sequence[RunRecord], numbers: Mapping[str, float], scheme: str) -> Finding:
    """The slope of a scheme over samples, at the largest size."""
    size = max(runs.dimensions(records))
    fit = fit_in_n(records, scheme, size)
    return _judge_slope(records, numbers, scheme, f"{SCHEMES[scheme].label}, d = {size}", fit)


def _judge_slope(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    scheme: str,
    label: str,
    fit: Fit | None,
) -> Finding:
    none = without_number(records, scheme)
    if none is not None:
        return none
    seeds = runs.runs_of(records, scheme)
    trials = sum(int(run.config["tasks"]["trials"]) for run in seeds)
    low, high = numbers["slope"] - numbers["by"], numbers["slope"] + numbers["by"]
    return slope_within(label, fit, low, high, len(seeds), trials)


def slope_without_limits(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The exact slope of the mass that a table has not seen."""
    curve = runs.infinite_memory(records, "unseen_mass")
    if not curve:
        return Finding(UNDECIDED, "no record of the table without limits", 0)
    window = runs.settings(records)["fit_samples"]
    fit = fit_power_law(curve["x"], [curve["y"]], *window)
    assert fit is not None
    agrees = abs(fit.slope - numbers["slope"]) < numbers["by"]
    evidence = (
        f"mass of unseen tokens: slope {signed(fit.slope)} over {fit.low:g} to {fit.high:g}, "
    )
    return Finding(REPRODUCED if agrees else CONTRADICTED, evidence + "an exact sum", 1)


def turns_back(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Has the error of q = 1 at a small size its minimum over n inside?"""
    none = without_number(records, "seen")
    if none is not None:
        return none
    size = runs.nearest_size(records, SMALL)
    values = runs.errors_by_samples(records, "seen", size)
    assert values is not None
    means, n = values.mean(0), runs.samples(records)
    resampled = resampled_means(values)
    inside = resampled[:, 1:-1].min(1) < resampled[:, [0, -1]].min(1)
    best = int(means.argmin())
    evidence = (
        f"d = {size}: error {means[0]:.3f} at n = {n[0]:,}, least {means[best]:.3f} at n = "
        f"{n[best]:,}, {means[-1]:.3f} at n = {n[-1]:,}; the minimum is inside in "
        f"{inside.mean():.1%} of the bootstrap samples of {len(values)} trials"
    )
    return _decided(float(inside.mean()), evidence, len(runs.runs_of(records, "seen")))


def ordered(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Is the cut better than frequency, and frequency better than q = 1, where tokens are many?"""
    names = ("threshold", "frequency", "seen")
    for name in names:
        none = without_number(records, name, fewest=2)
        if none is not None:
            return none
    size = runs.nearest_size(records, SMALL)
    place = runs.dimensions(records).index(size)
    columns: list[NDArray[np.float64]] = []
    for name in names:
        found = runs.errors(records, name, POPULATION)
        assert found is not None
        columns.append(found[:, place])
    if len({len(column) for column in columns}) > 1:
        return Finding(UNDECIDED, "the schemes were run with different trials", 0)
    values = np.stack(columns, axis=1)  # trial by trial the same vectors for every scheme
    rising = np.diff(resampled_means(values), axis=1).min(1) > 0
    means = ", ".join(
        f"{SCHEMES[name].label} {mean:.3f}"
        for name, mean in zip(names, values.mean(0), strict=True)
    )
    evidence = (
        f"population, d = {size}: {means}; in this order in {rising.mean():.1%} of the bootstrap "
        f"samples of {len(values)} trials"
    )
    return _decided(float(rising.mean()), evidence, len(runs.runs_of(records, "seen")))


def steepens(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """With few tokens, is the slope of q = 1 in d ever steeper as d passes N?"""
    none = without_number(records, "seen", "few tokens")
    if none is not None:
        return none
    tokens = runs.settings(records, "few tokens")["tokens"]
    values = runs.errors(records, "seen", POPULATION, "few tokens")
    assert values is not None
    d = runs.dimensions(records, "few tokens")
    before = fit_power_law(d, values, tokens / 4, tokens)
    after = fit_power_law(d, values, tokens, 6 * tokens)
    if before is None or after is None:
        return Finding(UNDECIDED, "too few errors above 0 for slopes", 1)
    steeper = (after.slopes < before.slopes) & (after.slopes < numbers["steepest"])
    evidence = (
        f"N = {tokens}: slope {before} from d = {before.low:g} to {before.high:g}, {after} from "
        f"{after.low:g} to {after.high:g}; {len(values)} trials"
    )
    found = runs.runs_of(records, "seen", "few tokens")
    return _decided(float(steeper.mean()), evidence, len(found))


def _decided(share: float, evidence: str, seeds: int) -> Finding:
    """A yes or no by the share of bootstrap samples that say yes."""
    if share >= CERTAIN:
        return Finding(REPRODUCED, evidence, seeds)
    return Finding(CONTRADICTED if share <= 1 - CERTAIN else UNDECIDED, evidence, seeds)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Means and intervals of every scheme at every size and number of samples, with slopes."""
    if not runs.settings(records):
        return {"schemes": {}}
    n = runs.samples(records)
    size = max(runs.dimensions(records))
    found: dict[str, Any] = {}
    for name, scheme in SCHEMES.items():
        rows = {
            row: _summary(values, fit_in_d(records, name, row))
            for row in (POPULATION, *(f"n={k}" for k in n))
            if (values := runs.errors(records, name, row)) is not None
        }
        if rows:
            fit = fit_in_n(records, name, size)
            found[name] = {"label": scheme.label, "rows": rows, "slope_in_n": _slope(fit)}
    return {
        "x": runs.dimensions(records),
        "samples": n,
        "slope_in_n_at_d": size,
        "schemes": found,
        "infinite_memory": runs.infinite_memory(records),
    }


def _summary(values: NDArray[np.float64], fit: Fit | None) -> dict[str, Any]:
    band = band_over_trials(values)
    low, high = band.low.tolist(), band.high.tolist()
    return {"mean": band.mean.tolist(), "low": low, "high": high, "slope_in_d": _slope(fit)}


def _slope(fit: Fit | None) -> dict[str, Any] | None:
    if fit is None:
        return None
    return {"slope": fit.slope, "interval": list(fit.interval()), "x": [fit.low, fit.high]}


def table(records: Sequence[RunRecord]) -> str:
    """Slopes of every scheme, with 95 % intervals over trials, beside those of theory."""
    n = runs.samples(records)
    size = max(runs.dimensions(records), default=0)
    most = f"n={max(n, default=0)}"
    lines = [
        f"| scheme | in d, population | in d, {most} | theory | in n, d = {size} | theory |",
        "|---|---|---|---|---|---|",
    ]
    for name, scheme in SCHEMES.items():
        if not runs.runs_of(records, name):
            continue
        alpha = runs.settings(records)["alpha"]
        in_d = "none" if scheme.slope is None else signed(scheme.slope(alpha))
        cells = [
            fit_in_d(records, name, POPULATION),
            fit_in_d(records, name, most),
            in_d,
            fit_in_n(records, name, size),
            f"{signed(-(alpha - 1) / alpha)} while d suffices",
        ]
        lines.append(f"| {scheme.label} | {' | '.join(map(_cell, cells))} |")
    return "\n".join([*lines, ""])


def _cell(content: Fit | str | None) -> str:
    return "none" if content is None else str(content)


def _slope_claim(
    name: str, source: str, sentence: str, slope: float, by: float, test: Test, exact: bool = False
) -> Claim:
    rule = (
        "the slope, an exact sum, lies in {slope:g} ± {by:g}"
        if exact
        else "the slope lies in {slope:g} ± {by:g} with its whole 95 % bootstrap interval over at "
        f"least {TRIALS} trials"
    )
    tolerance = Tolerance(rule + "; α = 2, N = 1000, M = 5", {"slope": slope, "by": by})
    return Claim(name, source, sentence, tolerance, at_the_scale(test))


BY_FREQUENCY = (
    "Stored by frequency (q = p, as after one step with a large batch), the error falls with size "
    "as d^(−(α−1)/2α)"
)
BY_CUT = "With only the d/8 most frequent kept, the error falls with size as d^(−(α−1))"
SHARE = f"in at least {CERTAIN:.1%} of the bootstrap samples of trials"

REPRODUCTION = Reproduction(
    title=TITLE,
    source=f"{PAPER}; {SLIDES}",
    plan=runs.plan,
    select=runs.select,
    variant=runs.variant,
    draw=draw,
    curves=curves,
    table=table,
    claims=(
        Claim(
            "order of schemes",
            f"{THEOREM}, parts 1 to 3",
            "Where tokens are many for the size, keeping few of them is better than frequency, and "
            "frequency better than storing all alike, which overflows.",
            Tolerance(f"the errors at the size nearest to {SMALL} are in this order {SHARE}"),
            ordered,
        ),
        _slope_claim(
            "frequency against d",
            f"{THEOREM}, part 1",
            f"{BY_FREQUENCY}.",
            -0.25,
            0.08,
            partial(slope_in_d, scheme="frequency", row=POPULATION),
        ),
        _slope_claim(
            "frequency against d, counted",
            f"{THEOREM}, part 1",
            f"{BY_FREQUENCY}, also with counts of 100,000 samples.",
            -0.25,
            0.08,
            partial(slope_in_d, scheme="frequency", row=MANY_SAMPLES),
        ),
        _slope_claim(
            "the most frequent against d",
            CUT,
            f"{BY_CUT}.",
            -1.0,
            0.1,
            partial(slope_in_d, scheme="threshold", row=POPULATION),
        ),
        _slope_claim(
            "the most frequent against d, counted",
            CUT,
            f"{BY_CUT}, also with counts of 100,000 samples.",
            -1.0,
            0.1,
            partial(slope_in_d, scheme="threshold", row=MANY_SAMPLES),
        ),
        _slope_claim(
            "all seen against n",
            f"{THEOREM}, part 2",
            "Where the size suffices, storing all that was seen alike (q = 1) learns with samples "
            "as n^(−(α−1)/α), like a memory without limits.",
            -0.5,
            0.06,
            partial(slope_in_n, scheme="seen"),
        ),
        _slope_claim(
            "memory without limits against n",
            HUTTER,
            "The error of a memory without limits falls with samples as n^(−(α−1)/α).",
            -0.5,
            0.06,
            slope_without_limits,
            exact=True,
        ),
        Claim(
            "more data hurts a full memory",
            f"{THEOREM}, part 2, which holds for d ≫ N only",
            f"At d = {SMALL} the error of storing all alike first falls with samples, then rises.",
            Tolerance(f"its least mean over n lies inside the range of n {SHARE}"),
            at_the_scale(turns_back),
        ),
        Claim(
            "steeper than any power",
            f"{THEOREM}, part 2",
            "With fewer tokens than d, the error of storing all alike falls faster than any power "
            "of d.",
            Tolerance(
                "N = 100: the slope over N ≤ d ≤ 6 N is below {steepest:g} and below that over "
                f"N / 4 ≤ d ≤ N, {SHARE}",
                {"steepest": -2.0},
            ),
            at_the_scale(steepens),
        ),
    ),
)
