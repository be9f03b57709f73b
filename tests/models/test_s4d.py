"""S4D against state spaces discretised by scipy, a recurrence, and a double loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.signal import cont2discrete

from models.s4d import S4DMixer, causal_convolution, diagonal_frequencies

LENGTHS = [1, 2, 7, 61, 100, 257]


def mixer(width: int = 5, state: int = 8, seed: int = 0) -> S4DMixer:
    """A mixer with every parameter off its initial value."""
    torch.manual_seed(seed)
    made = S4DMixer(width, state=state).double()
    with torch.no_grad():
        for parameter in (made.log_decay, made.frequencies, made.write):
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


@pytest.mark.parametrize("length", LENGTHS)
def test_kernel_is_the_impulse_response_of_the_recurrence(length: int) -> None:
    """2 Re Σ C h with h_0 = B̄ and h_t = Ā h_{t−1}: values and gradients."""
    made = mixer()
    kernel = made.kernel(length)
    rates = torch.complex(-made.log_decay.exp(), made.frequencies)
    decays = torch.exp(made.log_steps.exp()[:, None] * rates)
    state = (decays - 1) / rates * torch.view_as_complex(made.write)
    read = torch.view_as_complex(made.read)
    responses = []
    for _ in range(length):
        responses.append(2 * (read * state).sum(-1).real)
        state = decays * state
    expected = torch.stack(responses, -1)
    torch.testing.assert_close(kernel, expected, rtol=1e-9, atol=1e-9)
    weights = torch.randn_like(kernel)
    parameters = [made.log_steps, made.log_decay, made.frequencies, made.write, made.read]
    gradients = torch.autograd.grad((kernel * weights).sum(), parameters)
    targets = torch.autograd.grad((expected * weights).sum(), parameters)
    for gradient, target in zip(gradients, targets, strict=True):
        torch.testing.assert_close(gradient, target, rtol=1e-9, atol=1e-9)


def test_discretisation_is_the_zero_order_hold_of_scipy() -> None:
    """Each complex state as two real ones: h = a + ib, A = α + iω acts as [[α, −ω], [ω, α]]."""
    made = mixer(width=3, state=6)
    kernel = made.kernel(20).detach().numpy()
    alpha = -made.log_decay.detach().exp().numpy()
    omega = made.frequencies.detach().numpy()
    dynamics = np.block([[np.diag(alpha), -np.diag(omega)], [np.diag(omega), np.diag(alpha)]])
    write = made.write.detach().numpy().T.reshape(-1, 1)
    for channel in range(3):
        read = made.read[channel].detach().numpy() * [2, -2]  # 2 Re(C h)
        step = made.log_steps[channel].exp().item()
        system = (dynamics, write, read.T.reshape(1, -1), np.zeros((1, 1)))
        a, b, c, _, _ = cont2discrete(system, step, method="zoh")
        response = [(c @ np.linalg.matrix_power(a, t) @ b).item() for t in range(20)]
        np.testing.assert_allclose(kernel[channel], response, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", LENGTHS)
def test_convolution_equals_a_double_loop(length: int) -> None:
    torch.manual_seed(length)
    inputs = torch.randn(2, 3, length, dtype=torch.float64)
    kernel = torch.randn(3, length, dtype=torch.float64)
    expected = torch.zeros_like(inputs)
    for t in range(length):
        for s in range(t + 1):
            expected[:, :, t] += kernel[:, t - s] * inputs[:, :, s]
    torch.testing.assert_close(causal_convolution(inputs, kernel), expected, rtol=0, atol=1e-9)


def test_float32_is_close_to_float64() -> None:
    """Within 1e-4 of the largest value over 1000 positions at the published initialisation."""
    torch.manual_seed(0)
    made = S4DMixer(64)
    inputs = torch.randn(2, 1000, 64)
    outputs = made(inputs).detach()
    expected = made.double()(inputs.double()).detach()
    assert (outputs - expected).abs().max() < 1e-4 * expected.abs().max()


def test_initial_state_matrix() -> None:
    inverse = diagonal_frequencies(64, "inverse")
    assert inverse[0].item() == pytest.approx(64 / math.pi * 63)
    assert inverse[31].item() == pytest.approx(64 / math.pi * (64 / 63 - 1))
    assert diagonal_frequencies(8, "linear").tolist() == pytest.approx(
        [0, math.pi, 2 * math.pi, 3 * math.pi]
    )
    made = S4DMixer(1000)
    torch.testing.assert_close(made.log_decay.exp(), torch.full((32,), 0.5))
    steps = made.log_steps.detach().exp()
    assert 1e-3 <= steps.min() < 1.1e-3
    assert 0.09 < steps.max() <= 0.1
    assert steps.median().item() == pytest.approx(1e-2, rel=0.25)  # log-uniform


@pytest.mark.parametrize("wrong", [{"state": 7}, {"state": 0}, {"initialisation": "legs"}])
def test_wrong_hyperparameters_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"make it even|use one of inverse, linear"):
        S4DMixer(8, **wrong)
