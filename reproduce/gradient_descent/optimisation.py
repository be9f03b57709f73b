"""Which memory gradient descent builds: the optimiser study, and with it the paths of descent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from bench.records.schema import RunRecord
from core.statistics import CHANGE, SHARE, mean_of
from reproduce.claims.claims import Claim
from reproduce.claims.controls import NOTHING_TRAINED, UNTRAINED
from reproduce.claims.grammar import Records, Rule, above, each, within
from reproduce.claims.power_laws import Fit, fit_power_law, slope_difference
from reproduce.claims.trials import drawn, exact, fact, largest_of, over_trials, paired
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Finding, place_of
from reproduce.drawing.tables import markdown
from reproduce.experiment import Experiment
from reproduce.gradient_descent import descent, runs
from reproduce.gradient_descent.figure import TITLE, picture
from reproduce.gradient_descent.runs import Cell, Comparison

RELEASED = f"{runs.SCALING_LAWS}, optimisation experiments, released results"
SECTION = f"{runs.SCALING_LAWS}, section on optimisation"
WITH_SLIDES = f"{SECTION}; slides of Bietti 2024, scaling laws and optimisation"
SEEDS = int(runs.THE_SEEDS["trials"])
WIDE = 100  # dimensions from which on all tokens can be orthogonal


def starred(records: Records) -> list[Comparison]:
    """The seven cells at their dimension."""
    compared = []
    for comparison in runs.comparisons(records):
        if comparison.dimension == runs.STARRED_DIMENSION and comparison.cell in runs.STARRED:
            compared.append(comparison)
    return compared


def starred_come_out(compared: Sequence[Comparison], gap: float) -> Finding:
    """All seven cells, each to four decimals."""
    numbers, verdict = [], REPRODUCED
    for comparison in compared:
        numbers.append(f"{comparison.measured:.4f} ({comparison.published:.4f})")
        if comparison.gap > gap:
            verdict = CONTRADICTED
    text = f"measured (published) at d = {runs.STARRED_DIMENSION}: {', '.join(numbers)}"
    if verdict == REPRODUCED and len(compared) < len(runs.STARRED):
        text = f"{text}; only {len(compared)} of {len(runs.STARRED)} cells"
        return Finding(UNDECIDED, text, SEEDS)
    return Finding(verdict, text, SEEDS)


def others(records: Records) -> tuple[int, list[Comparison]] | None:
    """How many more errors were asked for, and those that are there."""
    wanted = set()
    for record in runs.with_the_seeds(records):
        cell = runs.cell_of(record)
        for dimension in record.config["tasks"]["dimensions"]:
            is_starred = cell in runs.STARRED and dimension == runs.STARRED_DIMENSION
            if dimension in runs.published(cell) and not is_starred:
                wanted.add((cell, dimension))
    compared = [c for c in runs.comparisons(records) if (c.cell, c.dimension) in wanted]
    return (len(wanted), compared) if compared else None


def grid_comes_out(
    compared: tuple[int, list[Comparison]], share: float, errors: float, gap: float
) -> Finding:
    """Nearly all equal, the rest within the noise of seeds."""
    wanted, measured = compared
    equal, beyond = 0, 0
    for comparison in measured:
        equal += comparison.gap <= gap
        beyond += comparison.gap > max(errors * comparison.error, gap)
    lost = wanted - len(measured)
    widest = max(measured, key=lambda comparison: comparison.gap)
    evidence = (
        f"{equal} of {wanted} means equal to four decimals ({equal / wanted:.1%})"
        + (f", {lost} without a number" if lost else "")
        + f", {beyond} beyond {errors:g} standard errors; widest gap {widest.gap:.4f} "
        f"({widest.cell.label}, d = {widest.dimension})"
    )
    verdict = REPRODUCED if equal >= share * wanted and not lost else UNDECIDED
    if beyond or equal + lost < share * wanted:
        verdict = CONTRADICTED
    return Finding(verdict, evidence, SEEDS)


def slopes(records: Records) -> tuple[Fit, Fit] | None:
    """Power laws in d, with the smallest and with the largest step; None without runs of both."""
    fits = []
    for cell in (runs.BY_RATE[0], runs.BY_RATE[-1]):
        trials = runs.by_dimension(records, cell)
        rows = list(zip(*trials.values(), strict=True))
        fits.append(fit_power_law(list(trials), rows) if len(trials) > 1 else None)
    small, large = fits
    return None if small is None or large is None else (small, large)


def slopes_move(fits: tuple[Fit, Fit], steeper: float) -> Finding:
    """Whether the slope is steeper with the largest step than with the smallest, by bootstrap over
    trials."""
    small, large = fits
    interval = slope_difference(large, small)
    text = (
        f"slope {small} with lr {runs.RATES[0]:g} and {large} with lr {runs.RATES[-1]:g}, fitted "
        f"over d = {small.low:g} to {small.high:g}: difference "
        f"{large.slope - small.slope:.2f} (95% interval {interval.low:.2f} to {interval.high:.2f})"
    )
    return Finding(place_of(interval, -float("inf"), -steeper), text, large.trials)


def exponent(cell: Cell, low: float, high: float, where: str) -> Rule:
    """The exponent of the induced scheme at the largest dimension of a cell's runs."""

    def rules(records: Records) -> Iterator[Rule]:
        for d, trials in list(runs.by_dimension(records, cell, "exponent").items())[-1:]:
            yield within(drawn(f"exponent of q in the counts at d = {d}", trials), low, high)

    text = (
        f"the slope of log q(z) against log count lies between {low:g} and {high:g}, with its "
        f"whole 95 % interval over seeds ({where})"
    )
    return over_trials(each(rules, text), cell.runs.of, f"exponent of {cell.label}")


def lower(text: str, *pairs: tuple[Cell, Cell]) -> Rule:
    """Paired over trials: the mean error at wide dimensions of one cell less than of another."""
    cells = list(dict.fromkeys(chain(*pairs)))

    def rules(records: Records) -> Iterator[Rule]:
        for better, worse in pairs:
            errors, errors_of_worse = (runs.by_dimension(records, c) for c in (better, worse))
            shared = [d for d in errors if d in errors_of_worse and d >= WIDE]
            means = []
            for by_dimension in (errors, errors_of_worse):
                trials = zip(*(by_dimension[d] for d in shared), strict=True)
                means.append(list(map(mean_of, trials)))
            where = ", ".join(map(str, shared))
            names = f"{better.label} minus that of {worse.label}"
            label = f"error of {names} (mean over d = {where})"
            yield within(paired(label, means, CHANGE), high=0.0)

    def of(records: Records) -> list[RunRecord]:
        return list(chain(*(cell.runs.of(records) for cell in cells)))

    labels = " and ".join(cell.label for cell in cells)
    return over_trials(each(rules, text), of, f"runs of {labels} with d ≥ {WIDE}")


LARGE_BATCHES = (
    "over random seeds, paired, the whole 95 % interval of the difference of errors (mean over "
    "d ≥ 100) is below zero at batch 1024, step 1, n = 10,240"
)

GRID = (
    Claim(
        "seven published cells",
        "Seven cells of the released grid come out from the random seeds 42 to 51.",
        fact(
            "each mean at d = 100 differs by less than {gap:g} from the published one, so that "
            "four decimals are equal",
            "starred cell",
            starred,
            starred_come_out,
            gap=5e-5,
        ),
        source=RELEASED,
    ),
    Claim(
        "the grid",
        "So do the other cells and dimensions of the released grid that this preset runs.",
        fact(
            "at least {share:.0%} of the means asked for differ by less than {gap:g}, so that four "
            "decimals are equal, and each of the others by at most {errors:g} standard errors over "
            "the ten seeds: with large steps the last digits of a sum decide",
            "other cell of the grid",
            others,
            grid_comes_out,
            share=0.9,
            errors=3.0,
            gap=5e-5,
        ),
        source=RELEASED,
    ),
    Claim(
        "large steps steepen the law",
        "With larger steps the error falls faster with d: from the slope of a memory that counts, "
        "-(α-1)/(2α), towards that of one that keeps the most frequent tokens, -(α-1).",
        fact(
            "SGD with batch 64 and n = 10,240: the slope with step 100 is below that with step "
            "0.1 by more than {steeper:g}, with the whole 95 % bootstrap interval over seeds",
            "slope of the smallest and of the largest step",
            slopes,
            slopes_move,
            steeper=0.1,
        ),
        source=SECTION,
    ),
    Claim(
        "one large batch counts",
        "One step on one large batch gives every token the weight of its frequency, q ~ p.",
        exponent(runs.ONE_STEP, 0.95, 1.05, "d ≥ N, where q is unique"),
        source=SECTION,
    ),
    Claim(
        "single samples and large steps only see",
        "With batch 1, a large step and d ≫ N all tokens that were seen weigh the same, q ~ 1.",
        exponent(runs.SINGLE_SAMPLES, -0.15, 0.15, "step 10"),
        source=SECTION,
    ),
    Claim(
        "Adam helps at large batches",
        "At large batches and small steps Adam leaves fewer errors than SGD.",
        lower(LARGE_BATCHES, (runs.LARGE_BATCH["adam", False], runs.LARGE_BATCH["sgd", False])),
        source=WITH_SLIDES,
    ),
    Claim(
        "layer normalisation helps at large batches",
        "At large batches and small steps both SGD and Adam leave fewer errors with layer "
        "normalisation.",
        lower(
            f"{LARGE_BATCHES}, for both",
            *((runs.LARGE_BATCH[name, True], runs.LARGE_BATCH[name, False]) for name in runs.NAMES),
        ),
        source=WITH_SLIDES,
    ),
    Claim(
        "trained embeddings help",
        "Trained embeddings leave fewer errors than fixed ones, most of all together with a "
        "matrix.",
        lower(
            "SGD, step 1, batch 16, n = 10,240: over seeds, paired, the whole 95 % intervals of "
            "both differences of errors (all trained below rectified embeddings below fixed; mean "
            "over d ≥ 100) are below zero",
            (runs.BY_MODEL["learnable"], runs.BY_MODEL["exponential"]),
            (runs.BY_MODEL["exponential"], runs.BY_MODEL["matrix"]),
        ),
        source=RELEASED,
    ),
)


# What gradient steps weigh, and learned embeddings

RELEASED_CODE = f"{runs.SCALING_LAWS}, section on optimisation, released code"
# ρ of q ~ p^ρ in the released code of the paper (repository VivienCabannes/memory-theory, commit
# 99cca43), by step.
EXPONENTS = {0.001: 1.0, 0.1: 0.35, 1.0: 0.05}
GAP = 0.05  # of a measured one from it


def effective_tokens(record: RunRecord) -> float:
    """How many equally frequent tokens would make an error vary as much as these: 1 / Σ p²."""
    task = record.config["tasks"]
    weights = [rank ** -task["alpha"] for rank in range(1, task["tokens"] + 1)]
    return sum(weights) ** 2 / sum(weight * weight for weight in weights)


def embeddings_hold(error: float, most: int) -> Rule:
    """The error in two dimensions at every number of classes up to a limit."""

    def parts(records: Records) -> Iterator[tuple[float, Rule]]:
        measured = runs.LEARNED.finished(records)
        classes = sorted(measured[0].config["tasks"]["classes"]) if measured else []
        for place, number in enumerate(classes):
            if 1 < number <= most:
                trials = list(chain(*(record.arrays["error"][place] for record in measured)))
                tokens = effective_tokens(measured[0])
                at = drawn(f"error at M = {number}", trials, SHARE, tokens)
                yield mean_of(trials), within(at, high=error)

    text = (
        "N = 100, α = 2, Adam, embeddings and matrix trained: at every number of classes of the "
        f"preset from 2 to {most} the mean error is below {error:g}, with the whole 95 % interval "
        "over trials; contradicted if one interval, corrected for their number, lies above it"
    )
    rule = largest_of(parts, "numbers of classes", text)
    return over_trials(rule, runs.LEARNED.of, f"training with 2 to {most} classes")


def exponents(records: Records) -> dict[float, float]:
    """The exponent of q in the count by step, which no random number enters."""
    for record in runs.SCHEMES.finished(records)[:1]:
        metrics = record.metrics["test"]
        return {lr: metrics[name] for lr, name in runs.numbered(metrics, "exponent/lr=").items()}
    return {}


def larger_steps_flatten(records: Records) -> Iterator[Rule]:
    """Each exponent is above that of the next larger step."""
    by_step = [exact(f"exponent with step {lr:g}", e) for lr, e in exponents(records).items()]
    return (above(small, large) for small, large in pairwise(by_step))


def exponents_are_released(records: Records) -> Iterator[Rule]:
    """The same exponents beside the released ones, step by step."""
    measured = exponents(records)
    for lr, released in EXPONENTS.items():
        label = f"exponent with step {lr:g} (released {released:g})"
        value = exact(label, measured[lr]) if lr in measured else drawn(label, [])
        yield within(value, released - GAP, released + GAP)


LEARNED = Claim(
    "learned embeddings need no dimensions",
    "With learned embeddings two dimensions hold many classes: the error stays near zero.",
    embeddings_hold(0.05, 100),
    source=f"{runs.SCALING_LAWS}, learned embeddings in two dimensions, released code",
)
# Sums over counts follow from formulas: there is no network to leave as it was before its training.
SUMS = (
    Claim(
        "larger steps on single samples flatten the weights",
        "The larger the steps of descent on single samples, the flatter the weights.",
        over_trials(each(larger_steps_flatten), runs.SCHEMES.of, "weights of single samples"),
        "the slope of log q(c) against log c, c = 1 to 1,000, M = 10, falls by more than 0 from "
        "each step of the preset to the next; without random numbers one value is exact",
        source=RELEASED_CODE,
        control=NOTHING_TRAINED,
    ),
    Claim(
        "exponents of single samples",
        "Single samples weigh like p with step 0.001, like p^0.35 with step 0.1 and like p^0.05 "
        "with step 1.",
        over_trials(
            each(exponents_are_released), runs.SCHEMES.of, "weights with every released step"
        ),
        f"the slope of log q(c) against log c, c = 1 to 1,000, M = 10, is within {GAP:g} of the "
        "released exponent at each of these steps; without random numbers one value is exact",
        source=RELEASED_CODE,
        control=NOTHING_TRAINED,
    ),
)


def table(records: Records) -> str:
    """Measured errors, and the published ones in brackets, of every cell that was run."""
    trials_by_cell = {}
    for record in filter(runs.GRID.has, records):
        cell = runs.cell_of(record)
        trials_by_cell[cell] = runs.by_dimension(records, cell)
    dimensions = sorted({d for trials in trials_by_cell.values() for d in trials})
    rows = []
    for cell, trials in sorted(trials_by_cell.items(), key=lambda item: item[0].label):
        row, levels = [cell.label], runs.published(cell)
        for dimension in dimensions:
            mean = f"{mean_of(trials[dimension]):.4f}" if dimension in trials else ""
            level = f" ({levels[dimension]:.4f})" if mean and dimension in levels else ""
            row.append(mean + level)
        rows.append(row)
    return markdown(["measured (published)", *(f"d = {d}" for d in dimensions)], rows)


def belongs(record: RunRecord) -> bool:
    """Whether a record is of this figure: of the transformer the first seed, since the others have
    a figure of their own."""
    if record.task == runs.ATTENTION[0] and record.seed:
        return False
    return any(part.has(record) for part in (runs.GRID, *runs.SINGLE))


EXPERIMENT = Experiment(
    TITLE,
    f"{runs.SCALING_LAWS}; {runs.DYNAMICS}",
    (*GRID, LEARNED, *descent.CLAIMS, *SUMS),
    runs=runs.planned,
    records=[belongs],
    panels=picture,
    variant=runs.variant,
    varied=runs.VARIED,
    table=table,
    control=UNTRAINED.by(optimisation="tasks.lr=1e-9", learned_embeddings="tasks.lr=1e-9"),
)
