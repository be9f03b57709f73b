"""MesaNet (von Oswald et al. 2025, arXiv 2506.05233): every position reads with the solution of a
ridge regression on all pairs so far, which is found exactly.

The authors solve by conjugate gradients, 30 steps in training. A system here has the width of a
head, so that it is factored (Cholesky), and gradients come from a second solution with the adjoint
right side instead of going through the factors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.general_delta import cut_in_chunks, in_float32_or_wider, join_chunks
from models.layers.recurrence.mixer import RecurrentMixer, inverse_softplus, linear, unit
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.linear.parts import NORM_EPSILON, ConvolvedHeads, without_weight_decay
from models.specification import SequenceSpecification

SMALLEST_RIDGE, FIRST_RIDGE = 0.25, 1.0
BLOCK = 8  # positions whose matrices are made by one product; longer blocks do more work
# Factors of so many numbers are kept for the backward pass; else they are made again, some at once.
NUMBERS_KEPT = 2**24
NUMBERS_AT_ONCE = 2**22


class RegressionState(NamedTuple):
    """Sums over all pairs: H of keys with keys, (batch, heads, key width, key width), and G of keys
    with values, (batch, heads, key width, value width)."""

    covariance: Tensor
    targets: Tensor


def mesa_recurrence(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_decays: Tensor,
    strengths: Tensor,
    ridge: Tensor,
    state: RegressionState | None = None,
) -> tuple[Tensor, RegressionState]:
    """H_t = γ H_{t−1} + β k ⊗ k,  G_t = γ G_{t−1} + β k ⊗ v,  o_t = G_tᵀ (H_t + Λ)⁻¹ q_t.

    Args:
        queries: q, (batch, time, heads, key width).
        keys: k, of the same shape.
        values: v, (batch, time, heads, value width).
        log_decays: ln γ, (batch, time, heads).
        strengths: β >= 0, (batch, time, heads).
        ridge: the diagonal of Λ > 0, (heads, key width).
        state: what the last call returned; None starts a sequence.

    Returns:
        o (batch, time, heads, value width) in the type of the values, and the state in float32 or
        wider.
    """
    dtype = values.dtype
    with torch.autocast(queries.device.type, enabled=False):
        queries, keys, values, log_decays, strengths, ridge = map(
            in_float32_or_wider, (queries, keys, values, log_decays, strengths, ridge)
        )
        batch, length, heads, width = keys.shape
        if state is None:
            empty = keys.new_zeros(batch, heads, width, width)
            state = RegressionState(empty, values.new_zeros(*empty.shape[:3], values.shape[-1]))
        weighted = strengths.unsqueeze(-1)
        moments = Writes(keys, weighted * keys, log_decays)
        with torch.no_grad():
            made_of = (keys, log_decays, strengths, ridge, in_float32_or_wider(state.covariance))
            system: tuple[Tensor, ...] = tuple(part.detach() for part in made_of)
            if batch * length * heads * width**2 <= NUMBERS_KEPT:
                system = (_factors(*system),)
            solution = _solve(queries.detach(), *system)
        # (H_t + Λ) y is q: the difference is rounding, and how it would change is the gradient.
        product, covariance = linear_recurrence(solution, moments, state.covariance)
        difference = queries - product - ridge * solution
        solution = _WithGradient.apply(solution, difference, *system)
        outputs, targets = linear_recurrence(
            solution, Writes(keys, weighted * values, log_decays), state.targets
        )
    return outputs.to(dtype), RegressionState(covariance, targets)


class _WithGradient(torch.autograd.Function):
    """(y, q − (H + Λ) y, the system) -> y, as a function of the second argument.

    A change of the difference by d moves the solution by (H + Λ)⁻¹ d, so that the gradient of the
    difference is (H + Λ)⁻¹ times that of y: the matrix is its own transpose.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(solution: Tensor, difference: Tensor, *system: Tensor) -> Tensor:
        return solution.clone()  # an output that is an input has no gradient of its own

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[2:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        system = ctx.saved_tensors
        return None, _solve(gradient, *system), *(None for _ in system)


def _solve(sides: Tensor, *system: Tensor) -> Tensor:
    """(H_t + Λ)⁻¹ of sides (batch, time, heads, key width).

    The system is its factors, or what they are made of, some positions at a time.
    """
    if len(system) == 1:
        return torch.cholesky_solve(sides.unsqueeze(-1), *system).squeeze(-1)
    keys, log_decays, strengths, ridge, covariance = system
    batch, length, heads, width = keys.shape
    # All matrices at once would take the memory of key width² numbers for each position.
    together = max(1, NUMBERS_AT_ONCE // (batch * heads * width**2))
    solutions = []
    for piece in (slice(start, start + together) for start in range(0, length, together)):
        gates = log_decays[:, piece], strengths[:, piece]
        matrices = _covariances(keys[:, piece], *gates, covariance)
        covariance = matrices[:, -1]
        solutions.append(_solve(sides[:, piece], _factor(matrices, ridge)))
    return torch.cat(solutions, 1)


def _factors(
    keys: Tensor, log_decays: Tensor, strengths: Tensor, ridge: Tensor, covariance: Tensor
) -> Tensor:
    """Cholesky factors of H_t + Λ at every position, (batch, time, heads, key width, key width)."""
    return _factor(_covariances(keys, log_decays, strengths, covariance), ridge)


def _factor(matrices: Tensor, ridge: Tensor) -> Tensor:
    # Numbers that are none stay so, where the checked form would stop the training.
    return torch.linalg.cholesky_ex(matrices + torch.diag_embed(ridge))[0]


def _covariances(keys: Tensor, log_decays: Tensor, strengths: Tensor, before: Tensor) -> Tensor:
    """H of every position, (batch, time, heads, key width, key width).

    Inside blocks of positions by one product, over (blocks, batch, heads, block, ...).
    """
    length, width = keys.shape[1], keys.shape[-1]
    block = min(BLOCK, length)
    k = cut_in_chunks(keys, block)
    sums = cut_in_chunks(log_decays.unsqueeze(-1), block).cumsum(-2)
    beta = cut_in_chunks(strengths.unsqueeze(-1), block)
    later = torch.ones(block, block, dtype=torch.bool, device=keys.device).triu(1)
    # Differences of logarithms before exp: quotients of two decays to zero would be 0 / 0.
    weights = (sums - sums.mT).masked_fill(later, -math.inf).exp()
    outers = ((beta * k).unsqueeze(-1) * k.unsqueeze(-2)).flatten(-2)
    added = weights @ outers
    entering, before = [], before.flatten(-2)
    factors = sums[..., -1, :].exp()
    for factor, addition in zip(factors.unbind(0), added[..., -1, :].unbind(0), strict=True):
        entering.append(before)
        before = factor * before + addition
    matrices = torch.addcmul(added, sums.exp(), torch.stack(entering).unsqueeze(-2))
    return join_chunks(matrices, length).unflatten(-1, (width, width))


class MesaState(NamedTuple):
    """Inputs that the convolution still sees, and the sums of each head."""

    past: Tensor
    sums: RegressionState


class MesaMixer(RecurrentMixer):
    """y_t = W_o norm(o_t), o of :func:`mesa_recurrence`.

    q and k are SiLU of a short convolution of linear maps, of length 1; v is a linear map, without
    a convolution. γ = σ(W_γ x + b_γ), β = σ(W_β x + b_β) for each head. Λ = ¼ + softplus(l) for
    each channel of the keys, 1 at the start. The norm is the root mean square of a head, with a
    gain that heads share. The arguments are those of :class:`MesaNet`.
    """

    def __init__(
        self, width: int, heads: int, *, decay_bias: float = 0.0, convolution: int = 4
    ) -> None:
        super().__init__()
        self.heads, self.head_width = heads, head_width(width, heads)
        self.streams = ConvolvedHeads(width, (width, width), heads, convolution)
        self.value_map = linear(width, width)
        self.decay = linear(width, heads, bias=True)
        self.strength = linear(width, heads, bias=True)
        nn.init.constant_(self.decay.bias, decay_bias)
        first = inverse_softplus(torch.tensor(FIRST_RIDGE - SMALLEST_RIDGE))
        self.ridge = nn.Parameter(first.expand(heads, self.head_width).clone())
        self.norm = nn.RMSNorm(self.head_width, eps=NORM_EPSILON)
        self.output_projection = nn.Linear(width, width, bias=False)

    @property
    def state_size(self) -> int:
        """Both sums, and what the convolution still sees."""
        return 2 * self.heads * self.head_width**2 + self.streams.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on Λ and on norms."""
        return without_weight_decay(self, "ridge")

    def advance(self, hidden: Tensor, state: MesaState | None) -> tuple[Tensor, MesaState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        (queries, keys), past = self.streams(hidden, state.past if state else None)
        read, sums = mesa_recurrence(
            unit(queries),
            unit(keys),
            self.value_map(hidden).unflatten(-1, (self.heads, -1)),
            functional.logsigmoid(self.decay(hidden)),
            torch.sigmoid(self.strength(hidden)),
            SMALLEST_RIDGE + functional.softplus(self.ridge),
            state.sums if state else None,
        )
        return self.output_projection(self.norm(read).flatten(2)), MesaState(past, sums)


class MesaNet(ResidualModel):
    """Mesa layers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: regressions of each block. Work per position grows with the cube of a head's width.
        decay_bias: b_γ at the start; 0 makes half-lives of one position.
        convolution: positions that the short convolution sees; 1 has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        decay_bias: float = 0.0,
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            MesaMixer(width, heads, decay_bias=decay_bias, convolution=convolution)
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
