"""Mamba, second version (Dao and Gu 2024, "Transformers are SSMs", arXiv 2405.21060, sections 5 to
7): the selective state space with one decay for each head, which is linear attention."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.gradients.convolutions import causal_convolution
from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.mixer import RecurrentMixer, inverse_softplus
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.layers.short_convolution import ShortConvolution
from models.layers.state_space.duality import shared_keys_recurrence
from models.specification import SequenceSpecification

SLOWEST_RATE, FASTEST_RATE = 1.0, 16.0
SMALLEST_STEP, LARGEST_STEP, STEP_FLOOR = 1e-3, 0.1, 1e-4
NORM_EPSILON = 1e-5


class Mamba2State(NamedTuple):
    """Inputs that the convolution still sees, and the memory (batch, heads, state, head width)."""

    past: Tensor
    memory: Tensor


class Mamba2Mixer(RecurrentMixer):
    """Short convolution and a memory for each head, then a gate and a norm. With E = expand·width:

        z, (x, B, C), Δ' = split(W_in u);  x, B, C = SiLU(causal depthwise convolution of them);
        Δ = softplus(Δ' + b_Δ),  α = exp(−Δ exp(A));
        S_t = α S_{t−1} + B_t ⊗ Δ_t x_t,  y_t = S_tᵀ C_t + D x_t;
        W_out norm(y SiLU(z)), the root mean square of all E channels, with a gain.

    Heads share B and C. exp(A) starts uniform on [1, 16], b_Δ so that Δ is log-uniform on
    [1e-3, 0.1], D at 1; other initial values are torch's own, as in the authors' code.

    Args:
        width: hidden channels.
        state: N, channels of B and C.
        head_width: channels of x in each head; at most all of them.
        convolution: positions that the short convolution sees.
        expand: inner channels for each hidden channel.

    Raises:
        ValueError: heads that do not fit.
    """

    def __init__(
        self,
        width: int,
        *,
        state: int = 64,
        head_width: int = 64,
        convolution: int = 4,
        expand: int = 2,
    ) -> None:
        super().__init__()
        channels = expand * width
        self.channels, self.state, self.head_width = channels, state, min(head_width, channels)
        if channels % self.head_width:
            raise ValueError(
                f"expand={expand} × width={width} channels cannot be split in heads of "
                f"head_width={head_width}; make one a multiple of the other"
            )
        self.heads = channels // self.head_width
        self.parts = (channels, channels + 2 * state, self.heads)
        self.input_projection = nn.Linear(width, sum(self.parts), bias=False)
        self.convolution = ShortConvolution(channels + 2 * state, convolution, bias=True)
        self.log_rates = nn.Parameter(
            torch.empty(self.heads).uniform_(SLOWEST_RATE, FASTEST_RATE).log()
        )
        low, high = math.log(SMALLEST_STEP), math.log(LARGEST_STEP)
        steps = torch.empty(self.heads).uniform_(low, high).exp().clamp(min=STEP_FLOOR)
        # Floored by 1e-4 as in the authors' code, which the range of the draw never reaches.
        self.step_bias = nn.Parameter(inverse_softplus(steps))
        self.skip = nn.Parameter(torch.ones(self.heads))
        self.norm = nn.RMSNorm(channels, eps=NORM_EPSILON)
        self.output_projection = nn.Linear(channels, width, bias=False)

    @property
    def state_size(self) -> int:
        """The memories, and the inputs that the convolution still needs."""
        return self.channels * self.state + self.convolution.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on A, b_Δ and D, as the authors' code marks them, and on the norm."""
        names = ("log_rates", "step_bias", "skip", "norm.weight")
        return {name: {"weight_decay": 0.0} for name in names}

    def advance(self, hidden: Tensor, state: Mamba2State | None) -> tuple[Tensor, Mamba2State]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        # Part by part: the gradient of one product would be put together from copies.
        weights = self.input_projection.weight.split(self.parts)
        gates, inputs, steps = (functional.linear(hidden, part) for part in weights)
        inputs, past = self._convolve(inputs, state.past if state else None)
        x, write, read = functional.silu(inputs).split((self.channels, self.state, self.state), -1)
        # (batch, time, heads, head width)
        x = x.unflatten(-1, (self.heads, -1))
        steps = functional.softplus(steps + self.step_bias)
        log_decays = -steps * self.log_rates.exp()
        memory = state.memory if state else None
        # C, B and Δx in the roles of q, k and v: one group of B and C, which all heads share.
        if hidden.device.type == "cpu" and hidden.shape[1] > 1:
            outputs, memory = shared_keys_recurrence(read, write, x, steps, log_decays, memory)
        else:
            writes = Writes(write.unsqueeze(-2), steps.unsqueeze(-1) * x, log_decays)
            outputs, memory = linear_recurrence(read.unsqueeze(-2), writes, memory)
        # D x with x before its step: D does not depend on Δ.
        outputs = torch.addcmul(outputs, x, self.skip[:, None])
        # The gate first, then the norm over all channels, as the released code.
        gated = outputs.flatten(2) * functional.silu(gates)
        return self._project_normed(gated), Mamba2State(past, memory)

    def _project_normed(self, gated: Tensor) -> Tensor:
        """W_out norm(gated), (batch, time, channels) -> (batch, time, width)."""
        if not self._is_plain(gated):
            return self.output_projection(self.norm(gated))
        # The gain is a part of the matrix then, and a position is scaled where it is narrower.
        mean_square = torch.linalg.vector_norm(gated, dim=-1, keepdim=True).square() / self.channels
        matrix = self.output_projection.weight * self.norm.weight
        return functional.linear(gated, matrix) * (mean_square + NORM_EPSILON).rsqrt()

    def _convolve(self, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """The short convolution of a piece, and what that of the next one sees of it."""
        taps, bias = self.convolution.taps, self.convolution.bias
        if past is not None or bias is None or not self._is_plain(x):
            return self.convolution(x, past)
        padding = max(0, taps - 1 - x.shape[1])
        last = functional.pad(x[:, max(0, x.shape[1] - taps + 1) :], (0, 0, padding, 0))
        return causal_convolution(x, self.convolution.filters, bias), last

    def _is_plain(self, x: Tensor) -> bool:
        """Whether ``x`` is on a CPU and no numbers are in half precision."""
        weight = self.output_projection.weight
        is_wide = x.dtype == weight.dtype and x.dtype in (torch.float32, torch.float64)
        return x.device.type == "cpu" and is_wide


class Mamba2(ResidualModel):
    """Mamba-2 mixers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        state: channels of B and C.
        head_width: inner channels of each head.
        convolution: positions that the short convolution sees.
        expand: inner channels for each hidden channel.
        mlp: false leaves the MLP of each block out, as the Mamba papers do.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        state: int = 64,
        head_width: int = 64,
        convolution: int = 4,
        expand: int = 2,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            Mamba2Mixer(
                width, state=state, head_width=head_width, convolution=convolution, expand=expand
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
