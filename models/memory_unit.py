"""One layer of memory units for real channels: the three-moons network of Memory Mosaics.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), section 5, figure 3, equation
(3), appendix A. With key extractor W_φ, value extractor W_ψ and output W_z, all linear:

    k_t = W_φ x_t      v_t = W_ψ x_{t+1}      z_t = W_z Σ_{s<t} softmax_s(β k_t·k_s) v_s

Keys and values are neither normalised nor averaged, and there is no residual path: the network can
predict only by recombining what its memories hold.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.specification import SequenceSpecification

ROLLOUT_RULES = ("frozen", "write_back", "official")


class MemoryUnitState(NamedTuple):
    """What generation keeps: the key of every position and the values known so far.

    Attributes:
        keys: (batch, heads, time, head width); the last one still waits for its value.
        values: (batch, heads, time - 1, head width).
    """

    keys: Tensor
    values: Tensor


class PairedLinear(nn.Module):
    """Square linear map of channels that come in (real, imaginary) pairs, without bias.

    A complex map has two parameters (a, b) per 2×2 block [[a, b], [-b, a]]. They start as the
    projection of a real matrix drawn from Uniform(±1/√channels) onto such blocks.
    """

    def __init__(self, channels: int, complex_blocks: bool) -> None:
        super().__init__()
        limit = 1 / math.sqrt(channels)
        drawn = torch.empty(channels, channels).uniform_(-limit, limit)
        self.complex_blocks = complex_blocks
        if complex_blocks:
            # The nearest matrix of complex form, in the Frobenius norm: means over what must be
            # equal.
            blocks = drawn.unflatten(1, (-1, 2)).unflatten(0, (-1, 2))
            a = (blocks[:, 0, :, 0] + blocks[:, 1, :, 1]) / 2
            b = (blocks[:, 0, :, 1] - blocks[:, 1, :, 0]) / 2
            drawn = torch.stack([a, b])
        self.weight = nn.Parameter(drawn)

    def matrix(self) -> Tensor:
        """The real matrix (channels, channels)."""
        if not self.complex_blocks:
            return self.weight
        a, b = self.weight
        rows = [torch.stack([a, b], dim=-1), torch.stack([-b, a], dim=-1)]
        # (row of blocks, row in the block, column of blocks, column in the block)
        return torch.stack(rows, dim=1).flatten(2, 3).flatten(0, 1)

    def moduli(self) -> Tensor:
        """(channels/2, channels/2): modulus of every complex entry.

        For a real matrix the Frobenius norm of the 2×2 block over √2, which is the same number
        when the block happens to be complex.
        """
        blocks = self.matrix().unflatten(1, (-1, 2)).unflatten(0, (-1, 2))
        return blocks.square().sum(dim=(1, 3)).div(2).sqrt()

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., channels) -> (..., channels)."""
        return inputs @ self.matrix().T


class MemoryUnit(nn.Module):
    """Memory units side by side, between linear extractors and a linear output.

    Args:
        specification: as many input as output channels; token tasks are refused.
        heads: number of memory units; each has channels/heads dimensions.
        beta: sharpness of the kernel; the keys set the bandwidth too, as they are not normalised.
        weights: "complex" keeps every 2×2 block of the matrices of the form [[a, b], [-b, a]] (54
            parameters for six channels), "real" leaves them free (108).

    Raises:
        ValueError: for token specifications, unequal or odd channels, channels that the heads do
            not divide, or an unknown ``weights``.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        heads: int = 3,
        beta: float = 50.0,
        weights: str = "complex",
    ) -> None:
        super().__init__()
        channels = specification.input_channels
        if channels is None:
            raise ValueError(
                "memory_unit has no embedding and serves real channels only, not tokens: choose a "
                "task with channels such as three_moons, or another model"
            )
        if channels != specification.output_channels or channels % 2:
            raise ValueError(
                "memory_unit predicts its own inputs as complex numbers: it needs the same even "
                f"number of input and output channels, got {channels} and "
                f"{specification.output_channels}"
            )
        if heads < 1 or channels % heads:
            raise ValueError(
                f"heads must divide the {channels} channels, got {heads}: choose 1 or 3 for three "
                "moons"
            )
        if weights not in ("complex", "real"):
            raise ValueError(f"weights must be 'complex' or 'real', got {weights!r}")
        self.heads = heads
        self.beta = beta
        self.channels = channels
        self.key_extractor = PairedLinear(channels, weights == "complex")
        self.value_extractor = PairedLinear(channels, weights == "complex")
        self.output = PairedLinear(channels, weights == "complex")

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, time, channels) -> (batch, time, channels): output t predicts input t + 1.

        The output of position 0, whose memory is empty, is zero.
        """
        keys = self._split(self.key_extractor(inputs))
        if inputs.shape[1] == 1:
            return torch.zeros_like(inputs)
        values = self._split(self.value_extractor(inputs[:, 1:]))
        # "Strictly earlier keys" is the plain causal mask once the first query and the last key
        # are dropped, and that mask is the one that fused kernels know.
        read = F.scaled_dot_product_attention(
            keys[:, :, 1:], keys[:, :, :-1], values, is_causal=True, scale=self.beta
        )
        # The output map has no bias, so the reading 0 of the empty memory is the output 0.
        return self.output(F.pad(self._merge(read), (0, 0, 1, 0)))

    def state_bytes(self, length: int) -> int:
        """float32 bytes of ``length`` keys and of the ``length - 1`` values that are known."""
        return 4 * self.channels * max(2 * length - 1, 0)

    def step(
        self, inputs: Tensor, state: MemoryUnitState | None = None
    ) -> tuple[Tensor, MemoryUnitState]:
        """One position: (batch, channels) -> ((batch, channels), state for the next position)."""
        sample = inputs[:, None]
        query = self._split(self.key_extractor(sample))
        if state is None:
            return torch.zeros_like(inputs), MemoryUnitState(query, query[:, :, :0])
        # A value is made of the sample after its key: that of the last key is known only now.
        values = torch.cat([state.values, self._split(self.value_extractor(sample))], dim=2)
        read = F.scaled_dot_product_attention(query, state.keys, values, scale=self.beta)
        keys = torch.cat([state.keys, query], dim=2)
        return self.output(self._merge(read))[:, 0], MemoryUnitState(keys, values)

    def rollout(self, inputs: Tensor, contexts: Tensor, steps: int, rule: str = "frozen") -> Tensor:
        """Autoregressive predictions after every context length, in one batched pass.

        Args:
            inputs: observed samples (batch, time, channels).
            contexts: int64 (contexts,), each from 1 to time; context n observes inputs[:, :n].
            steps: number of predictions fed back.
            rule: what enters the memory besides the n - 1 complete pairs of the context:
                "frozen": nothing, generated samples are queries only.
                "write_back": the pairs completed by every prediction, as ``step`` does.
                "official": as the authors' script, the last observed and every generated sample
                are stored with value 0, and the predictions are those of one sample later.

        Returns:
            (batch, contexts, steps, channels); entry j predicts inputs[:, n + j] (n + j + 1 under
            "official").

        Raises:
            ValueError: unknown rule.
        """
        if rule not in ROLLOUT_RULES:
            raise ValueError(f"rollout must be one of {', '.join(ROLLOUT_RULES)}, got {rule!r}")
        late = 1 if rule == "official" else 0
        keys = self._split(self.key_extractor(inputs[:, :-1]))
        values = self._split(self.value_extractor(inputs[:, 1:]))
        pairs = keys.shape[2]
        # Context n holds the pairs s = 0 … n − 2: the value of s is known with x_{s+1}. (contexts,
        # pairs)
        closed = torch.arange(pairs, device=inputs.device) >= contexts[:, None] - 1
        sample = inputs[:, contexts - 1]
        # Pairs of generated samples, (batch, heads, contexts, samples so far, head width).
        own_keys = keys.new_zeros(*keys.shape[:2], len(contexts), 0, keys.shape[3])
        own_values = own_keys
        predictions = []
        for _ in range(steps + late):
            query = self._split(self.key_extractor(sample))
            # (batch, heads, contexts, pairs), then of generated samples
            observed = self.beta * query @ keys.mT
            generated = self.beta * (own_keys @ query[..., None])[..., 0]
            # A finite mask, cleared after the softmax: a context of one sample has no pair at all.
            logits = torch.cat(
                [observed.masked_fill(closed, torch.finfo(keys.dtype).min), generated], dim=-1
            )
            attention = logits.softmax(dim=-1)
            read = attention[..., :pairs].masked_fill(closed, 0) @ values
            read = read + (attention[..., None, pairs:] @ own_values)[..., 0, :]
            sample = self.output(self._merge(read))
            predictions.append(sample)
            if rule == "frozen":
                continue
            value = self._split(self.value_extractor(sample)) if rule == "write_back" else None
            value = torch.zeros_like(query) if value is None else value
            own_keys = torch.cat([own_keys, query[..., None, :]], dim=3)
            own_values = torch.cat([own_values, value[..., None, :]], dim=3)
        return torch.stack(predictions[late:], dim=2)

    def extractor_moduli(self) -> dict[str, Tensor]:
        """Moduli of the three complex matrices (figure 10), each (channels/2, channels/2).

        Rows of the extractors are memory dimensions and columns moons; the output has them the
        other way round.
        """
        return {
            "key_extractor": self.key_extractor.moduli(),
            "value_extractor": self.value_extractor.moduli(),
            "output": self.output.moduli(),
        }

    def _split(self, channels: Tensor) -> Tensor:
        """(batch, time, channels) -> (batch, heads, time, head width)."""
        return channels.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _merge(self, read: Tensor) -> Tensor:
        """(batch, heads, time, head width) -> (batch, time, channels)."""
        return read.transpose(1, 2).flatten(2)
