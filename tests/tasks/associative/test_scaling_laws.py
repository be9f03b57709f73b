"""Scaling laws: the quick sums against memories that are written and read, and known laws."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.memories.delta_rule import DeltaRule
from models.memories.outer_product import OuterProduct
from tasks.interface import Evaluation
from tasks.measurement import Refused
from tasks.power_law import slope
from tasks.scaling_laws import ScalingLaws
from tasks.scaling_laws import errors as errors_module
from tasks.scaling_laws.draws import Draws
from tasks.scaling_laws.errors import TrialBatch
from tasks.zipf import zipf
from tests.closeness import assert_near

SCHEMES: dict[str, dict[str, Any]] = {
    "frequency": {},
    "seen": {},
    "threshold": {"kept": 0.5},
    "power": {"exponent": 0.5},
    "gradient": {"step": 1.0},
}


def measured(task: ScalingLaws, seed: int = 0, **scheme: Any) -> Evaluation:
    def build(*sizes: Any, seed: int = 0) -> OuterProduct:
        return OuterProduct(*sizes, **scheme)

    return task.measure(build, "test", seed, "cpu", lambda *_: None)


def unit(vectors: torch.Tensor) -> torch.Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("classes", [3, 40])
@pytest.mark.parametrize("lengths", [("gaussian", "unit"), ("unit", "gaussian")])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_to_memories_that_are_written_and_read(
    scheme: str, lengths: tuple[Any, Any], classes: int
) -> None:
    tokens, dimensions, samples, trials = 40, [3, 7], [5, 200], range(1, 4)
    p = zipf(tokens, 1.2).numpy()
    draws = Draws(p, classes, "test", 5)
    memories = {d: OuterProduct(d, d, scheme=scheme, **SCHEMES[scheme]) for d in dimensions}
    counts = torch.stack([draws.counts(trial, samples) for trial in trials])
    weights = {d: memory.weights(counts) for d, memory in memories.items()}
    quick = TrialBatch(draws, trials, 0, weights, *lengths).errors()

    of_classes = draws.class_vectors(trials, 0, 7).double()
    [(_, of_tokens)] = draws.token_vectors(trials, 0, 7, tokens)
    f = torch.arange(tokens) % classes
    for d, memory in memories.items():
        for t in range(len(trials)):
            u, v = of_tokens[t, :, :d].double(), of_classes[t, :, :d]
            u, v = (unit(x) if how == "unit" else x for x, how in zip((u, v), lengths, strict=True))
            for s in range(len(samples)):
                stream = torch.repeat_interleave(torch.arange(tokens), counts[t, s].long())
                memory.reset()
                memory.write(u[stream], v[f[stream]])
                guesses = (memory.read(u).values @ v.T).argmax(-1)
                error = sum(p[z] for z in range(tokens) if guesses[z] != f[z])
                assert_near(float(quick[d][t, s]), float(error), terms=tokens, largest=1.0)


def test_chunks_of_tokens_and_trials_change_nothing(monkeypatch) -> None:
    task = ScalingLaws(tokens=101, dimensions=[4, 16], samples=[50], trials=5, dtype="float64")
    whole = measured(task, scheme="seen")
    for chunk in (1, 700, 4000):
        monkeypatch.setattr(errors_module, "CHUNK", chunk)
        cut = measured(task, scheme="seen")
        for name, values in whole.arrays.items():
            assert_near(np.array(cut.arrays[name]), np.array(values), terms=101, largest=1.0)


def test_float32_misjudges_almost_nothing() -> None:
    settings: dict[str, Any] = {"dimensions": [16, 64, 256], "samples": [1000], "trials": 10}
    for scheme in ("frequency", "threshold"):
        exact = measured(ScalingLaws(**settings, dtype="float64"), scheme=scheme)
        quick = measured(ScalingLaws(**settings), scheme=scheme)
        for name, values in exact.arrays.items():
            assert np.abs(np.array(quick.arrays[name]) - values).max() < 1e-4


def test_an_empty_memory_guesses() -> None:
    # Nothing is seen a thousand times among ten samples.
    task = ScalingLaws(tokens=30, classes=5, dimensions=[8], samples=[10], trials=2)
    result = measured(task, scheme="threshold", minimum_count=1000)
    assert_near(result.metrics["error"], 0.8, terms=30, dtype=torch.float32)
    assert "error/population" not in result.metrics  # counts define this scheme


def test_independent_draws_of_each_size_have_the_errors_of_truncated_ones() -> None:
    settings: dict[str, Any] = {"tokens": 100, "dimensions": [32, 36], "samples": [], "trials": 400}
    errors = {
        truncate: np.array(
            measured(ScalingLaws(**settings, truncate=truncate)).arrays["errors/population"]
        )
        for truncate in (True, False)
    }
    standard = sum(e.var(0) / len(e) for e in errors.values()) ** 0.5
    gap = errors[True].mean(0) - errors[False].mean(0)
    assert (np.abs(gap) < 4 * standard).all()
    correlation = {t: np.corrcoef(e.T)[0, 1] for t, e in errors.items()}
    assert correlation[True] > 0.2 > abs(correlation[False])


def test_schemes_are_ordered_and_slopes_are_those_of_theory() -> None:
    task = ScalingLaws(samples=[], trials=40, dimensions=[32, 64, 128, 256, 512])
    found = {name: measured(task, scheme=name) for name in ("frequency", "seen", "threshold")}
    for place in range(5):
        best, naive, worst = (
            found[name].curves["error/population"]["y"][place]
            for name in ("threshold", "frequency", "seen")
        )
        assert best < naive < worst
    # (α − 1) / 2α = 1/4 and α − 1 = 1, with the windows of the finite cell.
    assert found["frequency"].metrics["slope_in_d/population"] == pytest.approx(-0.25, abs=0.08)
    assert found["threshold"].metrics["slope_in_d/population"] == pytest.approx(-1.0, abs=0.1)


def test_infinite_memory_is_the_mass_of_what_was_not_drawn() -> None:
    task = ScalingLaws(tokens=50, classes=5, alpha=1.0, samples=[1, 20, 100])
    evaluation = task.baselines()["infinite_memory"]("test")
    p = zipf(50, 1.0).numpy()
    unseen = evaluation.curves["unseen_mass"]["y"]
    assert unseen[0] == pytest.approx(sum(mass * (1 - mass) for mass in p))
    draws = Draws(p, 5, "test", 0)
    counts = torch.stack([draws.counts(trial, [1, 20, 100]) for trial in range(2000)])
    assert torch.equal(counts.sum(-1), torch.tensor([1.0, 20, 100]).expand(2000, 3).double())
    simulated = ((counts == 0).double() @ torch.from_numpy(p)).mean(0)
    np.testing.assert_allclose(unseen, simulated, rtol=0.02)
    assert evaluation.metrics["error"] == pytest.approx(unseen[-1] * 0.8)


def test_seeds_and_splits_and_trials_differ() -> None:
    p = zipf(100, 2.0).numpy()
    taken = [
        Draws(p, 5, "test", 0).counts(0, [1000]),
        Draws(p, 5, "test", 0).counts(1, [1000]),
        Draws(p, 5, "test", 1).counts(0, [1000]),
        Draws(p, 5, "validation", 0).counts(0, [1000]),
    ]
    for place, one in enumerate(taken):
        assert not any(torch.equal(one, other) for other in taken[place + 1 :])


@given(
    st.floats(-3, 1),
    st.floats(0.01, 10),
    st.lists(st.integers(1, 10**6), min_size=2, max_size=8, unique=True),
)
def test_slope_of_a_power_law_is_its_exponent(exponent: float, factor: float, x: list[int]) -> None:
    y = [factor * value**exponent for value in x]
    found = slope([*x, 10**7, 10**8], [*y, 0.5, 0.0], 1, 10**6)
    assert found == pytest.approx(exponent, abs=1e-6)


def test_a_slope_needs_two_points() -> None:
    assert slope([1, 2, 3], [0.5, 0.0, 0.0], 1, 3) is None
    assert slope([1, 2, 4], [1.0, 0.0, 1 / 16], 1, 4) == pytest.approx(-2)


def test_other_memories_are_refused_with_a_sentence() -> None:
    task = ScalingLaws(tokens=10, dimensions=[2], samples=[], trials=1)
    with pytest.raises(Refused, match="DeltaRule is no weighted sum"):
        task.measure(lambda *sizes, seed=0: DeltaRule(*sizes), "test", 0, "cpu", print)
    with pytest.raises(Refused, match=r"tasks\.samples"):
        measured(task, scheme="gradient")


def test_metrics_are_those_of_the_curves() -> None:
    task = ScalingLaws(
        tokens=50, dimensions=[4, 8, 16], samples=[10, 100], trials=3, fit_dimensions=[4, 8]
    )
    result = measured(task)
    assert result.metrics["error"] == result.curves["error/n=100"]["y"][-1]
    assert result.curves["error/d=16"]["y"][-1] == result.metrics["error"]
    first, second, _ = result.curves["error/population"]["y"]
    expected = math.log(second / first) / math.log(2)
    assert result.metrics["slope_in_d/population"] == pytest.approx(expected)
    assert np.shape(result.arrays["errors/n=10"]) == (3, 3)
