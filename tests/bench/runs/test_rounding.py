"""Equal up to rounding: what a proof accepts and refuses, of trainings of a small model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.runs.proofs.rounding import bounds, side
from bench.runs.proofs.rounding.proving import PERTURBATIONS, PLAIN
from bench.runs.proofs.rounding.side import TrainingsRequest, TrainingVariant
from bench.runs.proofs.rounding.whole import JUMP, largest_fall
from models.gpt2 import GPT2
from models.layers.dropout import Dropout

pytestmark = pytest.mark.bitwise  # a proof is of one machine's bits
SETTINGS = {
    **{"tasks": "regbench", "models": "gpt2", "preset": "smoke", "seed": 0, "device": "cpu"},
    **{"tasks.training_automata": 20, "tasks.validation_size": 5, "tasks.test_size": 5},
    **{"tasks.strings": [4, 6], "tasks.string_length": [1, 6]},
    **{"models.width": 16, "models.heads": 2, "models.dropout": 0.05},
    **{"training.batch_size": 8, "training.steps": side.STEPS, "training.warmup_steps": 5},
}
Answers = dict[str, dict[str, Any]]
CHANGED = {
    dtype: [PLAIN[dtype].model_copy(update={"last_bits": n}) for n in range(1, count + 1)]
    for dtype, count in PERTURBATIONS.items()
}


def answers(folder: Path, variants: Sequence[TrainingVariant]) -> Answers:
    side.answer(TrainingsRequest(settings=SETTINGS, variants=list(variants), output=folder))
    return {v.name: torch.load(folder / v.name, weights_only=True) for v in variants}


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What the code as it is makes."""
    variants = [*PLAIN.values(), *CHANGED["float64"], *CHANGED["float32"]]
    return answers(tmp_path_factory.mktemp("older"), variants)


def refusal(older: Answers, newer: Answers) -> str:
    """The first reason why the two are not equal up to rounding; "" if they are."""
    for dtype, variant in PLAIN.items():
        old, new = older[variant.name], newer[variant.name]
        if inexact := bounds.first_inexact(old["exact"], new["exact"]):
            return inexact
        numbers = old["numbers"], new["numbers"]
        changed = [older[other.name]["numbers"] for other in CHANGED[dtype]]
        if dtype == "float64":
            difference = bounds.compare_in_float64(*numbers, changed, old["longest_sum"])
        else:
            difference = bounds.compare_in_float32(*numbers, changed)
        if difference.refusal:
            return difference.refusal
    return ""


def in_another_order(self: nn.LayerNorm, x: Tensor) -> Tensor:
    """The same norm, whose sums PyTorch's own adds otherwise."""
    centred = x - x.flip(-1).sum(-1, keepdim=True) / x.shape[-1]
    variance = centred.square().sum(-1, keepdim=True) / x.shape[-1]
    return centred * (variance + self.eps).rsqrt() * self.weight


def with_another_constant(self: nn.LayerNorm, x: Tensor) -> Tensor:
    return in_another_order(self, x) * (1 + 1e-3)


def with_another_epsilon(self: nn.LayerNorm, x: Tensor) -> Tensor:
    """Of 1e-5, where the variance is 1e-4 to 1."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred * (variance + 1.0001 * self.eps).rsqrt() * self.weight


def in_half_precision(self: nn.LayerNorm, x: Tensor) -> Tensor:
    """Right in float64, and less exact in float32."""
    normed = in_another_order(self, x)
    return normed.bfloat16().float() if x.dtype == torch.float32 else normed


@pytest.mark.parametrize(
    ("norm", "told"),
    [
        (in_another_order, ""),
        (with_another_constant, "in float64 outputs differ by "),
        (with_another_epsilon, "in float64 outputs differ by "),
        (in_half_precision, "in float32 outputs differ "),
    ],
)
def test_another_order_of_sums_is_rounding_and_another_function_is_not(
    older: Answers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    norm: Callable[[nn.LayerNorm, Tensor], Tensor],
    told: str,
) -> None:
    monkeypatch.setattr(nn.LayerNorm, "forward", norm)
    newer = answers(tmp_path, [*PLAIN.values()])
    first = PLAIN["float64"].name
    assert not torch.equal(
        *(a[first]["numbers"]["losses"]["training loss"] for a in (older, newer))
    )
    reason = refusal(older, newer)
    assert reason.startswith(told)
    assert bool(reason) == bool(told)


def test_one_more_random_number_and_another_initial_weight_are_refused(
    older: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = Dropout.forward

    def drawing(self: Dropout, input: Tensor) -> Tensor:
        torch.rand(1)
        return drop(self, input)

    def built(self: GPT2, *sizes: Any, **settings: Any) -> None:
        build(self, *sizes, **settings)
        with torch.no_grad():
            self.norm.weight.mul_(1 + 2**-23)

    with monkeypatch.context() as patch:
        patch.setattr(Dropout, "forward", drawing)
        reason = refusal(older, answers(tmp_path, [*PLAIN.values()]))
    assert reason == "the random numbers that step 1 draws are not the same, bit for bit"
    build = GPT2.__init__
    monkeypatch.setattr(GPT2, "__init__", built)
    reason = refusal(older, answers(tmp_path, [*PLAIN.values()]))
    assert reason == "the initial weights are not the same, bit for bit"


def test_last_bits_are_one_unit_in_the_last_place_of_about_half_the_weights() -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    side.change_last_bits(model, 1)
    for name, weight in model.named_parameters():
        apart = (weight.detach() - before[name]).abs()
        assert bool((apart <= before[name].abs() * torch.finfo(torch.float32).eps).all())
    share = float((model.weight != before["weight"]).float().mean())
    assert abs(share - 0.5) < 5 * 0.5 / 64  # of 64² draws: five deviations


def test_a_number_that_is_none_on_one_side_alone_is_refused() -> None:
    numbers = {"outputs": {"outputs": torch.tensor([1.0, torch.nan])}}
    lost = {"outputs": {"outputs": torch.tensor([torch.nan, torch.nan])}}
    assert not bounds.compare_in_float64(numbers, numbers, [numbers], 10).refusal
    assert bounds.compare_in_float64(numbers, lost, [numbers], 10).refusal
    assert bounds.compare_in_float32(numbers, lost, [numbers]).refusal


def test_a_jump_is_a_fall_within_a_tenth_after_the_beginning() -> None:
    smooth = [2.0 ** (-k / 20) for k in range(100)]
    jump = [2.0] * 60 + [1.0] * 40
    beginning = [9.0] * 4 + [1.0] * 96
    assert largest_fall(jump) == 1.0
    assert largest_fall(smooth) < JUMP
    assert largest_fall(beginning) < JUMP
    assert largest_fall([1.0] * 100) == largest_fall([2.0, 1.0]) == 0.0
