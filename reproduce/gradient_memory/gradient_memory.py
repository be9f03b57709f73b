"""Gradients as memories: both lemmas, and what one step can store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from core.statistics import SHARE, mean_interval, mean_of
from reproduce.claims.claims import Claim
from reproduce.claims.controls import NOTHING_TRAINED
from reproduce.claims.grammar import (
    Drawn,
    Records,
    Rule,
    Runs,
    above,
    difference,
    each,
    metric,
    within,
)
from reproduce.claims.observations import Sample
from reproduce.claims.trials import fact, largest_of, over_trials, pooled, sample, settled
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Finding
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace

TITLE = "Gradients as memories: what one gradient step stores"
BIRTH = "Bietti et al. 2023, Birth of a Transformer (arXiv 2306.00802)"
SLIDES = "Bietti 2024, Associative memories as a tractable building block in transformers (slides)"
RUNS = Runs("one gradient step", "gradient_memory", "matrix")
CLEAN, NOISY, SAMPLED = "N = {}, d = {}", "T = {}, N = {}, d = {}", "T = {}, n = {}"
SAMPLED_TOKENS = 64
COLOURS = ("blue", "green", "orange", "vermillion", "purple")


def listed(records: Records, name: str) -> list[int]:
    """A list of the settings, such as the dimensions; empty where nothing was measured."""
    measured = RUNS.finished(records)
    return sorted(measured[0].config["tasks"][name]) if measured else []


def accuracies(records: Records, form: str, *key: int) -> list[float]:
    """The accuracy of every trial of all seeds."""
    return pooled(RUNS.finished(records), f"accuracy/{form.format(*key)}".replace(" ", ""))


def of_scores(records: Records, kind: str) -> dict[int, float]:
    """N -> ``target``, ``other`` or ``spread`` of the scores, mean over seeds."""
    means = {}
    for n in listed(records, "tokens"):
        values = map(metric(f"{kind}/N={n}"), RUNS.finished(records))
        if measured := [value for value in values if value is not None]:
            means[n] = mean_of(measured)
    return means


def spread_law(tokens: int, dimension: int) -> float:
    """√(N/d² + 2/d): N products of two random overlaps, and two overlaps that stand alone."""
    return math.sqrt(tokens / dimension**2 + 2 / dimension)


def picture(records: Records) -> Picture:
    """Accuracy without noise, with noise, and from samples; spread of the scores."""
    noises, dimensions = listed(records, "noises"), listed(records, "dimensions")
    clean = (listed(records, "tokens"), dimensions)
    noisy = (noises, listed(records, "noisy_tokens"), dimensions)
    sampled = (noises, [k * SAMPLED_TOKENS for k in listed(records, "samples_per_token")])
    row = [
        _accuracies(records, "one step, without noise", CLEAN, clean),
        _accuracies(records, "one step, noisy inputs", NOISY, noisy),
        _accuracies(records, "N = 64, d = 128, n samples", SAMPLED, sampled),
        _spread(records),
    ]
    return Picture(TITLE, [PanelRow(row, height=3.6)], width=13)


def _accuracies(records: Records, title: str, form: str, lists: Sequence[Sequence[int]]) -> Panel:
    """Against the last of some lists; a line for each combination of the others."""
    *others, places = lists
    label, _, last = form.removesuffix(" = {}").rpartition(", ")
    traces = []
    for group in product(*others):
        by_place = {place: accuracies(records, form, *group, place) for place in places}
        look: dict[str, Any] = {"colour": COLOURS[others[-1].index(group[-1]) % len(COLOURS)]}
        if len(group) > 1 and group[0] != others[0][0]:
            look["line"] = "dashed"
        trace = over_draws(
            label.format(*group), by_place, partial(mean_interval, kind=SHARE), **look
        )
        traces.append(replace(trace, seeds={}))  # a hundred trials
    x, y = Axis(last, scale="log2"), Axis("accuracy", limits=(0, 1.05))
    return Panel(title, x, y, traces, legend="best")


def _spread(records: Records) -> Panel:
    points, title = of_scores(records, "spread"), "spread of wrong classes’ scores"
    traces = [Trace("measured", list(points), list(points.values()), mark="dots")]
    if points:
        dimension = listed(records, "dimensions")[-1]
        law = [spread_law(tokens, dimension) for tokens in points]
        traces.append(Trace("√(N/d² + 2/d)", list(points), law, role="theory"))
        title += f", d = {dimension}"
    x, y = Axis("N", scale="log2"), Axis(limits=(0, 0.2))
    return Panel(title, x=x, y=y, traces=traces, legend="best")


# What is claimed

FEW, MANY = 8, 64  # noise vectors
SAMPLES = (64, 256, 1024, 4096)


SEEDS = {"smoke": 1, "laptop": 5, "gpu": 5, "paper": 5}  # five tell what the noise does


def accuracy(form: str, *key: int, tokens: int = SAMPLED_TOKENS) -> Drawn:
    """Over trials. The errors of the tokens of one trial spread over trials as independent ones do,
    or less, so that each token is a test item."""
    label = f"accuracy at {form.format(*key)}"

    def draw(records: Records) -> Sample:
        return sample(label, accuracies(records, form, *key), SHARE, tokens)

    return Drawn(label, draw)


def scores_are_predicted(runs: Records, target: float, other: float, errors: float) -> Finding:
    """Means of the scores for right and wrong classes at the largest dimension."""
    right = {n: abs(v - 1 + 1 / n) for n, v in of_scores(runs, "target").items()}
    wrong = {n: abs(v + 1 / n) * n for n, v in of_scores(runs, "other").items()}
    trials = sum(record.config["tasks"]["trials"] for record in runs)
    # The score of a right class is |u|² |v|² and N products of two overlaps, equal in pairs.
    d = listed(runs, "dimensions")[-1]
    error = {n: math.sqrt((4 / d + 2 * n / d**2) / (n * trials)) for n in right}
    beyond = max((gap - target) / error[n] for n, gap in right.items())
    far, near = max(right, key=right.__getitem__), max(wrong, key=wrong.__getitem__)
    text = (
        f"largest distance of right classes {right[far]:.4f} (N = {far}, standard error "
        f"{error[far]:.4f}), of wrong ones {wrong[near]:.3f} / N (N = {near})"
    )
    verdict = REPRODUCED if beyond <= 0 else UNDECIDED
    if wrong[near] > other or beyond > errors:
        verdict = CONTRADICTED
    return Finding(verdict, text, len(runs))


def spread_is_predicted(runs: Records, gap: float) -> Finding:
    """Standard deviation of the scores for wrong classes at the largest dimension."""
    dimension, holds, numbers = listed(runs, "dimensions")[-1], True, []
    for n, spread in of_scores(runs, "spread").items():
        law = spread_law(n, dimension)
        holds = holds and abs(spread - law) <= gap
        numbers.append(f"{spread:.4f} ({law:.4f}) at N = {n}")
    return settled(holds, f"measured (predicted): {', '.join(numbers)}", len(runs))


def one_step_suffices(at_least: float, factor: float, dimension: int) -> Rule:
    """Every N and d inside the rule."""

    def rules(records: Records) -> Iterator[Rule]:
        for n, d in product(listed(records, "tokens"), listed(records, "dimensions")):
            if d >= dimension and d**2 >= factor * n * math.log(n):
                yield within(accuracy(CLEAN, n, d, tokens=n), low=at_least)

    text = (
        f"accuracy above {at_least:g} wherever d² ≥ {factor:g} N ln N and d ≥ {dimension:g}, with "
        "the whole 95 % interval over random embeddings"
    )
    return over_trials(each(rules, text), RUNS.of, "N and d inside the rule")


def noise_does_not_matter(gap: float) -> Rule:
    """The most against the fewest noise vectors, at every N and d."""

    def parts(records: Records) -> Iterator[tuple[float, Rule]]:
        for n, d in product(listed(records, "noisy_tokens"), listed(records, "dimensions")):
            fewest, most = (accuracy(NOISY, noises, n, d, tokens=n) for noises in (FEW, MANY))
            low = mean_of(fewest.sample(records).values or [0.0])
            high = mean_of(most.sample(records).values or [0.0])
            yield abs(low - high), difference(fewest, most, -gap, gap)

    text = (
        "at every N and d the difference of accuracies with the fewest and with the most lies "
        f"within {gap:g} of zero with its whole 95 % interval over random embeddings; "
        "contradicted if one of them, corrected for the number of cells, lies beyond"
    )
    return over_trials(largest_of(parts, "cells", text), RUNS.of, "two numbers of noise vectors")


def _lemma(title: str, source: str, sentence: str, name: str) -> Claim:
    def judge(runs: Records, gap: float) -> Finding:
        largest = max(metric(f"gap/{name}")(record) or 0.0 for record in runs)
        return settled(largest < gap, f"largest difference of an entry {largest:.1e}", len(runs))

    text = "every entry equal within {gap:g} in float64"
    return Claim(
        title,
        sentence,
        fact(text, "measured lemma", RUNS.finished, judge, gap=1e-12),
        source=source,
    )


CLAIMS = (
    _lemma(
        "the lemma",
        f"{BIRTH}, lemma on gradients; {SLIDES}",
        "The gradient of the population's cross-entropy is the sum of associations "
        "E[(p̂(k|z) - p(k|z)) v_k u_z^T].",
        "clean",
    ),
    _lemma(
        "the lemma for noisy inputs",
        f"{BIRTH}, lemma on gradients with noisy inputs; {SLIDES}",
        "For inputs that vary, it is Σ_k p(k) v_k (μ̂_k - μ_k)^T.",
        "noisy",
    ),
    _lemma(
        "noise cancels",
        SLIDES,
        "If the noise does not depend on the class, the first population step from zero does not "
        "see it.",
        "cancelled",
    ),
    Claim(
        "scores after one step",
        "After one step from zero the score of class k is (η/N)(1{f(z) = k} - 1/N), nearly.",
        fact(
            "means over tokens, trials and classes at the largest d, times N/η: wrong classes "
            "within {other:g}/N of -1/N, so that the 1/N is seen; right classes within {target:g} "
            "of 1 - 1/N, their standard error at N = 32 over 20 draws of the embeddings, √(4/d + "
            "2N/d²)/√(20 N); up to {errors:g} standard errors beyond that is left open",
            "mean of scores",
            RUNS.finished,
            scores_are_predicted,
            target=0.005,
            other=0.25,
            errors=3.0,
        ),
        source=SLIDES,
    ),
    Claim(
        "spread of the scores after one step",
        "The scores of wrong classes spread by √(N/d² + 2/d): 0.094 for N = 64 and 0.125 for "
        "N = 512 at d = 256.",
        fact(
            "standard deviation over tokens, trials and wrong classes at the largest d, times N/η: "
            "within {gap:g} of it for every N",
            "spread of scores",
            RUNS.finished,
            spread_is_predicted,
            gap=0.01,
        ),
        source=f"estimate of this project for the Gaussian embeddings of the experiment; {SLIDES}",
    ),
    Claim(
        "one step suffices",
        "One step has near-perfect accuracy where the embeddings are nearly orthogonal.",
        one_step_suffices(0.99, 6, 128),
        source=SLIDES,
    ),
    Claim(
        "accuracy does not depend on the noise",
        "The accuracy of a population step on noisy inputs does not depend on how many noise "
        "vectors there are.",
        noise_does_not_matter(0.03),
        source=SLIDES,
    ),
    Claim(
        "samples suffice",
        "A step on enough samples is as good as one on the population.",
        over_trials(
            each(within(accuracy(SAMPLED, t, SAMPLES[-1]), low=0.98) for t in (FEW, MANY)),
            RUNS.of,
            "step on samples",
        ),
        "N = 64, d = 128 and 64 samples for each token: accuracy above {low:g}, with the whole "
        "95 % interval over random embeddings",
        source=SLIDES,
    ),
    Claim(
        "few noise vectors are worse from samples",
        "From few samples, few noise vectors are worse than many: the noise of each is drawn "
        "more unevenly.",
        over_trials(
            each(
                above(accuracy(SAMPLED, MANY, n), accuracy(SAMPLED, FEW, n)) for n in SAMPLES[:-1]
            ),
            RUNS.of,
            "two numbers of noise vectors with few samples",
        ),
        "accuracy with the most noise vectors is above that with the fewest by more than {by:g} at "
        "every number of samples but the largest, with the whole 95 % intervals",
        source="an observation of this project on the noisy inputs of the slides",
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    f"{BIRTH}; {SLIDES}, gradient associative memories",
    CLAIMS,
    runs=[OverSeeds("gradient_memory", ["matrix"], seeds=SEEDS)],
    records=[RUNS],
    panels=picture,
    control=NOTHING_TRAINED,
)
