"""The three-moons network of Memory Mosaics with some of its three matrices not trained.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394): appendix A, any one of the
matrices equal to the identity; section 4, a frozen value extraction with trained keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from models.memory_unit import MemoryUnit, PairedLinear
from models.specification import SequenceSpecification

MATRICES = ("key_extractor", "value_extractor", "output")


class MemoryUnitFixed(MemoryUnit):
    """A :class:`models.memory_unit.MemoryUnit` that trains the other matrices alone.

    Args:
        specification, heads, beta, weights: as there.
        identity: which of "key_extractor", "value_extractor" and "output" are the identity; None
            of them without a list.
        frozen: which of them stay as they were drawn; None likewise.

    Raises:
        ValueError: as there; an unknown matrix, one that is named twice, or none left to train.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        heads: int = 3,
        beta: float = 50.0,
        weights: str = "complex",
        identity: Sequence[str] | None = None,
        frozen: Sequence[str] | None = None,
    ) -> None:
        identity, frozen = list(identity or ()), list(frozen or ())
        fixed = [*identity, *frozen]
        if not set(fixed) < set(MATRICES) or len(set(fixed)) < len(fixed):
            raise ValueError(
                f"identity={identity} and frozen={frozen}: name each of "
                f"{', '.join(MATRICES)} at most once, and leave one to be trained"
            )
        super().__init__(specification, heads=heads, beta=beta, weights=weights)
        for name in fixed:
            matrix = getattr(self, name)
            weight = matrix.weight.detach()
            if name in identity:
                weight = _identity_like(matrix)
            # A buffer in place of the parameter: it is saved with the others, and never trained.
            del matrix.weight
            matrix.register_buffer("weight", weight)


def _identity_like(matrix: PairedLinear) -> torch.Tensor:
    """The weights with which a map gives back its input."""
    if not matrix.complex_blocks:
        return torch.eye(len(matrix.weight))
    real, imaginary = matrix.weight.detach()
    return torch.stack([torch.eye(len(real)), torch.zeros_like(imaginary)])
