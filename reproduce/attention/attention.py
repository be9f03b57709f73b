"""What figures 14, 15 and 16 share: models of one block, and what is read from their average
attention, the weights with which the last position of a window reads each position.

Attention is in units of uniform attention, 1 / time, so that windows of two lengths have one scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.ground.errors import UserError
from bench.records.schema import RunRecord
from reproduce.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILLION, quiet
from reproduce.judging.claims import Claim, Finding, Test, mean_within
from reproduce.judging.observations import Sample, observe
from reproduce.judging.reproduction import Plan, Reproduction, View
from reproduce.stories.language import PAPER, SEEDS, corpus_line, of_one_corpus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SOURCE = f"{PAPER}, appendix D.4"

MOSAIC, LEARNED, ROPE, ALIBI = "mosaic", "learned", "rope", "alibi"
WORDS = {
    MOSAIC: ("models=memory_mosaic",),
    LEARNED: ("models=gpt2", "models.positions=learned"),
    ROPE: ("models=gpt2", "models.positions=rope"),
    ALIBI: ("models=gpt2", "models.positions=alibi"),
}
LABELS = {
    MOSAIC: "Memory Mosaic",
    LEARNED: "GPT2, learned positions",
    ROPE: "GPT2, RoPE",
    ALIBI: "GPT2, ALiBi",
}
COLOURS = {MOSAIC: BLUE, LEARNED: VERMILLION, ROPE: ORANGE, ALIBI: GREEN}
# Small presets need more heads than they have by themselves, so that heads can be ranked; with so
# few tokens and one block, the smallest also needs more steps before a head looks anywhere.
SCALE = {
    "smoke": ("models.heads=8", "training.steps=1000"),
    "laptop": ("models.heads=8",),
    "gpu": (),
    "paper": (),
}

VARIED = ("models.layers", "models.positions")

TRAINED, EXTENDED = "trained", "extended"  # windows of the training length, and longer ones
RECENT = 8  # the newest eighth is no part of the flat level
PEAK = 2.0  # times the flat level, where the recent peak ends

Heads = NDArray[np.float64]
Value = Callable[[RunRecord], float | None]


def reproduction(
    title: str,
    source: str,
    kinds: Sequence[str],
    draw: Callable[[Sequence[RunRecord], View], Figure],
    curves: Callable[[Sequence[RunRecord]], dict[str, Any]],
    claims: Sequence[Claim],
) -> Reproduction:
    """A figure of one-block models of these kinds."""
    return Reproduction(
        title=title,
        source=source,
        plan=plan(*kinds),
        select=select(*kinds),
        variant=kind_of,
        varied=VARIED,
        draw=draw,
        curves=curves,
        note=corpus_line,
        claims=tuple(claims),
    )


def plan(*kinds: str) -> Callable[[str, int | None], Plan]:
    """One-block models of these kinds, one run a seed."""

    def of_preset(preset: str, seeds: int | None) -> Plan:
        return Plan(
            tuple(
                ("tasks=attention", *WORDS[kind], "models.layers=1", *SCALE[preset], f"seed={seed}")
                for seed in range(seeds or SEEDS)
                for kind in kinds
            )
        )

    return of_preset


def kind_of(record: RunRecord) -> str:
    """ "mosaic", or the positions of a transformer."""
    if record.model == "memory_mosaic":
        return MOSAIC
    return str(record.config["models"].get("positions"))


def select(*kinds: str) -> Callable[[Sequence[RunRecord]], list[RunRecord]]:
    """Runs of one-block models of these kinds.

    Raises (the function returned):
        UserError: they were measured on different text or windows.
    """

    def selected(records: Sequence[RunRecord]) -> list[RunRecord]:
        found = of_one_corpus(
            record
            for record in records
            if record.task == "attention"
            and record.role != "baseline"
            and record.config["models"].get("layers") == 1
            and kind_of(record) in kinds
        )
        for record in found:
            if record.provenance.data.get("windows") != found[0].provenance.data.get("windows"):
                raise UserError(
                    f"{found[0].run_id} and {record.run_id} were measured on different windows, "
                    "and a figure compares models on the same: keep the records of one setting"
                )
        return found

    return selected


def runs(records: Sequence[RunRecord], kind: str) -> list[RunRecord]:
    """Those of one kind, by seed."""
    return sorted((r for r in records if kind_of(r) == kind), key=lambda record: record.seed)


def shown(records: Sequence[RunRecord], kind: str) -> RunRecord | None:
    """The run whose heads are drawn: the first seed with a result."""
    return next((record for record in runs(records, kind) if record.outcome == "ok"), None)


def named(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Records whose labels tell the positions of transformers apart."""
    return [r.model_copy(update={"label": LABELS[kind_of(r)]}) for r in records]


def heads(record: RunRecord, windows: str) -> Heads:
    """Average attention of each head, float64 (heads, time), in units of uniform attention."""
    curves = np.asarray(record.arrays[windows], dtype=np.float64)
    return curves.reshape(-1, curves.shape[-1]) * curves.shape[-1]


def training_length(record: RunRecord) -> int:
    """Tokens of a training window."""
    return int(record.config["tasks"]["length"])


def flat_level(curves: Heads) -> Heads:
    """Median of (heads, time) over all but the newest eighth of the positions, (heads,)."""
    time = curves.shape[-1]
    return np.median(curves[:, : time - time // RECENT], axis=-1)


def peak_widths(curves: Heads) -> list[float]:
    """Distance from the last position at which each of (heads, time) first falls to twice its flat
    level, positions joined by straight lines; 0 where the newest pair is no higher."""
    levels = flat_level(curves)
    return [_width(head, PEAK * level) for head, level in zip(curves, levels, strict=True)]


def _width(head: Heads, level: float) -> float:
    by_distance = head[-2::-1]  # from distance 1 on: a Mosaic does not see the last position itself
    low = np.flatnonzero(by_distance <= level)
    if not len(low):
        return float(len(by_distance))
    first = int(low[0])
    if first == 0:
        return 0.0
    above, below = by_distance[first - 1], by_distance[first]
    return float(first + (above - level) / (above - below))


def coefficients(record: RunRecord) -> list[float]:
    """λ of each head of a Mosaic."""
    return [float(value) for layer in record.arrays["leaky_coefficients"] for value in layer]


def rank_correlation(record: RunRecord) -> float | None:
    """Spearman's correlation over heads of λ and the width of the peak; None if all are equal."""
    from scipy.stats import spearmanr  # a second to import

    widths = peak_widths(heads(record, TRAINED))
    if len(set(widths)) < 2:
        return None
    return float(spearmanr(coefficients(record), widths).statistic)


def recent_peak(windows: str) -> Value:
    """Attention to the newest pair over the flat level, mean over heads."""

    def value(record: RunRecord) -> float:
        curves = heads(record, windows)
        return float(_ratio(curves[:, -2], flat_level(curves), curves.shape[-1]).mean())

    return value


def change_beyond(record: RunRecord) -> float:
    """The factor, up or down, between attention to positions farther away than training windows
    reach and attention to the farther half of those that they reach; geometric mean over heads."""
    curves, reach = heads(record, EXTENDED), training_length(record)
    near = curves[:, -reach : -(reach // 2)].mean(axis=-1)
    far = curves[:, :-reach].mean(axis=-1)
    return float(np.exp(np.abs(np.log(_ratio(far, near, curves.shape[-1]))).mean()))


def oldest_third(record: RunRecord) -> float:
    """Attention to the oldest third of the longer windows, mean over heads."""
    curves = heads(record, EXTENDED)
    return float(curves[:, : curves.shape[-1] // 3].mean())


def metric(name: str) -> Value:
    """A metric of the task."""
    return lambda record: record.metrics["test"].get(name)


def _ratio(a: Heads, b: Heads, most: int) -> Heads:
    """a / b, kept between 1 / most and most: attention may be rounded to zero."""
    tiny = 1 / most**2
    return np.clip((a + tiny) / (b + tiny), 1 / most, most)


def sample(
    records: Sequence[RunRecord],
    kind: str,
    label: str,
    value: Value,
    diverged: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> Sample:
    """A number over seeds. All are between 0 and the number of positions unless ``bounds`` are
    given, and a failed run may have had any of them."""
    found = runs(records, kind)
    if bounds is None:
        bounds = (0.0, most_positions(records))
    return observe(f"{LABELS[kind]}, {label}", found, value, bounds, diverged)


def most_positions(records: Sequence[RunRecord]) -> float:
    """Positions of the longest windows."""
    tasks = [record.config["tasks"] for record in records]
    return float(max((task["length"] * task["extension"] for task in tasks), default=1))


def mosaic_below(label: str, value: Value, border: str) -> Test:
    """The mean over seeds of the Mosaic is below the number ``border``; a diverged run is not."""

    def test(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        found = sample(records, MOSAIC, label, value, diverged=most_positions(records))
        return mean_within(found, high=numbers[border])

    return test


def mosaic_above(label: str, value: Value, border: str) -> Test:
    """The mean over seeds of the Mosaic is above the number ``border``; a diverged run is not."""

    def test(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        found = sample(records, MOSAIC, label, value, diverged=0.0)
        return mean_within(found, low=numbers[border])

    return test


def transformer(kind: str, label: str, value: Value, above: str = "", below: str = "") -> Test:
    """The mean over seeds is above or below a number. Each claim on a transformer says that its
    attention is worse than the Mosaic's, so that a run that failed supports none."""

    def test(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        found = sample(records, kind, label, value)
        low = numbers[above] if above else -np.inf
        high = numbers[below] if below else np.inf
        return mean_within(found, low, high)

    return test


def panel(axes: Axes, records: Sequence[RunRecord], kind: str, windows: str) -> None:
    """Heads of one seed thin, the mean over heads of each seed dotted, uniform attention grey."""
    quiet(axes)
    logarithmic(axes)
    axes.set_title(LABELS[kind], fontsize=9.5)
    axes.set_xlabel("position in the window; the last one reads", fontsize=8.5)
    axes.axhline(1, color=GREY, linewidth=0.8)
    run = shown(records, kind)
    if run is None:
        axes.annotate("no result", (0.5, 0.5), xycoords="axes fraction", ha="center", fontsize=9)
        return
    curves = visible(heads(run, windows))
    label: str | None = f"{len(curves)} heads, seed {run.seed}"
    for head in curves:
        axes.plot(head, color=COLOURS[kind], linewidth=0.8, alpha=0.6, label=label)
        label = None
    label = "mean over heads, every seed"
    for record in runs(records, kind):
        if record.outcome == "ok":
            mean = visible(heads(record, windows).mean(axis=0))
            axes.plot(mean, color=BLACK, linewidth=1.1, linestyle=":", label=label)
            label = None
    axes.set_xlim(-0.02 * curves.shape[-1], 1.02 * curves.shape[-1])
    axes.legend(fontsize=7, edgecolor="none", framealpha=1, loc="upper center")


def logarithmic(axes: Axes) -> None:
    """A logarithmic axis with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")


def visible(curves: Heads) -> Heads:
    """The curves without zeros, for which a logarithmic axis has no place."""
    return np.where(curves > 0, curves, np.nan)


def curves(windows: str) -> Callable[[Sequence[RunRecord]], dict[str, Any]]:
    """What is drawn, with the numbers read from it: the heads of one seed, the means of all."""

    def of_records(records: Sequence[RunRecord]) -> dict[str, Any]:
        drawn = {kind: shown(records, kind) for kind in WORDS}
        return {
            "x": "position in the window",
            "y": "average attention of the last position, in units of uniform attention",
            "heads": {
                run.run_id: heads(run, windows).round(5).tolist() for run in drawn.values() if run
            },
            "runs": {
                record.run_id: {
                    "kind": LABELS[kind_of(record)],
                    "seed": record.seed,
                    "outcome": record.outcome,
                    "cause": record.cause,
                    **_numbers(record, windows),
                }
                for record in records
            },
        }

    return of_records


def _numbers(record: RunRecord, windows: str) -> dict[str, Any]:
    if record.outcome != "ok":
        return {}
    numbers: dict[str, Any] = {
        "mean_over_heads": heads(record, windows).mean(axis=0).round(5).tolist(),
        "flat_levels": flat_level(heads(record, windows)).tolist(),
        "metrics": record.metrics["test"],
    }
    if kind_of(record) == MOSAIC:
        numbers["leaky_coefficients"] = coefficients(record)
        numbers["peak_widths"] = peak_widths(heads(record, windows))
    if windows == EXTENDED:
        numbers["change_beyond_training_length"] = change_beyond(record)
        numbers["oldest_third"] = oldest_third(record)
    return numbers
