"""Table 3: the baselines learn the training languages, but not to learn languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from bench.config.groups import PRESETS, contenders
from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.fairness import marks
from reproduce.claims.grammar import (
    Measured,
    Records,
    Rule,
    Runs,
    above,
    each,
    once,
    setting,
    within,
)
from reproduce.drawing.plots import RowOf
from reproduce.drawing.tables import cell, markdown
from reproduce.drawing.traces import over_seeds, summary
from reproduce.experiment import Experiment, Sweep, any_of
from reproduce.plotting.models import model_card
from reproduce.plotting.panels import Axis, Panel, Trace
from reproduce.published.numbers import published_numbers
from reproduce.regbench import regbench
from reproduce.regbench.figure9 import PUBLISHED as PUBLISHED_HELD_OUT
from reproduce.regbench.regbench import METRICS, MOSAIC, over

TITLE = "Table 3. RegBench after 100 training automata: new strings of theirs, or new automata"
SOURCE = f"{regbench.PAPER}, appendix D.5, table 3 and footnote 10"
PUBLISHED_IID = "Memory Mosaics, Table 3"
SIZE = 100
PART = "regbench.table3"  # where other models contend than in figure 9
ACCURACY = regbench.number("accuracy")
LOST = (
    "for each contender but the Memory Mosaic the 95 % interval of the loss of accuracy from the "
    "same to new automata lies above {by:g}"
)
VARIANTS = {"iid": "same automata", "held_out": "new automata"}
# What one row alone has to tell surely takes more data than the three of all.
MORE_DATA = {"laptop": ("rwkv4_as_released", 6)}
# On new automata, for whose best rate is the largest that the grid of the others came to: all that
# they tried, and one more.
RATES = (*regbench.RATES, 0.48)
WIDER: Mapping[str, tuple[str, ...]] = {"laptop": ("gla", "h3")}


def sweeps(preset: str) -> list[Sweep]:
    """The sweeps of table 3, and those of figure 9 at the same size for the contrast."""
    same = partial(regbench.cell, preset, SIZE, "iid")
    longer = regbench.MORE_STEPS.get((preset, SIZE, "iid"), {})  # those that take more of them
    wider = WIDER.get(preset, ())
    planned = [
        Sweep("regbench", regbench.all_but(longer, preset, PART), same()),
        *regbench.new_automata(preset, SIZE, PART, wider),
    ]
    for model, steps in longer.items():
        planned.append(Sweep("regbench", [model], same(steps)))
    if wider:
        new = regbench.cell(preset, SIZE, "held_out")
        planned.append(Sweep("regbench", wider, new | over(RATES)))
    if preset in MORE_DATA:
        model, count = MORE_DATA[preset]
        planned.append(Sweep("regbench", [model], {**same(), "sweep.data_seeds": count}))
    return planned


def models_of(records: Records) -> tuple[str, ...]:
    """The contenders at the preset of these records, the Memory Mosaic first."""
    models = contenders(PART, records[0].preset if records else PRESETS[0])
    return (MOSAIC, *(name for name in models if name != MOSAIC))


def _belongs(record: RunRecord) -> bool:
    contends = record.role == "final" and record.model in contenders(PART, record.preset)
    fair = record.task == "regbench" and setting(record, "tasks.protocol") == "fair"
    of_size = fair and regbench.size_of(record) == SIZE and regbench.variant_of(record) in VARIANTS
    return of_size and (record.role == "baseline" or contends)


def select(records: Records) -> list[RunRecord]:
    """Runs with 100 training automata, of both variants."""
    return regbench.with_planned_steps(any_of(_belongs)(records))


def every_baseline(rule: Callable[[str], Rule], text: str, **numbers: float) -> Rule:
    """The rule holds for every contender but the Memory Mosaic."""
    return each(lambda records: map(rule, models_of(records)[1:]), text, **numbers)


def rows(*variants: str) -> Callable[[Records], list[Runs]]:
    """The rows of all contenders, which only count where they are tuned."""
    return lambda records: [
        _runs(model, variant) for variant in variants for model in models_of(records)
    ]


def published(metric: str, model: str, variant: str) -> float | None:
    """The number of table 3, or for new automata that of figure 9; None of a model in neither."""
    short = PUBLISHED_IID if variant == "iid" else PUBLISHED_HELD_OUT
    return published_numbers(short, metric).get(regbench.published_label(model), {}).get(SIZE)


def _panel(metric: str) -> Callable[[Records], Panel]:
    """A metric of each model, a row each: on the same automata and on new ones, here and
    published."""

    def panel(records: Records) -> Panel:
        models, traces = models_of(records), []
        for place, model in enumerate(models):
            for read in (_measured, _published):
                pair = [read(records, metric, model, variant, place) for variant in VARIANTS]
                traces += _joined(pair)
        arrow = "higher is better" if metric == "accuracy" else "lower is better"
        rows = Axis(categories=list(map(regbench.label, models)))
        title = f"{METRICS[metric]} ({arrow})"
        return Panel(title, rows, Axis(limits=(0, 1)), traces, sideways=True)

    return panel


def _joined(pair: Sequence[Trace | None]) -> list[Trace]:
    """Both variants, and a faint line from one to the other; nothing where one is missing."""
    same, new = pair
    if same is None or new is None:
        return []
    line = replace(
        same,
        name=f"{same.name} to {VARIANTS['held_out']}",
        x=[*same.x, *new.x],
        y=[*same.y, *new.y],
        interval=(),
        seeds={},
        failed=(),
        mark="line",
        role="faint",
        colour=same.colour or "grey",
        legend="",
    )
    return [line, same, new]


def _measured(records: Records, metric: str, model: str, variant: str, place: int) -> Trace:
    source = "here (95 % interval, seeds)" if variant == "iid" else "here"
    name, look = _look(model, variant, source)
    runs = {place: regbench.runs(model, SIZE, variant).of(records)}
    return over_seeds(name, runs, metric, colour=model, aside=-1, **look)


def _published(records: Records, metric: str, model: str, variant: str, place: int) -> Trace | None:
    source = "published" if variant == "iid" else "published (read from figure 9)"
    name, look = _look(model, variant, source)
    level = published(metric, model, variant)
    if level is None:
        return None
    return Trace(f"{name}, published", [place], [level], role="published", aside=1.5, **look)


def _look(model: str, variant: str, whence: str) -> tuple[str, dict[str, Any]]:
    hollow, legend = variant != "iid", f"{VARIANTS[variant]}, {whence}"
    look = {"mark": "dots", "hollow": hollow, "legend": legend}
    return f"{regbench.label(model)}, {VARIANTS[variant]}", look


def table(records: Records) -> str:
    """The table with a column for each variant and metric, ours beside the published number, and
    how each row was tuned; below it what tells a row from the model whose number stands beside."""
    heads, rows, models = ["model"], [], models_of(records)
    for words in VARIANTS.values():
        for metric in METRICS:
            heads += [f"{metric}, {words}", "published"]
        heads.append(f"rows on {words}")
    for model in models:
        row = [regbench.label(model)]
        for variant in VARIANTS:
            runs = regbench.runs(model, SIZE, variant).of(records)
            for metric in METRICS:
                level = published(metric, model, variant)
                row += [cell(summary(runs, metric)), "" if level is None else f"{level:.3f}"]
            # Where none came to an end, the other cells say what became of it.
            ended = runs if any(run.outcome == "ok" for run in runs) else []
            row.append(", ".join(dict.fromkeys(mark.word for mark in marks(ended))))
        rows.append(row)
    notes = _longer(records, models), _apart(records, models), _notes(models)
    return "".join((markdown(heads, rows), *notes))


def _list(title: str, lines: Sequence[str]) -> str:
    """A list below a table."""
    return "\n".join(["", title, "", *(f"- {line}" for line in lines), ""])


def _longer(records: Records, models: Sequence[str]) -> str:
    """A note on models that were trained for more steps than others on the same languages."""
    lines = []
    for variant, words in VARIANTS.items():
        steps = {}
        for model in models:
            if runs := regbench.runs(model, SIZE, variant).of(records):
                steps[model] = setting(runs[0], "training.steps") or 0
        usual = min(steps.values(), default=0)
        for model, count in steps.items():
            if count > usual:
                lines.append(f"{regbench.label(model)}, {words}: {count:,} steps, not {usual:,}")
    return _list("Trained for longer than the others:", lines) if lines else ""


def _apart(records: Records, models: Sequence[str]) -> str:
    """The published accuracies that lie outside what was measured here."""
    lines = []
    for model, (variant, words) in product(models, VARIANTS.items()):
        level = published("accuracy", model, variant)
        mean = summary(regbench.runs(model, SIZE, variant).of(records), "accuracy")
        if level is None or mean.interval is None or mean.mean is None:
            continue
        low, high = mean.interval
        if not low <= level <= high:
            lines.append(f"{regbench.label(model)}, {words}: {mean.mean:.3f}, not {level:.3f}")
    title = "Accuracies here whose 95 % interval leaves the published number out:"
    return _list(title, lines) if lines else ""


def _notes(models: Sequence[str]) -> str:
    """What the cards say of the models with a published number beside them."""
    lines = []
    for model in models:
        note = (model_card(model) or {}).get("note")
        if note and published("accuracy", model, "iid") is not None:
            lines.append(f"{regbench.label(model)}: {note}")
    return _list("What is not as in the code of the published numbers:", lines)


def _runs(model: str, variant: str) -> Runs:
    label = f"{regbench.label(model)} on {VARIANTS[variant]}"
    return regbench.runs(model, SIZE, variant, label)


def _accuracy(model: str, variant: str) -> Measured:
    return ACCURACY.of(_runs(model, variant))


def _lost_on_new_automata(by: float) -> Rule:
    """Every baseline loses more than so much accuracy."""
    return every_baseline(
        lambda model: above(_accuracy(model, "iid"), _accuracy(model, "held_out"), by),
        f"accuracy of each other contender on the same automata more than {by:g} above that on new",
        by=by,
    )


def _distance(model: str) -> Measured:
    return regbench.number("tvd").of(regbench.runs(model, SIZE, "iid"))


CLAIMS = (
    Claim(
        "good in distribution",
        "Every baseline has learned the training automata: it is accurate on new strings of "
        "theirs.",
        once(
            regbench.on_published_languages("good in distribution"),
            every_baseline(
                lambda model: within(_accuracy(model, "iid"), low=0.75),
                "accuracy of each other contender on the same automata at least 0.75",
                low=0.75,
            ),
        ),
        "for each contender but the Memory Mosaic the 95 % interval of the mean accuracy lies "
        "above {low:g} (the lowest published value of any baseline is 0.794), on the published "
        "languages",
        ranks=rows("iid"),
        of_each=True,
    ),
    Claim(
        "worse out of distribution",
        "On new automata every baseline is less accurate than on those of its training.",
        _lost_on_new_automata(by=0.0),
        LOST,
        ranks=rows(*VARIANTS),
        of_each=True,
    ),
    Claim(
        "poor out of distribution",
        "And it is lower by much.",
        once(regbench.on_published_languages("lower by much"), _lost_on_new_automata(by=0.167)),
        f"{LOST}, half of the smallest published loss (0.333), on the published languages",
        ranks=rows(*VARIANTS),
        of_each=True,
    ),
    Claim(
        "the Mosaic's distance in distribution",
        "On new strings of the training automata the Memory Mosaic's TVD is higher than that "
        "of every baseline, although its accuracy is high.",
        every_baseline(
            lambda model: above(_distance(MOSAIC), _distance(model)),
            "TVD of the Memory Mosaic above that of each other contender on the same automata",
            by=0.0,
        ),
        "the 95 % interval of each difference lies above {by:g}",
        ranks=rows("iid"),
        of_each=True,
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    SOURCE,
    CLAIMS,
    sweeps=sweeps,
    records=select,
    panels=[RowOf([_panel(metric) for metric in METRICS], height=3.4, shared=True)],
    layout={"width": 11, "legend": "below"},
    variant=regbench.variant,
    varied=regbench.VARIED,
    table=table,
)
