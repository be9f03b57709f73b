"""S4D against state spaces discretised by scipy, a recurrence, and a double loop."""

import math

import numpy as np
import pytest
import torch
from scipy.signal import cont2discrete

from models.layers.state_space.diagonal import causal_convolution, diagonal_frequencies
from models.s4d import S4DMixer
from tests.closeness import assert_near

LENGTHS = [1, 2, 7, 61, 100, 257]
# An angle of ω Δ t turns keeps its absolute error, so that a power of Ā loses the digits before
# the point; the sums run over the states and over time.
KERNEL = {"terms": 4 * 257, "condition": 100.0}


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
    assert_near(kernel, expected, **KERNEL)
    weights = torch.randn_like(kernel)
    parameters = [made.log_steps, made.log_decay, made.frequencies, made.write, made.read]
    gradients = torch.autograd.grad((kernel * weights).sum(), parameters)
    targets = torch.autograd.grad((expected * weights).sum(), parameters)
    for gradient, target in zip(gradients, targets, strict=True):
        assert_near(gradient, target, **KERNEL)


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
        assert_near(kernel[channel], np.array(response), **KERNEL)


@pytest.mark.parametrize("length", LENGTHS)
def test_convolution_equals_a_double_loop(length: int) -> None:
    torch.manual_seed(length)
    inputs = torch.randn(2, 3, length, dtype=torch.float64)
    kernel = torch.randn(3, length, dtype=torch.float64)
    expected = torch.zeros_like(inputs)
    for t in range(length):
        for s in range(t + 1):
            expected[:, :, t] += kernel[:, t - s] * inputs[:, :, s]
    # A transform adds in log₂ steps; its numbers are as large as the sums of the whole sequence.
    found, largest = causal_convolution(inputs, kernel), float(inputs.norm() * kernel.norm())
    assert_near(found, expected, terms=length, largest=largest)


def test_float32_is_close_to_float64() -> None:
    """Over 1000 positions at the published initialisation, where angles reach hundreds of turns."""
    torch.manual_seed(0)
    made = S4DMixer(64)
    inputs = torch.randn(2, 1000, 64)
    outputs = made(inputs).detach()
    expected = made.double()(inputs.double()).detach()
    assert_near(outputs, expected, terms=1000 + 64, condition=30, dtype=torch.float32)


def test_initial_state_matrix() -> None:
    inverse = diagonal_frequencies(64, "inverse")
    # 64 / 63 is known to an eps, and what is left of it without the 1 is 63 times smaller.
    assert_near(inverse[0].item(), 64 / math.pi * 63, terms=4, dtype=torch.float32)
    last = 64 / math.pi * (64 / 63 - 1)
    assert_near(inverse[31].item(), last, terms=4, condition=64, dtype=torch.float32)
    linear = [0, math.pi, 2 * math.pi, 3 * math.pi]
    assert_near(diagonal_frequencies(8, "linear").tolist(), linear, dtype=torch.float32)
    made = S4DMixer(1000)
    assert_near(made.log_decay.exp(), torch.full((32,), 0.5))
    steps = made.log_steps.detach().exp()
    assert 1e-3 <= steps.min() < 1.1e-3
    assert 0.09 < steps.max() <= 0.1
    assert steps.median().item() == pytest.approx(1e-2, rel=0.25)  # log-uniform


@pytest.mark.parametrize("wrong", [{"state": 7}, {"state": 0}, {"initialisation": "legs"}])
def test_wrong_hyperparameters_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"make it even|use one of inverse, linear"):
        S4DMixer(8, **wrong)
