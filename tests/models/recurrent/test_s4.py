"""S4 against the dense HiPPO matrix in its own basis, and against its recurrence in steps."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.recurrent.s4 import S4, hippo_legs
from tests.models.linear.naive import (
    assert_accurate,
    assert_layer_equals,
    new_mixer,
    normal,
    only_mixer,
    parameters_and_state,
    small_model,
)

model = partial(small_model, S4)


def dense_hippo(state: int) -> tuple[Tensor, Tensor]:
    rows = []
    for n in range(state):
        off = [-(((2 * n + 1) * (2 * k + 1)) ** 0.5) for k in range(n)]
        rows.append([*off, -(n + 1.0), *[0.0] * (state - n - 1)])
    write = [(2 * n + 1) ** 0.5 for n in range(state)]
    return torch.tensor(rows, dtype=torch.float64), torch.tensor(write, dtype=torch.float64)


@pytest.mark.parametrize("state", [2, 8, 64])
def test_the_start_is_the_dense_matrix_in_another_basis(state: int) -> None:
    """Eigenvalues −1 … −N of the whole, and the same products B* A^n B."""
    start = hippo_legs(state)
    dense, dense_write = dense_hippo(state)
    eigenvalues = torch.cat((start.eigenvalues, start.eigenvalues.conj()))
    low_rank, write = (torch.cat((x, x.conj())) for x in (start.low_rank, start.write))
    matrix = torch.diag(eigenvalues) - low_rank[:, None] * low_rank.conj()
    assert (start.eigenvalues.imag < 0).all()
    vector, dense_vector = write, dense_write
    for _ in range(4):
        product = (write.conj() * vector).sum()
        expected = (dense_write * dense_vector).sum()
        assert abs(product - expected) <= 1e-9 * abs(expected)
        vector, dense_vector = matrix @ vector, dense @ dense_vector
    if state <= 8:
        found = torch.linalg.eigvals(matrix).real.sort(descending=True).values
        assert torch.allclose(found, -torch.arange(1, state + 1).double(), rtol=1e-6)


def complex_system(mixer: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Ā, B̄ and C of all pairs of each channel, by complex matrices of the whole state."""
    half = torch.complex(-mixer.log_decay.exp(), -mixer.frequencies)
    parts = (torch.view_as_complex(p) for p in (mixer.low_rank, mixer.write, mixer.read))
    low_rank, write, reads = (torch.cat((p, p.conj()), -1) for p in parts)
    matrix = torch.diag(torch.cat((half, half.conj()))) - low_rank[:, None] * low_rank.conj()
    identity = torch.eye(len(matrix), dtype=matrix.dtype)
    steps = mixer.log_steps.exp()[:, None, None]
    inverse = torch.linalg.inv(identity - steps / 2 * matrix)
    return inverse @ (identity + steps / 2 * matrix), steps[..., 0] * (inverse @ write), reads


def equations(mixer: Any, x: Tensor) -> Tensor:
    """h = Āh + B̄u;  y = Re(Ch) + Du, one position after the other."""
    matrices, writes, reads = complex_system(mixer)
    state, outputs = torch.zeros(len(x), *writes.shape, dtype=writes.dtype), []
    for t in range(x.shape[1]):
        state = (matrices @ state.unsqueeze(-1)).squeeze(-1) + writes * x[:, t, :, None]
        outputs.append((reads * state).sum(-1).real)
    y = torch.stack(outputs, 1) + mixer.skip * x
    linear = functional.gelu(y) @ mixer.output_projection.weight.T + mixer.output_projection.bias
    values, gates = linear.chunk(2, -1)
    return values * torch.sigmoid(gates)


@pytest.mark.parametrize("length", [1, 2, 36, 75])
def test_the_layer_equals_its_recurrence(length: int) -> None:
    torch.manual_seed(0)
    mixer = only_mixer(model(state=8))
    with torch.no_grad():
        mixer.log_steps.sub_(3)
    shape = (2, length, 16)
    assert_layer_equals(mixer, equations, shape)
    hidden, state = normal(*shape, seed=5), None
    with torch.no_grad():
        for position in hidden.unbind(1):
            output, state = mixer.step(position, state)
        outputs, filled = mixer.prefill(hidden)
    assert state is not None
    assert_accurate({"o": output, "s": state}, {"o": outputs[:, -1], "s": filled})


def test_long_kernels_stay_accurate_in_float32() -> None:
    """The start at N = 64 and T = 4,096; no power of the matrix grows."""
    torch.manual_seed(0)
    mixer = new_mixer(model(width=8)).float()
    with torch.no_grad():
        single = mixer.kernel(4096)
        exact = mixer.double().kernel(4096)
    assert (single.double() - exact).abs().max() <= 1e-3 * exact.abs().max()


def test_sizes() -> None:
    parameters = 128 * 64 + 2 * 128 + 3 * 64 + 2 * 128 * 129
    assert parameters_and_state(model(width=128)) == (parameters, 128 * 64)
    with pytest.raises(ValueError, match="state=7; make it even"):
        model(state=7)
