"""The released S4D: kernels of its recurrence, no B, and smaller ones at the start."""

from __future__ import annotations

import math

import pytest
import torch

from models.s4d import S4DMixer
from models.s4d_as_released import S4DMixerAsReleased
from tests.closeness import assert_near
from tests.models.derivatives import disturbed, leaves_of, with_gradients

LENGTH = 61


def test_kernel_is_the_impulse_response_of_the_recurrence() -> None:
    torch.manual_seed(0)
    made = disturbed(S4DMixerAsReleased(5, state=8))
    assert isinstance(made, S4DMixerAsReleased)
    assert "write" not in dict(made.named_parameters())

    def recurrence() -> torch.Tensor:
        rates = torch.complex(-made.log_decay.exp(), made.frequencies)
        decays = torch.exp(made.log_steps.exp()[:, None] * rates)
        state, read = (decays - 1) / rates, torch.view_as_complex(made.read)
        responses = []
        for _ in range(LENGTH):
            responses.append(2 * (read * state).sum(-1).real)
            state = decays * state
        return torch.stack(responses, -1)

    names = ("log_steps", "log_decay", "frequencies", "read")
    leaves = {name: leaves_of(made)[name] for name in names}
    found = with_gradients(lambda: made.kernel(LENGTH), leaves)
    assert_near(found, with_gradients(recurrence, leaves), terms=4 * LENGTH, condition=100.0)


def test_initial_kernels_are_two_and_a_half_times_smaller() -> None:
    """Mean lengths over 400 positions: 0.33 in the release, of which one draw of B has 0.2 to 0.8,
    and 0.83 with B = 1."""
    lengths: dict[type, list[float]] = {S4DMixer: [], S4DMixerAsReleased: []}
    for seed in range(40):
        for made, found in lengths.items():
            torch.manual_seed(seed)
            found.append(made(4).kernel(400).detach().norm(dim=-1).mean().item())
    plain, released = (sum(found) / len(found) for found in lengths.values())
    assert plain == pytest.approx(0.83, rel=0.1)
    assert released == pytest.approx(0.33, abs=0.06)  # three standard errors


def test_sizes_and_start_are_those_of_the_protocol() -> None:
    made = S4DMixerAsReleased(128)
    assert sum(p.numel() for p in made.parameters()) == 25_024
    assert made.state_size == 8192
    assert_near(made.log_decay[0].item(), math.log(0.5 + 1e-4), terms=4, dtype=torch.float32)
    assert made.parameter_options().keys() == {"log_steps", "log_decay", "frequencies"}


def test_it_is_built_in_whatever_precision_is_the_default() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        mixer = S4DMixerAsReleased(8, state=4)
    finally:
        torch.set_default_dtype(before)
    assert {parameter.dtype for parameter in mixer.parameters()} == {torch.float64}
