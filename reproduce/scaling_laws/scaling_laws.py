"""Scaling laws of associative memories: error against size and against samples, by scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from bench.records.schema import RunRecord
from core.statistics import CHANGE, SHARE, mean_interval, mean_of
from reproduce.claims.claims import Claim
from reproduce.claims.controls import NOTHING_TRAINED
from reproduce.claims.grammar import Number, Records, Rule, each, measured, once, within
from reproduce.claims.power_laws import Fit, fit_power_law, signed, slope_between
from reproduce.claims.trials import over_trials, paired
from reproduce.claims.verdicts import UNDECIDED, Finding, not_asked
from reproduce.drawing.traces import published
from reproduce.experiment import Baselines, Experiment
from reproduce.plotting.panels import Axis, Line, Panel, PanelRow, Picture, Trace
from reproduce.scaling_laws import runs
from reproduce.scaling_laws.runs import POPULATION, SCHEMES, Errors, Part

TITLE = "Scaling laws of associative memories, by what is stored"
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
SMALL = 64  # the size d at which too many memories overflow
# Reference lines of the published figures, as in the released code of the paper (repository
# VivienCabannes/memory-theory, commit 99cca43): factor and exponent, for α = 2.
REFERENCES = {"d": ((0.35, -0.25), (3.5, -1.0)), "n": ((0.5, -0.5),)}
ERROR = Axis("error over the population", "log", limits=(2e-5, 1))  # with room for the legend


def picture(records: Records) -> Picture:
    """Two panels against d, two against n, and a map of each naive scheme over both."""
    main, few_tokens = Part(records), Part(records, runs.FEW_TOKENS)
    grid = Part(records, runs.MAP)
    most, largest = max(main.n, default=0), max(main.d, default=0)
    label = f"q = 1, N = {few_tokens.task.get('tokens')}"
    dashed = _curve(
        label, "vermillion", few_tokens.d, few_tokens.errors("seen", POPULATION), line="dashed"
    )
    table = []
    for run in runs.TABLE.of(records):
        error = run.curves["error"]
        table.append(Trace("a table without limits", error.x, error.y, role="theory"))
    by_frequency, by_count = runs.NAIVE
    above = [
        _against_size(main, POPULATION, "infinitely many samples", dashed),
        _against_size(main, f"n={most}", f"n = {most:,} samples"),
        _map(grid, by_frequency),
    ]
    below = [
        _against_samples(main, largest, table),
        _against_samples(main, main.near(SMALL), table),
        _map(grid, by_count),
    ]
    return Picture(TITLE, [PanelRow(above, 4), PanelRow(below, 4)], width=13.5)


def _against_size(main: Part, row: str, title: str, more: Sequence[Trace] = ()) -> Panel:
    def curve(name: str) -> tuple[Errors | None, Fit | None, float]:
        law = runs.LAWS[name](main.alpha) if name in runs.LAWS else 0.0
        return main.errors(name, row), main.in_d(name, row) if law else None, law

    return _panel(title, "size d", main.d, curve, [*more, *_references(main, main.d, "d")])


def _against_samples(main: Part, size: int, more: Sequence[Trace]) -> Panel:
    def curve(name: str) -> tuple[Errors | None, Fit | None, float]:
        law = runs.LAWS["root"](main.alpha)  # of any scheme that has room for what was seen
        fit = main.in_n(name, size) if size == max(main.d) else None
        return main.by_samples(name, size), fit, law

    more = [*more, *_references(main, main.n, "n")]
    return _panel(f"size d = {size:,}", "samples n", main.n, curve, more)


def _panel(
    title: str,
    name: str,
    x: Sequence[int],
    curve: Callable[[str], tuple[Errors | None, Fit | None, float]],
    more: Sequence[Trace],
) -> Panel:
    """The curve of every scheme, and ``more`` traces."""
    traces = []
    for key, scheme in SCHEMES.items() if x else ():
        traces += _curve(scheme.label, scheme.colour, x, *curve(key))
    return Panel(title, Axis(name, "log"), ERROR, [*traces, *more], legend="lower left")


def _curve(
    name: str,
    colour: str,
    x: Sequence[int],
    values: Errors | None,
    fit: Fit | None = None,
    law: float = 0.0,
    line: Line = "",
) -> list[Trace]:
    """Means over trials; in the legend the slope with its interval, beside that of theory. An
    error of 0 has no place on a log axis, and is told there."""
    if values is None:
        return []
    y, intervals, zeros = [], [], []
    for place, column in zip(x, values.T.tolist(), strict=True):
        mean = mean_interval(column, SHARE)
        if mean.mean == 0:
            zeros.append(f"{place:,}")
        y.append(mean.mean or None)
        intervals.append(mean.interval if mean.mean else None)
    legend = name
    if fit is not None:
        slope, low, high, theory = (signed(end, 2) for end in (fit.slope, *fit.interval(), law))
        legend += f": {slope} [{low}, {high}], theory {theory}"
    if zeros:
        legend += f", 0 at {', '.join(zeros)}"
    return [Trace(name, x, y, intervals, mark="both", colour=colour, legend=legend, line=line)]


def _references(main: Part, x: Sequence[int], symbol: str) -> list[Trace]:
    traces, look = [], {"mark": "line", "legend": "published reference lines"}
    for factor, exponent in REFERENCES[symbol] if main.alpha == 2 else ():
        name = f"{factor:g} {symbol}^{exponent:g}"
        ends = [(x[0], factor * x[0] ** exponent), (x[-1], factor * x[-1] ** exponent)]
        traces.append(published(name, ends, end=name, **look))
    return traces


def _map(grid: Part, scheme: str) -> Panel:
    """The mean error over samples and sizes, as published for naive schemes."""
    means = []
    for samples in grid.n:
        errors = grid.errors(scheme, f"n={samples}")
        if errors is None:
            return Panel()
        means.append(errors.mean(0))
    if not means:
        return Panel()
    label, task = SCHEMES[scheme].label, grid.task
    trace = Trace(label, grid.n, grid.d, z=np.array(means).T.tolist(), mark="heat")
    title = f"{label}: N = {task['tokens']}, α = {task['alpha']:g}"
    x, y = Axis("samples n", "log"), Axis("size d", "log")
    return Panel(title, x, y, [trace], z=Axis("error", limits=(0, 1)))


# What is claimed

MANY = 100_000  # samples
TRIALS = 50
ORDER = ("threshold", "frequency", "seen")  # from the smallest error to the largest
STEEP = -2.0

CELL = "α = 2, N = 1000, M = 5"
OVER_TRIALS = f"with its whole 95 % bootstrap interval over at least {TRIALS} trials"
STEEPER = (
    f"N = 100: the slope over N ≤ d ≤ 6 N is below {STEEP:g} and below that over N / 4 ≤ d ≤ N, "
    f"each {OVER_TRIALS}"
)
DIFFERENCE = "trial by trial, with the whole 95 % interval of each difference"
INSIDE = f"both ends left out, lies below those at both ends, {DIFFERENCE}"
BY_FREQUENCY = (
    "Stored by frequency (q = p, as after one step with a large batch), the error falls with size "
    "as d^(−(α−1)/2α)"
)
BY_CUT = "With only the d/8 most frequent kept, the error falls with size as d^(−(α−1))"
BY_COUNT = "also with counts of 100,000 samples."


def at_the_scale(records: Records) -> Finding | None:
    """Ready on the cell that the windows belong to; at another scale nothing is asked."""
    task = Part(records).task
    if not task:
        return Finding(UNDECIDED, "no runs", 0)
    cell = (task["alpha"], task["classes"]) == (2, 5)
    if cell and task["tokens"] >= 1000 and max(task["dimensions"]) >= 1000:
        return None
    reason = "asked where α = 2, M = 5, N ≥ 1000 and d reaches 1000"
    return not_asked("slopes and shapes of the curves", reason, "laptop")


def of_trials(rule: Rule, *schemes: str, part: str = runs.MAIN) -> Rule:
    """A rule on all trials of some schemes."""

    def of(records: Records) -> list[RunRecord]:
        return [run for scheme in schemes for run in Part(records, part).runs(scheme)]

    return over_trials(rule, of, "equal trials of " + ", ".join(SCHEMES[s].label for s in schemes))


def slope(
    scheme: str, expected: float, by: float, fit: Callable[[Part], tuple[str, Fit | None]]
) -> Rule:
    """A slope of a scheme, and of what it is, lies about a number."""
    low, high = expected - by, expected + by

    def rules(records: Records) -> list[Rule]:
        fitted, law = fit(Part(records))
        return [slope_between(f"{SCHEMES[scheme].label}, {fitted}", law, low, high, TRIALS)]

    text = f"the slope lies between {low:g} and {high:g} {OVER_TRIALS}; {CELL}"
    return once(at_the_scale, of_trials(each(rules, text), scheme))


def in_d(scheme: str, expected: float, by: float, row: str = POPULATION) -> Rule:
    """The slope over sizes, at "population" or "n=…"."""
    return slope(scheme, expected, by, lambda main: (row, main.in_d(scheme, row)))


def counted(scheme: str, expected: float, by: float) -> Rule:
    """The same with counts of many samples, asked where so many were drawn."""
    many = (
        SCHEMES[scheme]
        .runs(runs.MAIN)
        .but(f"{MANY:,} samples", choose=lambda r: MANY in Part([r]).n)
    )
    ready = measured(many, f"slopes at n = {MANY:,}", "laptop")
    return once(at_the_scale, once(ready, in_d(scheme, expected, by, f"n={MANY}")))


def _falls(
    name: str, scheme: str, sentence: str, expected: float, by: float, source: str
) -> tuple[Claim, Claim]:
    """The slope in d over the population, and with counts."""
    population, samples = in_d(scheme, expected, by), counted(scheme, expected, by)
    also = f"{sentence}, {BY_COUNT}"
    return (
        Claim(f"{name} against d", f"{sentence}.", population, source=source),
        Claim(f"{name} against d, counted", also, samples, source=source),
    )


def unseen_mass(record: RunRecord) -> float | None:
    """The slope of the mass that a table has not seen, against n."""
    curve, window = record.curves["unseen_mass"], record.config["tasks"]["fit_samples"]
    fit = fit_power_law(curve.x, [curve.y], *window)
    return None if fit is None else fit.slope


UNSEEN = Number("slope", unseen_mass).of(runs.TABLE, "mass of unseen tokens, an exact sum: slope")


def rising(columns: Sequence[tuple[str, list[float]]]) -> list[Rule]:
    """Each column of errors is larger in the mean than that before it, on the same vectors."""
    return [
        within(paired(f"{name} minus {least}:", (larger, smaller), CHANGE), low=0)
        for (least, smaller), (name, larger) in pairwise(columns)
    ]


def ordered(records: Records) -> list[Rule]:
    """The cut is better than frequency, and frequency better than q = 1, where tokens are many."""
    main = Part(records)
    size = main.near(SMALL)
    by_scheme = [(SCHEMES[scheme].label, main.errors(scheme, POPULATION)) for scheme in ORDER]
    columns = [
        (f"{label} {mean_of(column):.3f} at d = {size}", column)
        for label, values in by_scheme
        if values is not None
        for column in [values[:, main.d.index(size)].tolist()]
    ]
    equal = len({len(column) for _, column in columns}) == 1 and len(columns) == len(ORDER)
    return rising(columns) if equal else []


def turning(records: Records) -> list[Rule]:
    """The error of q = 1 at a small size is higher at either end than at its minimum inside."""
    main = Part(records)
    values = main.by_samples("seen", main.near(SMALL))
    if values is None or len(main.n) < 3:
        return []
    means = values.mean(0)
    columns = [
        (f"{means[k]:.3f} at n = {n:,}", values[:, k].tolist()) for k, n in enumerate(main.n)
    ]
    best = columns[1 + int(means[1:-1].argmin())]
    return [*rising([best, columns[0]]), *rising([best, columns[-1]])]


def steepening(records: Records) -> list[Rule]:
    """With few tokens, the slope of q = 1 in d is steep as d passes N, and steeper than before."""
    few_tokens = Part(records, runs.FEW_TOKENS)
    values, tokens = few_tokens.errors("seen", POPULATION), few_tokens.task.get("tokens", 0)
    if values is None:
        return []
    before = fit_power_law(few_tokens.d, values, tokens / 4, tokens)
    after = fit_power_law(few_tokens.d, values, tokens, 6 * tokens)
    where = "" if before is None else f", {signed(before.slope)} from {before.low:g} on"
    change = None if before is None or after is None else after - before
    return [
        slope_between(f"N = {tokens}", after, high=STEEP, least=TRIALS),
        slope_between(f"minus that before{where}", change, high=0.0, least=TRIALS),
    ]


CLAIMS = (
    Claim(
        "order of schemes",
        "Where tokens are many for the size, keeping few of them is better than frequency, and "
        "frequency better than storing all alike, which overflows.",
        of_trials(
            each(ordered, f"the errors at the size nearest to {SMALL} rise so, {DIFFERENCE}"),
            *ORDER,
        ),
        source=f"{THEOREM}, parts 1 to 3",
    ),
    *_falls("frequency", "frequency", BY_FREQUENCY, -0.25, 0.08, f"{THEOREM}, part 1"),
    *_falls("the most frequent", "threshold", BY_CUT, -1, 0.1, CUT),
    Claim(
        "all seen against n",
        "Where the size suffices, storing all that was seen alike (q = 1) learns with samples "
        "as n^(−(α−1)/α), like a memory without limits.",
        slope("seen", -0.5, 0.06, lambda m: (f"d = {max(m.d)}", m.in_n("seen", max(m.d)))),
        source=f"{THEOREM}, part 2",
    ),
    Claim(
        "memory without limits against n",
        "The error of a memory without limits falls with samples as n^(−(α−1)/α).",
        once(at_the_scale, within(UNSEEN, low=-0.56, high=-0.44)),
        f"the slope, an exact sum, lies between {{low:g}} and {{high:g}}; {CELL}",
        source=HUTTER,
    ),
    Claim(
        "more data hurts a full memory",
        f"At d = {SMALL} the error of storing all alike first falls with samples, then rises.",
        once(at_the_scale, of_trials(each(turning, f"the least mean over n, {INSIDE}"), "seen")),
        source=f"{THEOREM}, part 2, which holds for d ≫ N only",
    ),
    Claim(
        "steeper than any power",
        "With fewer tokens than d, the error of storing all alike falls faster than any power "
        "of d.",
        once(at_the_scale, of_trials(each(steepening, STEEPER), "seen", part=runs.FEW_TOKENS)),
        source=f"{THEOREM}, part 2",
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    f"{PAPER}; {SLIDES}",
    CLAIMS,
    runs=runs.planned,
    baselines=[Baselines("scaling_laws", [runs.MODEL])],
    records=[runs.belongs],
    panels=picture,
    variant=runs.variant,
    control=NOTHING_TRAINED,
)
