"""What gradient steps weigh, learned embeddings, large steps in a transformer: runs, panels and
claims beside the optimiser study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bench.records.schema import RunRecord
from reproduce.drawing.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILLION
from reproduce.gradient_descent.optimiser_grid import PAPER
from reproduce.judging.claims import (
    CONTRADICTED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Finding,
    Tolerance,
    every,
    mean_within,
)
from reproduce.judging.trials import in_seeds, missing, sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Tasks and the model that each is about.
SCHEMES, LEARNED, TRANSFORMER = "weighting_schemes", "learned_embeddings", "attention_descent"
MODELS = {SCHEMES: "matrix", LEARNED: "learnable", TRANSFORMER: "two_layer_attention"}
WIDTHS = (64, 128)  # of the transformer; W_O² alone is trained at the first
COLOURS = (BLUE, GREEN, ORANGE, VERMILLION, PURPLE)
RULES = {"sgd": "SGD", "sign": "sign", "normalised": "direction"}
# ρ of q ~ p^ρ in the released code of the paper (repository VivienCabannes/memory-theory, commit
# 99cca43), by step.
RELEASED = {0.001: 1.0, 0.1: 0.35, 1.0: 0.05}
SMALL: dict[str, Any] = {"fontsize": 6.5, "frameon": False}


def runs(seeds: int | None) -> tuple[tuple[str, ...], ...]:
    """Words of every run."""
    words = [(f"tasks={task}", f"models={MODELS[task]}") for task in (SCHEMES, LEARNED)]
    transformer = (f"tasks={TRANSFORMER}", f"models={MODELS[TRANSFORMER]}")
    narrow, wide = ((*transformer, f"models.width={width}") for width in WIDTHS)
    every_one = (*words, narrow, (*wide, "tasks.output_lrs=[]"))
    return tuple((*one, f"seed={seed}") for seed in range(seeds or 1) for one in every_one)


def is_own(record: RunRecord) -> bool:
    """Whether a run belongs to one of these parts."""
    return MODELS.get(record.task) == record.model


def variant(record: RunRecord) -> int | None:
    """The transformer is trained at two widths."""
    return record.config["models"]["width"] if record.task == TRANSFORMER else None


def of_task(records: Sequence[RunRecord], task: str) -> list[RunRecord]:
    """The finished runs of a part, by seed."""
    found = [r for r in records if r.task == task and is_own(r) and r.outcome == "ok"]
    return sorted(found, key=lambda record: record.seed)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """All curves and pictures, by run."""
    return {
        record.run_id: {
            "curves": {name: curve.model_dump() for name, curve in record.curves.items()},
            "pictures": {k: v for k, v in record.arrays.items() if k.startswith("picture/")},
        }
        for task in MODELS
        for record in of_task(records, task)
    }


def draw(panels: Sequence[Axes], records: Sequence[RunRecord]) -> None:
    """Twelve panels; those without a run keep their title alone."""
    of_schemes = next(iter(of_task(records, SCHEMES)), None)
    rules = {label: f"population_error/{name}" for name, label in RULES.items()}
    _lines(panels[0], of_schemes, rules, "population's gradient: error by rule", "steps")
    losses = {label: f"population_loss/{name}" for name, label in RULES.items()}
    _lines(panels[1], of_schemes, losses, "population's gradient: cross-entropy", "steps", True)
    batches = of_schemes.config["tasks"]["batches"] if of_schemes else []
    sizes = {f"batch {batch:,}": f"batch_error/B={batch}" for batch in sorted(batches)}
    _lines(panels[2], of_schemes, sizes, "N = 30, d = 30: error by batch", "samples")
    both = {"descent": "approximation/descent", "its weights": "approximation/weights"}
    _lines(panels[3], of_schemes, both, "N = 100, d = 10: error of q in closed form", "steps")
    steps = of_schemes.config["tasks"]["single_lrs"] if of_schemes else []
    single = {f"step {lr:g}": f"weights/lr={lr:g}" for lr in sorted(steps)}
    _lines(panels[4], of_schemes, single, "q after c single samples", "c", True)
    for axes in (panels[2], panels[4]):
        axes.set_xscale("log")
    for axes, q in zip(panels[5:7], ("p", "1"), strict=True):
        _pictures(axes, of_schemes, q)
    learned = next(iter(of_task(records, LEARNED)), None)
    title = "learned embeddings, d = 2: error by classes"
    _lines(panels[7], learned, {"all trained": "error"}, title, "M")
    panels[7].set_ylim(0, max(0.1, panels[7].get_ylim()[1]))
    transformers = {r.config["models"]["width"]: r for r in reversed(of_task(records, TRANSFORMER))}
    for place, (trained, label) in enumerate((("output_2", "W_O² alone"), ("all", "all matrices"))):
        for column, what in enumerate(("loss", "margin")):
            axes = panels[8 + 2 * place + column]
            _transformer(axes, transformers, trained, what, f"transformer, {label}: {what}")


def _lines(
    axes: Axes,
    record: RunRecord | None,
    names: Mapping[str, str],
    title: str,
    x: str,
    log: bool = False,
) -> None:
    """Curves of a record, by label."""
    axes.set_title(title, fontsize=8.5)
    axes.set_xlabel(x, fontsize=8)
    if record is None:
        return
    for (label, name), colour in zip(names.items(), COLOURS, strict=False):
        if name in record.curves:
            curve = record.curves[name]
            axes.plot(curve.x, curve.y, color=colour, linewidth=1.2, label=label)
    if log:
        axes.set_yscale("log")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**SMALL)


def _pictures(axes: Axes, record: RunRecord | None, q: str) -> None:
    """Softmax of the scores, tokens by classes, each size on its own scale."""
    names = {} if record is None else _by_number(record, f"picture/q={q},d=")
    shown = ", ".join(f"d = {d}" for d in names)
    axes.set_title(f"q = {q}: softmax of scores, {shown}", fontsize=8.5)
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    if record is None:
        return
    for place, name in enumerate(names.values()):
        rows = record.arrays[name]
        left = place * (len(rows[0]) + 1.0)
        axes.imshow(
            rows, extent=(left, left + len(rows[0]), len(rows), 0), cmap="viridis", aspect="auto"
        )
    axes.set_xlim(0, len(names) * (len(record.arrays[name][0]) + 1.0) - 1)
    axes.set_xlabel("class (rows: tokens)", fontsize=8)


def _by_number(record: RunRecord, beginning: str) -> dict[int, str]:
    names = [name for name in record.arrays if name.startswith(beginning)]
    numbers = sorted(int(name[len(beginning) :]) for name in names)
    return {number: f"{beginning}{number}" for number in numbers}


def _transformer(
    axes: Axes, transformers: Mapping[int, RunRecord], trained: str, what: str, title: str
) -> None:
    """Learning rates by colour, widths by line; margins of W_O² itself are dotted."""
    for width, record in sorted(transformers.items()):
        style = "-" if width == WIDTHS[0] else "--"
        beginning = f"{what}/{trained},lr="
        names = [name for name in record.curves if name.startswith(beginning)]
        by_step = sorted((float(name[len(beginning) :]), name) for name in names)
        for (lr, name), colour in zip(by_step, COLOURS, strict=False):
            curve = record.curves[name]
            label = f"step {lr:g}" if width == WIDTHS[0] else None
            axes.plot(curve.x, curve.y, style, color=colour, linewidth=1, label=label)
            if what == "margin" and width == WIDTHS[0]:
                stored = record.curves[f"memory_{name}"]
                axes.plot(stored.x, stored.y, ":", color=colour, linewidth=1)
    note = "dotted: W_O² itself" if what == "margin" else "dashed: d = 128"
    axes.set_title(title, fontsize=8.5)
    axes.set_xlabel(f"steps ({note})", fontsize=8)
    if what == "margin":
        axes.axhline(0, color=BLACK, linewidth=0.5)
    else:
        axes.set_yscale("log")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**SMALL)


def embeddings_hold(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The error in two dimensions at every number of classes up to a limit."""
    found = of_task(records, LEARNED)
    if not found:
        return missing("training of embeddings", records)
    classes = sorted(found[0].config["tasks"]["classes"])
    samples = []
    for place, number in enumerate(classes):
        if 1 < number <= numbers["classes"]:
            trials = [error for record in found for error in record.arrays["error"][place]]
            samples.append(sample(f"error at M = {number}", trials))
    if not samples:
        return missing(f"training with 2 to {numbers['classes']:g} classes", records)
    tests = [partial(mean_within, one, -math.inf, numbers["error"]) for one in samples]
    finding = every(tests)
    worst = max(zip(samples, tests, strict=True), key=lambda pair: sum(pair[0].values))
    evidence = f"largest of {len(samples)} numbers of classes: {worst[1]().evidence}"
    return in_seeds(replace(finding, evidence=evidence), found)


def larger_steps_flatten(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The exponent of q in the count, which no random number enters."""
    exponents = _exponents(records)
    if not exponents:
        return missing("weights of single samples", records)
    evidence = ", ".join(f"{value:.3f} with step {lr:g}" for lr, value in exponents.items())
    falls = all(a - b > numbers["flatter"] for a, b in pairwise(exponents.values()))
    text = f"exponent of q in the count: {evidence}"
    return Finding(REPRODUCED if falls else CONTRADICTED, text, 1)


def exponents_are_released(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The same exponents beside the released ones, step by step."""
    exponents = _exponents(records)
    compared = {lr: exponents[lr] for lr in RELEASED if lr in exponents}
    if not compared:
        return missing("weights of single samples with a released step", records)
    far = {lr for lr, value in compared.items() if abs(value - RELEASED[lr]) > numbers["gap"]}
    parts = [
        f"step {lr:g}: {value:.3f}, released {RELEASED[lr]:g}" + (", too far" if lr in far else "")
        for lr, value in compared.items()
    ]
    parts += [f"step {lr:g}: not among the records" for lr in RELEASED if lr not in compared]
    verdict = REPRODUCED if len(compared) == len(RELEASED) else UNDECIDED
    return Finding(CONTRADICTED if far else verdict, "; ".join(parts), 1)


def _exponents(records: Sequence[RunRecord]) -> dict[float, float]:
    """Step -> exponent of q in the count, by step."""
    beginning = "exponent/lr="
    return dict(
        sorted(
            (float(name[len(beginning) :]), value)
            for record in of_task(records, SCHEMES)[:1]
            for name, value in record.metrics["test"].items()
            if name.startswith(beginning)
        )
    )


CLAIMS = (
    Claim(
        "learned embeddings need no dimensions",
        f"{PAPER}, learned embeddings in two dimensions, released code",
        "With learned embeddings two dimensions hold many classes: the error stays near zero.",
        Tolerance(
            "N = 100, α = 2, Adam, embeddings and matrix trained: at every number of classes of "
            "the preset from 2 to {classes:g} the mean error is below {error:g}, with the whole "
            "95 % interval over trials; contradicted if one interval, corrected for their number, "
            "lies above it",
            {"error": 0.05, "classes": 100},
        ),
        embeddings_hold,
    ),
    Claim(
        "larger steps on single samples flatten the weights",
        f"{PAPER}, section on optimisation, released code",
        "The larger the steps of descent on single samples, the flatter the weights.",
        Tolerance(
            "the slope of log q(c) against log c, c = 1 to 1,000, M = 10, falls by more than "
            "{flatter:g} from each step of the preset to the next; without random numbers one "
            "value is exact",
            {"flatter": 0.0},
        ),
        larger_steps_flatten,
    ),
    Claim(
        "exponents of single samples",
        f"{PAPER}, section on optimisation, released code",
        "Single samples weigh like p with step 0.001, like p^0.35 with step 0.1 and like p^0.05 "
        "with step 1.",
        Tolerance(
            "the slope of log q(c) against log c, c = 1 to 1,000, M = 10, is within {gap:g} of the "
            "released exponent at each of these steps; without random numbers one value is exact",
            {"gap": 0.05},
        ),
        exponents_are_released,
    ),
)
