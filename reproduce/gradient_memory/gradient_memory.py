"""Gradients as memories: both lemmas, and what one step can store."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.records.schema import RunRecord
from reproduce.drawing.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILLION,
    frame,
    new_figure,
    quiet,
)
from reproduce.judging.claims import (
    CONTRADICTED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Finding,
    Tolerance,
    difference_above,
    every,
    mean_within,
)
from reproduce.judging.reproduction import Plan, Reproduction, View
from reproduce.judging.trials import in_seeds, missing, pooled, sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Gradients as memories: what one gradient step stores"
BIRTH = "Bietti et al. 2023, Birth of a Transformer (arXiv 2306.00802)"
SLIDES = "Bietti 2024, Associative memories as a tractable building block in transformers (slides)"
SOURCE = f"{BIRTH}; {SLIDES}, gradient associative memories"
CLEAN = re.compile(r"accuracy/N=(\d+),d=(\d+)")
NOISY = re.compile(r"accuracy/T=(\d+),N=(\d+),d=(\d+)")
SAMPLED = re.compile(r"accuracy/T=(\d+),n=(\d+)")
COLOURS = (BLUE, GREEN, ORANGE, VERMILLION, PURPLE)
STYLES = ("-", "--", ":")
Accuracies = dict[tuple[int, ...], list[float]]


def plan(preset: str, seeds: int | None) -> Plan:
    """One measurement for each seed; five leave intervals that the noise can be judged by."""
    words = ("tasks=gradient_memory", "models=matrix")
    planned = seeds or (1 if preset == "smoke" else 5)
    return Plan(runs=tuple((*words, f"seed={seed}") for seed in range(planned)))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs of the matrix, by run id."""
    own = [r for r in records if (r.task, r.model) == ("gradient_memory", "matrix")]
    return sorted((r for r in own if r.role != "baseline"), key=lambda record: record.run_id)


def measured(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs with a result."""
    return [record for record in records if record.outcome == "ok"]


def accuracies(records: Sequence[RunRecord], kind: re.Pattern[str]) -> Accuracies:
    """(N, d), (T, N, d) or (T, n) -> accuracy of every trial of all seeds."""
    found = measured(records)
    names = sorted({name for record in found for name in record.arrays})
    matches = [(name, match) for name in names if (match := kind.fullmatch(name))]
    keyed = {tuple(map(int, match.groups())): pooled(found, name) for name, match in matches}
    return dict(sorted(keyed.items()))


def lemma_is_exact(
    records: Sequence[RunRecord], numbers: Mapping[str, float], name: str
) -> Finding:
    """The largest difference of an entry, over all runs."""
    found = measured(records)
    if not found:
        return missing("measured lemma", records)
    gap = max(record.metrics["test"][f"gap/{name}"] for record in found)
    verdict = REPRODUCED if gap < numbers["gap"] else CONTRADICTED
    return Finding(verdict, f"largest difference of an entry {gap:.1e}", len(found))


def of_scores(records: Sequence[RunRecord], kind: str) -> dict[int, float]:
    """N -> ``target``, ``other`` or ``spread`` of the scores, mean over seeds."""
    beginning = f"{kind}/N="
    found: dict[int, list[float]] = {}
    for record in measured(records):
        for name, value in record.metrics["test"].items():
            if name.startswith(beginning):
                found.setdefault(int(name[len(beginning) :]), []).append(value)
    return {tokens: math.fsum(found[tokens]) / len(found[tokens]) for tokens in sorted(found)}


def scores_are_predicted(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Means of the scores for right and wrong classes at the largest dimension."""
    right = {n: abs(v - 1 + 1 / n) for n, v in of_scores(records, "target").items()}
    wrong = {n: abs(v + 1 / n) * n for n, v in of_scores(records, "other").items()}
    if not right or not wrong:
        return missing("mean of scores", records)
    found = measured(records)
    trials = sum(record.config["tasks"]["trials"] for record in found)
    # The score of a right class is |u|² |v|² and N products of two overlaps, equal in pairs.
    d = largest_dimension(found)
    errors = {n: math.sqrt((4 / d + 2 * n / d**2) / (n * trials)) for n in right}
    beyond = {n: (gap - numbers["target"]) / errors[n] for n, gap in right.items()}
    far, near = max(right, key=right.__getitem__), max(wrong, key=wrong.__getitem__)
    text = (
        f"largest distance of right classes {right[far]:.4f} (N = {far}, standard error "
        f"{errors[far]:.4f}), of wrong ones {wrong[near]:.3f} / N (N = {near})"
    )
    verdict = REPRODUCED if max(beyond.values()) <= 0 else UNDECIDED
    if wrong[near] > numbers["other"] or max(beyond.values()) > numbers["errors"]:
        verdict = CONTRADICTED
    return Finding(verdict, text, len(found))


def spread_is_predicted(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Standard deviation of the scores for wrong classes at the largest dimension."""
    spreads = of_scores(records, "spread")
    if not spreads:
        return missing("spread of scores", records)
    found = measured(records)
    laws = {tokens: spread_law(tokens, largest_dimension(found)) for tokens in spreads}
    gaps = [abs(spread - laws[tokens]) for tokens, spread in spreads.items()]
    listed = [f"{v:.4f} ({laws[n]:.4f}) at N = {n}" for n, v in spreads.items()]
    verdict = REPRODUCED if max(gaps) <= numbers["gap"] else CONTRADICTED
    return Finding(verdict, f"measured (predicted): {', '.join(listed)}", len(found))


def spread_law(tokens: int, dimension: int) -> float:
    """√(N/d² + 2/d): N products of two random overlaps, and two overlaps that stand alone."""
    return math.sqrt(tokens / dimension**2 + 2 / dimension)


def largest_dimension(records: Sequence[RunRecord]) -> int:
    """The one at which scores are measured."""
    return max(max(record.config["tasks"]["dimensions"]) for record in records)


def one_step_suffices(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Every N and d inside the rule."""
    inside = {
        key: values
        for key, values in accuracies(records, CLEAN).items()
        if key[1] >= numbers["dimension"]
        and key[1] ** 2 >= numbers["factor"] * key[0] * math.log(key[0])
    }
    if not inside:
        return missing("N and d inside the rule", records)
    tests = []
    for (tokens, dimension), values in inside.items():
        label = f"accuracy at N = {tokens}, d = {dimension}"
        found = sample(label, values)
        tests.append(partial(mean_within, found, numbers["accuracy"], math.inf))
    return in_seeds(every(tests), measured(records))


def noise_does_not_matter(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The most against the fewest noise vectors, at every N and d."""
    found = accuracies(records, NOISY)
    noises = sorted({noise for noise, *_ in found})
    if len(noises) < 2:
        return missing("two numbers of noise vectors", records)
    few, many = noises[0], noises[-1]
    samples = {}
    for cell in sorted({key[1:] for key in found}):
        gaps = np.subtract(found[few, *cell], found[many, *cell])
        samples[cell] = sample(f"N = {cell[0]}, d = {cell[1]}:", gaps.tolist())
    tests = [partial(mean_within, one, -numbers["gap"], numbers["gap"]) for one in samples.values()]
    finding = every(tests)
    worst = max(samples.values(), key=lambda one: abs(float(np.mean(one.values))))
    gap = mean_within(worst, -numbers["gap"], numbers["gap"]).evidence
    text = f"T = {few} minus T = {many}, the largest of {len(samples)} cells: {gap}"
    return in_seeds(replace(finding, evidence=text), measured(records))


def samples_suffice(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The most samples, at every number of noise vectors."""
    found = accuracies(records, SAMPLED)
    if not found:
        return missing("step on samples", records)
    tests = []
    for noises in sorted({noise for noise, _ in found}):
        count = max(n for noise, n in found if noise == noises)
        one = sample(f"accuracy at T = {noises}, n = {count:,}", found[noises, count])
        tests.append(partial(mean_within, one, numbers["accuracy"], math.inf))
    return in_seeds(every(tests), measured(records))


def few_vectors_are_noisier(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """At every number of samples but the largest, where both are nearly perfect."""
    found = accuracies(records, SAMPLED)
    noises = sorted({noise for noise, _ in found})
    counts = sorted({n for _, n in found})[:-1]
    if len(noises) < 2 or not counts:
        return missing("two numbers of noise vectors with few samples", records)
    tests = []
    for count in counts:
        many, few = (
            sample(f"T = {noise}, n = {count:,}", found[noise, count])
            for noise in (noises[-1], noises[0])
        )
        tests.append(partial(difference_above, many, few, numbers["margin"]))
    return in_seeds(every(tests), measured(records))


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """Accuracy without noise, with noise, and from samples; spread of the scores."""
    figure = new_figure(13, 4)
    panels = figure.subplots(1, 4)
    for axes in panels.flat:
        quiet(axes)
    clean, noisy = accuracies(records, CLEAN), accuracies(records, NOISY)
    _lines(panels[0], clean, "N = {}", "d", "one step, without noise")
    _lines(panels[1], noisy, "T = {}, N = {}", "d", "one step, noisy inputs")
    _lines(panels[2], accuracies(records, SAMPLED), "T = {}", "n", "N = 64, d = 128, n samples")
    _spread(panels[3], records)
    panels[0].set_ylabel("accuracy", fontsize=8.5)
    frame(figure, TITLE, records, view)
    return figure


def _lines(axes: Axes, found: Accuracies, label: str, x: str, title: str) -> None:
    groups: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    for key, values in found.items():
        groups.setdefault(key[:-1], []).append((key[-1], sum(values) / len(values)))
    last = list(dict.fromkeys(group[-1] for group in groups))
    first = list(dict.fromkeys(group[0] for group in groups))
    for group, points in groups.items():
        axes.plot(
            *zip(*points, strict=True),
            color=COLOURS[last.index(group[-1]) % len(COLOURS)],
            linestyle=STYLES[first.index(group[0]) % len(STYLES) if len(group) > 1 else 0],
            marker="o",
            markersize=3,
            label=label.format(*group),
        )
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel(x, fontsize=8.5)
    axes.set_title(title, fontsize=9)
    if groups:
        axes.legend(fontsize=6.5, frameon=False)


def _spread(axes: Axes, records: Sequence[RunRecord]) -> None:
    title = "spread of wrong classes’ scores"
    if points := of_scores(records, "spread"):
        dimension = largest_dimension(measured(records))
        law = [spread_law(tokens, dimension) for tokens in points]
        axes.plot(
            list(points), list(points.values()), "o", color=BLUE, markersize=4, label="measured"
        )
        axes.plot(list(points), law, color=BLACK, linestyle=":", label="√(N/d² + 2/d)")
        axes.legend(fontsize=6.5, frameon=False)
        title += f", d = {dimension}"
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 0.2)
    axes.set_xlabel("N", fontsize=8.5)
    axes.set_title(title, fontsize=9)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """All metrics of every run, and accuracies by trial."""
    return {
        record.run_id: {"metrics": record.metrics.get("test", {}), "trials": record.arrays}
        for record in records
    }


def _lemma(title: str, source: str, sentence: str, name: str) -> Claim:
    return Claim(
        title,
        source,
        sentence,
        Tolerance("every entry equal within {gap:g} in float64", {"gap": 1e-12}),
        partial(lemma_is_exact, name=name),
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
        SLIDES,
        "After one step from zero the score of class k is (η/N)(1{f(z) = k} - 1/N), nearly.",
        Tolerance(
            "means over tokens, trials and classes at the largest d, times N/η: wrong classes "
            "within {other:g}/N of -1/N, so that the 1/N is seen; right classes within {target:g} "
            "of 1 - 1/N, their standard error at N = 32 over 20 draws of the embeddings, √(4/d + "
            "2N/d²)/√(20 N); up to {errors:g} standard errors beyond that is left open",
            {"target": 0.005, "other": 0.25, "errors": 3.0},
        ),
        scores_are_predicted,
    ),
    Claim(
        "spread of the scores after one step",
        f"estimate of this project for the Gaussian embeddings of the experiment; {SLIDES}",
        "The scores of wrong classes spread by √(N/d² + 2/d): 0.094 for N = 64 and 0.125 for "
        "N = 512 at d = 256.",
        Tolerance(
            "standard deviation over tokens, trials and wrong classes at the largest d, times N/η: "
            "within {gap:g} of it for every N",
            {"gap": 0.01},
        ),
        spread_is_predicted,
    ),
    Claim(
        "one step suffices",
        SLIDES,
        "One step has near-perfect accuracy where the embeddings are nearly orthogonal.",
        Tolerance(
            "accuracy above {accuracy:g} wherever d² ≥ {factor:g} N ln N and d ≥ {dimension:g}, "
            "with the whole 95 % interval over random embeddings",
            {"accuracy": 0.99, "factor": 6.0, "dimension": 128},
        ),
        one_step_suffices,
    ),
    Claim(
        "accuracy does not depend on the noise",
        SLIDES,
        "The accuracy of a population step on noisy inputs does not depend on how many noise "
        "vectors there are.",
        Tolerance(
            "at every N and d the difference of accuracies with the fewest and with the most lies "
            "within {gap:g} of zero with its whole 95 % interval over random embeddings; "
            "contradicted if one of them, corrected for the number of cells, lies beyond",
            {"gap": 0.03},
        ),
        noise_does_not_matter,
    ),
    Claim(
        "samples suffice",
        SLIDES,
        "A step on enough samples is as good as one on the population.",
        Tolerance(
            "N = 64, d = 128 and 64 samples for each token: accuracy above {accuracy:g}, with the "
            "whole 95 % interval over random embeddings",
            {"accuracy": 0.98},
        ),
        samples_suffice,
    ),
    Claim(
        "few noise vectors are worse from samples",
        "an observation of this project on the noisy inputs of the slides",
        "From few samples, few noise vectors are worse than many: the noise of each is drawn "
        "more unevenly.",
        Tolerance(
            "accuracy with the most noise vectors is above that with the fewest by more than "
            "{margin:g} at every number of samples but the largest, with the whole 95 % intervals",
            {"margin": 0.0},
        ),
        few_vectors_are_noisier,
    ),
)

REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=plan,
    select=select,
    draw=draw,
    curves=curves,
    claims=CLAIMS,
)
