"""Induction heads as associative memories: who learns the bigram task, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.records.schema import RunRecord
from core.statistics import COUNT
from reproduce.bigram.runs import (
    LABELS,
    MEMORY_STEPS,
    PROBED,
    RUNS,
    STEPPED,
    WITH_RANDOM_TRIGGERS,
    belongs,
    of_row,
    row_of,
    rows_of,
    sweeps,
    variant,
)
from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED
from reproduce.claims.grammar import (
    Measured,
    Number,
    Records,
    Rule,
    Runs,
    above,
    each,
    measured,
    metric,
    once,
    provided,
    setting,
    trained_for,
    where,
    within,
)
from reproduce.claims.verdicts import REPRODUCED, UNDECIDED, Finding
from reproduce.drawing.plots import Plot, RowOf, metric_curves
from reproduce.drawing.plots import rows_of as rows_of_panels
from reproduce.drawing.traces import curve_over_seeds, over_seeds, published
from reproduce.experiment import Experiment
from reproduce.plotting.panels import Axis, Panel, Picture, Remark, Trace

PAPER = "Bietti et al. 2023, Birth of a Transformer (NeurIPS, arXiv 2306.00802)"
SLIDES = (
    "Bietti, Associative memories as a tractable building block in transformers (slides, EPFL, "
    "December 2024)"
)
MOSAICS = "Zhang et al. 2025, Memory Mosaics (ICLR, arXiv 2405.06394), section 3"
OWN = "a first measurement of this project, with sequences of 64 tokens"
JUMP = 200  # SGD steps until the simplified model has jumped
ORDER = f"{SLIDES}, order of learning; {PAPER}, section 4"
THEOREM = f"{PAPER}, section 5; {SLIDES}, theorem (informal)"
CHANCE = 1 / 65
PROBES = {
    "output_recall": "W_O² (outputs)",
    "token_recall": "W_K² (tokens)",
    "position_recall": "W_K¹ (all positions)",
    "early_position_recall": "W_K¹ (early positions)",
    "bigram_divergence": "W_F (nats from π_b)",
}
STEPS = {
    "accuracy": "accuracy",
    "output_recall": "W_O²",
    "token_recall": "W_K²",
    "early_position_recall": "W_K¹",
    "bigram_divergence": "W_F",
}
MEMORIES = ("output_recall", "token_recall")
TITLE = "Bigram task: who finds what followed a trigger, and which memory is learned when"
OF_PROBE = {
    "accuracy": "black",
    "output_recall": "orange",
    "token_recall": "green",
    "early_position_recall": "blue",
    "position_recall": "blue",
    "bigram_divergence": "vermillion",
}
PUBLISHED = {"gpt2/1": 0.55, "gpt2/2": 0.99}  # read from the slides


ACCURACY = Number("in-context accuracy", "in_context_accuracy")
FIRST = Number("accuracy at the first occurrence", "first_occurrence_accuracy")


def over_steps(runs: Runs, keys: str, title: str, steps: Axis) -> Plot:
    """Accuracy and the three memories, that of W_K¹ by the metric ``keys``."""
    colours = {"accuracy": ("in-context accuracy", OF_PROBE["accuracy"])}
    for name in (*MEMORIES, keys):
        colours[name] = PROBES[name], OF_PROBE[name]
    y = Axis(limits=(-0.02, 1.04))
    return Plot(title, steps, y, [metric_curves(runs, colours)], legend="best")


def picture(records: Records) -> Picture:
    """Four panels: accuracy, loss, probes of the simplified model, three gradient steps."""
    trained = "memories of the simplified model, trained by SGD"
    probed = over_steps(PROBED, "early_position_recall", trained, Axis("SGD steps"))
    steps = Axis("gradient steps taken", ticks=range(4))
    title = "one gradient step on W_O², then W_K², then W_K¹"
    stepped = over_steps(STEPPED, "position_recall", title, steps)
    accuracies = _accuracies(records)
    tall = max(3.4, 0.26 * len(accuracies.x.categories))
    rows = [RowOf([accuracies, _losses(records)], tall), RowOf([probed, stepped], 3.1)]
    return Picture(TITLE, rows_of_panels(rows, records), width=13, facts=_unseen(records))


def _accuracies(records: Records) -> Panel:
    """Accuracy of each row of the figure, at first and at later occurrences of a trigger; a row is
    named with how long it was trained, which differs."""
    ticks: list[str] = []
    traces: list[Trace] = []
    for place, (row, runs) in enumerate(rows_of(records).items()):
        by_place, label = {place: runs.of(records)}, runs.label
        steps = sorted({run.config["training"]["steps"] for run in by_place[place]})
        ticks.append(f"{label}, {'–'.join(map(str, steps))} steps")
        look: dict[str, Any] = {"mark": "dots", "colour": row.partition("/")[0], "legend": ""}
        traces.append(over_seeds(label, by_place, ACCURACY.value, **look))
        first = f"{label}, first occurrence"
        traces.append(over_seeds(first, by_place, FIRST.value, marker="cross", **look))
        if row in PUBLISHED:
            level = [(place, PUBLISHED[row])]
            name = f"{label}, published"
            traces.append(published(name, level, mark="dots", aside=2.0, legend=""))
    title = "in-context accuracy (●, seeds –), published (◇), first occurrence (×)"
    x, y = Axis(categories=ticks), Axis(limits=(-0.02, 1.04))
    chance = Remark(y=CHANCE, line="solid", colour="light")
    return Panel(title, x, y, traces, [chance], sideways=True)


def _losses(records: Records) -> Panel:
    traces = []
    for row, runs in rows_of(records).items():
        model, line = row.partition("/")[0], "dashed" if row == "gpt2/1" else ""
        look: dict[str, Any] = {"colour": model, "line": line}
        traces.append(curve_over_seeds(runs.label, runs.of(records), "validation_loss", **look))
    title = "cross-entropy of outputs that the past tells (validation)"
    x, y = Axis("training steps"), Axis("nats", limits=(0, None))
    return Panel(title, x, y, traces, legend="right")


def _unseen(records: Records) -> dict[str, Any]:
    """What is measured and not drawn: predictors without training, and random triggers."""
    accuracy = metric("in_context_accuracy")
    without_training, random_triggers = {}, {}
    for record in records:
        if record.role == "baseline":
            without_training[record.label] = accuracy(record)
    for row, label in LABELS.items():
        if runs := of_row(row, "random").of(records):
            random_triggers[label] = {str(run.seed): accuracy(run) for run in runs}
    return {"without_training": without_training, "random_triggers": random_triggers}


# What is claimed

IN_TIME = of_row("memory_mosaic/1").but(
    f"memory units, 1 layer, trained for at most {MEMORY_STEPS} steps",
    choose=lambda r: (
        row_of(r) == "memory_mosaic/1" and int(setting(r, "training.steps") or 0) <= MEMORY_STEPS
    ),
)


ON_CHARACTERS = where(
    lambda records: all(setting(r, "tasks.source") != "dirichlet" for r in records),
    "accuracy of trained models",
    "the windows belong to the characters of a text, not to random bigrams",
)
TO_THE_JUMP = where(
    lambda records: (
        max((setting(r, "tasks.steps") for r in PROBED.of(records)), default=JUMP) >= JUMP
    ),
    "the order of learning",
    f"asked after {JUMP} SGD steps or more",
    "laptop",
)


def after(steps: int, rule: Rule) -> Rule:
    """The rule, where models were trained for long enough on characters."""
    return once(ON_CHARACTERS, once(trained_for(steps, "laptop"), rule))


def leaks_nothing(by: float) -> Rule:
    """First-occurrence accuracy near chance in every run of every trained model."""
    low, high = CHANCE - by, CHANCE + by

    def judge(records: Records, level: float) -> Finding:
        rows = [of_row(row, triggers) for row in LABELS for triggers in ("fixed", "random")]
        numbers = [FIRST.of(row) for row in rows if row.of(records)]
        samples = [number.sample(records) for number in numbers]
        values = [value for sample in samples for value in sample.values]
        lost = any(sample.failures for sample in samples)
        if values and not lost and low <= min(values) <= max(values) <= high:
            evidence = f"from {min(values):.4f} to {max(values):.4f} in {len(values)} runs"
            return Finding(REPRODUCED, evidence, min(len(number.values) for number in samples))
        return each([within(number, low, high) for number in numbers]).judge(records, level)

    text = (
        "accuracy at the first occurrence within {by:g} of 1/65, three standard errors of 2,200 "
        "occurrences, in every run of every trained model; contradicted if the whole 95 % interval "
        "of a model's mean over seeds lies outside"
    )
    return Rule(text.format(by=by), judge)


Crossed = Callable[[RunRecord, str], float | None]  # the step at which one is half learned


def learned(crossed: Crossed, *learnt: tuple[Runs, str]) -> Rule:
    """Each of these is half learned in at least half of the runs: in an order of learning nothing
    has a place that is never learned."""

    def judge(records: Records, level: float) -> Finding:
        never, seeds = [], []
        for runs, name in learnt:
            steps = [crossed(record, name) for record in runs.of(records)]
            seeds.append(len(steps))
            if (missing := steps.count(None)) * 2 > len(steps):
                never.append(
                    f"{STEPS[name]} is never half learned in {missing} of {len(steps)} runs"
                )
        verdict = UNDECIDED if never else REPRODUCED  # the claim itself says that runs are missing
        return Finding(verdict, "; ".join(never) or "each is half learned", min(seeds))

    return Rule("each is half learned in at least half of the runs", judge)


def _crossed(record: RunRecord, name: str) -> float | None:
    return metric(f"steps_to_half_{name}")(record)


def steps_of(name: str) -> Measured:
    """The SGD steps until a memory recalls one half; one that never does counts as the last."""

    def read(record: RunRecord) -> float:
        crossed = _crossed(record, name)
        return float(setting(record, "tasks.steps")) if crossed is None else crossed

    return Number("", read, COUNT).of(PROBED, f"steps of {STEPS[name]}")


def apart(name: str) -> Measured:
    """How many steps lie between the jump of accuracy and a memory's."""
    accuracy, memory = steps_of("accuracy").number, steps_of(name).number

    def read(record: RunRecord) -> float:
        return abs((accuracy.value(record) or 0.0) - (memory.value(record) or 0.0))

    return Number("", read, COUNT).of(PROBED, f"steps between accuracy and {STEPS[name]}")


def stepped(name: str) -> Measured:
    """A share after three gradient steps: of the sequences, or of what a memory holds."""
    sizes = {"accuracy": "tasks.evaluated", "position_recall": "tasks.length"}

    def items(record: RunRecord) -> int:
        of_all = int(setting(record, sizes.get(name, "tasks.tokens")))
        return of_all - (name == "position_recall")  # the first position has none before it

    # Embeddings and sequences are those of the seed.
    number = Number("", name, items=items, fresh=True, diverged=0.0)
    return number.of(STEPPED, PROBES.get(name, name))


def _learned(*names: str) -> Rule:
    return learned(_crossed, *((PROBED, name) for name in names))


def _order(first: str, then: str, sentence: str) -> Claim:
    later = above(steps_of(then), steps_of(first))
    return Claim(
        f"{STEPS[first]} before {STEPS[then]}",
        sentence,
        once(TO_THE_JUMP, provided(_learned(first, then), later)),
        source=ORDER,
    )


def _random(name: str, row: str) -> Claim:
    runs = of_row(row, "random")
    return Claim(
        f"random triggers, {name}",
        f"With triggers drawn anew for each sequence the accuracy of {name} is about 95 %. "
        "(Perhaps a token that came twice by chance looks like a trigger: not tested here.)",
        once(
            measured(runs, "random triggers", WITH_RANDOM_TRIGGERS[0]),
            within(ACCURACY.of(runs), 0.9, 0.995),
        ),
        source=OWN,
    )


CLAIMS = (
    Claim(
        "one layer of attention",
        "A transformer of one layer gets about 55 % of the outputs right that the past tells.",
        after(900, within(ACCURACY.of(of_row("gpt2/1")), 0.45, 0.62)),
        source=f"{SLIDES}, bigram task",
    ),
    Claim(
        "two layers of attention",
        "A transformer of two layers gets about 99 % of them right.",
        after(900, within(ACCURACY.of(of_row("gpt2/2")), low=0.97)),
        source=f"{SLIDES}, bigram task",
    ),
    Claim(
        "one layer of memory units",
        "One layer of memory units is enough, since values look one position ahead.",
        after(MEMORY_STEPS, within(ACCURACY.of(IN_TIME), low=0.98)),
        source=MOSAICS,
    ),
    Claim(
        "nothing leaks",
        "The first occurrence of a trigger tells nothing about its output: no model is right "
        "there more often than chance, also where the best is right nearly always later.",
        provided(within(ACCURACY.of(of_row("gpt2/2")), low=0.97), leaks_nothing(by=0.008)),
        source=f"{PAPER}, section 3",
    ),
    _random("two layers of attention", "gpt2/2"),
    _random("one layer of memory units", "memory_mosaic/1"),
    _order(
        "output_recall",
        "early_position_recall",
        "The outputs (W_O²) are memorised no later than the previous position (W_K¹).",
    ),
    _order(
        "token_recall",
        "early_position_recall",
        "The match of a trigger (W_K²) is learned before the previous position (W_K¹).",
    ),
    Claim(
        "accuracy jumps with W_K¹",
        "In-context accuracy jumps when the last of the three memories is learned.",
        once(
            TO_THE_JUMP,
            provided(
                _learned("accuracy", *MEMORIES, "early_position_recall"),
                each(above(apart(other), apart("early_position_recall")) for other in MEMORIES),
            ),
        ),
        source=ORDER,
    ),
    Claim(
        "three gradient steps",
        "One gradient step each on W_O², W_K² and W_K¹, in this order, makes an induction head.",
        within(stepped("accuracy"), low=0.85),
        source=THEOREM,
    ),
    Claim(
        "three memories after three steps",
        "The three steps give the three sums of outer products of the theorem.",
        each(
            within(stepped(name), low=0.9)
            for name in ("output_recall", "token_recall", "position_recall")
        ),
        source=THEOREM,
    ),
)

CONTROL = UNTRAINED.by(bigram_probes="tasks.steps=1", three_gradient_steps="tasks.sequences=1")
EXPERIMENT = Experiment(
    TITLE,
    f"{PAPER}, sections 3 to 5; {SLIDES}",
    CLAIMS,
    sweeps=sweeps,
    runs=RUNS,
    records=[belongs],
    panels=picture,
    variant=variant,
    control=CONTROL,
)
