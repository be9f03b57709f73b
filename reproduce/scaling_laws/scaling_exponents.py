"""Scaling laws of associative memories at other Zipf laws: how their exponents go with α."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bench.records.schema import RunRecord
from core.statistics import SHARE, mean_interval
from reproduce.claims.claims import Claim
from reproduce.claims.controls import NOTHING_TRAINED, Control
from reproduce.claims.grammar import Number, Records, Rule, Runs, each, measured, once, within
from reproduce.claims.power_laws import Fit, fit_power_law, slope_between
from reproduce.claims.trials import over_trials
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Baselines, Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace
from reproduce.scaling_laws.runs import ALPHAS, LAWS, MODEL, POPULATION, SCHEMES, Part, of_alpha
from reproduce.scaling_laws.scaling_laws import HUTTER, PAPER, SLIDES, THEOREM

TITLE = "Scaling laws of associative memories, by the exponent of the Zipf law"
# Ten times the tokens of the figure for α = 2: where rare tokens matter more, a sum over 1,000 of
# them ends too early. Fewer samples: with more, tokens that were seen do not fit d = 1,024.
TOKENS, SAMPLES, TRIALS, LEAST = 10_000, [10, 32, 100, 316, 1000], 60, 50
IN_N = "seen"
FREQUENCY, CUT = "frequency", "threshold"
SMALL = {"tokens": 200, "dimensions": [8, 16, 32, 64], "samples": [10, 100], "trials": 5}


def _settings(alpha: float) -> dict[str, object]:
    chosen = {"alpha": alpha, "tokens": TOKENS, "samples": SAMPLES, "trials": TRIALS}
    return {f"tasks.{key}": value for key, value in chosen.items()} | {
        "tasks.fit_samples": [SAMPLES[0], SAMPLES[-1]]
    }


AT_SMOKE = {"smoke": {f"tasks.{key}": value for key, value in SMALL.items()}}
RUNS, TABLES = [], []
for alpha in ALPHAS:
    TABLES.append(Baselines("scaling_laws", [MODEL], _settings(alpha), AT_SMOKE))
    for scheme in (FREQUENCY, CUT, IN_N):
        of_model = {f"models.{key}": value for key, value in SCHEMES[scheme].settings.items()}
        settings = {**_settings(alpha), **of_model}
        RUNS.append(OverSeeds("scaling_laws", [MODEL], settings, AT_SMOKE))


def part_at(records: Records, alpha: float) -> Part:
    """The runs at one α."""
    return Part([record for record in records if of_alpha(record) == alpha])


# What is claimed

WIDE = Runs("10,000 tokens", "scaling_laws", settings={"tasks.tokens": TOKENS})
BY_FREQUENCY, BY_CUT, BY_SAMPLES = 0.08, 0.15, 0.06
STEEPER = 0.08


def _fit(part: Part, scheme: str) -> Fit | None:
    if scheme == IN_N:
        return part.in_n(scheme, max(part.d, default=0)) if part.d else None
    return part.in_d(scheme, POPULATION)


def slope(scheme: str, alpha: float, expected: float, by: float) -> Rule:
    """The slope of a scheme at one α lies about a number: in n for what was seen, else in d."""
    low, high = expected - by, expected + by

    def rules(records: Records) -> list[Rule]:
        label = f"{SCHEMES[scheme].label}, α = {alpha:g}"
        fit = _fit(part_at(records, alpha), scheme)
        return [slope_between(label, fit, low, high, LEAST)]

    def of(records: Records) -> list[RunRecord]:
        return part_at(records, alpha).runs(scheme)

    text = (
        f"at α = {alpha:g} the slope of {SCHEMES[scheme].label} lies between {low:.3f} and "
        f"{high:.3f} with its whole 95 % bootstrap interval over at least {LEAST} trials; "
        f"N = {TOKENS:,}, M = 5"
    )
    rule = over_trials(each(rules, text), of, f"trials at α = {alpha:g}")
    return once(measured(WIDE, f"slopes at α = {alpha:g}", "laptop"), rule)


def steeper(scheme: str, by: float) -> Rule:
    """The slope at the largest α is below that at the smallest by more than a number."""

    def rules(records: Records) -> list[Rule]:
        first, last = (_fit(part_at(records, alpha), scheme) for alpha in (ALPHAS[0], ALPHAS[-1]))
        change = None if first is None or last is None else last - first
        label = f"{SCHEMES[scheme].label}, α = {ALPHAS[-1]:g} minus α = {ALPHAS[0]:g}"
        return [slope_between(label, change, high=-by, least=LEAST)]

    def of(records: Records) -> list[RunRecord]:
        return [run for alpha in ALPHAS for run in part_at(records, alpha).runs(scheme)]

    text = (
        f"the slope of {SCHEMES[scheme].label} at α = {ALPHAS[-1]:g} minus that at {ALPHAS[0]:g} "
        f"is below −{by:g} with its whole 95 % bootstrap interval, on the same embeddings"
    )
    rule = over_trials(each(rules, text), of, "trials of each α")
    return once(measured(WIDE, "slopes by α", "laptop"), rule)


def unseen_slope(record: RunRecord) -> float | None:
    """The slope of the mass that a table has not seen, against n."""
    curve, window = record.curves["unseen_mass"], record.config["tasks"]["fit_samples"]
    fit = fit_power_law(curve.x, [curve.y], *window)
    return None if fit is None else fit.slope


def _of_alpha(alpha: float) -> list[Claim]:
    name = f"α = {alpha:g}"
    by_frequency, by_cut = LAWS[FREQUENCY](alpha), LAWS[CUT](alpha)
    in_n = (1 - alpha) / alpha
    table = WIDE.but(
        f"mass of unseen tokens, {name}", {"tasks.alpha": alpha}, baseline="infinite_memory"
    )
    unseen = within(Number("slope", unseen_slope).of(table), in_n - BY_SAMPLES, in_n + BY_SAMPLES)
    return [
        Claim(
            f"frequency against d, {name}",
            f"At {name}, stored by frequency, the error falls with size as d^(−(α−1)/2α), that is "
            f"d^({by_frequency:.3f}).",
            slope(FREQUENCY, alpha, by_frequency, BY_FREQUENCY),
            source=f"{THEOREM}, part 1",
            control=Control(
                "the d/8 most frequent in its place", slope(CUT, alpha, by_frequency, BY_FREQUENCY)
            ),
        ),
        Claim(
            f"the most frequent against d, {name}",
            f"At {name}, with only the d/8 most frequent kept, the error falls as d^(−(α−1)), that "
            f"is d^({by_cut:g}).",
            slope(CUT, alpha, by_cut, BY_CUT),
            source=f"{THEOREM}, part 3; keeping d/8 as in the code of {PAPER}",
            control=Control(
                "storage by frequency in its place", slope(FREQUENCY, alpha, by_cut, BY_CUT)
            ),
        ),
        Claim(
            f"all seen against n, {name}",
            f"At {name}, where the size suffices, storing all that was seen alike learns with "
            f"samples as n^(−(α−1)/α), that is n^({in_n:.3f}).",
            slope(IN_N, alpha, in_n, BY_SAMPLES),
            source=f"{THEOREM}, part 2",
        ),
        Claim(
            f"memory without limits against n, {name}",
            f"At {name} the error of a memory without limits falls as n^({in_n:.3f}).",
            once(measured(WIDE, f"slopes at {name}", "laptop"), unseen),
            f"the slope of the mass of unseen tokens, an exact sum, is within {BY_SAMPLES:g} of "
            f"−(α−1)/α; N = {TOKENS:,}",
            source=HUTTER,
        ),
    ]


CLAIMS = [claim for alpha in ALPHAS for claim in _of_alpha(alpha)]
CLAIMS.append(
    Claim(
        "frequency is steeper where the Zipf law is",
        "Stored by frequency, the error falls the faster with size the steeper the Zipf law is: "
        "−(α−1)/2α is −0.167 at α = 1.5 and −0.333 at α = 3.",
        steeper(FREQUENCY, STEEPER),
        source=f"{THEOREM}, part 1",
    )
)


# How it is drawn

SIZE = Axis("size d", "log")
ERROR = Axis("error over the population", "log")


def picture(records: Records) -> Picture:
    """For each α the errors against d, and those against n at the largest size."""
    above, below = [], []
    for alpha in ALPHAS:
        part = part_at(records, alpha)
        above.append(Panel(f"α = {alpha:g}", SIZE, ERROR, _against_size(part), legend="lower left"))
        below.append(
            Panel(
                f"α = {alpha:g}, d = {max(part.d, default=0):,}",
                Axis("samples n", "log"),
                ERROR,
                _against_samples(part),
                legend="lower left",
            )
        )
    return Picture(TITLE, [PanelRow(above, 3.4), PanelRow(below, 3.4)], width=13)


def _against_size(part: Part) -> list[Trace]:
    traces = []
    for scheme in (FREQUENCY, CUT):
        errors = part.errors(scheme, POPULATION)
        if errors is not None:
            columns = dict(zip(part.d, errors.T.tolist(), strict=True))
            traces += _with_law(scheme, columns, LAWS[scheme](part.alpha), "d")
    return traces


def _against_samples(part: Part) -> list[Trace]:
    errors = part.by_samples(IN_N, max(part.d)) if part.d else None
    if errors is None:
        return []
    columns = dict(zip(part.n, errors.T.tolist(), strict=True))
    return _with_law(IN_N, columns, (1 - part.alpha) / part.alpha, "n")


def _with_law(scheme: str, columns: dict[int, list[float]], law: float, name: str) -> list[Trace]:
    """Means over trials, and the line of theory through the middle one."""
    look, places = SCHEMES[scheme], sorted(columns)
    summarise = partial(mean_interval, kind=SHARE)
    trace = over_draws(look.label, columns, summarise, colour=look.colour)
    trace = replace(trace, seeds={})  # sixty trials
    middle = places[len(places) // 2]
    level = mean_interval(columns[middle], SHARE).mean or 0.0
    line = [level * (place / middle) ** law for place in places]
    theory = f"{look.label}: {name}^({law:.2f})"
    return [trace, Trace(theory, places, line, role="theory", colour=look.colour)]


EXPERIMENT = Experiment(
    TITLE,
    f"{PAPER}; {SLIDES}",
    CLAIMS,
    runs=RUNS,
    baselines=TABLES,
    records=[lambda record: record.task == "scaling_laws" and of_alpha(record) in ALPHAS],
    panels=picture,
    variant=["tasks.alpha", "models.scheme"],
    control=NOTHING_TRAINED,
)
