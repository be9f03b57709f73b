"""Factual recall by attention alone: which width it needs, and what noise and length change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import linear_regression

from bench.records.schema import RunRecord
from core.statistics import SHARE
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import (
    Measured,
    Number,
    Records,
    Rule,
    Runs,
    difference,
    each,
    measured,
    once,
    within,
)
from reproduce.claims.trials import drawn, over_trials
from reproduce.drawing.traces import over_draws, over_seeds
from reproduce.experiment import Experiment, OverSeeds
from reproduce.factual_recall.factual_recall import SEQUENCES, TASK, alone
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture

TITLE = "Factual recall by attention alone: width by answers, and noise"
PAPER = (
    "Nichani, Lee and Bietti 2025 (arXiv 2412.06538), theorem (informal) as in Bietti 2024, "
    "Associative memories as a tractable building block in transformers (slides), how many "
    "parameters do we need?"
)
# 8 heads of 4: H d_h = 32, as many as the most subjects.
SETTINGS = {
    "tasks.part": "phase_diagram",
    "tasks.heads": [8],
    "tasks.head_size": 4,
    "tasks.mlp_widths": [0],
    "tasks.batch_size": 256,
    "tasks.check_every": 100,
    "tasks.steps": 2000,
}
AT_SMOKE = {"smoke": {"tasks.steps": 20, "tasks.check_every": 10}}
SEEDS = {"smoke": 1, "laptop": 3, "gpu": 3, "paper": 3}
SUBJECTS, NOISE, LENGTH = 8, 16, 16
# R, with as many answers D of each relation -> widths d around what it needs.
WIDTHS_BY_RELATIONS = {
    4: (3, 4, 6, 8, 11),
    8: (4, 6, 8, 11, 16),
    16: (8, 11, 16, 22, 32),
}
MORE_SUBJECTS = (8, 16, 32)  # with four relations
RECALLED = 0.9
NOISY, LONG = 128, 64  # tokens of noise, and of a sequence
COMPARED = (6, 8, 11)  # widths, with eight relations


def of(
    width: int,
    relations: int = 8,
    subjects: int = SUBJECTS,
    noise: int = NOISE,
    length: int = LENGTH,
) -> Runs:
    """The runs at one size."""
    settings = {
        **SETTINGS,
        "tasks.width": width,
        "tasks.relations": relations,
        "tasks.choices": relations,
        "tasks.subjects": subjects,
        "tasks.noise": noise,
        "tasks.length": length,
    }
    label = f"d = {width}, {subjects} subjects, {relations} relations"
    return Runs(label, TASK, "fact_transformer", settings)


def by_relations() -> Mapping[float, list[Runs]]:
    """R + D -> the runs at each width."""
    return {
        2.0 * relations: [of(width, relations) for width in widths]
        for relations, widths in WIDTHS_BY_RELATIONS.items()
    }


def by_subjects() -> Mapping[float, list[Runs]]:
    """S -> the runs at each width, with four relations."""
    return {
        float(subjects): [of(width, 4, subjects) for width in WIDTHS_BY_RELATIONS[4]]
        for subjects in MORE_SUBJECTS
    }


def disturbed(width: int) -> dict[str, Runs]:
    """What is done to the sequences -> the runs."""
    return {
        f"{NOISY} tokens of noise": of(width, noise=NOISY),
        f"length {LONG}": of(width, length=LONG),
    }


def _all() -> Iterator[Runs]:
    for runs_by_size in (by_relations(), by_subjects()):
        for runs in runs_by_size.values():
            yield from runs
    for width in COMPARED:
        yield from disturbed(width).values()


ALL = list({repr(sorted(runs.settings.items())): runs for runs in _all()}.values())


# What is claimed

ONE, ALIKE = (0.75, 1.25), 0.1


def accuracy(record: RunRecord) -> float | None:
    """The best of the training."""
    rows = record.arrays.get("accuracy", [])
    return float(rows[0][0]) if rows else None


ACCURACY = Number("accuracy", accuracy, SHARE, items=lambda _: SEQUENCES, fresh=True)


def width_needed(runs: Sequence[Runs], records: Records) -> dict[int, float]:
    """Seed -> d at which the accuracy first reaches ``RECALLED``, by straight lines over log d; a
    seed that has it at the least width, or nowhere, has none."""
    accuracy_by_seed: dict[int, dict[int, float]] = {}
    for of_width in runs:
        for record in of_width.finished(records):
            reached = accuracy(record)
            if reached is not None:
                width = int(record.config["tasks"]["width"])
                accuracy_by_seed.setdefault(record.seed, {})[width] = reached
    needed = {}
    for seed, by_width in sorted(accuracy_by_seed.items()):
        if len(by_width) < len(runs):
            continue
        for (narrow, before), (wide, after) in pairwise(sorted(by_width.items())):
            if before < RECALLED <= after:
                share = (RECALLED - before) / (after - before)
                needed[seed] = math.exp(
                    math.log(narrow) + share * (math.log(wide) - math.log(narrow))
                )
                break
    return needed


def widths_by_seed(
    runs_by_size: Mapping[float, list[Runs]], records: Records
) -> dict[int, dict[float, float]]:
    """Seed -> size -> the width that is needed, of seeds that have it at every size."""
    by_seed: dict[int, dict[float, float]] = {}
    for size, runs in runs_by_size.items():
        for seed, width in width_needed(runs, records).items():
            by_seed.setdefault(seed, {})[size] = width
    return {seed: widths for seed, widths in by_seed.items() if len(widths) == len(runs_by_size)}


def proportional(runs_by_size: Mapping[float, list[Runs]], name: str) -> Rule:
    """The width that is needed grows in proportion to a size, up to logarithms."""

    def rules(records: Records) -> list[Rule]:
        slopes = []
        for widths in widths_by_seed(runs_by_size, records).values():
            logarithms = [list(map(math.log, numbers)) for numbers in (widths, widths.values())]
            slopes.append(linear_regression(*logarithms).slope)
        return [within(drawn(f"slope of log d on log ({name})", slopes), *ONE)]

    def runs_of(records: Records) -> list[RunRecord]:
        return [r for runs in runs_by_size.values() for part in runs for r in part.of(records)]

    text = (
        f"the slope of log d on log ({name}), d at which accuracy reaches {RECALLED:g}, is between "
        f"{ONE[0]:g} and {ONE[1]:g} with its whole 95 % interval over seeds"
    )
    judged = over_trials(each(rules, text), runs_of, f"width that is needed by {name}")
    return once(measured(of(8), "attention alone", "laptop"), judged)


def unchanged() -> Rule:
    """Neither more tokens of noise nor longer sequences change the accuracy at any width."""
    rules = []
    for width in COMPARED:
        usual: Measured = ACCURACY.of(of(width), f"accuracy at d = {width}")
        for name, runs in disturbed(width).items():
            rules.append(difference(ACCURACY.of(runs, f"with {name}"), usual, -ALIKE, ALIKE))
    return once(measured(of(8), "attention alone", "laptop"), each(rules))


def narrower() -> Rule:
    """The same of two thirds of the width, which is to change it."""
    rules = []
    for narrow, wide in pairwise(COMPARED):
        less = ACCURACY.of(of(narrow), f"accuracy at d = {narrow}")
        more = ACCURACY.of(of(wide), f"accuracy at d = {wide}")
        rules.append(difference(less, more, -ALIKE, ALIKE))
    return each(rules)


CLAIMS = (
    Claim(
        "width by relations and answers",
        "Attention alone needs a width d in proportion to R + D, relations and answers of each.",
        proportional(by_relations(), "R + D"),
        control=Control("subjects in their place", proportional(by_subjects(), "S")),
    ),
    Claim(
        "noise is negligible",
        "Eight times as many tokens of noise, or sequences four times as long, change nothing at "
        "widths around the one that is needed.",
        unchanged(),
        control=Control("two thirds of the width", narrower()),
    ),
)


# How it is drawn


def picture(records: Records) -> Picture:
    """The width that is needed by both sizes, and accuracy by width as noise is added."""
    panels = []
    for name, runs_by_size in (("R + D", by_relations()), ("S, subjects", by_subjects())):
        widths = widths_by_seed(runs_by_size, records)
        columns = {size: [of_seed[size] for of_seed in widths.values()] for size in runs_by_size}
        trace = over_draws(f"d for {RECALLED:g}", columns if widths else {}, legend="")
        panels.append(
            Panel(f"width needed by {name}", Axis(name, "log2"), Axis("d", "log2"), [trace])
        )
    usual = {"as usual": {width: of(width) for width in COMPARED}}
    for width in COMPARED:
        for name, runs in disturbed(width).items():
            usual.setdefault(name, {})[width] = runs
    traces = []
    for (name, by_width), colour in zip(
        usual.items(), ("black", "vermillion", "blue"), strict=True
    ):
        runs_by_width = {width: runs.of(records) for width, runs in by_width.items()}
        traces.append(over_seeds(name, runs_by_width, accuracy, colour=colour))
    accuracies = Axis("accuracy", limits=(0, 1.05))
    panels.append(Panel("R = D = 8", Axis("d", ticks=COMPARED), accuracies, traces, legend="best"))
    return Picture(TITLE, [PanelRow(panels, 3.4)], width=12)


EXPERIMENT = Experiment(
    TITLE,
    PAPER,
    CLAIMS,
    runs=[
        OverSeeds(TASK, ["fact_transformer"], runs.settings, AT_SMOKE, seeds=SEEDS) for runs in ALL
    ],
    records=[lambda record: record.task == TASK and alone(record)],
    panels=picture,
    variant=["tasks.width", "tasks.relations", "tasks.subjects", "tasks.noise", "tasks.length"],
    control=EACH_ITS_OWN,
)
