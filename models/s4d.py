"""S4D: diagonal state spaces (Gu, Gupta, Goel and Ré 2022, "On the parameterization and
initialization of diagonal state space models", arXiv 2206.11893)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.residual import Mixer, ResidualModel
from models.layers.state_space.diagonal import (
    causal_convolution,
    diagonal_frequencies,
    impulse_response,
    state_after,
)
from models.specification import SequenceSpecification

SMALLEST_STEP, LARGEST_STEP = 1e-3, 0.1


class S4DMixer(Mixer):
    """A diagonal linear state space in each channel, GELU, and a linear map across channels.

        h'(t) = A h(t) + B u(t),  y(t) = 2 Re(C h(t)) + D u(t),

    with N/2 complex states, one of each conjugate pair, discretised by zero-order hold with a step
    of its own in each channel. A and B are shared by all channels, C and D are not. Re A = −½ at
    first and stays negative as −exp; Im A from :func:`diagonal_frequencies`; B = 1; C and D
    standard normal; steps log-uniform on [1e-3, 0.1]. Complex parameters are pairs of reals.

    Args:
        width: hidden channels.
        state: N, even.
        initialisation: "inverse" or "linear".
    """

    def __init__(self, width: int, *, state: int = 64, initialisation: str = "inverse") -> None:
        super().__init__()
        frequencies = diagonal_frequencies(state, initialisation)
        pairs = state // 2
        self.width, self.state = width, state
        steps = torch.empty(width).uniform_(math.log(SMALLEST_STEP), math.log(LARGEST_STEP))
        self.log_steps = nn.Parameter(steps)
        self.log_decay = nn.Parameter(torch.full((pairs,), math.log(0.5)))
        self.frequencies = nn.Parameter(frequencies)
        # One complex 1 for each pair, as (real, imaginary).
        self.write = nn.Parameter(torch.tensor([1.0, 0.0]).repeat(pairs, 1))
        # A complex standard normal: variance ½ in each part.
        self.read = nn.Parameter(torch.randn(width, pairs, 2) * math.sqrt(0.5))
        self.skip = nn.Parameter(torch.randn(width))
        self.output_projection = nn.Linear(width, width)

    @property
    def state_size(self) -> int:
        """N/2 complex numbers in each channel."""
        return self.width * self.state

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """The dynamics are learnt slowly and without decay, as in the authors' code."""
        names = ("log_steps", "log_decay", "frequencies", "write")
        return {name: {"weight_decay": 0.0, "maximum_lr": 1e-3} for name in names}

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        # Powers lose their meaning in bfloat16, and CUDA has no such Fourier transform.
        with torch.autocast(hidden.device.type, enabled=False):
            precise = torch.promote_types(hidden.dtype, torch.float32)
            inputs = hidden.transpose(1, 2).to(precise)
            outputs = causal_convolution(inputs, self.kernel(hidden.shape[1]))
        return self._finish(outputs.transpose(1, 2).to(hidden.dtype), hidden)

    def step(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One position, (batch, width) -> (batch, width) and complex (batch, width, N/2)."""
        exponents, coefficients = self._discretise()
        if state is None:
            state = torch.zeros_like(exponents).expand(hidden.shape[0], -1, -1)
        # B̄ is left to the coefficients: y = 2 Re Σ C B̄ h is the same for a state in units of B̄.
        state = exponents.exp() * state + hidden.unsqueeze(-1)
        return self._finish((coefficients * state).sum(-1).real, hidden), state

    def prefill(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """What ``forward`` gives, and the state that ``step`` has after the last position."""
        exponents, _ = self._discretise()
        state = state_after(hidden.transpose(1, 2).unsqueeze(2), exponents)
        return self(hidden), state.squeeze(2)

    def kernel(self, length: int) -> Tensor:
        """Responses to an impulse, (width, length): 2 Re Σ_n C_n B̄_n exp(Δ A_n t)."""
        return impulse_response(*self._discretise(), length)

    def _discretise(self) -> tuple[Tensor, Tensor]:
        """Exponents Δ A and coefficients 2 C B̄, complex (width, N/2)."""
        rates = torch.complex(-self.log_decay.exp(), self.frequencies)
        exponents = self.log_steps.exp().unsqueeze(-1) * rates
        # exp(ΔA) − 1 loses no more than |ΔA| ε here: no step is below about 1e-3.
        # Zero-order hold: B̄ = (exp(ΔA) − 1)/A · B.
        driven = torch.view_as_complex(self.write) * (torch.exp(exponents) - 1) / rates
        return exponents, 2 * torch.view_as_complex(self.read) * driven

    def _finish(self, outputs: Tensor, hidden: Tensor) -> Tensor:
        return self.output_projection(functional.gelu(outputs + self.skip * hidden))


class S4D(ResidualModel):
    """S4D mixers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        state: real size N of the state of each channel, even.
        initialisation: of the state matrix, "inverse" or "linear".
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        state: int = 64,
        initialisation: str = "inverse",
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            S4DMixer(width, state=state, initialisation=initialisation) for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
