"""The runs of the bigram task, its probes and the three gradient steps, by rows of the figure."""

from __future__ import annotations

from collections.abc import Hashable

from bench.config.groups import contenders, default_models, guests
from bench.records.schema import RunRecord
from reproduce.claims.grammar import Records, Runs, setting
from reproduce.experiment import OverSeeds, Sweep
from reproduce.plotting import models

TASKS = ("bigram", "bigram_probes", "three_gradient_steps")
NAMED = ("gpt2", "memory_mosaic")  # in claims, at the depth that these speak of
# One row whatever the preset's depth: all others that contend at smoke too, where it is one layer.
ANY_DEPTH = tuple(name for name in contenders("bigram", "smoke") if name not in NAMED)
# model/layers -> what it is called.
LABELS = {
    "gpt2/1": "attention, 1 layer",
    "gpt2/2": "attention, 2 layers",
    "memory_mosaic/1": "memory units, 1 layer",
}
for name in contenders("bigram", "paper"):
    if name not in NAMED:
        LABELS[f"{name}/2"] = models.label(name)
SEEDS = {"smoke": 3, "laptop": 3, "gpu": 3, "paper": 3}
STEP_SEEDS = SEEDS | {"laptop": 30}  # of 15 items each: 0.93 is told from 0.9 by some 450
PROBE_SEEDS = SEEDS | {"laptop": 5}  # when a memory is learned varies more than what is
MEMORY_STEPS = 200  # in which one layer of memory units has to learn the task
# For each model about which nothing is claimed. Attention has 1000, which one layer needs to its
# plateau; so many of Mamba or Titans, whose steps are slower, would take hours with their search.
FEWER_STEPS = 400
# Of two layers the claims ask for nearly all, and few data leave an interval too wide.
DATA_SEEDS = {"laptop": {"sweep.data_seeds": 12}}
WITH_RANDOM_TRIGGERS = ("laptop", "gpu", "paper")
# What the runs about dynamics have and no run of this figure: probes after so few steps, and random
# embeddings of these sizes.
FINE, WIDE, NARROW = 5, 256, 32
COARSE = 50  # probes of the figure about attention, which asks for the end


def sweeps(preset: str) -> list[Sweep]:
    """Sweeps of every model of the figure. At ``laptop`` attention is trained for 1000 steps, one
    layer of memory units for the 200 of its claim, and the other models for 400."""
    others = [name for name in default_models("bigram", preset) if name not in NAMED]
    one_layer, two_layers, random = (
        {"models.layers": 1},
        {"models.layers": 2},
        {"tasks.triggers": "random"},
    )
    few_steps = {} if preset == "smoke" else _of_length(MEMORY_STEPS)
    return [
        Sweep("bigram", ["gpt2"], one_layer),
        Sweep("bigram", ["gpt2"], two_layers, DATA_SEEDS),
        Sweep("bigram", ["memory_mosaic"], {**one_layer, **few_steps}),
        Sweep("bigram", others, at={"laptop": _of_length(FEWER_STEPS)}),
        Sweep("bigram", ["gpt2"], {**two_layers, **random}, DATA_SEEDS, WITH_RANDOM_TRIGGERS),
        Sweep("bigram", ["memory_mosaic"], {**one_layer, **random}, presets=WITH_RANDOM_TRIGGERS),
    ]


def _of_length(steps: int) -> dict[str, int]:
    """A training of so many steps, validated as often as that of the preset."""
    return {"training.steps": steps, "training.validate_every": steps // 10}


RUNS = (
    OverSeeds("three_gradient_steps", ["disentangled_attention"], seeds=STEP_SEEDS),
    OverSeeds("bigram_probes", ["two_layer_attention"], seeds=PROBE_SEEDS),
)


def belongs(record: RunRecord) -> bool:
    """Whether a record is of this figure: models of its rows, and predictors of one kind of
    triggers."""
    if record.task != "bigram":
        others = is_of_dynamics(record) or attends(record)
        return record.task in TASKS and record.role != "baseline" and not others
    if record.role == "baseline":
        return bool(setting(record, "tasks.triggers") == "fixed")
    return record.role == "final" and (row_of(record) in LABELS or record.model in guests())


def is_of_dynamics(record: RunRecord) -> bool:
    """Whether a run belongs to the figure about dynamics of learning, and not to this one."""
    if record.task == "bigram_probes":
        return bool(setting(record, "tasks.probe_every") == FINE)
    embeddings_and_width = setting(record, "models.embeddings"), setting(record, "models.width")
    return record.task == "three_gradient_steps" and embeddings_and_width in [
        ("gaussian", d) for d in (WIDE, NARROW)
    ]


def attends(record: RunRecord) -> bool:
    """Whether a run belongs to the figure about where attention looks, and not to this one."""
    probes = setting(record, "tasks.probe_every")
    return record.task == "bigram_probes" and bool(probes == COARSE)


def row_of(record: RunRecord) -> str:
    """ "gpt2/1": the key of ``LABELS``."""
    if record.model in ANY_DEPTH:
        return f"{record.model}/2"
    return f"{record.model}/{record.config['models'].get('layers')}"


def variant(record: RunRecord) -> Hashable:
    """What one figure shows side by side: tasks, depths and kinds of triggers."""
    if record.task != "bigram" or record.role == "baseline":
        return record.task
    return row_of(record), record.config["tasks"]["triggers"]


def of_row(row: str, triggers: str = "fixed") -> Runs:
    """The trained runs of a row of ``LABELS``."""
    settings = {"tasks.triggers": triggers}
    return Runs(LABELS[row], "bigram", settings=settings, choose=lambda r: row_of(r) == row)


def rows_of(records: Records) -> dict[str, Runs]:
    """The rows of the figure that have runs, as keys of ``LABELS`` have them: those that claims
    speak of, and guests."""
    extra = sorted({row_of(record) for record in records if record.model in guests()})
    rows = {row: of_row(row) for row in LABELS if row not in extra}
    for row in extra:
        rows[row] = _of_guest(row)
    return {row: runs for row, runs in rows.items() if runs.of(records)}


def _of_guest(row: str) -> Runs:
    label = models.label(row.partition("/")[0])
    return Runs(label, "bigram", choose=lambda record: row_of(record) == row)


PROBED = Runs("the simplified model", "bigram_probes")
STEPPED = Runs("three gradient steps", "three_gradient_steps")
