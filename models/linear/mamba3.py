"""Mamba-3 (arXiv 2603.15569, ICLR 2026), with one input and one output for each head (SISO): the
state space of Mamba-2 by a trapezoidal rule, with states that turn by angles of the inputs, biases
on B and C, and no short convolution."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.recurrence.general_delta import cut_in_chunks, in_float32_or_wider, join_chunks
from models.layers.recurrence.mixer import Neighbours, RecurrentMixer, count_more
from models.layers.residual import ResidualModel
from models.layers.rotary import ROTARY_BASE
from models.linear.parts import NORM_EPSILON, initial_steps, without_weight_decay
from models.specification import SequenceSpecification

Rotation = Literal["data", "fixed", "none"]
RateMap = Literal["softplus", "rational"]
CHUNK = 64
SLOWEST_RATE = 1e-4


class TrapezoidState(NamedTuple):
    """The memory (batch, heads, state, head width), and the last pair: k (batch, heads, state),
    v (batch, heads, head width)."""

    memory: Tensor
    keys: Tensor
    values: Tensor


def trapezoid_recurrence(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_decays: Tensor,
    own: Tensor,
    previous: Tensor,
    state: TrapezoidState | None = None,
    *,
    chunk: int = CHUNK,
) -> tuple[Tensor, TrapezoidState]:
    """S_t = α_t (S_{t−1} + p_t k_{t−1} ⊗ v_{t−1}) + s_t k_t ⊗ v_t,  o_t = S_tᵀ q_t.

    A position writes its own pair with the weight s and the pair before it with the weight p. In a
    chunk the pair of j so reaches i > j with the weight (s_j + p_{j+1}) e^{c_i − c_j}, and j itself
    with s_j, which is a mask of scores with another diagonal. Nothing is added and taken away
    again, so that no output depends on a later input even by rounding.

    Args:
        queries: q, (batch, time, heads, state).
        keys: k, of the same shape.
        values: v, (batch, time, heads, head width).
        log_decays: ln α, (batch, time, heads).
        own: s, (batch, time, heads).
        previous: p, (batch, time, heads).
        state: what the last call returned; None starts a sequence.
        chunk: positions that are computed abreast.

    Returns:
        o (batch, time, heads, head width) in the type of the values, and the state in float32 or
        wider.
    """
    length, dtype = queries.shape[1], values.dtype
    with torch.autocast(queries.device.type, enabled=False):
        # Autocast is off, so the types are set here: decays are summed over whole chunks.
        queries, keys, values, log_decays, own, previous = map(
            in_float32_or_wider, (queries, keys, values, log_decays, own, previous)
        )
        if state is None:
            memory = values.new_zeros(values.shape[0], *keys.shape[2:], values.shape[-1])
            state = TrapezoidState(
                memory, torch.zeros_like(keys[:, 0]), torch.zeros_like(values[:, 0])
            )
        chunk = min(chunk, length)
        # The pair before the sequence is written to the memory, which decays with position 0.
        first = previous[:, 0, :, None, None] * _outer(state.keys, state.values)
        memory = in_float32_or_wider(state.memory) + first
        # p of position t + 1 weighs the pair of t: shifted by one, it stands beside that pair.
        following = functional.pad(previous[:, 1:], (0, 0, 0, 1))
        outputs, memory = _by_chunks(
            queries, keys, values, log_decays, own, following, memory, chunk
        )
    return outputs.to(dtype), TrapezoidState(memory, keys[:, -1], values[:, -1])


def _by_chunks(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_decays: Tensor,
    own: Tensor,
    following: Tensor,
    memory: Tensor,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """``following`` is p_{t+1} at t, and 0 at the last position, whose pair the next call adds."""
    length = queries.shape[1]
    q, k, v = (cut_in_chunks(x, chunk) for x in (queries, keys, values))
    g, s, p = (cut_in_chunks(x.unsqueeze(-1), chunk) for x in (log_decays, own, following))
    # c_i, the logarithm of all decays from the start of the chunk to i.
    sums = g.cumsum(-2)
    unread = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).triu(1)
    # Masked before the exponential: above the diagonal c_i − c_j > 0 and may overflow.
    decays = (sums - sums.mT).masked_fill(unread, -math.inf).exp()
    own_position = torch.eye(chunk, dtype=torch.bool, device=q.device)
    # At its own position a pair has not been written by the next one yet: s_j alone.
    scores = (q @ k.mT) * decays * torch.where(own_position, s.mT, (s + p).mT)
    # What the chunk adds to the memory, each pair decayed to the chunk's end.
    written = (k * (s + p) * (sums[..., -1:, :] - sums).exp()).mT @ v
    whole = sums[..., -1:, :].exp()
    entering = []
    # The only loop over chunks; everything before it was done for all of them at once.
    for factor, addition in zip(whole.unbind(0), written.unbind(0), strict=True):
        entering.append(memory)
        memory = factor * memory + addition
    # Of the memory that entered the chunk, decayed to i, and of the chunk's own pairs.
    outputs = (q * sums.exp()) @ torch.stack(entering) + scores @ v
    return join_chunks(outputs, length), memory


def _outer(keys: Tensor, values: Tensor) -> Tensor:
    return keys.unsqueeze(-1) * values.unsqueeze(-2)


class Mamba3State(NamedTuple):
    """What Mamba-3 keeps of a sequence.

    Attributes:
        past: inputs that the convolution still sees.
        angles: θ, (batch, heads, state / 4); with fixed frequencies a counter of positions.
        recurrence: memory and last pair.
    """

    past: Tensor
    angles: Tensor
    recurrence: TrapezoidState


class Mamba3Mixer(RecurrentMixer):
    """A memory for each head, then a gate. With E = expand·width and heads of h channels:

        z, v, B, C, Δ', a, λ', φ = split(W_in u);
        Δ = softplus(Δ' + b_Δ),  α = exp(−Δ r(a)),  λ = σ(λ');
        k = R(θ) (norm(B) + b_B),  q = R(θ) (norm(C) + b_C),  θ_t = θ_{t−1} + π tanh(φ_t) Δ_t;
        S_t = α S_{t−1} + (1 − λ) Δ α k_{t−1} ⊗ v_{t−1} + λ Δ k_t ⊗ v_t;
        y_t = S_tᵀ q_t + D v_t;  W_out (y SiLU(z)).

    Heads share B, C and φ; θ, and the biases of B and C, each has its own. R turns pairs of
    channels (2i, 2i+1) of the first half of the state. The norms are root mean squares with a gain.
    r is softplus, at least 1e-4. b_Δ starts so that Δ is log-uniform on [1e-3, 0.1], D, b_B and b_C
    at 1; matrices start as torch's own do. The arguments are those of :class:`Mamba3`.
    """

    def __init__(
        self,
        width: int,
        *,
        state: int = 64,
        head_width: int = 64,
        expand: int = 2,
        rotation: Rotation = "data",
        trapezoid: bool = True,
        bias: bool = True,
        rates: RateMap = "softplus",
        convolution: int = 1,
    ) -> None:
        super().__init__()
        for key, value, choices in (
            ("rotation", rotation, get_args(Rotation)),
            ("rates", rates, get_args(RateMap)),
        ):
            if value not in choices:
                raise ValueError(f"{key}={value!r} is unknown; choose one of {', '.join(choices)}")
        channels = expand * width
        self.channels, self.state, self.head_width = channels, state, min(head_width, channels)
        if channels % self.head_width:
            raise ValueError(
                f"expand={expand} × width={width} channels cannot be split in heads of "
                f"head_width={head_width}; make one a multiple of the other"
            )
        # Pairs of channels of half of the state: a quarter of it are angles.
        if state < 4 or state % 4:
            raise ValueError(
                f"half of the state turns in pairs of channels, got state={state}; make it a "
                "multiple of 4"
            )
        self.heads = channels // self.head_width
        self.rotation, self.rates, self.trapezoid = rotation, rates, trapezoid
        # One product gives all parts; those that a variant lacks have no column.
        self.parts = {
            "gates": channels,
            "seen": channels + 2 * state,
            "steps": self.heads,
            "rates": self.heads,
            # λ, one number for each head.
            "shares": self.heads if trapezoid else 0,
            # φ is shared by heads; each head turns by its own Δ.
            "turns": state // 4 if rotation == "data" else 0,
        }
        self.input_projection = nn.Linear(width, sum(self.parts.values()), bias=False)
        self.neighbours = Neighbours(channels + 2 * state, convolution, bias=True)
        self.step_bias = nn.Parameter(initial_steps(self.heads))
        self.write_norm = nn.RMSNorm(state, eps=NORM_EPSILON)
        self.read_norm = nn.RMSNorm(state, eps=NORM_EPSILON)
        self.write_bias = self.read_bias = None
        if bias:
            # At 1 and not 0: a constant part in B and C writes and reads a decayed sum of all.
            self.write_bias = nn.Parameter(torch.ones(self.heads, state))
            self.read_bias = nn.Parameter(torch.ones(self.heads, state))
        # Past the memory from the start, as in Mamba-2.
        self.skip = nn.Parameter(torch.ones(self.heads))
        self.output_projection = nn.Linear(channels, width, bias=False)

    @property
    def state_size(self) -> int:
        """The memories, the last pair, the angles, and what a convolution still sees."""
        pair = self.heads * self.state + self.channels
        angles = self.heads * self.state // 4 if self.rotation == "data" else 0
        return self.channels * self.state + pair + angles + self.neighbours.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on b_Δ, D, the biases of B and C, and on norms."""
        return without_weight_decay(self, "step_bias", "skip", "write_bias", "read_bias")

    def advance(self, hidden: Tensor, state: Mamba3State | None) -> tuple[Tensor, Mamba3State]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        projected = self.input_projection(hidden).split(list(self.parts.values()), -1)
        parts = dict(zip(self.parts, projected, strict=True))
        seen, past = self.neighbours(parts["seen"], state.past if state else None)
        # The paper has no convolution, and then no SiLU either.
        if self.neighbours.convolution is not None:
            seen = functional.silu(seen)
        values, write, read = seen.split((self.channels, self.state, self.state), -1)
        values = values.unflatten(-1, (self.heads, -1))
        steps = functional.softplus(parts["steps"] + self.step_bias)
        # Unlike Mamba-2's, the rate r depends on the input too, not on the head alone.
        log_decays = -steps * self._rates(parts["rates"])

        # The angle advances with Δ, as the memory does: a step that writes nothing turns nothing.
        angles, last_angles = self._angles(parts["turns"], steps, state.angles if state else None)
        # The bias comes before the rotation, so that its products depend on the distance too.
        keys = self._turn(self._for_heads(self.write_norm(write), self.write_bias), angles)
        queries = self._turn(self._for_heads(self.read_norm(read), self.read_bias), angles)

        # λ = 1 is Euler's rule of Mamba-2: nothing of the pair before is written.
        share = torch.sigmoid(parts["shares"]) if self.trapezoid else torch.ones_like(steps)
        outputs, recurrence = trapezoid_recurrence(
            queries,
            keys,
            values,
            log_decays,
            share * steps,
            (1 - share) * steps,
            state.recurrence if state else None,
        )
        outputs = torch.addcmul(outputs, values, self.skip[:, None])
        mixed = outputs.flatten(2) * functional.silu(parts["gates"])
        return self.output_projection(mixed), Mamba3State(past, last_angles, recurrence)

    def _rates(self, a: Tensor) -> Tensor:
        """r(a) > 0, (batch, time, heads)."""
        if self.rates == "softplus":
            # Else a very negative a would keep everything for ever.
            return functional.softplus(a).clamp(min=SLOWEST_RATE)
        # Each branch of a choice needs a finite gradient where it is not taken.
        return torch.where(a >= 0, 1 + a.clamp(min=0), 1 / (1 - a.clamp(max=0)))

    def _for_heads(self, vectors: Tensor, bias: Tensor | None) -> Tensor:
        """(batch, time, state) -> (batch, time, heads, state)."""
        shared = vectors.unsqueeze(2).expand(-1, -1, self.heads, -1)
        return shared if bias is None else shared + bias

    def _angles(
        self, turns: Tensor, steps: Tensor, before: Tensor | None
    ) -> tuple[Tensor | None, Tensor]:
        """θ, (batch or 1, time, heads or 1, state / 4), and what the next call needs.

        Sums over a whole sequence are made in float64, and modulo 2π.
        """
        if self.rotation == "none":
            return None, steps.new_empty(steps.shape[0], 0)
        # The state holds no angle: positions are counted, as RoPE needs.
        if self.rotation == "fixed":
            start, counter = count_more(before, steps)
            pairs = torch.arange(self.state // 4, device=steps.device, dtype=torch.float64)
            times = torch.arange(start, counter.shape[1], device=steps.device, dtype=torch.float64)
            angles = times[:, None, None] * ROTARY_BASE ** (-4 * pairs / self.state)
            # A far position in float32 would lose the digits behind the point.
            return angles.unsqueeze(0).remainder(2 * math.pi).to(steps.dtype), counter
        increments = math.pi * torch.tanh(turns).unsqueeze(2) * steps.unsqueeze(-1)
        angles = increments.double().cumsum(1)
        if before is not None:
            angles = angles + before.double().unsqueeze(1)
        angles = angles.remainder(2 * math.pi).to(steps.dtype)
        return angles, angles[:, -1]

    def _turn(self, vectors: Tensor, angles: Tensor | None) -> Tensor:
        """Vectors (batch, time, heads, state), the first half turned pair by pair."""
        if angles is None:
            return vectors
        turned, fixed = vectors.chunk(2, -1)
        even, odd = turned.unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = angles.cos(), angles.sin()
        pairs = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1)
        return torch.cat((pairs.flatten(-2), fixed), -1)


class Mamba3(ResidualModel):
    """Mamba-3 mixers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        state: channels of B and C, a multiple of 4.
        head_width: inner channels of each head.
        expand: inner channels for each hidden channel.
        rotation: "data", by angles of the inputs; "fixed", by RoPE's frequencies; "none".
        trapezoid: whether a position also writes the pair before it; else λ = 1.
        bias: whether B and C have biases.
        rates: r. "softplus" as in the paper; "rational", 1 + a for a >= 0 and 1/(1 − a) below, as
            in the authors' code since June 2026.
        convolution: positions that a short convolution of v, B and C sees, with SiLU after it; 1
            has none, as in the paper.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an unknown choice, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        state: int = 64,
        head_width: int = 64,
        expand: int = 2,
        rotation: Rotation = "data",
        trapezoid: bool = True,
        bias: bool = True,
        rates: RateMap = "softplus",
        convolution: int = 1,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            Mamba3Mixer(
                width,
                state=state,
                head_width=head_width,
                expand=expand,
                rotation=rotation,
                trapezoid=trapezoid,
                bias=bias,
                rates=rates,
                convolution=convolution,
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
