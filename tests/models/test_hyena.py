"""Hyena against double loops over positions, and the start of its filter in both forms."""

import math

import pytest
import torch
from torch import Tensor

from models.hyena import Filter, Hyena, HyenaMixer
from models.specification import SequenceSpecification
from tests.models.derivatives import assert_derivatives_near, disturbed, leaves_of, with_gradients

TOKENS = SequenceSpecification(maximum_length=512, vocabulary=5)


def naive_filter(p: dict[str, Tensor], length: int, longest: int, bands: int) -> Tensor:
    """One position after the other, (length, channels)."""
    rows = []
    for n in range(length):
        time, angle = n / (longest - 1), 2 * math.pi * n / longest
        frequencies = [1e-4 + j * (bands - 1 - 1e-4) / max(bands - 1, 1) for j in range(bands)]
        waves = [math.cos(angle * f) for f in frequencies]
        waves += [-math.sin(angle * f) for f in frequencies]
        x = torch.tensor([time, *waves], dtype=torch.float64)
        for layer in range(3):
            x = p[f"filter.hidden.{layer}.weight"] @ x + p[f"filter.hidden.{layer}.bias"]
            x = torch.sin(p["filter.sine"] * x)
        x = p["filter.output.weight"] @ x
        low, high = math.log(0.01) / 1.5, math.log(0.01) / 0.3
        window = [
            math.exp(-time * abs(low + c * (high - low) / (len(x) - 1))) for c in range(len(x))
        ]
        rows.append(x * torch.tensor(window, dtype=torch.float64))
    return torch.stack(rows)


def naive(p: dict[str, Tensor], longest: int, bands: int) -> Tensor:
    mixed = p["hidden"] @ p["input_projection.weight"].T + p["input_projection.bias"]
    taps = len(p["short.filters"])
    after = []
    for t in range(mixed.shape[1]):
        seen = [p["short.filters"][j] * mixed[:, t - taps + 1 + j] for j in range(taps)
                if t - taps + 1 + j >= 0]  # fmt: skip
        after.append(torch.stack(seen).sum(0) + p["short.bias"])
    gate, inner, values = torch.stack(after, 1).chunk(3, -1)
    z = inner * values
    kernel = naive_filter(p, z.shape[1], longest, bands)
    rows = [
        torch.stack([kernel[t - s] * z[:, s] for s in range(t + 1)]).sum(0) + p["skip"] * z[:, t]
        for t in range(z.shape[1])
    ]
    gated = gate * torch.stack(rows, 1)
    return gated @ p["output_projection.weight"].T + p["output_projection.bias"]


@pytest.mark.parametrize(("length", "bands"), [(1, 2), (2, 1), (37, 2)])
def test_equals_double_loops(length: int, bands: int) -> None:
    torch.manual_seed(0)
    mixer = disturbed(HyenaMixer(4, maximum_length=40, filter_width=6, bands=bands), 0.1)
    hidden = torch.randn(2, length, 4, dtype=torch.float64, requires_grad=True)
    leaves = leaves_of(mixer, hidden=hidden)
    expected = with_gradients(lambda: naive(leaves, 40, bands), leaves)
    found = with_gradients(lambda: mixer(hidden), leaves)
    # Three sines of ten times their argument.
    assert_derivatives_near(found, expected, leaves, terms=37 * 40, condition=1000.0)


def variation(maximum_length: int, initialisation: str) -> float:
    """Standard deviation over 370 positions of the filter, mean over channels."""
    torch.manual_seed(0)
    made = Filter(
        128,
        maximum_length,
        width=64,
        bands=2,
        initialisation=initialisation,  # type: ignore[arg-type]
    )
    return made(370).std(-1).mean().item()


def test_the_wrapper_of_regbench_leaves_a_filter_that_hardly_varies() -> None:
    own, released = variation(4098, "own"), variation(4098, "wrapper")
    assert own == pytest.approx(0.27, rel=0.2)
    assert released == pytest.approx(0.012, rel=0.2)


def test_sizes_are_those_of_the_protocol() -> None:
    mixer = HyenaMixer(128, maximum_length=512)
    assert sum(p.numel() for p in mixer.parameters()) == 84_672
    assert mixer.state_size == 66_304
    model = Hyena(TOKENS, layers=2)
    assert [model.state_bytes(n) for n in (1, 512)] == [2 * 4 * (128 + 768), 2 * 4 * 66_304]


def test_time_is_measured_by_the_task_unless_a_length_is_given() -> None:
    for given, expected in ((None, 512), (4098, 4098)):
        block = Hyena(TOKENS, filter_length=given, layers=1).blocks[0]
        assert block.mixer.filter.maximum_length == expected


def test_the_filter_is_not_decayed() -> None:
    rules = Hyena(TOKENS, layers=1).parameter_options()
    assert len([name for name in rules if ".filter." in name]) == 8
    assert all(rule == {"weight_decay": 0.0} for rule in rules.values())


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"filter_initialisation": "zero"}, "choose one of own, wrapper"),
        ({"bands": 0}, "must be at least 1"),
        ({"filter_length": 0}, "filter_length=0"),
        ({"convolution": 0}, "at least its own position"),
    ],
)
def test_wrong_hyperparameters_are_refused(wrong: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Hyena(TOKENS, **wrong)
