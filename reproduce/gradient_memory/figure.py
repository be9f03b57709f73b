"""What records hold about one gradient step, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from bench.records.schema import RunRecord
from ground.statistics import SHARE, mean_interval, mean_of
from judging.grammar import Records, Runs, metric
from judging.trials import finished, pooled
from pictures.panels import Axis, Panel, Picture, Row, Trace
from reproduce.drawing.traces import over_trials

TITLE = "Gradients as memories: what one gradient step stores"
RUNS = Runs("one gradient step", "gradient_memory", "matrix")
CLEAN, NOISY, SAMPLED = "N = {}, d = {}", "T = {}, N = {}, d = {}", "T = {}, n = {}"
SAMPLED_TOKENS = 64
COLOURS = ("blue", "green", "orange", "vermillion", "purple")


def measured(records: Records) -> list[RunRecord]:
    """Runs with a result."""
    return finished(RUNS.of(records))


def listed(records: Records, name: str) -> list[int]:
    """A list of the settings, such as the dimensions; empty where nothing was measured."""
    return [x for record in measured(records)[:1] for x in sorted(record.config["tasks"][name])]


def accuracies(records: Records, form: str, *key: int) -> list[float]:
    """Of every trial of all seeds."""
    return pooled(measured(records), f"accuracy/{form.format(*key)}".replace(" ", ""))


def of_scores(records: Records, kind: str) -> dict[int, float]:
    """N -> ``target``, ``other`` or ``spread`` of the scores, mean over seeds."""
    found = {
        n: [v for r in measured(records) if (v := metric(f"{kind}/N={n}")(r)) is not None]
        for n in listed(records, "tokens")
    }
    return {n: mean_of(values) for n, values in found.items() if values}


def spread_law(tokens: int, dimension: int) -> float:
    """√(N/d² + 2/d): N products of two random overlaps, and two overlaps that stand alone."""
    return math.sqrt(tokens / dimension**2 + 2 / dimension)


def panels(records: Records) -> Picture:
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
    return Picture(TITLE, [Row(row, height=3.6)], width=13)


def _accuracies(records: Records, title: str, form: str, lists: Sequence[Sequence[int]]) -> Panel:
    """Against the last of some lists; a line for each combination of the others."""
    *others, x = lists
    label, _, last = form.removesuffix(" = {}").rpartition(", ")
    traces = [
        over_trials(
            label.format(*group),
            {at: accuracies(records, form, *group, at) for at in x},
            partial(mean_interval, kind=SHARE),
            colour=COLOURS[others[-1].index(group[-1]) % len(COLOURS)],
            line="dashed" if len(group) > 1 and group[0] != others[0][0] else "",
        )
        for group in product(*others)
    ]
    return Panel(
        title,
        x=Axis(last, scale="log2"),
        y=Axis("accuracy", limits=(0, 1.05)),
        traces=[replace(trace, seeds={}) for trace in traces],  # a hundred trials
        legend="best",
    )


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
