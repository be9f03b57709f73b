"""TTT-linear (Sun et al. 2024, "Learning to (learn at test time)", arXiv 2407.04620): the memory is
a linear map, trained by gradient descent on the keys and values of mini-batches of positions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.layers.heads import head_width, join_heads, split_heads
from models.layers.recurrence.general_delta import in_float32_or_wider
from models.layers.recurrence.mixer import RecurrentMixer, linear
from models.layers.residual import STANDARD_DEVIATION, ResidualModel
from models.layers.rotary import ROTARY_BASE, rotate
from models.linear.parts import without_weight_decay
from models.specification import SequenceSpecification

INNER_EPSILON = 1e-6


class InnerNorm(NamedTuple):
    """Gain and bias of the LayerNorm inside the memory, each (heads, head width)."""

    gain: Tensor
    bias: Tensor


class InnerState(NamedTuple):
    """What a sequence keeps.

    Attributes:
        counter: (batch, positions since the mini-batch began, 0); its shape is the count.
        weights: W at the start of the mini-batch, (batch, heads, head width, head width).
        biases: b then, (batch, heads, 1, head width).
        weight_gradients: Σ η k ⊗ G in the mini-batch so far, of the shape of the weights.
        bias_gradients: Σ η G so far, of the shape of the biases.
    """

    counter: Tensor
    weights: Tensor
    biases: Tensor
    weight_gradients: Tensor
    bias_gradients: Tensor


def train_and_read(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    rates: Tensor,
    norm: InnerNorm,
    scales: Tensor,
    state: InnerState,
) -> tuple[Tensor, InnerState]:
    """A linear map per head that is trained as it is read.

    With W and b at the start of a mini-batch, z_s = Wᵀ k_s + b and the gradient G_s, at z_s, of
    ½ |LN(z_s) − (v_s − k_s)|², position i of the mini-batch reads

        o_i = q_i + LN(W_iᵀ q_i + b_i),
        W_i = W − τ_i Σ_{s<=i} η_s k_s ⊗ G_s,  b_i = b − τ_i Σ_{s<=i} η_s G_s,

    and the last W_i and b_i start the next mini-batch.

    Args:
        queries: q, (batch, heads, time, head width); keys k and values v are of the same shape.
        rates: η, (batch, heads, time).
        norm: of LN, with 1e-6 beside the variance.
        scales: τ, (positions of a mini-batch,).
        state: at the start of the piece.

    Returns:
        o (batch, heads, time, head width), and the state after the piece.
    """
    gain, bias = norm.gain.unsqueeze(-2), norm.bias.unsqueeze(-2)
    _, weights, biases, weight_gradients, bias_gradients = state
    size, passed, length = len(scales), state.counter.shape[1], queries.shape[2]
    outputs, start = [], 0
    while start < length:
        # Up to the end of the mini-batch that is open: a call may begin in its middle.
        piece = slice(start, min(length, start + size - passed))
        q, k, v = (x[:, :, piece] for x in (queries, keys, values))
        eta, count = rates[:, :, piece, None], piece.stop - start
        tau = scales[passed : passed + count, None]

        # Gradients of all positions are taken at the W of the start, so they are independent.
        normed, deviation = _standardise(k @ weights + biases)
        # dL/d normed, with the target v − k: the memory learns the residual.
        errors = (gain * normed + bias - (v - k)) * gain
        # Back through the LayerNorm by hand: autograd inside would need second derivatives.
        along = (errors * normed).mean(-1, keepdim=True)
        errors = (errors - errors.mean(-1, keepdim=True) - normed * along) / deviation
        steps = eta * errors

        # Σ_{s<=i} η_s (q_i · k_s + 1) G_s; the 1 is the step of the bias b.
        seen = ((q @ k.mT) + 1).tril() @ steps
        # Of positions of this mini-batch that an earlier call has read.
        if passed:
            seen = seen + q @ weight_gradients + bias_gradients
        read, _ = _standardise(q @ weights + biases - tau * seen)
        # The residual that the target left out comes back here.
        outputs.append(q + gain * read + bias)

        # Summed and applied at the end: all positions see the W of the start.
        weight_gradients = weight_gradients + k.mT @ steps
        bias_gradients = bias_gradients + steps.sum(-2, keepdim=True)
        passed, start = passed + count, piece.stop
        if passed == size:
            # τ of the last position, as that position's own W_i: reading and writing agree.
            weights = weights - scales[-1] * weight_gradients
            biases = biases - scales[-1] * bias_gradients
            weight_gradients = torch.zeros_like(weight_gradients)
            bias_gradients = torch.zeros_like(bias_gradients)
            passed = 0
    # Its shape counts, so that nothing is read from the device.
    counter = queries.new_empty(queries.shape[0], passed, 0)
    last = InnerState(counter, weights, biases, weight_gradients, bias_gradients)
    return torch.cat(outputs, 2), last


def _standardise(x: Tensor) -> tuple[Tensor, Tensor]:
    """(x − mean) / deviation over the last axis, and the deviation."""
    centred = x - x.mean(-1, keepdim=True)
    # By n and not n − 1, as LayerNorm has it.
    deviation = (centred.square().mean(-1, keepdim=True) + INNER_EPSILON).sqrt()
    return centred / deviation, deviation


class TTTMixer(RecurrentMixer):
    """y_t = W_o LN(o_t), o of :func:`train_and_read`.

    q, k and v are linear maps; q and k turn, channels (2i, 2i+1) together, by RoPE's angles of
    their position in the mini-batch. η = σ(x · w + c) / (head width) for each head, and τ_i =
    max(0, 1/i + l_i) with l of position i = 1 … of the mini-batch, 0 at the start. W starts as a
    learned matrix, N(0, 0.02²), and b at a learned vector, 0: from W = 0 the first gradient would
    be multiplied by 1000. The arguments are those of :class:`TTTLinear`.
    """

    def __init__(self, width: int, heads: int, *, mini_batch: int = 16) -> None:
        super().__init__()
        if mini_batch < 1:
            raise ValueError(f"a mini-batch has at least one position, got mini_batch={mini_batch}")
        self.width, self.heads, self.head_width = width, heads, head_width(width, heads)
        if self.head_width % 2:
            raise ValueError(
                f"positions turn pairs of channels, but a head of width={width} / heads={heads} "
                f"has {self.head_width}; make width a multiple of 2 heads"
            )
        # q, k and v by one product.
        self.projection = linear(width, 3 * width)
        # The inner learning rate is learned, for each head and position.
        self.rate = linear(width, heads, bias=True)
        shape = heads, self.head_width
        self.inner_weights = nn.Parameter(
            STANDARD_DEVIATION * torch.randn(heads, self.head_width, self.head_width)
        )
        self.inner_biases = nn.Parameter(torch.zeros(shape))
        self.inner_gain = nn.Parameter(torch.ones(shape))
        self.inner_offset = nn.Parameter(torch.zeros(shape))
        # Learned around 1/i, which makes W_i step by the mean gradient so far.
        self.scale_offsets = nn.Parameter(torch.zeros(mini_batch))
        self.norm = nn.LayerNorm(width, eps=INNER_EPSILON)
        self.output_projection = nn.Linear(width, width, bias=False)

    @property
    def state_size(self) -> int:
        """W and b, and the gradients of a mini-batch that is not full."""
        # Once for W and b, once for their gradients.
        return 2 * (self.width * self.head_width + self.width)

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on what is no matrix."""
        names = ("inner_biases", "inner_gain", "inner_offset", "scale_offsets")
        return without_weight_decay(self, *names)

    def advance(self, hidden: Tensor, state: InnerState | None) -> tuple[Tensor, InnerState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        parts = self.projection(hidden).chunk(3, -1)
        queries, keys, values = (split_heads(in_float32_or_wider(x), self.heads) for x in parts)
        with torch.autocast(hidden.device.type, enabled=False):
            if state is None:
                state = self._start(queries)
            angles = self._angles(state.counter.shape[1], queries)
            # By 1/(head width), since |k|² grows with it.
            rates = torch.sigmoid(in_float32_or_wider(self.rate(hidden))).mT / self.head_width
            positions = torch.ones_like(self.scale_offsets).cumsum(0)
            read, state = train_and_read(
                rotate(queries, angles),
                rotate(keys, angles),
                values,
                rates,
                InnerNorm(self.inner_gain, self.inner_offset),
                # Never below 0: a negative step would climb.
                (1 / positions + self.scale_offsets).clamp(min=0),
                state,
            )
        mixed = self.norm(join_heads(read).to(self.norm.weight.dtype))
        return self.output_projection(mixed), state

    def _start(self, queries: Tensor) -> InnerState:
        batch = queries.shape[0]
        # Learned, and expanded without a copy: no sequence writes in place.
        weights = self.inner_weights.expand(batch, -1, -1, -1)
        biases = self.inner_biases.unsqueeze(-2).expand(batch, -1, -1, -1)
        counter = queries.new_empty(batch, 0, 0)
        return InnerState(
            counter, weights, biases, torch.zeros_like(weights), torch.zeros_like(biases)
        )

    def _angles(self, start: int, queries: Tensor) -> Tensor:
        """Radians of the places in their mini-batch, (time, head width / 2)."""
        device = queries.device
        places = torch.arange(start, start + queries.shape[2], device=device)
        pairs = torch.arange(self.head_width // 2, device=device, dtype=torch.float64)
        # Angles start again with each mini-batch: a long sequence has none that training had not.
        places = places.remainder(len(self.scale_offsets))
        return places[:, None] * ROTARY_BASE ** (-2 * pairs / self.head_width)


class TTTLinear(ResidualModel):
    """TTT-linear in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of 2·``heads``.
        layers: number of blocks.
        heads: memories of each block.
        mini_batch: positions of an inner step of training.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: no position in a mini-batch, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        mini_batch: int = 16,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [TTTMixer(width, heads, mini_batch=mini_batch) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
