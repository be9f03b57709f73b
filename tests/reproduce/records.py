"""Constructed runs, so that figures and claims are tested without any training."""

import hashlib
import math
from typing import Any

from bench.records.schema import Cost, Curve, RunRecord
from reproduce.regbench.regbench import PUBLISHED_LANGUAGES
from tests.bench.records import make_record

SEEN, HELD_OUT = [0.5, 1.0, 2.5], [[1.5, 2.0, 3.0], [0.5, 2.0, 3.0]]
RATE = 20.0  # samples in a unit of time


def _identity(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def moons(seed: int, heads: int, steps: bool, outcome: str = "ok", **changes: Any) -> RunRecord:
    """A network whose error falls at each period (``steps``), or only at the full one."""
    config = {
        "tasks": {
            "display_systems": [SEEN, [1.0, 2.0, 3.0]],
            "systems": [SEEN, [0.5, 1.0, 2.0]],
            "test_systems": HELD_OUT,
            "rollout_steps": 25,
        },
        "models": {"heads": heads, "weights": "complex"},
        "training": {"restarts": 1},
    }
    content: dict[str, Any] = {
        "seed": seed,
        "task": "three_moons",
        "model": "memory_unit",
        "label": "Memory units",
        "identity": _identity("moons", heads),
        "outcome": outcome,
        "config": config,
        "per_sequence": {},
    }
    if outcome == "ok":
        content |= _moon_measurements(seed, steps)
    else:
        content |= {"metrics": {}, "curves": {}, "cause": "the loss is not finite at step 7"}
    return make_record(**{**content, **changes})


def _moon_measurements(seed: int, steps: bool) -> dict[str, Any]:
    metrics: dict[str, float] = {"disentangled": float(steps), "disentanglement": 0.4 + 0.6 * steps}
    curves = {"training_loss": Curve(x=[1.0, 2.0], y=[0.1, 0.01 * (seed + 1)])}
    arrays: dict[str, Any] = {}
    for system in (SEEN, *HELD_OUT):
        name = ",".join(f"{period:g}" for period in system)
        p = [period * RATE for period in system]
        full = {"0.5,1,2.5": 5, "1.5,2,3": 6, "0.5,2,3": 6}[name] * RATE

        def error(n: float, p: list[float] = p, full: float = full) -> float:
            if steps:
                return 0.75 - 0.2 * sum(n >= period for period in p)
            return 0.75 if n < full else 0.1

        x = [float(n) for n in range(1, 3 * int(full), 4)]
        curves[f"error/{name}"] = Curve(x=x, y=[error(n) for n in x])
        arrays[f"periods/{name}"] = [*p, full]
        ends = [1.0, *p, full]
        for place, window in enumerate(("before_p1", "p1_to_p2", "p2_to_p3", "p3_to_lcm")):
            metrics[f"error_{window}/{name}"] = error(ends[place] + 5 * (place > 0))
        half = p[-1] if steps else full
        metrics[f"every_moon_half_error_over_max_period/{name}"] = half / p[-1]
        for moons_counted in ("", "every_moon_"):
            metrics[f"{moons_counted}half_error_over_lcm/{name}"] = half / full
    unit = [[1.0, 0.1, 0.0], [0.0, 1.5, 0.1], [0.2, 0.0, 0.9]]
    arrays |= dict.fromkeys(("key_extractor", "value_extractor", "output"), unit)
    return {"metrics": {"test": metrics}, "curves": curves, "arrays": arrays}


def regbench(
    model: str,
    seed: int,
    size: int,
    accuracy: float,
    tvd: float,
    variant: str = "held_out",
    outcome: str = "ok",
    **changes: Any,
) -> RunRecord:
    """A final run of a sweep."""
    task = {
        "training_automata": size,
        "variant": variant,
        "protocol": "fair",
        **PUBLISHED_LANGUAGES,
    }
    lost = {} if outcome == "ok" else {"metrics": {}, "cause": "the loss is not finite at step 7"}
    content: dict[str, Any] = {
        "seed": seed,
        "model": model,
        "label": model,
        "role": "final",
        "identity": _identity(model, size, variant),
        "outcome": outcome,
        "config": {"tasks": task, "models": {}, "training": {"restarts": 1}},
        "metrics": {"test": {"accuracy": accuracy, "tvd": tvd}},
        "cost": Cost(tuning_trials=3),
    }
    return make_record(**{**content, **lost, **changes})


def ngram(order: int, accuracy: float, tvd: float, **task: Any) -> RunRecord:
    """A predictor without training."""
    record = regbench(f"{order}_gram", 0, 500, accuracy, tvd)
    config = {"tasks": {**record.config["tasks"], **task}}
    changes = {"role": "baseline", "label": f"{order}-gram", "config": config}
    return record.model_copy(update=changes)


def wobble(seed: int) -> float:
    """A small number that differs between seeds."""
    return 0.005 * math.sin(12.9898 * (seed + 1))
