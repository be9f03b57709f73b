"""Mamba, first version (Gu and Dao 2023, "Mamba: linear-time sequence modeling with selective state
spaces", arXiv 2312.00752, section 3 and figure 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.gradients.convolutions import causal_convolution
from models.layers.residual import Mixer, ResidualModel
from models.layers.state_space.selective_scan import scan_to_state, selective_step
from models.specification import SequenceSpecification

SMALLEST_STEP, LARGEST_STEP = 1e-3, 0.1
STEP_FLOOR = 1e-4


class MambaMixer(Mixer):
    """Short convolution and selective state space on one branch, a SiLU gate on the other.

    With E = expand·width channels:

        x, z = split(W_in u);  x = SiLU(causal depthwise convolution of x);
        Δ', B, C = split(W_x x);  Δ = softplus(W_Δ Δ' + b_Δ);
        y = selective scan(x, Δ, A, B, C) + D x,  A = −exp(log_rates);  out = W_out (y SiLU(z)).

    A starts at −1 … −state in every channel and b_Δ so that Δ is log-uniform on [1e-3, 0.1]; the
    other initial values are those of the authors' code (torch's own for W_in, W_x and the
    convolution).

    Args:
        width: hidden channels.
        state: states of each channel.
        convolution: positions that the short convolution sees.
        expand: inner channels for each hidden channel.
    """

    def __init__(
        self, width: int, *, state: int = 16, convolution: int = 4, expand: int = 2
    ) -> None:
        super().__init__()
        channels = expand * width
        self.channels, self.state, self.convolution = channels, state, convolution
        # As "auto" of the authors' code.
        self.rank = math.ceil(width / 16)
        self.input_projection = nn.Linear(width, 2 * channels, bias=False)
        # torch's initialisation of a depthwise convolution: uniform within 1/sqrt(fan_in).
        bound = 1 / math.sqrt(convolution)
        self.filters = nn.Parameter(torch.empty(convolution, channels).uniform_(-bound, bound))
        self.filter_bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))
        self.selection = nn.Linear(channels, self.rank + 2 * state, bias=False)
        self.step_projection = nn.Linear(self.rank, channels)
        nn.init.uniform_(self.step_projection.weight, -(self.rank**-0.5), self.rank**-0.5)
        with torch.no_grad():
            low, high = math.log(SMALLEST_STEP), math.log(LARGEST_STEP)
            steps = torch.empty(channels).uniform_(low, high).exp().clamp(min=STEP_FLOOR)
            # The inverse of softplus.
            self.step_projection.bias.copy_(steps + torch.log(-torch.expm1(-steps)))
        # S4D-Real, the same rates in every channel (section 3.6).
        rates = torch.arange(1, state + 1, dtype=torch.float32).repeat(channels, 1)
        self.log_rates = nn.Parameter(rates.log())
        self.skip = nn.Parameter(torch.ones(channels))
        self.output_projection = nn.Linear(channels, width, bias=False)

    @property
    def state_size(self) -> int:
        """The states, and the inputs that the convolution still needs."""
        return self.channels * (self.state + self.convolution - 1)

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on A and D, as the authors' code marks them."""
        return {"log_rates": {"weight_decay": 0.0}, "skip": {"weight_decay": 0.0}}

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What ``forward`` gives, and the state after the last position, as ``step`` has it.

        No gradient flows through the state.
        """
        # Part by part: the gradient of one product would be put together from copies.
        weights = self.input_projection.weight.chunk(2)
        inputs, gates = (functional.linear(hidden, part) for part in weights)
        seen = self.convolution - 1
        padding = max(0, seen - inputs.shape[1])
        past = functional.pad(inputs[:, max(0, inputs.shape[1] - seen) :], (0, 0, padding, 0))
        inputs = functional.silu(self._convolve_sequence(inputs))
        steps, write, read = self._select(inputs)
        # Time comes first inside the scan. mypy cannot count what a generator yields.
        by_time = (x.transpose(0, 1) for x in (inputs, steps))
        write, read = write.transpose(0, 1), read.transpose(0, 1)
        outputs, memory = scan_to_state(*by_time, -self.log_rates.exp(), write, read)  # type: ignore[call-arg,arg-type]
        return self._finish(outputs.transpose(0, 1), inputs, gates), (past, memory)

    def step(
        self, hidden: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One position, (batch, width) -> (batch, width).

        The state: inputs of the convolution (batch, convolution − 1, channels), and the states
        (batch, channels, state).
        """
        if state is None:
            batch = hidden.shape[0]
            state = (
                # Zeros: what the convolution sees before the first position.
                hidden.new_zeros(batch, self.convolution - 1, self.channels),
                hidden.new_zeros(batch, self.channels, self.state),
            )
        past, memory = state
        inputs, gates = self.input_projection(hidden).chunk(2, -1)
        past = torch.cat((past, inputs.unsqueeze(1)), 1)
        inputs = functional.silu(self._convolve(past.unbind(1)))
        steps, write, read = self._select(inputs)
        rates = -self.log_rates.exp()
        outputs, memory = selective_step(memory, inputs, steps, rates, write, read)
        return self._finish(outputs, inputs, gates), (past[:, 1:], memory)

    def _convolve_sequence(self, inputs: Tensor) -> Tensor:
        """The short convolution of (batch, time, channels), with nothing before it."""
        is_wide = inputs.dtype in (torch.float32, torch.float64)
        if inputs.device.type == "cpu" and is_wide and inputs.dtype == self.filters.dtype:
            return causal_convolution(inputs, self.filters, self.filter_bias)
        past = functional.pad(inputs, (0, 0, self.convolution - 1, 0))
        length = inputs.shape[1]
        return self._convolve(past.narrow(1, lag, length) for lag in range(self.convolution))

    def _convolve(self, shifted: Iterable[Tensor]) -> Tensor:
        """The short convolution from its inputs, oldest first, each (..., channels)."""
        outputs: Tensor = self.filter_bias
        for inputs, weights in zip(shifted, self.filters.unbind(0), strict=True):
            outputs = torch.addcmul(outputs, inputs, weights)
        return outputs

    def _select(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Δ (..., channels), B and C (..., state) of inputs (..., channels)."""
        steps, write, read = self.selection(inputs).split((self.rank, self.state, self.state), -1)
        return functional.softplus(self.step_projection(steps)), write, read

    def _finish(self, outputs: Tensor, inputs: Tensor, gates: Tensor) -> Tensor:
        gated = torch.addcmul(outputs, inputs, self.skip) * functional.silu(gates)
        return self.output_projection(gated)


class Mamba(ResidualModel):
    """Mamba mixers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        state: states of each inner channel.
        convolution: positions that the short convolution sees.
        expand: inner channels for each hidden channel.
        mlp: false leaves the MLP of each block out, as the Mamba paper does.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        state: int = 16,
        convolution: int = 4,
        expand: int = 2,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            MambaMixer(width, state=state, convolution=convolution, expand=expand)
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
