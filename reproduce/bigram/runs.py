"""The runs of the bigram task, its probes and the three gradient steps, by rows of the figure."""

from __future__ import annotations

from collections.abc import Hashable

from bench.config.groups import contenders, entrants, guests
from bench.records.schema import RunRecord
from reproduce.claims.grammar import Records, Runs, any_of, setting
from reproduce.plotting import models
from reproduce.reproduction import Plan

TASKS = ("bigram", "bigram_probes", "three_gradient_steps")
NAMED = ("gpt2", "memory_mosaic")  # in claims, at the depth that these speak of
# One row whatever the preset's depth: all others that contend at smoke too, where it is one layer.
ANY_DEPTH = tuple(name for name in contenders("bigram", "smoke") if name not in NAMED)
# model/layers -> what it is called.
LABELS = {
    "gpt2/1": "attention, 1 layer",
    "gpt2/2": "attention, 2 layers",
    "memory_mosaic/1": "memory units, 1 layer",
    **{
        f"{name}/2": models.label(name)
        for name in contenders("bigram", "paper")
        if name not in NAMED
    },
}
SEEDS = 3
STEP_SEEDS = {"laptop": 30}  # of 15 items each: 0.93 is told from 0.9 by some 450
PROBE_SEEDS = {"laptop": 5}  # when a memory is learned varies more than what is learned
MEMORY_STEPS = 200  # in which one layer of memory units has to learn the task
# For each model about which nothing is claimed. Attention has 1000, which one layer needs to its
# plateau; so many of Mamba or Titans, whose steps are slower, would take hours with their search.
FEWER_STEPS = {"laptop": 400}
# Of two layers the claims ask for nearly all, and few data leave an interval too wide.
DATA_SEEDS = {"laptop": ("sweep.data_seeds=12",)}
WITH_RANDOM_TRIGGERS = ("laptop", "gpu", "paper")
# What the runs about dynamics have and no run of this figure: probes after so few steps, and random
# embeddings of these sizes.
FINE, WIDE, NARROW = 5, 256, 32


def plan(preset: str, seeds: int | None) -> Plan:
    """Sweeps of every model of the figure; its theory model and the three steps, one run a seed.

    At ``laptop`` attention is trained for 1000 steps, one layer of memory units for the 200 of its
    claim, and the other contenders for 400.
    """
    bigram = "tasks=bigram"
    memory = () if preset == "smoke" else _for(MEMORY_STEPS)
    fewer = _for(FEWER_STEPS[preset]) if preset in FEWER_STEPS else ()
    others = [name for name in entrants("bigram", preset) if name not in NAMED]
    units = (bigram, "models=memory_mosaic", "models.layers=1")
    sweeps: list[tuple[str, ...]] = [
        (bigram, "models=gpt2", "models.layers=1"),
        (bigram, "models=gpt2", "models.layers=2", *DATA_SEEDS.get(preset, ())),
        (*units, *memory),
        (bigram, f"models=[{','.join(others)}]", *fewer),
    ]
    if preset in WITH_RANDOM_TRIGGERS:
        random = "tasks.triggers=random"
        more = DATA_SEEDS.get(preset, ())
        sweeps += [(bigram, "models=gpt2", "models.layers=2", random, *more), (*units, random)]
    counts = {
        ("tasks=three_gradient_steps", "models=disentangled_attention"): STEP_SEEDS.get(
            preset, SEEDS
        ),
        ("tasks=bigram_probes", "models=two_layer_attention"): PROBE_SEEDS.get(preset, SEEDS),
    }
    runs = [(*one, f"seed={n}") for one, count in counts.items() for n in range(seeds or count)]
    return Plan(tuple(runs), sweeps=tuple(sweeps))


def _for(steps: int) -> tuple[str, ...]:
    """So many steps, with as many validations as the preset has in its own."""
    return f"training.steps={steps}", f"training.validate_every={steps // 10}"


def _belongs(record: RunRecord) -> bool:
    if record.task == "bigram" and record.role != "baseline":
        known = row_of(record) in LABELS or record.model in guests()
        return record.role == "final" and known
    if record.task == "bigram":  # predictors, of one kind of triggers
        return bool(setting(record, "tasks.triggers") == "fixed")
    return record.task in TASKS and record.role != "baseline" and not is_of_dynamics(record)


def is_of_dynamics(record: RunRecord) -> bool:
    """Whether a run belongs to the figure about dynamics of learning, and not to this one."""
    if record.task == "bigram_probes":
        return bool(setting(record, "tasks.probe_every") == FINE)
    own = setting(record, "models.embeddings"), setting(record, "models.width")
    return record.task == "three_gradient_steps" and own in [
        ("gaussian", d) for d in (WIDE, NARROW)
    ]


select = any_of(_belongs)


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
    """All rows of the figure, as keys of ``LABELS`` have them: those that claims speak of, and
    guests."""
    beside = sorted({row_of(record) for record in records if record.model in guests()})
    own = {row: of_row(row) for row in LABELS if row not in beside}
    return own | {row: _of_guest(row) for row in beside}


def _of_guest(row: str) -> Runs:
    label = models.label(row.partition("/")[0])
    return Runs(label, "bigram", choose=lambda record: row_of(record) == row)


PROBED = Runs("the simplified model", "bigram_probes")
STEPPED = Runs("three gradient steps", "three_gradient_steps")
