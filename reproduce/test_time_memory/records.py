"""The runs of memories at test time: which are needed, what tells them apart, their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.records.schema import RunRecord
from bench.settings.config import parse
from reproduce.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from reproduce.judging.observations import Sample, observe
from reproduce.judging.presets import preset_settings
from reproduce.judging.reproduction import Plan

TASK = "test_time_memory"
SEEDS = 5

HEBB, DELTA, RIDGE = "outer_product", "delta_rule", "ridge"
KERNEL, NEAREST = "kernel", "nearest_neighbour"
NEURAL, LINEAR = "neural_memory", "neural_memory_linear"
WEIGHTS, TRAINED = "stored_in_weights", "trained_linear"
LOOKS = {  # colour and line; forms of one kind share a colour
    HEBB: (ORANGE, "-"),
    "low_rank": (ORANGE, "--"),
    DELTA: (BLUE, "-"),
    "gated_delta": (BLUE, "--"),
    RIDGE: (GREEN, "-"),
    "random_features": (GREEN, "--"),
    KERNEL: (PURPLE, "-"),
    "modern_hopfield": (PURPLE, "--"),
    "classical_hopfield": (PURPLE, "-."),
    LINEAR: (VERMILLION, "--"),
    NEURAL: (VERMILLION, "-"),
    TRAINED: (GREY, "--"),
    "trained_low_rank": (GREY, "-."),
    "mlp": (GREY, ":"),
    WEIGHTS: (GREY, "-"),
    NEAREST: (BLACK, ":"),
}
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
CAPACITY, FORGETTING = "README: capacity", "README: forgetting"
LARGE_STEP, STREAM_ALONE = "README: many, ten times the step", "README: stream, nothing replayed"


@dataclass(frozen=True)
class Setting:
    """A memory and the words that make it other than it comes; ``name`` is "" where none do."""

    name: str
    model: str
    words: tuple[str, ...] = ()
    many_seeds: bool = False  # as the claims that compare recalls need


@cache
def settings(preset: str) -> tuple[Setting, ...]:
    """Every memory over every material, the settings that claims compare, and the README's network
    with the settings that its script for each experiment has."""
    found = [Setting("", name, PATIENT.get(name, ()), name not in PATIENT) for name in LOOKS]
    found += [Setting(n, model, words, True) for n, (model, words) in TITANS_SETTINGS.items()]
    found += [
        Setting(material, name, (f"tasks.material={material}", *PATIENT.get(name, ())))
        for material in (NUMBERS, TEXT, INTEGERS)
        for name in LOOKS
    ]
    over_tokens = (f"tasks.material={INTEGERS}", "models.vocabulary=1001")
    found.append(Setting(STABLE, WEIGHTS, over_tokens))
    found += [
        Setting(name, WEIGHTS, (*over_tokens, *words)) for name, words in _readme(preset).items()
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
        count = seeds or ((3 if preset == "smoke" else SEEDS) if setting.many_seeds else few)
        words = (f"tasks={TASK}", f"models={setting.model}", *setting.words)
        runs += [(*words, f"seed={seed}") for seed in range(count)]
    return Plan(runs=tuple(runs))


def variant_of(record: RunRecord) -> str:
    """The name of the setting that a run agrees with most; "" for the memory as it comes."""
    values = _values(record.preset, record.model)
    agreeing = {
        name: sum(_at(record.config, key) == value for key, value in expected.items())
        for name, expected in values.items()
    }
    return max(agreeing, key=lambda name: agreeing[name], default="")


@cache
def _values(preset: str, model: str) -> dict[str, dict[str, Any]]:
    """Of each setting of a memory the values of all keys that any of them changes."""
    changed = {s.name: _changes(s.words) for s in settings(preset) if s.model == model}
    keys = sorted({key for changes in changed.values() for key in changes})
    if not keys:
        return {name: {} for name in changed}
    own = preset_settings(TASK, model, preset)
    return {
        name: {key: changes.get(key, _at(own, key)) for key in keys}
        for name, changes in changed.items()
    }


def _changes(words: Sequence[str]) -> dict[str, Any]:
    return {change.key_or_group: change.value() for change in parse(words)}


def _at(config: Any, key: str) -> Any:
    section, _, name = key.partition(".")
    return config[section].get(name)


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs with exactly the settings that are planned. If there is none, those that the user
    changed."""
    found = [r for r in records if r.task == TASK and r.role != "baseline"]
    own = [record for record in found if _as_planned(record)]
    return sorted(own or found, key=lambda record: record.run_id)


def _as_planned(record: RunRecord) -> bool:
    if record.model not in LOOKS:
        return False
    expected = deepcopy(preset_settings(TASK, record.model, record.preset))
    for key, value in _values(record.preset, record.model)[variant_of(record)].items():
        section, _, name = key.partition(".")
        expected[section][name] = value
    return all(record.config[section] == expected[section] for section in ("tasks", "models"))


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
    plus: str | None = None,
) -> Sample:
    """A metric on the test split over seeds; with ``plus`` its sum with that other one."""
    runs = runs_of(records, model, variant)
    names = (metric,) if plus is None else (metric, plus)
    label = f"{runs[0].label if runs else model}{f', {variant}' if variant else ''}: "

    def value(record: RunRecord) -> float | None:
        numbers = [record.metrics.get("test", {}).get(name) for name in names]
        known = [number for number in numbers if number is not None]
        return sum(known) if len(known) == len(names) else None

    return observe(label + " + ".join(names), runs, value, bounds)
