"""H3 against its state spaces run one position after the other."""

import math

import numpy as np
import pytest
import torch
from scipy.signal import cont2discrete
from torch import Tensor

from models.h3 import H3, DiagonalStateSpace, H3Mixer
from models.layers.state_space.diagonal import impulse_response
from models.specification import SequenceSpecification
from tests.closeness import assert_near
from tests.models.derivatives import assert_derivatives_near, disturbed, leaves_of, with_gradients

SUMS = {"terms": 37 * 37 * 8, "condition": 100.0}


def shifted(k: Tensor, write: Tensor, read: Tensor, skip: Tensor) -> Tensor:
    """State s ← shift(s) + B k, y = C s + D k, for k (batch, time, channels)."""
    state = torch.zeros(k.shape[0], *write.shape, dtype=k.dtype)
    rows = []
    for now in k.unbind(1):
        moved = torch.cat((torch.zeros_like(state[..., :1]), state[..., :-1]), -1)
        state = moved + write * now.unsqueeze(-1)
        rows.append((read * state).sum(-1) + skip * now)
    return torch.stack(rows, 1)


def naive(mixer: H3Mixer, p: dict[str, Tensor]) -> Tensor:
    """By head and channel; A, B and C as the paper writes them."""
    size = mixer.head_width
    q, k, v = (
        p["hidden"] @ p[f"{name}.weight"].T + p[f"{name}.bias"]
        for name in ("query", "key", "value")
    )
    k = shifted(k, p["shift.write"], p["shift.read"], p["shift.skip"])
    rates = torch.complex(-p["diagonal.log_decay"].exp(), p["diagonal.frequencies"])
    steps = p["diagonal.log_steps"].exp()
    write, read = (torch.view_as_complex(p[f"diagonal.{n}"]) for n in ("write", "read"))
    outputs = []
    for head in range(mixer.width // size):
        half = steps[head] * rates[head] / 2
        forward, driven = (1 + half) / (1 - half), steps[head] * write[head] / (1 - half)
        columns: list[Tensor] = [torch.zeros(())] * size
        for a in range(head * size, (head + 1) * size):
            for b in range(size):
                u = k[..., a] * v[..., head * size + b]
                state, rows = torch.zeros(u.shape[0], 1, dtype=torch.complex128), []
                for now in u.unbind(1):
                    state = forward * state + driven * now.unsqueeze(-1)
                    rows.append(2 * (read[head] * state).sum(-1).real)
                y = torch.stack(rows, 1) + p["diagonal.skip"][head] * u
                columns[b] = columns[b] + q[..., a] * y
        outputs += columns
    gated = torch.stack(outputs, -1)
    return gated @ p["output_projection.weight"].T + p["output_projection.bias"]


@pytest.mark.parametrize(("length", "head_width"), [(1, 2), (2, 1), (23, 1), (23, 2), (11, 4)])
def test_equals_the_recurrences(length: int, head_width: int) -> None:
    """Values and gradients; a register shorter and longer than the sequence."""
    torch.manual_seed(0)
    mixer = disturbed(H3Mixer(4, state=12, head_width=head_width))
    assert isinstance(mixer, H3Mixer)
    hidden = torch.randn(2, length, 4, dtype=torch.float64, requires_grad=True)
    leaves = leaves_of(mixer, hidden=hidden)
    expected = with_gradients(lambda: naive(mixer, leaves), leaves)
    found = with_gradients(lambda: mixer(hidden), leaves)
    assert_derivatives_near(found, expected, leaves, **SUMS)


def test_discretisation_is_the_bilinear_one_of_scipy() -> None:
    """Each complex state as two real ones: h = a + ib, A = α + iω acts as [[α, −ω], [ω, α]]."""
    torch.manual_seed(0)
    made = disturbed(DiagonalStateSpace(2, 6))
    assert isinstance(made, DiagonalStateSpace)
    kernel = impulse_response(*made.discretised(), 20).detach().numpy()
    for head in range(2):
        alpha = -made.log_decay[head].detach().exp().numpy()
        omega = made.frequencies[head].detach().numpy()
        dynamics = np.block([[np.diag(alpha), -np.diag(omega)], [np.diag(omega), np.diag(alpha)]])
        write = made.write[head].detach().numpy().T.reshape(-1, 1)
        read = (made.read[head].detach().numpy() * [2, -2]).T.reshape(1, -1)  # 2 Re(C h)
        step = made.log_steps[head].exp().item()
        # scipy's outputs are those between two states; what is read here is the state itself.
        a, b, *_ = cont2discrete((dynamics, write, read, np.zeros((1, 1))), step, "bilinear")
        response = [(read @ np.linalg.matrix_power(a, t) @ b).item() for t in range(20)]
        assert_near(kernel[head], np.array(response), **SUMS)


def test_initial_values() -> None:
    made = H3Mixer(1000)
    assert_near(made.diagonal.frequencies[0, :4].tolist(), [0, math.pi, 2 * math.pi, 3 * math.pi],
                dtype=torch.float32)  # fmt: skip
    steps = made.diagonal.log_steps.detach().exp()
    assert 1e-3 <= steps.min() < 1.1e-3
    assert 0.09 < steps.max() <= 0.1
    taps = made.shift.taps()
    assert_near(taps, made.shift.read, terms=64)  # B starts as (1, 0, …)
    assert 0.12 < taps.abs().max() <= 0.125001


def test_sizes_are_those_of_the_protocol() -> None:
    assert sum(p.numel() for p in H3Mixer(128).parameters()) == 107_392
    tokens = SequenceSpecification(maximum_length=8, vocabulary=5)
    assert H3(tokens, width=128, layers=2).state_bytes(9) == 2 * 4 * 16_384
    wide = H3(tokens, width=128, layers=1, head_width=8)
    assert wide.state_bytes(9) == 4 * (64 * 128 + 64 * 128 * 8)


def test_long_sequences_in_float32() -> None:
    torch.manual_seed(0)
    made = H3Mixer(4)
    hidden = torch.randn(1, 8192, 4)
    outputs, (_, states) = made.prefill(hidden)
    expected, (_, exact) = made.double().prefill(hidden.double())
    assert_near(outputs, expected, terms=8192 + 64, condition=100, dtype=torch.float32)
    assert_near(states, exact, terms=8192, condition=1000, dtype=torch.complex64)


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="make width a multiple of head_width"):
        H3Mixer(8, head_width=3)
    with pytest.raises(ValueError, match="make it even"):
        H3Mixer(8, state=7)
