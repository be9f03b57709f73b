"""RetNet (Sun et al. 2023, "Retentive network", arXiv 2307.08621, equations 5 to 8): linear
attention with a fixed decay in each head and queries and keys that turn with their positions."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.mixer import RecurrentMixer, count_more
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.specification import SequenceSpecification

Decays = Literal["official", "spread"]
ROTARY_BASE = 10_000.0
# Half-lives of 22 positions for 5 and 2,839 for 12.
FASTEST, SLOWEST = 5.0, 12.0  # a head keeps 1 − 2^−this of its memory
GAIN = 2**-2.5
NORM_EPSILON = 1e-6


class RetentionState(NamedTuple):
    """A counter of positions, and the memory of each head."""

    counter: Tensor
    memory: Tensor


class Retention(RecurrentMixer):
    """S_t = γ S_{t−1} + k_t ⊗ v_t,  y_t = W_o (norm(S_tᵀ q_t) ⊙ SiLU(W_g x_t)).

    q_t and k_t turn, channels (2i, 2i+1) together, by the angle t·10000^(−i/(h/2 − 1)) for a head
    of h channels; keys are scaled by 1/√h; values and gates are twice as wide. The norm is the root
    mean square of a head, without a gain. The divisors of the authors' code, which set the scale in
    front of the norm and are not the same in its three forms, are left out. Matrices start as
    theirs: Xavier's uniform with gain 2^−2.5.

    Args:
        width: hidden channels, a multiple of 2·``heads``.
        heads: memories of the layer.
        decays: γ of head i: "official" 1 − 2^(−5−i), "spread" evenly from 1 − 2^−5 to 1 − 2^−12
            in the exponent, however few heads there are.
    """

    def __init__(self, width: int, heads: int, *, decays: Decays = "official") -> None:
        super().__init__()
        self.width, self.heads, self.decays = width, heads, decays
        self.head_width = head_width(width, heads)
        if self.head_width % 2:
            raise ValueError(
                f"positions turn pairs of channels, but a head of width={width} / heads={heads} "
                f"has {self.head_width}; make width a multiple of 2 heads"
            )
        # Values and gates twice as wide: 8 width² parameters, for which the paper's own MLP is half
        # as wide.
        self.parts = (width, width, 2 * width, 2 * width)
        self.projection = nn.Linear(width, sum(self.parts), bias=False)
        for part in self.projection.weight.split(self.parts):
            nn.init.xavier_uniform_(part, gain=GAIN)
        self.output_projection = nn.Linear(2 * width, width, bias=False)

    @property
    def state_size(self) -> int:
        """The memories."""
        # S is (head width, 2 head width) in each head.
        return 2 * self.width * self.head_width

    def advance(
        self, hidden: Tensor, state: RetentionState | None
    ) -> tuple[Tensor, RetentionState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        queries, keys, values, gates = self.projection(hidden).split(self.parts, -1)
        start, counter = count_more(state.counter if state else None, hidden)
        # (batch, time, 2 heads, head width): queries and keys turn by the same angles.
        turned = self._turn(torch.cat((queries, keys * self.head_width**-0.5), -1), start)
        queries, keys = turned.chunk(2, -2)
        values = values.unflatten(-1, (self.heads, -1))
        writes = Writes(keys, values, self.log_decays(keys))
        outputs, memory = linear_recurrence(queries, writes, state.memory if state else None)
        normed = functional.rms_norm(outputs, outputs.shape[-1:], eps=NORM_EPSILON)
        mixed = normed.flatten(2) * functional.silu(gates)
        return self.output_projection(mixed), RetentionState(counter, memory)

    def _turn(self, x: Tensor, start: int) -> Tensor:
        """(batch, time, channels) -> (batch, time, heads, head width), turned from ``start`` on."""
        even, odd = x.unflatten(-1, (-1, self.head_width // 2, 2)).unbind(-1)
        share = torch.linspace(0, 1, self.head_width // 2, device=x.device, dtype=torch.float64)
        # float64: angles grow with the position, and float32 has multiples of 0.008 near 10⁵.
        times = torch.arange(start, start + x.shape[1], device=x.device, dtype=torch.float64)
        angles = times[:, None, None] * ROTARY_BASE**-share
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def log_decays(self, keys: Tensor) -> Tensor:
        """ln γ, (1, time, heads)."""
        device, wide = keys.device, torch.float64
        if self.decays == "official":
            exponents = FASTEST + torch.arange(self.heads, device=device, dtype=wide)
        else:
            exponents = torch.linspace(FASTEST, SLOWEST, self.heads, device=device, dtype=wide)
        # Rounded once, at the end: of ln(1 − 2⁻¹²) a γ in float32 would leave half the digits.
        logs = torch.log1p(-(2**-exponents)).to(torch.promote_types(keys.dtype, torch.float32))
        return logs.expand(1, keys.shape[1], -1)


class RetNet(ResidualModel):
    """Retention in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of 2·``heads``.
        layers: number of blocks.
        heads: memories of each block.
        decays: "official" or "spread".
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: unknown decays, or heads that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        decays: Decays = "official",
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        if decays not in get_args(Decays):
            choices = ", ".join(get_args(Decays))
            raise ValueError(f"decays={decays!r} is unknown; choose one of {choices}")
        mixers = [Retention(width, heads, decays=decays) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
