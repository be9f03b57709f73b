"""S4 with its own state matrix (Gu, Goel and Ré 2021, arXiv 2111.00396): diagonal plus low rank,
from HiPPO-LegS. ``models/s4d.py`` has the diagonal alone."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.residual import Mixer, ResidualModel
from models.layers.state_space.diagonal import causal_convolution
from models.specification import SequenceSpecification

SMALLEST_STEP, LARGEST_STEP = 1e-3, 0.1
SHORT = 64
LARGEST_WRITE = 2.0  # of the imaginary parts of B at the start, as in the authors' code


class HippoMatrix(NamedTuple):
    """HiPPO-LegS in the basis in which all but rank one of it is diagonal: A = Λ − P P*, and B; one
    of each conjugate pair, complex128 (state / 2,)."""

    eigenvalues: Tensor
    low_rank: Tensor
    write: Tensor


def hippo_legs(state: int) -> HippoMatrix:
    """A_nk = −√((2n+1)(2k+1)) for n > k, −(n+1) on the diagonal; B_n = √(2n+1).

    A + P Pᵀ with P_n = √(n+½) is −½ and a skew-symmetric matrix, whose unitary basis this is. Of
    each pair of eigenvalues −½ ± iω the lower one is taken.
    """
    n = torch.arange(state, dtype=torch.float64)
    roots = torch.sqrt(2 * n + 1)
    dense = -(roots[:, None] * roots).tril(-1) - torch.diag(n + 1)
    low_rank = torch.sqrt(n + 0.5)
    skew = dense + low_rank[:, None] * low_rank + 0.5 * torch.eye(state, dtype=torch.float64)
    # −i times a skew-symmetric matrix is Hermitian: its eigenvalues are real, the frequencies ω.
    frequencies, basis = torch.linalg.eigh(-1j * skew)
    below = slice(0, state // 2)  # eigenvalues are sorted
    to_basis = basis[:, below].mH
    return HippoMatrix(
        torch.complex(torch.full((state // 2,), -0.5, dtype=torch.float64), frequencies[below]),
        to_basis @ low_rank.to(basis.dtype),
        to_basis @ roots.to(basis.dtype),
    )


class DiscreteSystem(NamedTuple):
    """h_t = Ā h_{t−1} + B̄ u_t of every channel, Ā a complex diagonal minus left rightᵀ.

    A state is real parts and, after them, imaginary parts.

    Attributes:
        diagonal: complex (width, N / 2).
        left, right, write: (width, N).
    """

    diagonal: Tensor
    left: Tensor
    right: Tensor
    write: Tensor

    def advance(self, state: Tensor) -> Tensor:
        """Ā h, (..., width, N) -> the same."""
        erased = (self.right * state).sum(-1, keepdim=True)
        return _multiply(self.diagonal, state) - self.left * erased

    def responses(self, count: int) -> Tensor:
        """Ā^t B̄ for t below ``count``, (width, count, N)."""
        vectors = [self.write]
        for _ in range(count - 1):
            vectors.append(self.advance(vectors[-1]))
        return torch.stack(vectors, 1)

    def power(self, exponent: int) -> Tensor:
        """Ā^exponent, (width, N, N)."""
        real, imaginary = torch.diag_embed(self.diagonal.real), torch.diag_embed(self.diagonal.imag)
        rows = torch.cat((real, -imaginary), -1), torch.cat((imaginary, real), -1)
        matrix = torch.cat(rows, -2) - self.left.unsqueeze(-1) * self.right.unsqueeze(-2)
        return torch.linalg.matrix_power(matrix, exponent)


def _multiply(diagonal: Tensor, vectors: Tensor) -> Tensor:
    """Complex (..., n) times real and, after them, imaginary parts (..., 2 n) -> the same."""
    real, imaginary = vectors.chunk(2, -1)
    a, b = diagonal.real, diagonal.imag
    return torch.cat((a * real - b * imaginary, a * imaginary + b * real), -1)


def _positions_in_turn(length: int) -> int:
    """How many responses are made one after the other, before a dense power of Ā jumps on."""
    return length if length <= SHORT else math.isqrt(length - 1) + 1


class S4Mixer(Mixer):
    """A linear state space in each channel, GELU, and a gated linear map across channels.

        h'(t) = A h(t) + B u(t),  y(t) = Re(C h(t)) + D u(t),  A = Λ − P P*,

    of N complex states in conjugate pairs, which are N real numbers. It is discretised by the
    bilinear rule with a step of its own in each channel; A and B are shared by all channels, C and
    D are not. Λ, P and B start from HiPPO-LegS, B with imaginary parts of at most 2; Re Λ stays
    negative as −exp. C starts complex normal, D normal, and steps log-uniform on [1e-3, 0.1]. The
    gated map is GLU of width -> 2 width.

    Responses to an impulse come from powers of the discrete matrix, itself diagonal plus rank one,
    and of a dense power of it: for N <= 64 that is cheap, and exact where the generating function
    of the paper has a pole.

    Args:
        width: hidden channels.
        state: N, even.
    """

    def __init__(self, width: int, *, state: int = 64) -> None:
        super().__init__()
        if state < 2 or state % 2:
            raise ValueError(f"states come in conjugate pairs, got state={state}; make it even")
        self.width, self.state = width, state
        start = hippo_legs(state)
        write = start.write.clone()
        write.imag.clamp_(-LARGEST_WRITE, LARGEST_WRITE)
        steps = torch.empty(width).uniform_(math.log(SMALLEST_STEP), math.log(LARGEST_STEP))
        self.log_steps = nn.Parameter(steps)
        self.log_decay = nn.Parameter((-start.eigenvalues.real).log().float())
        self.frequencies = nn.Parameter(-start.eigenvalues.imag.float())
        self.low_rank = nn.Parameter(torch.view_as_real(start.low_rank).float())
        self.write = nn.Parameter(torch.view_as_real(write).float())
        # A complex standard normal: variance ½ in each part.
        self.read = nn.Parameter(torch.randn(width, state // 2, 2) * math.sqrt(0.5))
        self.skip = nn.Parameter(torch.randn(width))
        self.output_projection = nn.Linear(width, 2 * width)

    @property
    def state_size(self) -> int:
        """N real numbers in each channel."""
        return self.width * self.state

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """The dynamics are learnt slowly and without decay, as in the authors' code."""
        names = ("log_steps", "log_decay", "frequencies", "low_rank", "write")
        return {name: {"weight_decay": 0.0, "maximum_lr": 1e-3} for name in names}

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        # CUDA has no Fourier transform in bfloat16.
        with torch.autocast(hidden.device.type, enabled=False):
            precise = torch.promote_types(hidden.dtype, torch.float32)
            inputs = hidden.transpose(1, 2).to(precise)
            outputs = causal_convolution(inputs, self.kernel(hidden.shape[1]))
        return self._finish(outputs.transpose(1, 2).to(hidden.dtype), hidden)

    def step(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One position, (batch, width) -> (batch, width) and states (batch, width, N)."""
        system = self._discretise()
        following = system.write * hidden.unsqueeze(-1)
        if state is not None:
            following = following + system.advance(state)
        outputs = (self._reads() * following).sum(-1).to(hidden.dtype)
        return self._finish(outputs, hidden), following

    def prefill(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """What ``forward`` gives, and the state that ``step`` has after the last position."""
        system, length = self._discretise(), hidden.shape[1]
        chunk = _positions_in_turn(length)
        responses = system.responses(chunk)
        # Zeros before the start leave the state empty, and the last chunk then ends the sequence.
        inputs = functional.pad(hidden, (0, 0, -length % chunk, 0)).unflatten(1, (-1, chunk))
        within = torch.einsum("bnlw,wlk->nbwk", inputs, responses.flip(1))
        state = within[0]
        if len(within) > 1:
            power = system.power(chunk)
            for addition in within[1:].unbind(0):
                state = (power @ state.unsqueeze(-1)).squeeze(-1) + addition
        return self(hidden), state

    def kernel(self, length: int) -> Tensor:
        """Responses to an impulse, (width, length): C Ā^t B̄."""
        system = self._discretise()
        chunk = _positions_in_turn(length)
        reads = [self._reads()]
        if length > chunk:
            # C Ā^(chunk · j), which with the responses inside a chunk make C Ā^t B̄ for all t.
            power = system.power(chunk)
            for _ in range(math.ceil(length / chunk) - 1):
                reads.append((reads[-1].unsqueeze(-2) @ power).squeeze(-2))
        return (torch.stack(reads, 1) @ system.responses(chunk).mT).flatten(1)[:, :length]

    def _reads(self) -> Tensor:
        """2 Re C and −2 Im C, which read real and imaginary parts, (width, N)."""
        return 2 * torch.cat((self.read[..., 0], -self.read[..., 1]), -1)

    def _discretise(self) -> DiscreteSystem:
        """By the bilinear rule: Ā = 2 (I − ΔA/2)⁻¹ − I and B̄ = Δ (I − ΔA/2)⁻¹ B.

        Of real and imaginary parts P* h, summed over both halves of the pairs, is 2 p · h. So the
        inverse is G − c G p (Gᵀ p)ᵀ, G that of the diagonal (Sherman and Morrison).
        """
        half = self.log_steps.exp().unsqueeze(-1) / 2
        eigenvalues = torch.complex(-self.log_decay.exp(), -self.frequencies)
        diagonal = 1 / (1 - half * eigenvalues)
        low_rank, write = (part.mT.flatten() for part in (self.low_rank, self.write))
        conjugate = torch.complex(diagonal.real, -diagonal.imag)  # vmap has no rule for conj's view
        pushed, pulled = _multiply(diagonal, low_rank), _multiply(conjugate, low_rank)
        weight = 2 * half / (1 + 2 * half * (low_rank * pushed).sum(-1, keepdim=True))
        left = weight * pushed
        driven = _multiply(diagonal, write)
        driven = driven - left * (pulled * write).sum(-1, keepdim=True)
        return DiscreteSystem(2 * diagonal - 1, 2 * left, pulled, 2 * half * driven)

    def _finish(self, outputs: Tensor, hidden: Tensor) -> Tensor:
        activated = functional.gelu(outputs + self.skip * hidden)
        return functional.glu(self.output_projection(activated), -1)


class S4(ResidualModel):
    """S4 mixers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        state: real size N of the state of each channel, even.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an odd state.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        state: int = 64,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [S4Mixer(width, state=state) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
