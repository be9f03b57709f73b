"""RWKV-4 against its definition in double loops, and the inverted sign of RegBench's."""

import math

import pytest
import torch
from torch import Tensor

from models.rwkv4 import RWKV4, ChannelMixing, TimeMixing, weighted_average
from models.specification import SequenceSpecification
from tests.closeness import assert_near
from tests.models.derivatives import assert_derivatives_near, disturbed, leaves_of, with_gradients

TOKENS = SequenceSpecification(maximum_length=64, vocabulary=11)
SUMS = {"terms": 37 * 8, "condition": 100.0}


def by_definition(keys: Tensor, values: Tensor, decay: Tensor, first: Tensor) -> Tensor:
    """The quotient of sums for each position, weights as the paper writes them."""
    rows = []
    for t in range(keys.shape[1]):
        exponents = [keys[:, s] - (t - 1 - s) * decay for s in range(t)] + [first + keys[:, t]]
        weights = torch.stack(exponents, 1).exp()
        rows.append((weights * values[:, : t + 1]).sum(1) / weights.sum(1))
    return torch.stack(rows, 1)


def arguments(length: int, sign: int = 1) -> dict[str, Tensor]:
    torch.manual_seed(length)
    keys, values = torch.randn(2, 3, length, 5, dtype=torch.float64)
    decay, first = sign * torch.rand(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    named = {"keys": keys, "values": values, "decay": decay, "first": first}
    return {name: one.requires_grad_() for name, one in named.items()}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("length", [1, 2, 37])
def test_averages_equal_the_definition(length: int, sign: int) -> None:
    """In one piece and in two, with the state between them: values and gradients."""
    given = arguments(length, sign)
    keys, values, decay, first = given.values()

    def in_two() -> Tensor:
        early, state = weighted_average(keys[:, :13], values[:, :13], decay, first)
        late = weighted_average(keys[:, 13:], values[:, 13:], decay, first, state)[0]
        return torch.cat((early, late), 1)

    expected = with_gradients(lambda: by_definition(*given.values()), given)
    found = with_gradients(lambda: weighted_average(*given.values())[0], given)
    assert_derivatives_near(found, expected, given, **SUMS)
    if length > 13:
        assert_derivatives_near(with_gradients(in_two, given), expected, given, **SUMS)


@pytest.mark.parametrize("inverted", [False, True])
def test_time_mixing_equals_its_definition(inverted: bool) -> None:
    torch.manual_seed(0)
    mixer = disturbed(TimeMixing(6, layer=1, layers=3, inverted_decay=inverted))
    hidden = torch.randn(2, 37, 6, dtype=torch.float64, requires_grad=True)
    leaves = leaves_of(mixer, hidden=hidden)

    def naive() -> Tensor:
        before = torch.cat((torch.zeros(2, 1, 6), hidden[:, :-1]), 1)
        key, value, receptance = (
            (mix * hidden + (1 - mix) * before) @ leaves[f"{name}.weight"].T
            for name, mix in ((n, leaves[f"mix_{n}"]) for n in ("key", "value", "receptance"))
        )
        decay = leaves["time_decay"].exp() * (-1 if inverted else 1)
        average = by_definition(key, value, decay, leaves["time_first"])
        return (receptance.sigmoid() * average) @ leaves["output_projection.weight"].T

    found = with_gradients(lambda: mixer(hidden), leaves)
    assert_derivatives_near(found, with_gradients(naive, leaves), leaves, **SUMS)


def test_channel_mixing_equals_its_definition() -> None:
    torch.manual_seed(0)
    mixer = disturbed(ChannelMixing(6, layer=1, layers=3))
    hidden = torch.randn(2, 9, 6, dtype=torch.float64, requires_grad=True)
    p = leaves_of(mixer, hidden=hidden)

    def naive() -> Tensor:
        rows = []
        for t in range(9):
            now, before = hidden[:, t], hidden[:, t - 1] if t else torch.zeros(2, 6)
            for_key = p["mix_key"] * now + (1 - p["mix_key"]) * before
            for_gate = p["mix_receptance"] * now + (1 - p["mix_receptance"]) * before
            units = (for_key @ p["key.weight"].T).clamp(min=0) ** 2
            gate = (for_gate @ p["receptance.weight"].T).sigmoid()
            rows.append(gate * (units @ p["output_projection.weight"].T))
        return torch.stack(rows, 1)

    found = with_gradients(lambda: mixer(hidden), p)
    assert_derivatives_near(found, with_gradients(naive, p), p, terms=60)


def shares_at_the_200th_position(inverted: bool) -> Tensor:
    """Mean shares of 200 tokens in the last average: its derivatives by the values."""
    torch.manual_seed(0)
    channels = 512
    decay = torch.randn(channels, dtype=torch.float64).exp() * (-1 if inverted else 1)
    first = torch.randn(channels, dtype=torch.float64)
    keys = torch.randn(1, 200, channels, dtype=torch.float64)
    values = torch.zeros_like(keys).requires_grad_()
    last = weighted_average(keys, values, decay, first)[0][:, -1]
    return torch.autograd.grad(last.sum(), values)[0].mean((0, 2))


def test_the_released_sign_remembers_the_beginning_and_the_right_one_the_end() -> None:
    wrong, right = shares_at_the_200th_position(True), shares_at_the_200th_position(False)
    assert wrong[0] == pytest.approx(0.59, abs=0.03)  # 0.02 between draws of 512 channels
    assert wrong[:5].sum() == pytest.approx(0.92, abs=0.03)
    assert wrong[-5:].sum() < 5e-4
    assert right[-5:].sum() == pytest.approx(0.92, abs=0.03)


@pytest.mark.parametrize("vectors", ["official", "standard_normal"])
@pytest.mark.parametrize("inverted", [False, True])
def test_long_sequences_stay_finite_in_float32(inverted: bool, vectors: str) -> None:
    torch.manual_seed(0)
    mixer = TimeMixing(8, inverted_decay=inverted, vectors=vectors)  # type: ignore[arg-type]
    hidden = 100 * torch.randn(1, 8192, 8)
    outputs, state = mixer.prefill(hidden)
    outputs.square().sum().backward()
    assert outputs.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())
    expected = mixer.double()(hidden.double())
    assert_near(outputs, expected, terms=8192, condition=100, dtype=torch.float32)
    assert state.sums.total.isfinite().all()


@pytest.mark.parametrize("inverted", [False, True])
def test_exponents_out_of_range_are_weighed(inverted: bool) -> None:
    """Keys of ±1000, whose exponentials no float holds: the largest weight alone counts."""
    keys = torch.tensor([0.0, 1000.0, -1000.0, 900.0]).view(1, 4, 1)
    values = torch.arange(4.0).view(1, 4, 1)
    decay = torch.tensor([-0.5 if inverted else 0.5])
    averages, _ = weighted_average(keys, values, decay, torch.zeros(1))
    assert_near(averages.flatten(), torch.tensor([0.0, 1.0, 1.0, 1.0]), terms=4)


def test_sizes_are_those_of_the_protocol() -> None:
    assert sum(p.numel() for p in TimeMixing(128).parameters()) == 66_176
    assert sum(p.numel() for p in ChannelMixing(128).parameters()) == 9 * 128**2 + 2 * 128
    own = RWKV4(TOKENS, width=128, layers=3, channel_mixing=True)
    assert own.state_bytes(9) == 3 * 4 * 640
    assert RWKV4(TOKENS, width=128, layers=3).state_bytes(9) == 3 * 4 * (3 * 128 + 128)


def test_initial_vectors_are_the_authors() -> None:
    """Their formulas, in numbers, for channel 3 of 8 in layer 1 of 3; and no 0/0 for one layer."""
    made = TimeMixing(8, layer=1, layers=3)
    assert_near(made.time_decay[3].item(), -5 + 8 * (3 / 7) ** 1.35, dtype=torch.float32)
    # log 0.3 + (0, 0.5, −0.5, 0, …)
    bonus = [math.log(0.3) + one for one in (0.0, 0.5, -0.5, 0.0)]
    assert_near(made.time_first[:4].tolist(), bonus, dtype=torch.float32)
    assert_near(made.mix_key[3].item(), (3 / 8) ** (2 / 3), dtype=torch.float32)
    assert_near(made.mix_value[3].item(), (3 / 8) ** (2 / 3) + 0.15, dtype=torch.float32)
    assert_near(made.mix_receptance[3].item(), (3 / 8) ** (1 / 3), dtype=torch.float32)
    for width in (1, 8):
        alone = TimeMixing(width)
        assert all(parameter.isfinite().all() for parameter in alone.parameters())


def test_channel_mixing_writes_as_loudly_as_an_mlp() -> None:
    torch.manual_seed(0)
    made = RWKV4(TOKENS, width=128, layers=4, channel_mixing=True)
    for name, parameter in made.named_parameters():
        if name.endswith("output_projection.weight"):
            assert parameter.std().item() == pytest.approx(0.02 / math.sqrt(8), rel=0.05)


def test_unknown_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="choose one of official, standard_normal"):
        RWKV4(TOKENS, vectors="zero")  # type: ignore[arg-type]
