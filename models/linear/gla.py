"""Gated linear attention (Yang, Wang, Shen, Panda and Kim 2024, "Gated linear attention
transformers with hardware-efficient training", arXiv 2312.06635, sections 4.1 and 4.4)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.mixer import RecurrentMixer
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.specification import SequenceSpecification

GAIN = 2**-2.5
NORM_EPSILON = 1e-5


class GatedLinearAttention(RecurrentMixer):
    """S_t = Diag(α_t) S_{t−1} + k_t ⊗ v_t,  y_t = W_o (norm(S_tᵀ q_t) ⊙ SiLU(W_g x_t + b_g)).

    ln α = logsigmoid(W₂ W₁ x + b) / τ with W₁ of 16 rows, one number for each channel of the keys.
    Keys and queries are half as wide as the layer, and queries scaled by 1/√(their head width). The
    norm is LayerNorm of a head without gain or bias. Matrices start as the authors': Xavier's
    uniform with gain 2^−2.5.

    Args:
        width: hidden channels, a multiple of 2·``heads``.
        heads: memories of the layer.
        rank: rows of W₁.
        temperature: τ; 16 makes half-lives of 16 positions at the start.
    """

    def __init__(
        self, width: int, heads: int, *, rank: int = 16, temperature: float = 16.0
    ) -> None:
        super().__init__()
        self.heads, self.value_width = heads, head_width(width, heads)
        self.key_width = head_width(width, 2 * heads)
        self.temperature = temperature
        self.parts = (width // 2, width // 2, width)
        self.projection = nn.Linear(width, sum(self.parts), bias=False)
        self.gate = nn.Linear(width, width)
        self.decay = nn.Sequential(
            nn.Linear(width, rank, bias=False), nn.Linear(rank, width // 2, bias=True)
        )
        self.output_projection = nn.Linear(width, width, bias=False)
        # Each map is drawn by its own fan-in and fan-out, although three of them are one matrix.
        matrices = [*self.projection.weight.split(self.parts), self.gate.weight]
        matrices += [p for p in self.decay.parameters() if p.dim() == 2]
        for matrix in matrices:
            nn.init.xavier_uniform_(matrix, gain=GAIN)

    @property
    def state_size(self) -> int:
        """The memories."""
        return self.heads * self.key_width * self.value_width

    def advance(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width); the state is the
        memory, (batch, heads, key width, value width)."""
        queries, keys, values, logits = (
            part.unflatten(-1, (self.heads, -1))
            for part in (*self.projection(hidden).split(self.parts, -1), self.decay(hidden))
        )
        writes = Writes(keys, values, functional.logsigmoid(logits) / self.temperature)
        # By the width that keys have, d/(2 heads). RegBench divides by √(d/heads): a factor √2,
        # which the norm takes out up to its ε.
        outputs, state = linear_recurrence(queries * self.key_width**-0.5, writes, state)
        # LayerNorm as RegBench's code; flash-linear-attention has the root mean square with a gain.
        normed = functional.layer_norm(outputs, outputs.shape[-1:], eps=NORM_EPSILON)
        mixed = normed.flatten(2) * functional.silu(self.gate(hidden))
        return self.output_projection(mixed), state


class GLA(ResidualModel):
    """Gated linear attention in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of 2·``heads``.
        layers: number of blocks.
        heads: memories of each block.
        rank: of the map that makes the decays.
        temperature: by which logarithms of decays are divided.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        rank: int = 16,
        temperature: float = 16.0,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            GatedLinearAttention(width, heads, rank=rank, temperature=temperature)
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
