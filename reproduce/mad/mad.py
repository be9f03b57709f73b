"""MAD: six abilities of each architecture, with states of one size where a model has a setting."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean
from typing import Any

from bench.config.groups import card, choices, default_models
from bench.records.schema import RunRecord
from core.errors import UserError
from core.statistics import SHARE, mean_interval
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import (
    Drawn,
    Measured,
    Number,
    Records,
    Rule,
    Runs,
    above,
    difference,
    each,
    once,
    setting,
    where,
    within,
)
from reproduce.claims.presets import preset_settings
from reproduce.claims.trials import sample
from reproduce.drawing import tables
from reproduce.drawing.plots import dots, names
from reproduce.drawing.traces import over_seeds, published
from reproduce.experiment import Experiment, Sweep
from reproduce.long_term_memory.long_term_memory import KNOWLEDGE
from reproduce.plotting import models
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture

TITLE = "MAD: six abilities of sequence models"
SOURCE = (
    "Poli et al. 2024, Mechanistic Design and Scaling of Hybrid Architectures (arXiv 2403.17844), "
    "section 3; its scores as Yang et al. 2024, DeltaNet (arXiv 2406.06484) print them"
)
# What the suite changes, one setting at a time: a score is the mean over these and the baseline.
CHANGES = card("tasks", "mad")["changes"]
TRANSFORMER, MAMBA = "gpt2_rope", "mamba"
PUBLISHED = {  # scores, in the order of CHANGES
    TRANSFORMER: (0.941, 0.298, 0.868, 0.996, 0.516, 0.852),
    MAMBA: (0.904, 0.067, 0.901, 0.863, 0.527, 0.895),
}
# Numbers of each layer that a sequence keeps, convolutions included (the suite: 4,096 in two), and
# where the card of a model says by which setting it keeps so many, at each width and as nearly as
# it can (at width 32 GLA has no more than 512 and RWKV-7 1,056): the convolutions of Mamba and
# Mamba-2 keep three positions of what they see, the values of RetNet are twice as wide as its keys,
# and the keys of GLA half as wide as its values.
STATE = 2048
KEEPS = f"keeps_{STATE}"
SIZES = ("vocabulary", "length", "noise", "to_copy", "training_examples")
# Those that the 800 steps of a laptop are enough for: a transformer has not begun to recall there.
LAPTOP = ("compression", "memorisation")
LONG = ("gpu", "paper")


def sweeps(preset: str) -> list[Sweep]:
    """A sweep for each task, and at ``paper`` for each change of its sizes. Models whose state has
    a setting are swept apart, with the value that gives all of them states of one size."""
    models, by_state = default_models("mad", preset), states_of_one_size()
    groups: list[tuple[list[str], dict[str, Any]]] = [
        ([m for m in models if m not in by_state], {})
    ]
    for model in models:
        if model in by_state:
            groups.append(([model], _of_one_size(model, *by_state[model], preset)))
    planned = []
    for name in LAPTOP if preset == "laptop" else CHANGES:
        cells: list[dict[str, Any]] = [{}]
        for key, values in CHANGES[name].items() if preset == "paper" else ():
            cells += [{f"tasks.{key}": value} for value in values]
        for cell in cells:
            for group, settings in groups:
                task = {"tasks.synthetic": name, **cell}
                planned.append(Sweep("mad", group, {**task, **settings}))
    return planned


def states_of_one_size() -> dict[str, tuple[str, dict[int, int]]]:
    """Model -> the setting by which it keeps ``STATE`` numbers, and its values by width."""
    setting_by_model = {}
    for model in choices("models"):
        sizes = card("models", model).get(KEEPS)
        if sizes is not None:
            setting_by_model[model] = next(iter(sizes.items()))
    return setting_by_model


def _of_one_size(model: str, key: str, values: dict[int, int], preset: str) -> dict[str, int]:
    width = preset_settings("mad", model, preset)["models"]["width"]
    if width not in values:
        raise UserError(
            f"models/{model}.yaml keeps {STATE:,} numbers by {key} at the widths "
            f"{', '.join(map(str, values))}, and MAD at {preset} has {width}: add it to {KEEPS}"
        )
    return {f"models.{key}": values[width]}


def of(name: str, model: str = "") -> Runs:
    """The finals of a model on a task at the baseline of its preset, or a guess."""

    def usual(record: RunRecord) -> bool:
        baseline = preset_settings("mad", TRANSFORMER, record.preset)["tasks"]
        return all(setting(record, f"tasks.{key}") == baseline[key] for key in SIZES)

    label = f"{models.label(model) if model else 'a guess'} on {_words(name)}"
    return Runs(label, "mad", model, {"tasks.synthetic": name}, usual, "" if model else "uniform")


def models_of(records: Records) -> list[str]:
    """Whatever was run, and what has published scores."""
    return sorted({record.model for record in records if record.role == "final"} | {*PUBLISHED})


def tasks_of(records: Records) -> list[str]:
    """The tasks that were run, in the order of the suite; all of them before any is."""
    run = {setting(record, "tasks.synthetic") for record in records} or CHANGES.keys()
    return [name for name in CHANGES if name in run]


def _words(name: str) -> str:
    return name.replace("in_context", "in-context").replace("_", " ")


def picture(records: Records) -> Picture:
    """A panel for each task: every model, a guess, and the two published scores."""
    panels = [_panel(records, name) for name in tasks_of(records)]
    first_row = sum(name in tasks_of(records) for name in [*CHANGES][:3])
    rows = []
    for row in (panels[:first_row], panels[first_row:]):
        if row:
            rows.append(PanelRow(row, height=3, shared=True))
    return Picture(TITLE, rows, width=11, legend="below")


def _panel(records: Records, name: str) -> Panel:
    models_shown = models_of(records)
    rows = [of(name, model).but(models.label(model)) for model in models_shown]
    guess = of(name).but("a guess", model=())
    legend = "published: mean over all settings of the suite"
    scores = []
    for model, by_task in PUBLISHED.items():
        scores.append((models_shown.index(model), by_task[[*CHANGES].index(name)]))
    traces = [
        *dots("accuracy", rows)(records),
        over_seeds(
            guess.label, {len(rows): guess.of(records)}, "accuracy", mark="dots", colour="grey"
        ),
        published(legend, scores, mark="dots", colour="grey", aside=1.5, legend=legend),
    ]
    x = names([*rows, guess])(records)
    y = Axis("accuracy", limits=(-0.03, 1.05))
    return Panel(_words(name), x, y, traces, sideways=True)


def table(records: Records) -> str:
    """A row for each model: its state, a column for each task, and the mean over them."""
    heads = ["model", "numbers kept in a layer", *map(_words, tasks_of(records)), "mean"]
    return tables.markdown(heads, (_row(records, model) for model in models_of(records)))


def _row(records: Records, model: str) -> list[str]:
    tasks = tasks_of(records)
    sizes = set()
    for record in of(tasks[0], model).of(records):
        if record.cost.state_bytes is not None:
            sizes.add(record.cost.state_bytes // 4 // record.config["models"].get("layers", 1))
    scores = [mean_interval(_scores(records, model, name), SHARE) for name in tasks]
    means = [score.mean for score in scores if score.mean is not None]
    mean = f"{fmean(means):.3f}" if len(means) == len(CHANGES) else "none"
    size = f"{max(sizes):,}" if sizes else "unknown"
    return [models.label(model), size, *map(tables.cell, scores), mean]


def _scores(records: Records, model: str, name: str) -> list[float]:
    """For each seed the mean accuracy over the settings of a task that were run."""
    by_seed: dict[int, list[float]] = defaultdict(list)
    for record in records:
        if record.model == model and setting(record, "tasks.synthetic") == name:
            by_seed[record.seed].append(record.metrics.get("test", {}).get("accuracy", math.nan))
    return list(map(fmean, by_seed.values()))


def _accuracy(model: str, name: str) -> Measured:
    return Number("accuracy", "accuracy").of(of(name, model))


def _both(name: str) -> tuple[Measured, Measured]:
    return _accuracy(TRANSFORMER, name), _accuracy(MAMBA, name)


def _over_settings(model: str, name: str) -> Drawn:
    """The score of a model as the suite has it: the mean over all settings of a task."""
    label = f"score of {of(name, model).label}"
    return Drawn(label, lambda records: sample(label, _scores(records, model, name), SHARE))


def _claim(
    name: str,
    sentence: str,
    *rules: Rule,
    ranked: tuple[str, ...] = (),
    asked_at: tuple[str, ...] = ("laptop", *LONG),
    otherwise: str = "trainings of this preset are too short for it",
) -> Claim:
    """A claim about trained models, judged at the presets that can tell; ``otherwise`` says why
    others cannot."""
    holds = lambda records: all(r.preset in asked_at for r in records)  # noqa: E731
    long = where(holds, name, otherwise, asked_at[0])
    rows = [of(task, model) for task in ranked for model in PUBLISHED]
    return Claim(name, sentence, once(long, each(rules)), ranks=lambda _: rows)


CLAIMS = (
    _claim(
        "attention recalls",
        "A transformer recalls the value of nearly every key that it has seen (94 %).",
        within(_accuracy(TRANSFORMER, "in_context_recall"), low=0.9),
        asked_at=LONG,
    ),
    _claim(
        "fuzzy recall is harder",
        "Keys and values of several tokens are much harder to recall than single ones, for a "
        "transformer (30 instead of 94 %) and for Mamba, which recalls fewer (7 instead of 90 %).",
        *map(above, _both("in_context_recall"), _both("fuzzy_recall"), (0.1, 0.1)),
        above(*_both("fuzzy_recall"), by=0.05),
        ranked=("in_context_recall", "fuzzy_recall"),
        asked_at=LONG,
    ),
    _claim(
        "attention copies better",
        "A transformer copies nearly every token among blanks, Mamba not (99.6 and 86 %).",
        within(_accuracy(TRANSFORMER, "selective_copying"), low=0.95),
        above(*_both("selective_copying"), by=0.05),
        ranked=("selective_copying",),
        asked_at=LONG,
    ),
    _claim(
        "compression is alike",
        "A transformer and Mamba compress nearly as well as each other (52 and 53 %).",
        *(within(accuracy, low=0.2) for accuracy in _both("compression")),  # a guess has 0.1
        difference(*_both("compression"), low=-0.1, high=0.1),
        ranked=("compression",),
    ),
    _claim(
        "Mamba memorises better",
        "Mamba learns more of the facts that no context tells than a transformer (90 and 85 %).",
        above(_over_settings(MAMBA, "memorisation"), _over_settings(TRANSFORMER, "memorisation")),
        ranked=("memorisation",),
        asked_at=("paper",),
        otherwise="the facts of the baseline are so few that both know all of them; the published "
        "scores are means over vocabularies of up to 8,192, which this preset does not run",
    ),
)


def _belongs(record: RunRecord) -> bool:
    """Whether a record is a predictor or a final run on MAD, and none of the figure of the second
    Mosaic's long-term memory, which asks for memorisation with a window of its own."""
    is_final = record.task == "mad" and record.role in ("final", "baseline")
    return is_final and not any(runs.has(record) for runs in KNOWLEDGE.values())


VARIED = ["tasks.synthetic", *(f"tasks.{key}" for key in SIZES)]
OF_STATE = sorted({f"models.{key}" for key, _ in states_of_one_size().values()})
EXPERIMENT = Experiment(
    TITLE,
    SOURCE,
    CLAIMS,
    sweeps=sweeps,
    records=[_belongs],
    panels=picture,
    variant=VARIED,
    varied=(*VARIED, *OF_STATE),
    table=table,
)
