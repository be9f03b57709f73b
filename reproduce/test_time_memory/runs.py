"""The runs of memories at test time: which are needed, and what tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.config.config import parse
from bench.records.schema import RunRecord
from reproduce.claims.grammar import Records, Runs
from reproduce.claims.presets import flat, preset_settings
from reproduce.reproduction import Plan

TASK = "test_time_memory"
SECTIONS = ("tasks", "models")  # of what tells settings apart
SEEDS = 5

HEBB, DELTA, RIDGE = "outer_product", "delta_rule", "ridge"
KERNEL, NEAREST = "kernel", "nearest_neighbour"
HOPFIELD = "classical_hopfield"
NEURAL, LINEAR = "neural_memory", "neural_memory_linear"
WEIGHTS, TRAINED = "stored_in_weights", "trained_linear"
MEMORIES = (  # forms of one kind stand together
    HEBB,
    "low_rank",
    DELTA,
    "gated_delta",
    RIDGE,
    "random_features",
    KERNEL,
    "modern_hopfield",
    HOPFIELD,
    LINEAR,
    NEURAL,
    TRAINED,
    "trained_low_rank",
    "mlp",
    WEIGHTS,
    NEAREST,
)
# Pairs that contradict each other are never all recalled: a training that waits for it never ends.
PATIENT = {
    TRAINED: ("models.patience=4",),
    "trained_low_rank": ("models.patience=4", "models.steps=256"),
    # At the edge of its capacity it goes on and on: its slope is left to the capacities' figure.
    "mlp": ("models.check_every=32", "models.patience=8", "models.steps=4096", "tasks.widths=[]"),
}
NUMBERS, TEXT, INTEGERS = "numbers", "text", "integers"
MOMENTUM, DECAY, NO_DECAY = "large momentum", "forgetting", "no forgetting"
NO_REPLAY = "no replay"
TITANS_SETTINGS = {
    MOMENTUM: (LINEAR, ("models.momentum=0.9",)),
    DECAY: (LINEAR, ("models.rate=0.5", "models.momentum=0.0", "models.decay=0.02")),
    NO_DECAY: (LINEAR, ("models.rate=0.5", "models.momentum=0.0")),
    NO_REPLAY: (WEIGHTS, ("models.replay=0.0",)),
}
STABLE = "README: stable form"
ONE, MANY, STREAM = "README: one", "README: many", "README: stream"
ONE_SMALL = "README: one, the step of many"
CAPACITY, FORGETTING = "README: capacity", "README: forgetting"
# Eight times fifty sequences tell 0.99 from less, and eight trainings a half from none.
TRAININGS = {MANY: 8}
LARGE_STEP, STREAM_ALONE = "README: many, ten times the step", "README: stream, nothing replayed"


@dataclass(frozen=True)
class Setting:
    """A memory and the words that make it other than it comes; ``name`` is "" where none do."""

    name: str
    model: str
    words: tuple[str, ...] = ()
    many_seeds: bool = False  # as the claims that compare recalls need
    trainings: int = 0  # so many at least, each from a seed of its own


@cache
def settings(preset: str) -> tuple[Setting, ...]:
    """Every memory over every material, the settings that claims compare, and the README's network
    with the settings that its script for each experiment has."""
    found = [Setting("", name, PATIENT.get(name, ()), name not in PATIENT) for name in MEMORIES]
    found += [Setting(n, model, words, True) for n, (model, words) in TITANS_SETTINGS.items()]
    found += [
        Setting(material, name, (f"tasks.material={material}", *PATIENT.get(name, ())))
        for material in (NUMBERS, TEXT, INTEGERS)
        for name in MEMORIES
    ]
    over_tokens = (f"tasks.material={INTEGERS}", "models.vocabulary=1001")
    found.append(Setting(STABLE, WEIGHTS, over_tokens))
    found += [
        Setting(name, WEIGHTS, (*over_tokens, *words), trainings=TRAININGS.get(name, 0))
        for name, words in _readme(preset).items()
    ]
    return tuple(found)


def _readme(preset: str) -> dict[str, tuple[str, ...]]:
    published = preset in ("gpu", "paper")
    # Below the published scale a training ends where every number is found by rounding.
    ends = dict.fromkeys(("one", "many", "capacity"), "0.001")
    if published:  # a sum of 1e-4 over 50 sequences; a mean of 1e-5
        ends = {"one": "0.0", "many": "2e-6", "capacity": "1e-5"}
    epochs = 1000 if preset == "smoke" else 10_000
    common = ["models.loss=squared", "models.clip=null", f"models.steps={epochs}"]
    if not published:
        common.append("tasks.trials=1")
    single = (*common, "models.batch_size=1", "models.momentum=0.0")
    small = (*single, "models.lr=1e-5", f"models.tolerance={ends['many']}")
    batches = (*common, "models.lr=1e-4", "models.weight_decay=1e-5")
    batches = (*batches, f"models.tolerance={ends['capacity']}")

    def only(name: str) -> str:
        return f"tasks.experiments=[{name}]"

    return {
        ONE: (*single, "models.lr=5e-4", f"models.tolerance={ends['one']}", only("one")),
        # A share of 0.99 is told from less by some 400 sequences, of a third of a second each.
        ONE_SMALL: (*small, only("one"), "tasks.trials=150"),
        MANY: (*small, only("one,many")),
        LARGE_STEP: (*single, "models.lr=1e-4", "models.tolerance=0.001", only("many")),
        STREAM: (*small, only("stream")),
        STREAM_ALONE: (*small, only("stream"), "models.replay=0.0"),
        CAPACITY: (*batches, only("capacity")),
        FORGETTING: (*batches, only("forgetting"), "models.replay=0.0"),
    }


def plan(preset: str, seeds: int | None) -> Plan:
    """Every setting over seeds."""
    runs = []
    for setting in settings(preset):
        few = 1 if preset == "smoke" else 3
        usual = (3 if preset == "smoke" else SEEDS) if setting.many_seeds else few
        count = seeds or max(usual, 0 if preset == "smoke" else setting.trainings)
        words = (f"tasks={TASK}", f"models={setting.model}", *setting.words)
        runs += [(*words, f"seed={seed}") for seed in range(count)]
    return Plan(runs=tuple(runs))


def variant_of(record: RunRecord) -> str:
    """The name of the setting that a run agrees with most; "" for the memory as it comes."""
    own = flat(record.config, SECTIONS)
    known = _expected(record.preset, record.model)
    return max(known, key=lambda name: len(_agreeing(own, known[name])), default="")


def _agreeing(own: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    return [key for key, value in expected.items() if own.get(key) == value]


@cache
def _expected(preset: str, model: str) -> dict[str, dict[str, Any]]:
    """All that task and model are given in each setting of a memory."""
    own = [setting for setting in settings(preset) if setting.model == model]
    usual = flat(preset_settings(TASK, model, preset), SECTIONS) if own else {}
    return {setting.name: usual | _changes(setting.words) for setting in own}


def _changes(words: Sequence[str]) -> dict[str, Any]:
    return {change.key_or_group: change.value() for change in parse(words)}


def select(records: Records) -> list[RunRecord]:
    """Runs with exactly the settings that are planned. If there is none, those that the user
    changed."""
    found = [r for r in records if r.task == TASK and r.role != "baseline"]
    own = [record for record in found if _as_planned(record)]
    return sorted(own or found, key=lambda record: record.run_id)


def _as_planned(record: RunRecord) -> bool:
    planned = _expected(record.preset, record.model).get(variant_of(record))
    return flat(record.config, SECTIONS) == planned


def of(model: str, variant: str = "") -> Runs:
    """The runs of a memory in one setting."""
    return Runs(model, TASK, model, choose=lambda record: variant_of(record) == variant)
