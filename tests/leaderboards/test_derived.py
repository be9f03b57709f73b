"""What curves tell of metrics: worked out as tasks do, for every metric that any curve tells."""

import math
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.records.schema import Curve, RunRecord, read_record
from bench.runs.recording import measured_fields
from leaderboards.checks import derived_by_code as derived
from leaderboards.checks import derived_metrics, of_memories, points
from tasks.bigram_probes.task import crossing
from tasks.factual_recall.phases import plateau
from tasks.power_law import slope
from tasks.state_tracking import StateTracking
from tasks.test_time_memory.scores import crossing as falls_below
from tasks.three_moons.scores import disentanglement, finite_curve, score_curve
from tests.committed import committed_records
from tests.leaderboards.sending import current

# Metrics of which no curve, matrix or list of the record tells anything. With their items, if they
# have any, they can be set to anything; only running the record again can tell.
UNTOLD = {
    "attention": ["loss", "unevenness*"],
    "attention_descent": ["accuracy"],
    "babistories": ["*"],
    "bigram": ["accuracy_without_repeats", "global_*", "loss"],
    "bigram_probes": ["*_share*", "ordinary_loss*"],
    "capacity": ["parameters"],
    "copy_by_position": ["accuracy", "loss"],
    "feature_learning": ["ratio"],
    "gradient_memory": ["other/*", "spread/*", "target/*"],
    "in_context_regression_memories": ["state_bytes"],
    "kernel_regression": ["state_bytes"],
    "learned_maps": ["collapse", "inner_loss"],
    "mad": ["loss"],
    "memory_in_the_loop": ["*"],
    "multi_query_recall": ["loss", "accuracy_*", "stale_rate"],
    "needle": ["digit_accuracy", "loss"],
    "optimisation": ["deviation/*", "parameters"],
    "regbench": ["*_last", "token_accuracy", "loss"],
    "returning_keys": ["compared", "state_bytes"],
    "samples_to_learn": ["ratio"],
    "scaling_laws": ["state_bytes"],
    "state_tracking": ["loss"],
    "story_prompts": ["*"],
    "test_time_memory": [
        *("accuracy_at_90_coverage", "auroc*", "calibration_error", "risk_coverage_area"),
        *("exceptions_*", "regular_recalled", "overwrite_*", "recall_ambiguous_*", "tracking_*"),
        *("*_flops", "write_optimiser_steps", "*_diverged", "recall_*_quarter_most"),
        *("stream_recall", "stream_memorised", "forgetting_first_before"),
    ],
    "three_moons": ["loss", "every_moon_*", "slowest_moon_*"],
    "two_inputs": ["parameters"],
    "wikipedia": ["context_*", "other_context_loss", "repeat_*"],
}
OF_INTEGERS = ["parameters", "state_bytes"]  # of test_time_memory, which has no curve of them there
LOOSE = {  # the curves leave more than a quarter open
    "bigram": ["in_context_accuracy"],
    "regbench": ["accuracy", "tvd"],  # a quarter of the positions lies behind the end of a curve
    "training_dynamics": ["forgetting"],
    "weighting_schemes": ["approximation_gap"],
}


def said(record: RunRecord, **test: float | None) -> str | None:
    """What is said of the record with other metrics of the test, or without those of None."""
    found = {**record.metrics["test"], **test}
    kept = {name: value for name, value in found.items() if value is not None}
    changed = record.model_copy(update={"metrics": {**record.metrics, "test": kept}})
    return derived_metrics.agrees(changed) or derived.agrees(changed)


def examples() -> Iterator[RunRecord]:
    """A record of each kind of each task: of other curves or metrics."""
    kinds = set()
    for record in committed_records():
        if record.outcome == "ok" and record.role not in ("trial", "control"):
            names = tuple(sorted(record.metrics["test"]))
            kind = (record.task, record.preset, record.role, names, tuple(sorted(record.curves)))
            if kind not in kinds:
                kinds.add(kind)
                yield record


def test_every_metric_that_a_record_tells_is_refused_when_it_is_another() -> None:
    """Its items say the same: without curves, what is forged with its items is believed."""
    escaped, checked = set(), 0
    for record in examples():
        untold = UNTOLD.get(record.task, []) + LOOSE.get(record.task, [])
        if record.config["tasks"].get("material") == "integers":
            untold = untold + OF_INTEGERS
        for metric, value in record.metrics["test"].items():
            if any(fnmatch(metric, pattern) for pattern in untold):
                continue
            other = value + (-0.25 if 0.5 < value <= 1 else 0.25 + 0.25 * max(value, 0.0))
            items = {k: [other] * len(v) for k, v in record.per_sequence.items() if k == metric}
            forged = record.model_copy(update={"per_sequence": {**record.per_sequence, **items}})
            checked += 1
            if said(forged, **{metric: other}) is None:
                escaped.add((record.task, metric))
    assert checked > 1000
    assert escaped == set()


def test_nothing_is_called_untold_that_no_record_has() -> None:
    tasks = {record.task for record in committed_records()}
    for told in (UNTOLD, LOOSE):
        assert told.keys() <= tasks
        for task, patterns in told.items():
            of_task = (record for record in committed_records() if record.task == task)
            names = {metric for record in of_task for metric in record.metrics.get("test", ())}
            assert [p for p in patterns if not any(fnmatch(name, p) for name in names)] == []


curves = st.lists(st.floats(0, 1).map(lambda value: round(value, 3)), min_size=1, max_size=12)


@settings(deadline=None)
@given(curves)
def test_crossings_and_slopes_are_those_of_the_tasks(y: list[float]) -> None:
    x = [3 * place**2 + 1 for place in range(len(y))]
    both = list(zip(map(float, x), y, strict=True))
    assert points.crossing(both) == pytest.approx(crossing(x, y))
    assert points.slope(both) == pytest.approx(slope(x, y), abs=1e-9)
    reached = falls_below(np.array(x, float), np.array(y), 0.5)
    assert of_memories.falls_below(both, 0.5) == pytest.approx(reached)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from([0.1, 0.995, math.log(8)])] * 3), min_size=2))
def test_the_plateau_is_that_of_the_task(rows: list[tuple[float, float, float]]) -> None:
    """Also where there are several, and where one is the end."""
    record = read_record(current("factual_recall/laptop/factual_recall-one_hot_attention-*"))
    names = ("relation_accuracy", "accuracy", "loss")
    logged = {"step": [16.0 * place for place in range(len(rows))]}
    logged |= {name: list(y) for name, y in zip(names, zip(*rows, strict=True), strict=True)}
    of = {name: Curve(x=logged["step"], y=logged[name]) for name in names}
    known = 64 * logged["accuracy"][-1] / record.metrics["test"]["parameters"]
    found = {"accuracy": logged["accuracy"][-1], "facts_per_parameter": known}
    changed = record.model_copy(update={"curves": of})
    assert said(changed, **found, plateau_steps=plateau(logged, 8)) is None
    assert "plateau_steps" in str(said(changed, **found, plateau_steps=plateau(logged, 8) + 16))


@pytest.mark.parametrize("factors", [[1, 2, 4], [1, 3], [1, 2, 3, 8]])
def test_accuracy_of_any_factors_follows_from_the_curve(factors: list[int]) -> None:
    task = StateTracking(length=4, factors=factors)
    right = np.random.default_rng(0).random((16, task.longest)) < 0.4
    fields: dict[str, Any] = measured_fields(task, {"test": task._measured(right, 0.1)}, "test")
    record = read_record(current("state_tracking/smoke/*", "final"))
    given_ = {**record.config["tasks"], "length": 4, "factors": factors}
    record = record.model_copy(update={**fields, "config": {**record.config, "tasks": given_}})
    assert said(record) is None
    for factor in factors:
        test = {**record.metrics["test"], f"accuracy/{factor}x": 1.0}
        why = derived.agrees(record.model_copy(update={"metrics": {"test": test}}))
        assert f"accuracy/{factor}x is 1.0, and the mean of curves.accuracy_by_position" in str(why)


@pytest.mark.parametrize("seed", range(6))
def test_moons_are_scored_as_the_task_scores_them(seed: int) -> None:
    """Also where rollouts are lost in the middle, so that windows have no number."""
    record = read_record(current("three_moons/smoke/three_moons-memory_unit-*"))
    draw = torch.Generator().manual_seed(seed)
    found: dict[str, float] = {}
    of: dict[str, Curve] = {}
    held_out: list[float] = []
    for name, curve in record.curves.items():
        if not name.startswith("error/"):
            continue
        system, contexts = name.removeprefix("error/"), torch.tensor(curve.x).long()
        errors = (
            torch.rand(len(contexts), 3, generator=draw)
            * torch.linspace(2, 0.1, len(contexts))[:, None]
        )
        if seed > 3:
            errors[int(torch.randint(len(contexts), (), generator=draw))] = torch.inf
        *periods, full = record.arrays[f"periods/{system}"]
        scores = score_curve(errors, contexts, periods, full)
        found |= {f"{score}/{system}": value for score, value in scores.items()}
        of[name] = Curve(**finite_curve(contexts, errors.mean(1)))
        if [float(p) for p in system.split(",")] in record.config["tasks"]["test_systems"]:
            held_out.append(scores.get("error_p3_to_lcm", math.nan))
    moduli = {
        name: torch.rand(3, 3, generator=draw)
        for name in ("key_extractor", "value_extractor", "output")
    }
    arrays = {**record.arrays, **{name: value.tolist() for name, value in moduli.items()}}
    found |= disentanglement(moduli) | {"error_after_max_period": sum(held_out) / len(held_out)}
    found = {name: value for name, value in found.items() if math.isfinite(value)}
    metrics = {**record.metrics, "test": found}
    changed = record.model_copy(update={"curves": of, "arrays": arrays, "metrics": metrics})
    assert derived.agrees(changed) is None
    for score in ("plausible", "error_before_p1", "half_error_over_lcm"):
        metric = f"{score}/1,2,3"
        other = {**found, metric: 0.5 + found.get(metric, 0.0)}
        forged = changed.model_copy(update={"metrics": {**metrics, "test": other}})
        if metric in found:
            assert f"its metrics.test.{metric} is" in str(derived.agrees(forged))


@pytest.mark.parametrize("task", sorted(derived.DERIVED))
@pytest.mark.parametrize(
    "changes",
    [
        {"curves": {}},
        {"arrays": {}, "curves": {}},
        {"config": {"tasks": {}, "models": {}}},
        {"arrays": {"forgetting_matrix": 3, "diverged": [7], "key_extractor": [[]]}},
    ],
    ids=str,
)
def test_numbers_of_any_shape_are_a_sentence(task: str, changes: dict[str, Any]) -> None:
    record = next(r for r in examples() if r.task == task and r.role != "baseline" and r.curves)
    for name, curve in record.curves.items():
        broken = record.model_copy(update={"curves": {**record.curves, name: Curve(x=[], y=[])}})
        assert derived.agrees(broken) is None or "\n" not in str(derived.agrees(broken))
        shifted = Curve(x=[-x for x in curve.x], y=curve.y)
        broken = record.model_copy(update={"curves": {**record.curves, name: shifted}})
        assert derived.agrees(broken) is None or "\n" not in str(derived.agrees(broken))
    why = derived.agrees(record.model_copy(update=changes))
    if why is not None:
        assert why.startswith("it")
    assert why is not None or "curves" not in changes
