"""Schedules against their formulas; Adam without bias correction against its definition."""

import math
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from bench.config.settings import TrainingSettings
from bench.training.optimisation import build_optimizer, learning_rate_at, set_learning_rate
from tests.closeness import rounding


def training(**changes: object) -> TrainingSettings:
    defaults = OmegaConf.to_container(OmegaConf.load(Path("bench/config/config.yaml")))
    assert isinstance(defaults, dict)
    return TrainingSettings(**{**defaults["training"], "steps": 100, **changes})


def test_cosine_is_evaluated_at_the_absolute_step() -> None:
    """The published schedule of RegBench: warm-up over a tenth, then cosine at step / total."""
    rate = learning_rate_at(training(lr=5e-4, initial_lr=1e-6), 1000)
    assert rate(0) == 1e-6
    assert rate(50) == pytest.approx(1e-6 + (5e-4 - 1e-6) * 0.5)
    expected = 5e-5 + 0.5 * (5e-4 - 5e-5) * (1 + math.cos(math.pi * 0.1))
    assert rate(100) == pytest.approx(expected)
    assert rate(99) > rate(100)  # the small drop at the end of the warm-up


def test_other_schedules() -> None:
    after = learning_rate_at(training(schedule="cosine_after_warmup", warmup_steps=10, lr=1.0), 110)
    assert after(10) == pytest.approx(1.0)
    assert after(60) == pytest.approx(0.1 + 0.45)
    linear = learning_rate_at(
        training(schedule="linear", warmup_steps=0, lr=1.0, minimum_lr_fraction=0.0), 100
    )
    assert [linear(0), linear(50), linear(99)] == pytest.approx([1.0, 0.5, 0.01])
    constant = learning_rate_at(training(schedule="constant", warmup_steps=0, lr=0.3), 100)
    assert constant(99) == 0.3


def test_without_bias_correction_equals_the_raw_moments() -> None:
    """w <- w - lr·m / (√v + ε), with moments as they are (the rule of MLX)."""
    settings = training(
        bias_correction=False, weight_decay=0, schedule="constant", warmup_steps=0, lr=1e-2
    )
    rate = learning_rate_at(settings, 100)
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(5, 3, dtype=torch.float64))
    model = nn.Module()
    model.weight = weight
    optimizer = build_optimizer(model, settings)
    expected = weight.detach().clone()
    first, second = torch.zeros_like(expected), torch.zeros_like(expected)
    of_epsilon = torch.zeros_like(expected)
    for step in range(30):
        gradient = torch.randn_like(expected)
        weight.grad = gradient.clone()
        set_learning_rate(optimizer, rate(step))
        optimizer.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        expected -= 1e-2 * first / (second.sqrt() + 1e-8)
        # PyTorch's ε comes before the correction that is taken out: it counts for less than here.
        of_epsilon += 1e-2 * first.abs() * 1e-8 / second
    of_rounding = rounding(float(expected.abs().max()), torch.float64, terms=30 * 30)
    assert ((weight.detach() - expected).abs() <= of_epsilon + of_rounding).all()


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.kernel = nn.Parameter(torch.zeros(2, 2))

    def parameter_options(self) -> dict[str, dict[str, float]]:
        return {"kernel": {"weight_decay": 0.0, "maximum_lr": 1e-3}}


@pytest.mark.parametrize(("rule", "bias_decay"), [("matrices", 0.0), ("all", 0.1)])
def test_weight_decay_by_rule_and_options_by_name(rule: str, bias_decay: float) -> None:
    model = _Model()
    optimizer = build_optimizer(model, training(weight_decay_on=rule))
    set_learning_rate(optimizer, 0.5)
    found = {
        id(parameter): (group["weight_decay"], group["lr"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert found == {
        id(model.linear.weight): (0.1, 0.5),
        id(model.linear.bias): (bias_decay, 0.5),
        id(model.kernel): (0.0, 1e-3),
    }
