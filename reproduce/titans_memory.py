"""Memory that learns while it is used: Titans' neural memory beside every other memory here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.claims import Claim, Finding, Tolerance, difference_above, every, mean_within
from bench.observations import Sample, observe
from bench.records import RunRecord
from bench.reproduction import Plan, Reproduction, View
from bench.statistics import mean_interval
from reproduce.presets import preset_settings
from reproduce.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LIGHT,
    ORANGE,
    PURPLE,
    VERMILLION,
    frame,
    new_figure,
    quiet,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Memory at test time: what is kept, forgotten, overwritten, and known to be unknown"
TITANS = "Behrouz, Zhong and Mirrokni 2025, Titans (arXiv 2501.00663)"
README = 'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans)'
OWN = "the battery of this project; what theory says of the memory"
TASK = "test_time_memory"
SEEDS = 5

HEBB, DELTA, RIDGE = "outer_product", "delta_rule", "ridge"
KERNEL, NEAREST = "kernel", "nearest_neighbour"
NEURAL, LINEAR = "neural_memory", "neural_memory_linear"
WEIGHTS = "stored_in_weights"
LOOKS = {  # two forms of one kind share a colour
    HEBB: (ORANGE, "-"),
    DELTA: (BLUE, "-"),
    "gated_delta": (BLUE, "--"),
    RIDGE: (GREEN, "-"),
    "random_features": (GREEN, "--"),
    KERNEL: (PURPLE, "-"),
    "modern_hopfield": (PURPLE, "--"),
    "classical_hopfield": (GREY, "--"),
    NEAREST: (BLACK, ":"),
    LINEAR: (VERMILLION, "--"),
    NEURAL: (VERMILLION, "-"),
    WEIGHTS: (GREY, "-"),
}
MOMENTUM = ("models.momentum=0.9",)
FORGETTING = ("models.rate=0.5", "models.momentum=0.0", "models.decay=0.02")
NO_REPLAY = ("models.replay=0.0",)
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "large momentum": (LINEAR, MOMENTUM),
    "forgetting": (LINEAR, FORGETTING),
    "no forgetting": (LINEAR, FORGETTING[:2]),
    "no replay": (WEIGHTS, NO_REPLAY),
}
TITLES = {
    "recall_by_count": ("recall of all that was written", "items written"),
    "recall_by_age": ("recall by age", "age (1: oldest)"),
    "recall_by_noise": ("recall by noisy keys", "noise σ"),
}
BARS = {
    "overwrite_new": "half of the keys rewritten:\nshare answered with the new value",
    "backward_transfer": "recall of a batch lost by\nlater batches (0: none)",
    "auroc": "seen against unseen keys:\narea under the curve of confidence",
}


def plan(preset: str, seeds: int | None) -> Plan:
    """Every memory and the settings that claims compare, over seeds, on random vectors."""
    count = seeds or (3 if preset == "smoke" else SEEDS)
    settings = [(name, ()) for name in LOOKS] + list(VARIANTS.values())
    runs = tuple(
        (f"tasks={TASK}", f"models={name}", *words, f"seed={seed}")
        for name, words in settings
        for seed in range(count)
    )
    return Plan(runs=runs)


def variant_of(record: RunRecord) -> str:
    """The name of a setting that a claim compares; "" for the memory as it comes."""
    for name, (model, words) in VARIANTS.items():
        changes = dict(word.removeprefix("models.").split("=") for word in words)
        has = record.config["models"]
        if record.model == model and all(has[k] == float(v) for k, v in changes.items()):
            if name == "no forgetting" and has["decay"] != 0:
                continue
            return name
    return ""


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs on random vectors with the settings of their preset or of a claim. If there is none,
    those that the user changed."""
    found = [
        record
        for record in records
        if record.task == TASK
        and record.role != "baseline"
        and record.config["tasks"]["material"] == "vectors"
    ]
    own = [record for record in found if _as_preset(record)]
    return sorted(own or found, key=lambda record: record.run_id)


def _as_preset(record: RunRecord) -> bool:
    settings = preset_settings(TASK, record.model, record.preset)
    same_task = record.config["tasks"] == settings["tasks"]
    return same_task and (variant_of(record) != "" or record.config["models"] == settings["models"])


def runs_of(records: Sequence[RunRecord], model: str, variant: str = "") -> list[RunRecord]:
    """The runs of a memory in one setting, by seed."""
    found = [r for r in records if r.model == model and variant_of(r) == variant]
    return sorted(found, key=lambda record: record.seed)


def sample(
    records: Sequence[RunRecord],
    model: str,
    metric: str,
    variant: str = "",
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Sample:
    """A metric on the test split over seeds."""
    runs = runs_of(records, model, variant)
    label = f"{runs[0].label if runs else model}{f', {variant}' if variant else ''}: {metric}"
    return observe(label, runs, lambda record: record.metrics.get("test", {}).get(metric), bounds)


def within(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    models: Sequence[str],
    metric: str,
    variant: str = "",
) -> Finding:
    """The mean of a metric lies between "low" and "high" for each of the memories."""
    low, high = numbers.get("low", float("-inf")), numbers.get("high", float("inf"))
    return every(
        [
            partial(mean_within, sample(records, m, metric, variant, (-1.0, 1.0)), low, high)
            for m in models
        ]
    )


def oldest_first(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The delta rule has the newest quarter and not the oldest; the sum forgets alike."""
    newest = sample(records, DELTA, "recall_newest_quarter")
    oldest = sample(records, DELTA, "recall_oldest_quarter")
    both = [sample(records, HEBB, f"recall_{age}_quarter") for age in ("newest", "oldest")]
    return every(
        [
            partial(difference_above, newest, oldest, numbers["gap"]),
            partial(difference_above, both[1], both[0], -numbers["even"]),
        ]
    )


def most_fragile(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """With noisy keys ridge recalls less than each other memory that recalls clean keys."""
    del numbers
    ridge = sample(records, RIDGE, "recall_noise_1")
    others = (HEBB, DELTA, KERNEL, NEAREST, LINEAR, NEURAL)
    return every(
        [
            partial(difference_above, sample(records, name, "recall_noise_1"), ridge, 0.0)
            for name in others
        ]
    )


def higher(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    metric: str,
    better: tuple[str, str],
    worse: tuple[str, str],
) -> Finding:
    """A metric of one memory in one setting is above that of another."""
    a, b = (
        sample(records, model, metric, variant, (-1.0, 1.0)) for model, variant in (better, worse)
    )
    return difference_above(a, b, numbers["margin"])


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """Three curves and three rows of bars."""
    figure = new_figure(11, 7.2)
    panels = figure.subplots(2, 3)
    for axes, (curve, (title, x)) in zip(panels[0], TITLES.items(), strict=True):
        quiet(axes)
        _curves(axes, records, curve)
        axes.set_title(title, fontsize=9.5)
        axes.set_xlabel(x, fontsize=8.5)
        axes.set_ylim(-0.03, 1.03)
    panels[0][0].set_xscale("log", base=2)
    panels[0][1].invert_xaxis()
    for axes, (metric, title) in zip(panels[1], BARS.items(), strict=True):
        quiet(axes)
        _bars(axes, records, metric, names=axes is panels[1][0])
        axes.set_title(title, fontsize=9.5)
    handles = panels[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=7.5, frameon=False)
    frame(figure, TITLE, records, view)
    return figure


def _mean_curve(runs: Sequence[RunRecord], name: str) -> tuple[list[float], list[float]]:
    curves = [run.curves[name] for run in runs if name in run.curves]
    if not curves:
        return [], []
    columns = zip(*(curve.y for curve in curves), strict=True)
    return curves[0].x, [sum(column) / len(curves) for column in columns]


def _curves(axes: Axes, records: Sequence[RunRecord], name: str) -> None:
    for model, (colour, line) in LOOKS.items():
        runs = runs_of(records, model)
        if runs:
            x, y = _mean_curve(runs, name)
            look: dict[str, Any] = {"color": colour, "linestyle": line, "linewidth": 1.3}
            axes.plot(x, y, marker="o", markersize=2.5, label=runs[0].label, **look)


def _bars(axes: Axes, records: Sequence[RunRecord], metric: str, names: bool) -> None:
    models = [model for model in LOOKS if runs_of(records, model)]
    for row, model in enumerate(models):
        values = sample(records, model, metric, bounds=(-1.0, 1.0)).values
        found = mean_interval(list(values))
        if found.mean is None:
            continue
        axes.barh(row, found.mean, color=LOOKS[model][0], height=0.6, alpha=0.85)
        if found.interval is not None:
            axes.hlines(row, *found.interval, color=BLACK, linewidth=1)
    axes.set_yticks(
        range(len(models)), [runs_of(records, m)[0].label for m in models] if names else []
    )
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.axvline(0, color=LIGHT, linewidth=0.8)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Every curve as a mean over seeds, and every metric with its interval."""
    found: dict[str, Any] = {}
    for model in LOOKS:
        for variant in ["", *(v for v, (m, _) in VARIANTS.items() if m == model)]:
            runs = runs_of(records, model, variant)
            if not runs:
                continue
            names = sorted({name for run in runs for name in run.metrics.get("test", {})})
            means = {
                name: mean_interval([run.metrics.get("test", {}).get(name) for run in runs])
                for name in names
            }
            found[f"{model} {variant}".strip()] = {
                "seeds": [run.seed for run in runs],
                "metrics": {
                    name: {"mean": m.mean, "interval": m.interval and list(m.interval)}
                    for name, m in means.items()
                },
                "curves": {
                    name: dict(zip("xy", _mean_curve(runs, name), strict=True)) for name in TITLES
                },
            }
    return found


def table(records: Sequence[RunRecord]) -> str:
    """The battery, a row for each memory."""
    columns = {
        "recall": "recall, middle count",
        "items_at_0.99": "items at 0.99",
        "recall_oldest_quarter": "oldest quarter",
        "recall_newest_quarter": "newest quarter",
        "noise_area": "area over noise",
        "overwrite_new": "overwritten: new",
        "overwrite_stale": "stale",
        "backward_transfer": "backward transfer",
        "tracking_latest": "latest value",
        "auroc": "AUROC",
        "risk_coverage_area": "risk-coverage",
        "calibration_error": "calibration error",
        "state_bytes": "bytes",
    }
    lines = [f"| memory | {' | '.join(columns.values())} |", "|---|" + "---|" * len(columns)]
    for model in LOOKS:
        runs = runs_of(records, model)
        if not runs:
            continue
        cells = [runs[0].label]
        for metric in columns:
            mean = mean_interval([r.metrics.get("test", {}).get(metric) for r in runs]).mean
            shown = f"{mean:,.0f}" if metric == "state_bytes" and mean else None
            cells.append("none" if mean is None else shown or f"{mean:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


REPRODUCTION = Reproduction(
    title=TITLE,
    source=f"{TITANS}; {README}",
    plan=plan,
    select=select,
    variant=variant_of,
    draw=draw,
    curves=curves,
    table=table,
    claims=(
        Claim(
            "sums cannot overwrite",
            OWN,
            "A sum of outer products, kernel regression and ridge answer a rewritten key with its "
            "old value about as often as with the new one.",
            Tolerance(
                "the share of new values lies in {low:g} to {high:g} for each, with its whole 95 % "
                "interval over seeds",
                {"low": 0.25, "high": 0.75},
            ),
            partial(within, models=(HEBB, KERNEL, RIDGE), metric="overwrite_new"),
        ),
        Claim(
            "the delta rule overwrites",
            OWN,
            "The delta rule and retrieval answer a rewritten key with its new value.",
            Tolerance("the share of new values is at least {low:g}", {"low": 0.95}),
            partial(within, models=(DELTA, NEAREST), metric="overwrite_new"),
        ),
        Claim(
            "the delta rule forgets the oldest first",
            OWN,
            "After one pass the delta rule has lost the oldest pairs and holds the newest; a sum "
            "loses all ages alike.",
            Tolerance(
                "recall of the newest quarter is more than {gap:g} above that of the oldest for "
                "the delta rule; for the sum the oldest is at most {even:g} below the newest",
                {"gap": 0.4, "even": 0.1},
            ),
            oldest_first,
        ),
        Claim(
            "ridge is the most fragile",
            OWN,
            "Ridge regression recalls exactly, and is the first to fail when keys are noisy.",
            Tolerance("at σ = 1 each other memory recalls more, by Welch's interval"),
            most_fragile,
        ),
        Claim(
            "similarity knows the unseen",
            OWN,
            "The similarity of query and key tells seen from unseen keys.",
            Tolerance("the area under the curve is at least {low:g}", {"low": 0.95}),
            partial(within, models=(KERNEL, NEAREST), metric="auroc"),
        ),
        Claim(
            "momentum and random writes",
            OWN,
            "On writes without order a large momentum lowers the recall of the linear neural "
            "memory: gradients of the past are added to keys of today.",
            Tolerance(
                "recall at momentum 0.5 is more than {margin:g} above that at 0.9", {"margin": 0.1}
            ),
            partial(higher, metric="recall", better=(LINEAR, ""), worse=(LINEAR, "large momentum")),
        ),
        Claim(
            "forgetting trades old for new",
            f"{TITANS}, equations 13 and 14",
            "Decay of the weights erases the oldest pairs.",
            Tolerance(
                "recall of the oldest quarter without decay is more than {margin:g} above that "
                "with a decay of 0.02 a step",
                {"margin": 0.0},
            ),
            partial(
                higher,
                metric="recall_oldest_quarter",
                better=(LINEAR, "no forgetting"),
                worse=(LINEAR, "forgetting"),
            ),
        ),
        Claim(
            "weights forget without replay",
            README,
            "A memory in the weights of a perceptron recalls a first batch significantly less once "
            "it was trained on others.",
            Tolerance(
                "backward transfer with replay of all is more than {margin:g} above that without",
                {"margin": 0.3},
            ),
            partial(
                higher,
                metric="backward_transfer",
                better=(WEIGHTS, ""),
                worse=(WEIGHTS, "no replay"),
            ),
        ),
    ),
)
