"""H3 (Fu et al. 2023, "Hungry hungry hippos: towards language modeling with state space models",
arXiv 2212.14052, section 3.1 and figure 1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.layers.residual import STANDARD_DEVIATION, Mixer, ResidualModel
from models.layers.state_space.diagonal import (
    causal_convolution,
    diagonal_frequencies,
    impulse_response,
    state_after,
)
from models.specification import SequenceSpecification

SMALLEST_STEP, LARGEST_STEP = 1e-3, 0.1
SLOW = {"weight_decay": 0.0, "maximum_lr": 1e-3}  # how the authors train the dynamics


class ShiftStateSpace(nn.Module):
    """The state space whose A shifts its state by one: a convolution over the last N positions.

        y_t = Σ_{j<N} ℓ_j x_{t−j} + D x_t  with  ℓ_j = Σ_n B_n C_{n+j}

    in each channel. B starts as (1, 0, …), C uniform within 1/√N, D standard normal.

    Args:
        channels: of x and y.
        state: N.
    """

    def __init__(self, channels: int, state: int) -> None:
        super().__init__()
        self.state = state
        bound = 1 / math.sqrt(state)
        start = torch.zeros(channels, state)
        start[:, 0] = 1.0
        self.write = nn.Parameter(start)
        self.read = nn.Parameter(torch.empty(channels, state).uniform_(-bound, bound))
        self.skip = nn.Parameter(torch.randn(channels))

    def taps(self) -> Tensor:
        """ℓ, (channels, N), by FFT."""
        # Σ_n B_n C_{n+j} is a correlation, hence the conjugate; 2N points keep it from wrapping
        # round.
        size = 2 * self.state
        spectrum = torch.fft.rfft(self.read, size) * torch.fft.rfft(self.write, size).conj()
        return torch.fft.irfft(spectrum, size)[:, : self.state]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, time) -> the same shape."""
        taps = self.taps()[:, : x.shape[-1]]
        return causal_convolution(x, taps) + self.skip.unsqueeze(-1) * x

    def register(self, x: Tensor) -> Tensor:
        """The last N of x (batch, channels, time), after zeros, (batch, channels, N)."""
        return nn.functional.pad(x, (self.state, 0))[..., -self.state :]

    def step(self, x: Tensor, register: Tensor) -> tuple[Tensor, Tensor]:
        """One position, (batch, channels), and the register before it -> y and the next one."""
        # The newest input stands last and belongs to ℓ_0, hence the reversed taps.
        register = torch.cat((register[..., 1:], x.unsqueeze(-1)), -1)
        return (self.taps().flip(-1) * register).sum(-1) + self.skip * x, register


class DiagonalStateSpace(nn.Module):
    """S4D-Lin in each head, with an A, B, C and step of its own, discretised bilinearly:

        Ā = (1 + ΔA/2)/(1 − ΔA/2),  B̄ = ΔB/(1 − ΔA/2),  h_t = Ā h_{t−1} + B̄ x_t,
        y_t = 2 Re(C h_t) + D x_t,  with N/2 complex states.

    A starts at −½ + iπn, B at 1, C complex and D real standard normal, Δ log-uniform on
    [1e-3, 0.1]. Complex parameters are pairs of reals.

    Args:
        heads: state spaces.
        state: N, even.
    """

    def __init__(self, heads: int, state: int) -> None:
        super().__init__()
        frequencies = diagonal_frequencies(state, "linear")
        pairs = state // 2
        steps = torch.empty(heads).uniform_(math.log(SMALLEST_STEP), math.log(LARGEST_STEP))
        self.log_steps = nn.Parameter(steps)
        self.log_decay = nn.Parameter(torch.full((heads, pairs), math.log(0.5)))
        self.frequencies = nn.Parameter(frequencies.repeat(heads, 1))
        self.write = nn.Parameter(torch.tensor([1.0, 0.0]).repeat(heads, pairs, 1))
        self.read = nn.Parameter(torch.randn(heads, pairs, 2) * math.sqrt(0.5))
        self.skip = nn.Parameter(torch.randn(heads))

    def discretised(self) -> tuple[Tensor, Tensor]:
        """Logarithms of Ā and coefficients 2 C B̄, complex (heads, N/2)."""
        # This line makes A, and the line after the steps makes ΔA/2 of it.
        half = torch.complex(-self.log_decay.exp(), self.frequencies)
        steps = self.log_steps.exp().unsqueeze(-1)
        half = steps * half / 2
        driven = steps * torch.view_as_complex(self.write) / (1 - half)
        # Its logarithm, because the kernel needs all powers of Ā: exp(t log Ā). As Re A < 0 makes
        # |Ā| < 1, they do not grow.
        exponents = torch.log((1 + half) / (1 - half))
        return exponents, 2 * torch.view_as_complex(self.read) * driven

    def forward(self, x: Tensor) -> Tensor:
        """(batch, heads, parts, time) -> the same shape; all parts of a head share its A … D."""
        kernel = impulse_response(*self.discretised(), x.shape[-1])
        return causal_convolution(x, kernel.unsqueeze(1)) + self.skip[:, None, None] * x

    def last(self, x: Tensor) -> Tensor:
        """The state after the last position of x, in units of B̄: complex (…, parts, N/2)."""
        return state_after(x, self.discretised()[0])

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One position, (batch, heads, parts), and the state before it -> y and the next state."""
        exponents, coefficients = self.discretised()
        # In units of B̄, which is a factor of the coefficients instead.
        state = exponents.exp().unsqueeze(1) * state + x.unsqueeze(-1)
        read = (coefficients.unsqueeze(1) * state).sum(-1).real
        return read + self.skip.unsqueeze(-1) * x, state


class H3Mixer(Mixer):
    """Two state spaces between three linear maps of the input, all with biases:

        o = W_o (q ∘ diagonal(shift(k) ∘ v)).

    With heads wider than 1 the products are outer ones: key channel a and value channel b of a head
    have u_ab = k_a v_b, and o_b = Σ_a q_a y_ab.

    Args:
        width: hidden channels.
        state: N of both state spaces.
        head_width: channels of a head.
    """

    def __init__(self, width: int, *, state: int = 64, head_width: int = 1) -> None:
        super().__init__()
        if head_width < 1 or width % head_width:
            raise ValueError(
                f"heads of head_width={head_width} do not fill width={width}; make width a "
                "multiple of head_width"
            )
        self.width, self.state, self.head_width = width, state, head_width
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.shift = ShiftStateSpace(width, state)
        self.diagonal = DiagonalStateSpace(width // head_width, state)
        self.output_projection = nn.Linear(width, width)
        for projection in (self.query, self.key, self.value):
            nn.init.normal_(projection.weight, std=STANDARD_DEVIATION)
            nn.init.zeros_(projection.bias)

    @property
    def state_size(self) -> int:
        """N keys of each channel, and N/2 complex numbers for each product."""
        return self.state * self.width * (1 + self.head_width)

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """A, B and the steps are learnt slowly and without decay, D without decay."""
        dynamics = ("log_steps", "log_decay", "frequencies", "write")
        slow = ("shift.write", *(f"diagonal.{name}" for name in dynamics))
        undecayed = ("shift.skip", "diagonal.skip")
        return dict.fromkeys(slow, SLOW) | {name: {"weight_decay": 0.0} for name in undecayed}

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        queries, keys, values = self._project(hidden)
        with torch.autocast(hidden.device.type, enabled=False):
            read = self.diagonal(self._products(self.shift(keys), values))
        return self._finish(queries, read)

    def prefill(self, hidden: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What ``forward`` gives, and the state after the last position, as ``step`` has it."""
        queries, keys, values = self._project(hidden)
        with torch.autocast(hidden.device.type, enabled=False):
            products = self._products(self.shift(keys), values)
            state = self.shift.register(keys), self.diagonal.last(products)
            read = self.diagonal(products)
        return self._finish(queries, read), state

    def step(
        self, hidden: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One position, (batch, width) -> (batch, width).

        The state: the last N keys (batch, width, N), and complex states
        (batch, heads, head_width², N/2).
        """
        queries, keys, values = self._project(hidden.unsqueeze(1))
        register, states = self._empty_state(keys) if state is None else state
        keys, register = self.shift.step(keys.squeeze(-1), register)
        products = self._products(keys.unsqueeze(-1), values).squeeze(-1)
        read, states = self.diagonal.step(products, states)
        return self._finish(queries, read.unsqueeze(-1)).squeeze(1), (register, states)

    def _empty_state(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """The state before the first position. A zero input has keys and values that are not zero,
        by their biases, and must leave no trace here."""
        register = keys.new_zeros(keys.shape[0], self.width, self.state)
        parts = self.width // self.head_width, self.head_width**2, self.state // 2
        states = keys.new_zeros(keys.shape[0], *parts, dtype=keys.dtype.to_complex())
        return register, states

    def _project(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (batch, time, width); k and v (batch, width, time), float32 at least: powers lose their
        meaning in bfloat16, and CUDA has no such Fourier transform."""
        wide = torch.promote_types(hidden.dtype, torch.float32)
        keys, values = (f(hidden).transpose(1, 2).to(wide) for f in (self.key, self.value))
        return self.query(hidden), keys, values

    def _products(self, keys: Tensor, values: Tensor) -> Tensor:
        """k ⊗ v in each head of two (batch, width, time): (batch, heads, head_width², time)."""
        size = (-1, self.head_width)
        # (batch, heads, key channel a, value channel b, time)
        outer = keys.unflatten(1, size).unsqueeze(3) * values.unflatten(1, size).unsqueeze(2)
        return outer.flatten(2, 3)

    def _finish(self, queries: Tensor, read: Tensor) -> Tensor:
        """W_o of Σ_a q_a y_ab: q (batch, time, width), y (batch, heads, head_width², time)."""
        # Channels stay in the order (head, channel of the head). The released code reads them out
        # as (channel, head): a permutation, which the dense W_o undoes or learns.
        size = (self.head_width, self.head_width)
        by_head = queries.transpose(1, 2).unflatten(1, (-1, self.head_width)).unsqueeze(3)
        outputs = (by_head * read.to(queries.dtype).unflatten(2, size)).sum(2)
        return self.output_projection(outputs.flatten(1, 2).transpose(1, 2))


class H3(ResidualModel):
    """H3 mixers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        state: real size N of the state of both state spaces, even.
        head_width: channels of a head; the second state grows with it.
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
        head_width: int = 1,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [H3Mixer(width, state=state, head_width=head_width) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
