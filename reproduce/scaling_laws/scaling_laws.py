"""Scaling laws of associative memories: error against size and against samples, by scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from bench.records.schema import RunRecord
from ground.statistics import CHANGE, mean_of
from judging.claims import Claim
from judging.grammar import Number, Records, Rule, each, measured, once, within
from judging.power_laws import Fit, fit_power_law, signed, slope_between
from judging.trials import over_trials, paired
from judging.verdicts import UNDECIDED, Finding, not_asked
from reproduce.reproduction import Reproduction
from reproduce.scaling_laws.figure import SMALL, TITLE, panels
from reproduce.scaling_laws.runs import (
    FEW_TOKENS,
    MAIN,
    POPULATION,
    SCHEMES,
    TABLE,
    Part,
    plan,
    select,
    variant,
)

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


def of_trials(rule: Rule, *schemes: str, part: str = MAIN) -> Rule:
    """A rule on all trials of some schemes."""

    def runs(records: Records) -> list[RunRecord]:
        return [run for scheme in schemes for run in Part(records, part).runs(scheme)]

    return over_trials(
        rule, runs, "equal trials of " + ", ".join(SCHEMES[s].label for s in schemes)
    )


def slope(
    scheme: str, expected: float, by: float, fit: Callable[[Part], tuple[str, Fit | None]]
) -> Rule:
    """A slope of a scheme, and of what it is, lies about a number."""
    low, high = expected - by, expected + by

    def rules(records: Records) -> list[Rule]:
        what, found = fit(Part(records))
        return [slope_between(f"{SCHEMES[scheme].label}, {what}", found, low, high, TRIALS)]

    text = f"the slope lies between {low:g} and {high:g} {OVER_TRIALS}; {CELL}"
    return once(at_the_scale, of_trials(each(rules, text), scheme))


def in_d(scheme: str, expected: float, by: float, row: str = POPULATION) -> Rule:
    """The slope over sizes, at "population" or "n=…"."""
    return slope(scheme, expected, by, lambda main: (row, main.in_d(scheme, row)))


def counted(scheme: str, expected: float, by: float) -> Rule:
    """The same with counts of many samples, asked where so many were drawn."""
    runs = SCHEMES[scheme].runs(MAIN).but(f"{MANY:,} samples", choose=lambda r: MANY in Part([r]).n)
    ready = measured(runs, f"slopes at n = {MANY:,}", "laptop")
    return once(at_the_scale, once(ready, in_d(scheme, expected, by, f"n={MANY}")))


def unseen_mass(record: RunRecord) -> float | None:
    """The slope of the mass that a table has not seen, against n."""
    curve, window = record.curves["unseen_mass"], record.config["tasks"]["fit_samples"]
    fit = fit_power_law(curve.x, [curve.y], *window)
    return None if fit is None else fit.slope


UNSEEN = Number("slope", unseen_mass).of(TABLE, "mass of unseen tokens, an exact sum: slope")


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
    found = [(SCHEMES[scheme].label, main.errors(scheme, POPULATION)) for scheme in ORDER]
    columns = [
        (f"{label} {mean_of(column):.3f} at d = {size}", column)
        for label, values in found
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
    few = Part(records, FEW_TOKENS)
    values, tokens = few.errors("seen", POPULATION), few.task.get("tokens", 0)
    if values is None:
        return []
    before = fit_power_law(few.d, values, tokens / 4, tokens)
    after = fit_power_law(few.d, values, tokens, 6 * tokens)
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
    Claim(
        "frequency against d",
        f"{BY_FREQUENCY}.",
        in_d("frequency", -0.25, 0.08),
        source=f"{THEOREM}, part 1",
    ),
    Claim(
        "frequency against d, counted",
        f"{BY_FREQUENCY}, {BY_COUNT}",
        counted("frequency", -0.25, 0.08),
        source=f"{THEOREM}, part 1",
    ),
    Claim("the most frequent against d", f"{BY_CUT}.", in_d("threshold", -1, 0.1), source=CUT),
    Claim(
        "the most frequent against d, counted",
        f"{BY_CUT}, {BY_COUNT}",
        counted("threshold", -1, 0.1),
        source=CUT,
    ),
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
        once(at_the_scale, of_trials(each(steepening, STEEPER), "seen", part=FEW_TOKENS)),
        source=f"{THEOREM}, part 2",
    ),
)

SOURCE = f"{PAPER}; {SLIDES}"
REPRODUCTION = Reproduction(TITLE, SOURCE, plan, select, CLAIMS, panels, variant)
