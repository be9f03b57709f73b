"""The runs of multi-query recall: which are needed, and what tells them apart."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from bench.config.groups import choices, contenders, default_models
from bench.records.schema import RunRecord
from reproduce.claims.grammar import Records
from reproduce.claims.observations import latest
from reproduce.claims.presets import preset_settings
from reproduce.experiment import Sweep
from reproduce.plotting import models

# What a model is called here, where one layer of it stands for a kind of memory.
TASK = "multi_query_recall"
LABELS = {
    "memory_mosaic": "memory units",
    "conv_attention": "attention with a short convolution",
    "gpt2": "attention",
}
# What they keep of the past does not grow with it.
FIXED_STATE = ("lstm", "s4d", "mamba")
# Attention with a state that grows, beside them.
COMPARED = ("conv_attention", *FIXED_STATE)
EASY, PLAIN, LONG, FORGETTING = "easy", "plain", "long", "forgetting"
MEMORY_STEPS = 100  # in which one layer of memory units has to learn the easy cell
# Of what has learned nothing after the steps that all take, or still improves. How such a model
# falls with the pairs is a question about its state once it has converged.
LONG_STEPS = {"laptop": 8000}
# Which models take how many more steps, by preset and width: at the smallest and the largest, what
# a size of the state holds; at the largest attention too, to compare trainings of equal length.
# (Mamba still improves after 8,000 where its state is smallest.)
LONGER = {
    "laptop": {
        16: {**dict.fromkeys(FIXED_STATE, LONG_STEPS["laptop"]), "mamba": 24000},
        64: dict.fromkeys(COMPARED, LONG_STEPS["laptop"]),
    }
}
# Decays by channel and by head: three data of the narrowest leave an interval of 0.35.
GATED, GATED_SEEDS = ("kda", "gated_delta_net"), {"laptop": 72}
# Of the two models that recall_by_state compares where they are narrowest, and learn slowly.
NARROW_STEPS = {"laptop": 9600}
MORE_PAIRS = (4, 8, 16, 32, 64)
PAIRS = {"smoke": (2, 4, 8), "laptop": (2, 4, 8), "gpu": MORE_PAIRS, "paper": MORE_PAIRS}
# What leaves room in a sequence for keys that are written again.
FEWER_PAIRS = (4, 8, 16, 32)
PAIRS_OF_FORGETTING = {
    "smoke": (2, 4, 6),
    "laptop": (2, 4, 6),
    "gpu": FEWER_PAIRS,
    "paper": FEWER_PAIRS,
}
REWRITTEN = 2
WIDTHS = {"smoke": (32,), "laptop": (16, 32, 64), "gpu": (64, 128, 256), "paper": (64, 128, 256)}


def sweeps(preset: str) -> list[Sweep]:
    """The easy cell of the two models that claims name; every model that takes part at several
    numbers of pairs and several widths, and at the largest width with keys that are written again;
    and more steps for those that need them, at the smallest and the largest width."""
    easy = {"tasks.protocol": "easy", "models.layers": 1}
    few_steps = {} if preset == "smoke" else of_length(MEMORY_STEPS, validations=10)
    rewritten = {"tasks.pairs": PAIRS_OF_FORGETTING[preset], "tasks.rewritten": REWRITTEN}
    return [
        Sweep(TASK, ["memory_mosaic"], {**easy, **few_steps}),
        Sweep(TASK, ["conv_attention"], easy),
        *plain_sweeps(preset),
        *long_sweeps(preset),
        Sweep(TASK, (), {**rewritten, "models.width": WIDTHS[preset][-1]}),
    ]


def plain(preset: str, width: int) -> dict[str, Any]:
    """The cell in which every key is written once, at one width."""
    return {"tasks.pairs": PAIRS[preset], "models.width": width}


def of_length(steps: int, validations: int = 20) -> dict[str, int]:
    """A training of so many steps, validated so often."""
    return {"training.steps": steps, "training.validate_every": steps // validations}


def plain_sweeps(preset: str) -> list[Sweep]:
    """Sweeps over all that take part, one for each width; apart from it those of the narrowest that
    get more data. A search of a few data beside it may come to another setting."""
    narrow, *wider = (plain(preset, width) for width in WIDTHS[preset])
    planned = [Sweep(TASK, (), narrow)]
    if preset in GATED_SEEDS:
        others = [name for name in default_models(TASK, preset) if name not in GATED]
        more_data = {"sweep.data_seeds": GATED_SEEDS[preset]}
        planned = [Sweep(TASK, others, narrow), Sweep(TASK, GATED, {**narrow, **more_data})]
    return planned + [Sweep(TASK, (), cell) for cell in wider]


def long_sweeps(preset: str) -> list[Sweep]:
    """The same cells with more steps, of the models that need these."""
    planned = []
    for width, steps_by_model in LONGER.get(preset, {}).items():
        for count in sorted(set(steps_by_model.values())):
            models = [model for model, steps in steps_by_model.items() if steps == count]
            planned.append(Sweep(TASK, models, {**plain(preset, width), **of_length(count)}))
    return planned


def long_steps(preset: str, model: str, of_width: int) -> int | None:
    """How many steps the longer trainings of a model have at a width; none where it has none."""
    return LONGER.get(preset, {}).get(of_width, {}).get(model)


def models_of(records: Records) -> tuple[str, ...]:
    """The contenders at the preset of these records."""
    return contenders("multi_query_recall", records[0].preset) if records else ()


def label(model: str) -> str:
    """What a model is called here."""
    return LABELS.get(model) or models.label(model)


def kind(record: RunRecord) -> str | None:
    """``EASY``, one number of pairs; ``PLAIN``, several; ``LONG``, several, and the steps that a
    slow model needs; ``FORGETTING``, several, and keys that are written again. None of other tasks,
    models and cells."""
    contends = record.model in contenders("multi_query_recall", record.preset)
    if record.task != "multi_query_recall" or not contends or not _as_it_comes(record):
        return None
    task = record.config["tasks"]
    if task["protocol"] == "easy" and task["pairs"] == [4] and not task["rewritten"]:
        return EASY
    if task["protocol"] != "as_set" or len(task["pairs"]) < 2:
        return None
    if task["rewritten"]:
        return FORGETTING
    if steps(record) == long_steps(record.preset, record.model, width(record)):
        return LONG
    return None if more_than_plain(record) else PLAIN


def belongs(record: RunRecord) -> bool:
    """Whether a run is in one of the cells."""
    return record.role not in ("trial", "baseline") and kind(record) is not None


def more_than_plain(record: RunRecord) -> bool:
    """Whether it has the steps of a cell that not all models are in."""
    longer = {number for of in LONGER.get(record.preset, {}).values() for number in of.values()}
    return steps(record) in longer | {NARROW_STEPS.get(record.preset)}


def _as_it_comes(record: RunRecord) -> bool:
    """Not one with another convolution than the model's own, which another figure asks about."""
    if record.model not in choices("models"):  # a guest comes from another package
        return True
    usual = preset_settings(record.task, record.model, record.preset)["models"]
    key = "convolution"
    return bool(record.config["models"].get(key, usual.get(key)) == usual.get(key))


def width(record: RunRecord) -> int:
    """The size of the hidden vectors."""
    return int(record.config["models"]["width"])


def steps(record: RunRecord) -> int:
    """Steps that the model of a run was trained for; 0 for a predictor without training."""
    return int(record.config["training"]["steps"] or 0)


def variant(record: RunRecord) -> Hashable:
    """What one figure shows side by side."""
    task = record.config["tasks"]
    return kind(record), tuple(task["pairs"]), task["rewritten"], width(record)


def of(
    records: Records, cell: str, model: str | None = None, of_width: int | None = None
) -> list[RunRecord]:
    """Runs of a kind of cell, one for each model, width and seed."""
    in_cell = [
        record
        for record in records
        if model in (None, record.model)
        and kind(record) == cell
        and of_width in (None, width(record))
    ]
    return latest(in_cell, lambda record: (record.model, variant(record), record.seed))


def widths(records: Records, cell: str, model: str | None = None) -> list[int]:
    """The widths that were run, from narrow to wide."""
    return sorted({width(record) for record in of(records, cell, model)})


def widest(records: Records, cell: str, model: str) -> list[RunRecord]:
    """Runs of a model at the largest width of a kind of cell."""
    sizes = widths(records, cell)
    return of(records, cell, model, sizes[-1]) if sizes else []


def pairs(records: Records) -> list[int]:
    """Numbers of pairs that all these records were evaluated at."""
    tasks = [record.config["tasks"] for record in records]
    each = [set(task["evaluated_pairs"] or task["pairs"]) for task in tasks]
    return sorted(set.intersection(*each)) if each else []


def state_of(records: Records) -> int:
    """Bytes that a sequence keeps, of runs of one setting."""
    return max((record.cost.state_bytes or 0 for record in records), default=0)
