"""RetNet (Sun et al. 2023, "Retentive network", arXiv 2307.08621, equations 5 to 8): linear
attention with a fixed decay in each head and queries and keys that turn with their positions."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.gradients.norms import rms_norm
from models.layers.heads import head_width
from models.layers.linear_recurrence import CHUNK, linear_recurrence
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
COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


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
        # Part by part: the gradient of one product would be put together from copies.
        weights = self.projection.weight.split(self.parts)
        queries, keys, values, gates = (functional.linear(hidden, part) for part in weights)
        start, counter = count_more(state.counter if state else None, hidden)
        queries = self._turn(queries, start)
        keys = self._turn(keys, start, self.head_width**-0.5)
        values = values.unflatten(-1, (self.heads, -1))
        memory = state.memory if state else None
        # Decays of a derived class may be learned, or change with the position.
        is_constant = type(self).log_decays is Retention.log_decays
        if is_constant and hidden.device.type == "cpu" and hidden.shape[1] > 1:
            outputs, memory = retention(queries, keys, values, self._log_decays(), memory)
        else:
            writes = Writes(keys, values, self.log_decays(keys))
            outputs, memory = linear_recurrence(queries, writes, memory)
        mixed = rms_norm(outputs, NORM_EPSILON).flatten(2) * functional.silu(gates)
        return self.output_projection(mixed), RetentionState(counter, memory)

    def _turn(self, x: Tensor, start: int, scale: float = 1.0) -> Tensor:
        """(batch, time, width) -> (batch, time, heads, head width), turned from ``start`` on and
        scaled."""
        share = torch.linspace(0, 1, self.head_width // 2, device=x.device, dtype=torch.float64)
        # float64: angles grow with the position, and float32 has multiples of 0.008 near 10⁵.
        times = torch.arange(start, start + x.shape[1], device=x.device, dtype=torch.float64)
        angles = times[:, None, None] * ROTARY_BASE**-share
        pairs = x.unflatten(-1, (self.heads, self.head_width // 2, 2))
        if x.device.type == "cpu" and x.dtype in COMPLEX:
            # A pair turns as a complex number, by one product.
            turns = torch.polar(torch.full_like(angles, scale), angles).to(COMPLEX[x.dtype])
            return torch.view_as_real(torch.view_as_complex(pairs) * turns).flatten(-2)
        even, odd = pairs.unbind(-1)
        cos, sin = ((scale * part).to(x.dtype) for part in (angles.cos(), angles.sin()))
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def log_decays(self, keys: Tensor) -> Tensor:
        """ln γ, (1, time, heads)."""
        logs = self._log_decays(keys.device).to(torch.promote_types(keys.dtype, torch.float32))
        return logs.expand(1, keys.shape[1], -1)

    def _log_decays(self, device: torch.device | str = "cpu") -> Tensor:
        """ln γ, float64 (heads,)."""
        wide = torch.float64
        if self.decays == "official":
            exponents = FASTEST + torch.arange(self.heads, device=device, dtype=wide)
        else:
            exponents = torch.linspace(FASTEST, SLOWEST, self.heads, device=device, dtype=wide)
        # Rounded once, at the end: of ln(1 − 2⁻¹²) a γ in float32 would leave half the digits.
        return torch.log1p(-(2**-exponents))


def retention(
    queries: Tensor, keys: Tensor, values: Tensor, log_decays: Tensor, memory: Tensor | None
) -> tuple[Tensor, Tensor]:
    """``linear_recurrence`` with additive writes, where γ is the same at all positions.

    Args:
        queries, keys: (batch, time, heads, head width).
        values: (batch, time, heads, value width).
        log_decays: ln γ, float64 (heads,).
        memory: before the first position, (batch, heads, head width, value width); None is empty.

    Returns:
        What positions read (batch, time, heads, value width) in the type of the values, and the
        memory in float32 or wider.
    """
    length, chunk = queries.shape[1], min(CHUNK, queries.shape[1])
    wide = torch.promote_types(values.dtype, torch.float32)
    place = torch.arange(chunk, dtype=torch.float64)
    # (heads, 1, chunk, 1): to the end of a chunk, from its start, and over all of it.
    logs = log_decays[:, None, None, None]
    to_end = (logs * (chunk - 1 - place)[:, None]).exp().to(wide)
    from_start = (logs * (place + 1)[:, None]).exp().to(wide)
    whole = (logs[:, 0] * chunk).exp().to(wide)
    between = (logs * (place[:, None] - place)).exp().tril().to(wide)
    with torch.autocast(queries.device.type, enabled=False):
        # (batch, heads, chunks, chunk, width), with zeros after the end: they write nothing.
        q, k, v = (_cut(x.to(wide), chunk) for x in (queries, keys, values))
        written = (k * to_end).mT @ v
        if memory is None:
            memory = torch.zeros_like(written[:, :, 0])
        entering = []
        for addition in written.unbind(2):
            entering.append(memory)
            memory = torch.addcmul(addition, memory.to(wide), whole)
        outputs = (q @ k.mT * between) @ v + (q * from_start) @ torch.stack(entering, 2)
        # The zeros after the end wrote nothing, but in their time the memory has decayed.
        missing = -length % chunk
        memory = memory * (logs[:, 0] * -missing).exp().to(wide)
    outputs = outputs.flatten(2, 3)[:, :, :length].transpose(1, 2)
    return outputs.to(values.dtype), memory


def _cut(x: Tensor, chunk: int) -> Tensor:
    """(batch, time, heads, width) -> (batch, heads, chunks, chunk, width)."""
    by_heads = x.transpose(1, 2)
    missing = -x.shape[1] % chunk
    filled = functional.pad(by_heads, (0, 0, 0, missing)) if missing else by_heads.contiguous()
    return filled.unflatten(2, (-1, chunk))


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
