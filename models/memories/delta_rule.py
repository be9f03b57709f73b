"""Delta rule: each pair corrects what the matrix would have answered.

Source: Widrow and Hoff (1960); as fast weights Schlag et al., "Linear transformers are secretly
fast weight programmers" (ICML 2021, arXiv 2102.11174), equation (24); in chunks as Yang et al.,
"Parallelizing linear transformers with the delta rule over sequence length" (NeurIPS 2024, arXiv
2406.06484).
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.memories.interface import wide
from models.memories.matrix_memory import MatrixMemory

CHUNK = 64


def delta_update_reference(
    matrix: Tensor, keys: Tensor, values: Tensor, rate: float, decay: float
) -> Tensor:
    """The recurrence as it is written: M ← a M, then M ← M + b (v - M k) kᵀ, item by item.

    Args:
        matrix: (*batch, value_size, key_size).
        keys: (*batch, items, key_size).
        values: (*batch, items, value_size).
        rate: b.
        decay: 1 - a.
    """
    for key, value in zip(keys.unbind(-2), values.unbind(-2), strict=True):
        matrix = (1 - decay) * matrix
        error = value - (matrix @ key[..., None]).squeeze(-1)
        matrix = matrix + rate * error[..., None] * key[..., None, :]
    return matrix


def delta_update(matrix: Tensor, keys: Tensor, values: Tensor, rate: float, decay: float) -> Tensor:
    """``delta_update_reference`` with the items of a chunk abreast.

    The corrections u_i = b (v_i - a M_{i-1} k_i) of a chunk solve one triangular system, since
    a M_{i-1} k_i = aⁱ M_0 k_i + Σ_{j<i} a^{i-j} (k_j·k_i) u_j, items counted from 1.
    """
    keep = 1 - decay
    for key, value in zip(keys.split(CHUNK, -2), values.split(CHUNK, -2), strict=True):
        items = key.shape[-2]
        age = torch.arange(items, 0, -1, device=key.device, dtype=key.dtype)  # counted down to 1
        apart = (age - age[:, None]).clamp_min(0)  # (i, j): i − j for j <= i
        # Row i: the share of u_j, j < i, in what k_i reads.
        system = rate * (key @ key.mT) * (keep**apart).tril(-1)
        recalled = (keep ** age.flip(0))[:, None] * (key @ matrix.mT)
        # (1 + system) u = rate (v − what M_0 answers), as unit lower triangles are solved.
        corrections = torch.linalg.solve_triangular(
            system, rate * (value - recalled), upper=False, unitriangular=True
        )
        # u_i has decayed items − i times at the end of the chunk.
        matrix = keep**items * matrix + corrections.mT @ ((keep ** (age - 1))[:, None] * key)
    return matrix


class DeltaRule(MatrixMemory):
    """M ← M + b (v - M k) kᵀ for each pair; the answer is M q.

    Stable while b |k|² < 2. For unit keys b = 1 stores the newest pair exactly.

    Args:
        key_size: width of keys.
        value_size: width of values.
        rate: b, above 0.

    Raises:
        ValueError: a rate that is not above 0.
    """

    def __init__(self, key_size: int, value_size: int, *, rate: float = 1.0) -> None:
        super().__init__(key_size, value_size)
        if not rate > 0:
            raise ValueError(f"rate is a step of the delta rule and above 0, got {rate}")
        self.rate = rate
        self.decay = 0.0

    def _write(self, keys: Tensor, values: Tensor) -> None:
        matrix = self._started(keys, self.value_size)
        self._matrix = delta_update(matrix, wide(keys), wide(values), self.rate, self.decay)
