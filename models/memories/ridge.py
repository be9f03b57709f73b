"""Exact ridge regression from keys to values, from sufficient statistics.

Source: Hoerl and Kennard (1970); as the "Mesa" layer of sequence models von Oswald et al.,
"Uncovering mesa-optimization algorithms in transformers" (arXiv 2309.05858).
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.memories.interface import Memory, Reading, bytes_of, wide


class Ridge(Memory):
    """The matrix that minimises Σ |v - M k|² + r |M|² over everything written.

    Keeps Σ k kᵀ and Σ k vᵀ, so that one call and many calls give the same memory.

    Confidence is 1 - σ²(q) with the predictive variance σ² = r qᵀ (KᵀK + r)⁻¹ q / |q|² of Bayesian
    linear regression: between 0, a direction in which nothing was written, and 1. Writing a key
    divides its σ² by 1 + σ² |k|² / r, so that written keys stand out even where the keys span the
    whole space. The length of the answer says nothing here.

    Args:
        key_size: width of keys.
        value_size: width of values.
        ridge: r, above 0.

    Raises:
        ValueError: a ridge that is not above 0, or, at a read, one too small for the float type.
    """

    def __init__(self, key_size: int, value_size: int, *, ridge: float = 1e-3) -> None:
        super().__init__(key_size, value_size)
        if not ridge > 0:
            raise ValueError(
                f"ridge is above 0, or the system has no single solution, got {ridge}: give a "
                "small number such as 1e-6"
            )
        self.ridge = ridge
        self._covariance: Tensor | None = None
        self._products: Tensor | None = None

    def size_in_bytes(self) -> int:
        """Bytes of Σ k kᵀ and Σ k vᵀ, however much was written."""
        return bytes_of(self._covariance, self._products)

    def _features(self, keys: Tensor) -> Tensor:
        """(*batch, items, key_size) -> (*batch, items, features), float32 or wider."""
        return wide(keys)

    def _write(self, keys: Tensor, values: Tensor) -> None:
        features = self._features(keys)
        covariance, products = features.mT @ features, features.mT @ wide(values)
        if self._covariance is not None and self._products is not None:
            covariance, products = self._covariance + covariance, self._products + products
        self._covariance, self._products = covariance, products

    def _read(self, keys: Tensor) -> Reading:
        assert self._covariance is not None
        assert self._products is not None
        queries = self._features(keys)
        size = self._covariance.shape[-1]
        system = self._covariance + self.ridge * torch.eye(
            size, dtype=queries.dtype, device=queries.device
        )
        # ``solve`` would raise an error about some matrix; the flag becomes a sentence on the
        # ridge.
        solved, singular = torch.linalg.solve_ex(system, queries.mT)
        if singular.any():
            raise ValueError(
                f"ridge {self.ridge} vanishes beside the keys in {queries.dtype}, and they do not "
                "span the space: give a larger ridge or write float64"
            )
        solved = solved.mT
        # A query of length 0 has no direction: the floor makes its 0 / 0 a 0.
        length = queries.square().sum(-1).clamp_min(torch.finfo(queries.dtype).tiny)
        confidence = 1 - self.ridge * (solved * queries).sum(-1) / length
        return Reading((solved @ self._products).to(keys.dtype), confidence.to(keys.dtype))

    def _reset(self) -> None:
        self._covariance = self._products = None
