"""A recurrent mixer in most layers, full softmax attention in one of every few.

Kimi Linear (Kimi Team 2025, arXiv 2510.26692) has three layers of KDA for one of attention, the
best of the ratios that it tried, and gives attention no positions: the recurrent layers know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from models.layers.attention import attend
from models.layers.growing_state import GrowingMixer, GrowingModel
from models.layers.heads import head_width, join_heads, split_heads
from models.layers.recurrence.mixer import linear
from models.layers.residual import Mixer
from models.layers.rotary import ROTARY_BASE, rotate
from models.linear.comba import CombaMixer
from models.linear.delta_product import DeltaProductMixer
from models.linear.gated_delta_net_2 import DecoupledDeltaRule
from models.linear.log_linear import LogLinearDeltaMixer, LogLinearMamba2Mixer
from models.linear.mamba3 import Mamba3Mixer
from models.linear.mesa_net import MesaMixer
from models.linear.momentum_delta_net import MomentumDeltaMixer
from models.linear.preconditioned_delta_net import PreconditionedDeltaMixer
from models.linear.q_delta import QDeltaMixer
from models.linear.ttt_linear import TTTMixer
from models.recurrent.gru import GRUMixer
from models.recurrent.min_gru import MinGRUMixer
from models.recurrent.xlstm import MatrixLSTMMixer, ScalarLSTMMixer
from models.specification import SequenceSpecification
from models.window_hybrid import MIXERS as EARLIER_MIXERS
from models.window_hybrid import Place

Positions = Literal["none", "rope"]
MIXERS: dict[str, Callable[[Place], Mixer]] = {
    **EARLIER_MIXERS,
    "gated_delta_net_2": lambda at: DecoupledDeltaRule(at.width, at.heads),
    "delta_product": lambda at: DeltaProductMixer(at.width, at.heads),
    # Two inner channels for each hidden one: this head width gives as many heads.
    "mamba3": lambda at: Mamba3Mixer(at.width, head_width=2 * at.width // at.heads),
    "mesa_net": lambda at: MesaMixer(at.width, at.heads),
    "q_delta": lambda at: QDeltaMixer(at.width, at.heads),
    "preconditioned_gated_delta_net": lambda at: PreconditionedDeltaMixer(at.width, at.heads),
    "momentum_delta_net": lambda at: MomentumDeltaMixer(at.width, at.heads),
    "comba": lambda at: CombaMixer(at.width, at.heads),
    "log_linear_mamba2": lambda at: LogLinearMamba2Mixer(
        at.width, head_width=2 * at.width // at.heads
    ),
    "log_linear_gated_delta_net": lambda at: LogLinearDeltaMixer(at.width, at.heads),
    "ttt_linear": lambda at: TTTMixer(at.width, at.heads),
    "mlstm": lambda at: MatrixLSTMMixer(at.width, at.heads),
    "slstm": lambda at: ScalarLSTMMixer(at.width, at.heads),
    # Without heads.
    "gru": lambda at: GRUMixer(at.width),
    "min_gru": lambda at: MinGRUMixer(at.width),
}


class Cache(NamedTuple):
    """Keys, not rotated, and values of all positions, (batch, heads, positions, head width)."""

    keys: Tensor
    values: Tensor


class FullAttention(GrowingMixer):
    """Causal softmax attention over all positions, scores scaled by 1/√(head width), no biases.

    Args:
        width: hidden channels, a multiple of ``heads``.
        heads: of attention.
        positions: "none", or "rope", as GPT2's.
    """

    def __init__(self, width: int, heads: int, *, positions: Positions = "none") -> None:
        super().__init__()
        self.width, self.heads, self.positions = width, heads, positions
        self.head_width = head_width(width, heads)
        if positions == "rope" and self.head_width % 2:
            raise ValueError(
                f"rotary positions turn pairs of channels, but a head of width={width} / "
                f"heads={heads} has {self.head_width}; make width a multiple of 2 heads"
            )
        # One product for q, k and v.
        self.projection = linear(width, 3 * width)
        self.output_projection = nn.Linear(width, width, bias=False)

    @property
    def state_size(self) -> int:
        """What one position adds."""
        return self.numbers_after(1)

    def numbers_after(self, positions: int) -> int:
        """Keys and values of all positions."""
        return 2 * self.width * positions

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, Cache]:
        """What ``forward`` gives, and the keys and values of all positions."""
        queries, keys, values = self._project(hidden)
        # Keys are kept unrotated, so that the cache does not depend on the code.
        turned = self._turn(queries, 0), self._turn(keys, 0)
        read = attend(*turned, values, causal=True)
        return self.output_projection(join_heads(read)), Cache(keys, values)

    def step(self, hidden: Tensor, state: Cache | None) -> tuple[Tensor, Cache]:
        """One position, (batch, width) -> (batch, width)."""
        query, keys, values = self._project(hidden.unsqueeze(1))
        if state is not None:
            keys = torch.cat((state.keys, keys), 2)
            values = torch.cat((state.values, values), 2)
        # The newest position is the last of the cache.
        turned = self._turn(query, keys.shape[2] - 1), self._turn(keys, 0)
        # A single query may see all that is kept.
        read = attend(*turned, values, causal=False)
        return self.output_projection(join_heads(read)).squeeze(1), Cache(keys, values)

    def _project(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values = (
            split_heads(part, self.heads) for part in self.projection(hidden).chunk(3, -1)
        )
        return queries, keys, values

    def _turn(self, x: Tensor, start: int) -> Tensor:
        # The recurrent layers below tell where a token stands.
        if self.positions == "none":
            return x
        # In float64: a far position times the fastest frequency loses float32's digits.
        pairs = torch.arange(self.head_width // 2, device=x.device, dtype=torch.float64)
        times = torch.arange(start, start + x.shape[2], device=x.device)
        return rotate(x, times[:, None] * ROTARY_BASE ** (-2 * pairs / self.head_width))


class AttentionHybrid(GrowingModel):
    """Layers of a recurrent mixer with full attention between them, in pre-norm residual blocks.

    Attention is the last layer and, from there on backwards, one of every ``attention_every``. So 4
    layers with ``attention_every=4`` are three of the mixer and one of attention.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        heads: of attention, and of the mixer if it has heads.
        attention_every: one layer of so many is attention; 1 has attention alone.
        mixer: a name in ``MIXERS``, each as its own model has it by default.
        positions: of attention, "none" or "rope".
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an unknown mixer or choice, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 4,
        heads: int = 2,
        attention_every: int = 4,
        mixer: str = "kda",
        positions: Positions = "none",
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        if attention_every < 1:
            raise ValueError(
                f"attention_every={attention_every} is no distance between layers; set it to 4 for "
                "three layers of the mixer to one of attention"
            )
        for key, value, choices in (
            ("mixer", mixer, tuple(MIXERS)),
            ("positions", positions, get_args(Positions)),
        ):
            if value not in choices:
                raise ValueError(f"{key}={value!r} is unknown; choose one of {', '.join(choices)}")
        head_width(width, heads)
        mixers: list[Any] = []
        for layer in range(layers):
            # From the last layer on: attention reads what the mixers have prepared.
            if (layers - 1 - layer) % attention_every == 0:
                mixers.append(FullAttention(width, heads, positions=positions))
            else:
                place = Place(width, heads, layer, layers, specification.maximum_length)
                mixers.append(MIXERS[mixer](place))
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
