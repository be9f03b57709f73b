"""The runs of memories at test time: which are needed, and what tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

from bench.records.schema import RunRecord
from reproduce.claims.grammar import Records, Runs
from reproduce.claims.presets import flat, preset_settings
from reproduce.experiment import OverSeeds

TASK = "test_time_memory"
SECTIONS = ("tasks", "models")  # of what tells settings apart
PRESETS = ("smoke", "laptop", "gpu", "paper")
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
PATIENT: Mapping[str, Mapping[str, Any]] = {
    TRAINED: {"models.patience": 4},
    "trained_low_rank": {"models.patience": 4, "models.steps": 256},
    # At the edge of its capacity it goes on and on: its slope is left to the capacities' figure.
    "mlp": {
        "models.check_every": 32,
        "models.patience": 8,
        "models.steps": 4096,
        "tasks.widths": [],
    },
}
NUMBERS, TEXT, INTEGERS = "numbers", "text", "integers"
MOMENTUM, DECAY, NO_DECAY = "large momentum", "forgetting", "no forgetting"
NO_REPLAY = "no replay"
TITANS_SETTINGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    MOMENTUM: (LINEAR, {"models.momentum": 0.9}),
    DECAY: (LINEAR, {"models.rate": 0.5, "models.momentum": 0.0, "models.decay": 0.02}),
    NO_DECAY: (LINEAR, {"models.rate": 0.5, "models.momentum": 0.0}),
    NO_REPLAY: (WEIGHTS, {"models.replay": 0.0}),
}
STABLE = "README: stable form"
ONE, MANY, STREAM = "README: one", "README: many", "README: stream"
ONE_SMALL = "README: one, the step of many"
CAPACITY, FORGETTING = "README: capacity", "README: forgetting"
LARGE_STEP, STREAM_ALONE = "README: many, ten times the step", "README: stream, nothing replayed"


@dataclass(frozen=True)
class Variant:
    """A memory and the settings that make it other than it comes; ``name`` is "" where none do.

    Attributes:
        seeds: of every preset but ``smoke``.
        seeds_at_smoke: of that one.
    """

    name: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 3
    seeds_at_smoke: int = 1


@cache
def variants(preset: str) -> tuple[Variant, ...]:
    """Every memory over every material, the settings that claims compare, and the README's network
    with the settings that its script for each experiment has."""
    compared = {"seeds": SEEDS, "seeds_at_smoke": 3}  # as the claims that compare recalls need
    planned = []
    for model in MEMORIES:
        settings = PATIENT.get(model, {})
        planned.append(Variant("", model, settings, **({} if settings else compared)))
    for name, (model, settings) in TITANS_SETTINGS.items():
        planned.append(Variant(name, model, settings, **compared))
    for material, model in product((NUMBERS, TEXT, INTEGERS), MEMORIES):
        settings = {"tasks.material": material, **PATIENT.get(model, {})}
        planned.append(Variant(material, model, settings))
    over_tokens = {"tasks.material": INTEGERS, "models.vocabulary": 1001}
    planned.append(Variant(STABLE, WEIGHTS, over_tokens))
    for name, settings in _readme(preset).items():
        # Eight times fifty sequences tell 0.99 from less, and eight trainings a half from none.
        seeds = 8 if name == MANY else 3
        planned.append(Variant(name, WEIGHTS, {**over_tokens, **settings}, seeds))
    return tuple(planned)


def _readme(preset: str) -> dict[str, dict[str, Any]]:
    published = preset in ("gpu", "paper")
    # Below the published scale a training ends where every number is found by rounding.
    one_ends, many_end, capacity_ends = 0.001, 0.001, 0.001
    if published:  # a sum of 1e-4 over 50 sequences; a mean of 1e-5
        one_ends, many_end, capacity_ends = 0.0, 2e-6, 1e-5
    common: dict[str, Any] = {"models.loss": "squared", "models.clip": None}
    common["models.steps"] = 1000 if preset == "smoke" else 10_000
    if not published:
        common["tasks.trials"] = 1
    single = {**common, "models.batch_size": 1, "models.momentum": 0.0}
    small = {**single, "models.lr": 1e-5, "models.tolerance": many_end}
    batches = {**common, "models.lr": 1e-4, "models.weight_decay": 1e-5}
    batches["models.tolerance"] = capacity_ends
    no_replay = {"models.replay": 0.0}

    def only(*names: str) -> dict[str, Any]:
        return {"tasks.experiments": list(names)}

    return {
        ONE: {**single, "models.lr": 5e-4, "models.tolerance": one_ends, **only("one")},
        # A share of 0.99 is told from less by some 400 sequences, of a third of a second each.
        ONE_SMALL: {**small, **only("one"), "tasks.trials": 150},
        MANY: {**small, **only("one", "many")},
        LARGE_STEP: {**single, "models.lr": 1e-4, "models.tolerance": 0.001, **only("many")},
        STREAM: {**small, **only("stream")},
        STREAM_ALONE: {**small, **only("stream"), **no_replay},
        CAPACITY: {**batches, **only("capacity")},
        FORGETTING: {**batches, **only("forgetting"), **no_replay},
    }


def planned(preset: str) -> list[OverSeeds]:
    """Every variant over seeds."""
    runs = []
    for variant in variants(preset):
        seeds = variant.seeds_at_smoke if preset == "smoke" else variant.seeds
        runs.append(OverSeeds(TASK, [variant.model], variant.settings, seeds=seeds))
    return runs


def variant_of(record: RunRecord) -> str:
    """The name of the variant that a run agrees with most; "" for the memory as it comes."""
    settings = flat(record.config, SECTIONS)
    agreeing = {}
    for name, expected in _telling(record.preset, record.model).items():
        agreeing[name] = sum(settings.get(key) == value for key, value in expected.items())
    return max(agreeing, key=agreeing.__getitem__, default="")


@cache
def _telling(preset: str, model: str) -> dict[str, dict[str, Any]]:
    """Of what is given in each variant of a memory that which is not given in all of them."""
    expected = _expected(preset, model)
    first = next(iter(expected.values()), {})
    in_all = {k: v for k, v in first.items() if all((k, v) in e.items() for e in expected.values())}
    telling = {}
    for name, given in expected.items():
        telling[name] = {key: value for key, value in given.items() if key not in in_all}
    return telling


@cache
def _expected(preset: str, model: str) -> dict[str, dict[str, Any]]:
    """All that task and model are given in each variant of a memory."""
    of_model = [variant for variant in variants(preset) if variant.model == model]
    usual = flat(preset_settings(TASK, model, preset), SECTIONS) if of_model else {}
    return {variant.name: {**usual, **variant.settings} for variant in of_model}


def select(records: Records) -> list[RunRecord]:
    """Runs with exactly the settings that are planned. If there is none, those that the user
    changed."""
    runs = [r for r in records if r.task == TASK and r.role != "baseline"]
    as_planned = list(filter(_as_planned, runs))
    return sorted(as_planned or runs, key=lambda record: record.run_id)


def _as_planned(record: RunRecord) -> bool:
    expected = _expected(record.preset, record.model).get(variant_of(record))
    return flat(record.config, SECTIONS) == expected


def of(model: str, variant: str = "") -> Runs:
    """The runs of a memory in one setting."""
    return Runs(model, TASK, model, choose=lambda record: variant_of(record) == variant)
