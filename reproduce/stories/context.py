"""What models get from their context on the encyclopedia, with the same words to predict."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from bench.records.numbers import items_of
from bench.records.schema import RunRecord
from core.statistics import LOSS, REAL, mean_interval, mean_of
from reproduce.claims.grammar import (
    Drawn,
    Ready,
    Records,
    Rule,
    difference,
    each,
    metric,
    told,
    within,
)
from reproduce.claims.observations import Sample, observe
from reproduce.claims.verdicts import UNDECIDED, Finding, not_asked
from reproduce.plotting import models
from reproduce.plotting.panels import Axis, Panel, Trace
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories import language, positions
from reproduce.stories.language import GPT2

ROPE, CONVOLUTION = "gpt2_rope", "conv_attention"
MODELS = (MOSAIC, GPT2, ROPE, CONVOLUTION, "mamba", "s4d", "lstm")
FALLEN = 0.03  # nats: a transformer that never fell does not flatten
FLAT = 0.05  # nats
NEAR = 128  # tokens of context after which the transformer is said to gain no more


def by_context(record: RunRecord) -> list[tuple[int, float]]:
    """Tokens of context, and the loss of the same targets after them; none where not measured."""
    losses = []
    for name, loss in record.metrics.get("test", {}).items():
        if match := re.fullmatch(r"context_(\d+)_loss", name):
            losses.append((int(match[1]), loss))
    return sorted(losses)


def gained(model: str, before: str, after: str) -> Drawn:
    """How much less a model loses of the same targets: ``before`` minus ``after``, two metrics of
    the same articles."""
    runs, label = positions.of_model(model), models.label(model)

    def draw(records: Records) -> Sample:
        of_model = runs.of(records)

        def read(record: RunRecord) -> float | None:
            values = [metric(f"{name}_loss")(record) for name in (before, after)]
            return None if None in values else values[0] - values[1]  # type: ignore[operator]

        items = items_of(of_model, f"{before}_loss", minus=f"{after}_loss")
        return observe(label, of_model, read, REAL, items=items)

    return Drawn(label, draw)


def same_targets(records: Records) -> Panel:
    """The same targets with more and more context, and (×) with that of another article."""
    traces: list[Trace] = []
    for model in MODELS:
        runs = list(filter(by_context, positions.of_model(model).of(records)))
        if not runs:
            continue
        label, losses = models.label(model), defaultdict(list)
        for run in runs:
            for context, loss in by_context(run):
                losses[context].append(loss)
        traces.append(_over_seeds(label, losses, colour=model))
        other = {max(losses): [run.metrics["test"]["other_context_loss"] for run in runs]}
        look: Any = {"mark": "dots", "marker": "cross", "legend": "", "colour": model}
        traces.append(_over_seeds(f"{label}, another article", other, **look))
    title = "the same 64 targets of each article (×: after the beginning of another)"
    x = Axis("tokens of the article before the first of them")
    return Panel(title, x, Axis("loss, nats per token"), traces)


def _over_seeds(name: str, losses: Mapping[int, list[float]], **look: Any) -> Trace:
    y, intervals = [], []
    for values in losses.values():
        mean = mean_interval(values, LOSS)
        y.append(mean.mean)
        intervals.append(mean.interval)
    return Trace(name, list(losses), y, intervals, **look)


def reads_context(model: str) -> Rule:
    """The same targets cost less after their own beginning than after another article's, and by
    more than ``FLAT`` more so than the transformer's do."""

    def rules(records: Records) -> list[Rule]:
        whole = whole_context(records)
        ours, theirs = (gained(reader, "other_context", whole) for reader in (model, GPT2))
        return [difference(ours, theirs, low=FLAT)]

    return told(each(rules), after=lambda r: f"; {repeats(r)}" if model == MOSAIC else "")


def flat_for_same_targets(model: str) -> Rule:
    """The same targets cost less with some context, and hardly less with more of it."""

    def rules(records: Records) -> list[Rule]:
        near, whole = f"context_{NEAR}", whole_context(records)
        return [
            within(gained(model, "context_0", near), low=FALLEN),
            within(gained(model, near, whole), high=FLAT),
        ]

    return each(rules)


def whole_context(records: Records) -> str:
    """The metric of the targets with all that a window has before them."""
    return f"context_{max(context for record in records for context, _ in by_context(record))}"


def _losses_of_repeats(run: RunRecord) -> tuple[float | None, float | None]:
    """Two mean losses of a run: where random tokens stand first, and where they stand again."""
    return metric("repeat_first_loss")(run), metric("repeat_second_loss")(run)


def repeats(records: Records) -> str:
    """Whether each model looks up what followed a token before: random tokens read twice."""
    clauses = []
    for model in MODELS:
        runs = positions.of_model(model).of(records)
        pairs = [_losses_of_repeats(run) for run in runs]
        losses = [(a, b) for a, b in pairs if a is not None and b is not None]
        if losses:
            first, second = (mean_of(side) for side in zip(*losses, strict=True))
            clauses.append(f"{models.label(model)} {first:.2f} → {second:.2f}")
    return f"random tokens, then the same again: {', '.join(clauses)}" if clauses else ""


def measured_contexts(least: int) -> Ready:
    """Ready where articles were long enough to score the same targets with so much context."""

    def ready(records: Records) -> Finding | None:
        measured = [record for record in language.trained(records) if record.metrics]
        if not measured:
            return Finding(UNDECIDED, "no runs", 0)
        if any(context >= least for run in measured for context, _ in by_context(run)):
            return None
        reason = f"no windows hold {least} tokens before their targets: use preset=laptop"
        return not_asked("the same targets with more context", reason, "laptop")

    return ready
