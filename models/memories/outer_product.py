"""Sum of outer products, with weights that depend on how often a key was written.

Source: Cabannes, Dohmatob and Bietti, "Scaling laws for associative memories" (ICLR 2024, arXiv
2310.02984): W = Σ_z q(z) v_z u_zᵀ over distinct inputs z, and the schemes for q. The scheme that
one pass of single-sample gradient descent induces is from the code of that paper.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.layers.equal_keys import first, groups, packed, rows_of
from models.memories.interface import Reading, bytes_of, wide
from models.memories.matrix_memory import MatrixMemory, linear_reading

SCHEMES = ("frequency", "seen", "threshold", "power", "gradient")


class OuterProduct(MatrixMemory):
    """The answer W q with W = Σ_z q(c_z) v̄_z k_zᵀ over the distinct keys k_z.

    c_z is how often a key was written and v̄_z the mean of the values it was written with. Keys are
    the same where all their numbers are. ``frequency`` needs no counts and keeps the matrix alone;
    the other schemes keep a table of distinct keys, from which the matrix is made at each read.
    Gradients pass through keys and values, not through counts. Confidence is that of
    ``linear_reading``.

    Args:
        key_size: width of keys.
        value_size: width of values.
        scheme: q(c):

            * "frequency": c, the plain Hebbian sum;
            * "seen": 1 for every key that was written;
            * "threshold": 1 for keys written at least ``minimum_count`` times that are among the
              ``kept`` most frequent;
            * "power": (c / Σ c)^``exponent``, for the ``kept`` most frequent;
            * "gradient": f applied c times to 0, f(x) = x + ``step`` / (1 + eˣ / ``classes``):
              about c for small steps and log c for large counts.
        exponent: ρ of "power".
        kept: number of most frequent keys that "threshold" and "power" keep, for each dimension of
            the keys; among equal counts, keys written first. None keeps all with "power" and with
            a ``minimum_count`` above 1, else 1/8, the d/8 of the paper's figures.
        minimum_count: of "threshold".
        step: γ of "gradient".
        classes: M of "gradient", the number of different values.

    Raises:
        ValueError: an unknown scheme, or a number outside its range.
    """

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        scheme: str = "frequency",
        exponent: float = 0.5,
        kept: float | None = None,
        minimum_count: int = 1,
        step: float = 1.0,
        classes: int = 5,
    ) -> None:
        super().__init__(key_size, value_size)
        if scheme not in SCHEMES:
            raise ValueError(f"scheme is one of {', '.join(SCHEMES)}, got {scheme!r}")
        if not exponent >= 0:
            raise ValueError(f"exponent is the power of a frequency, at least 0, got {exponent}")
        if kept is not None and not kept > 0:
            raise ValueError(f"kept is a number of keys per dimension, above 0, got {kept}")
        if minimum_count < 1:
            raise ValueError(f"minimum_count is at least 1, got {minimum_count}")
        if not step > 0 or classes < 1:
            raise ValueError(f"step is above 0 and classes at least 1, got {step} and {classes}")
        self.scheme, self.exponent, self.kept = scheme, exponent, kept
        self.minimum_count, self.step, self.classes = minimum_count, step, classes
        self._keys: Tensor | None = None
        self._sums: Tensor | None = None
        self._counts: Tensor | None = None

    def weights(self, counts: Tensor, key_size: int | None = None) -> Tensor:
        """q of the scheme.

        Args:
            counts: (*batch, keys), int or float, how often each distinct key was written; 0 for
                none. Frequencies p serve as well, except for "gradient" and for ``minimum_count``.
            key_size: another width of keys than the memory's own, for the number of keys kept.

        Returns:
            (*batch, keys), 0 where the count is 0; float32 for int counts, else of their type.

        Raises:
            ValueError: counts that are not whole numbers, for "gradient".
        """
        if self.scheme == "gradient":
            return self._iterated(counts)
        weights = counts if counts.is_floating_point() else counts.float()
        written = counts > 0
        if self.scheme == "frequency":
            return weights
        if self.scheme == "power":
            share = weights / weights.sum(-1, keepdim=True).clamp_min(
                torch.finfo(weights.dtype).tiny
            )
            weights = share**self.exponent * written  # 0⁰ is 1
        else:
            weights = written.to(weights.dtype)
        if self.scheme == "seen":
            return weights
        if self.scheme == "threshold" and self.minimum_count > 1:
            weights = weights * (counts >= self.minimum_count)
        most = self._number_kept(self.key_size if key_size is None else key_size)
        return weights if most is None else weights * (_rank(counts) < most)

    def size_in_bytes(self) -> int:
        """Bytes of the matrix, or of the table of distinct keys with their sums and counts."""
        return super().size_in_bytes() + bytes_of(self._keys, self._sums, self._counts)

    def _number_kept(self, key_size: int) -> int | None:
        per_dimension = self.kept
        if per_dimension is None and self.scheme == "threshold" and self.minimum_count == 1:
            per_dimension = 1 / 8
        return None if per_dimension is None else max(1, int(per_dimension * key_size))

    def _iterated(self, counts: Tensor) -> Tensor:
        """f applied as often as each count says; f depends on the count alone, so once for all."""
        whole = counts.long()
        if not torch.equal(whole.to(counts.dtype), counts):
            raise ValueError("the gradient scheme counts steps: give whole numbers as counts")
        reached = [0.0]
        for _ in range(int(whole.max()) if whole.numel() else 0):
            # 1 / (1 + e^x / M) in a form that cannot overflow.
            # 1/(1 + eˣ/M) = σ(ln M − x).
            sigmoid = (1 + math.tanh((math.log(self.classes) - reached[-1]) / 2)) / 2
            reached.append(reached[-1] + self.step * sigmoid)
        dtype = counts.dtype if counts.is_floating_point() else torch.float32
        # A table of f⁰(0), f¹(0), …, looked up by the counts.
        return torch.tensor(reached, dtype=dtype, device=counts.device)[whole]

    def _write(self, keys: Tensor, values: Tensor) -> None:
        if self.scheme == "frequency":
            matrix = self._started(keys, self.value_size)
            self._matrix = matrix + wide(values).mT @ wide(keys)
            return
        sums, counts = wide(values), torch.ones_like(keys[..., 0], dtype=torch.long)
        if self._keys is not None and self._sums is not None and self._counts is not None:
            keys = torch.cat((self._keys, keys), -2)
            sums = torch.cat((self._sums, sums), -2)
            counts = torch.cat((self._counts, counts), -1)
        group = groups(keys, counts > 0)
        rows, flat = group.numel(), group.flatten()
        # ``index_add`` on the flattened batch: group numbers differ between tables.
        totals = counts.new_zeros(rows).index_add(0, flat, counts.flatten())
        added = sums.new_zeros(rows, sums.shape[-1]).index_add(0, flat, sums.flatten(0, -2))
        index, occupied = packed(first(group) & (counts > 0))
        chosen = group.gather(-1, index)
        self._keys = rows_of(keys, index)
        self._sums = added[chosen] * occupied[..., None]
        self._counts = totals[chosen] * occupied

    def _read(self, keys: Tensor) -> Reading:
        if self.scheme == "frequency":
            return super()._read(keys)
        assert self._keys is not None
        assert self._sums is not None
        assert self._counts is not None
        weights = self.weights(self._counts.to(self._sums.dtype))
        # Means and not sums, whose length would count a key twice: once here and once in q.
        means = self._sums / self._counts.clamp_min(1)[..., None]
        # W = (q v̄)ᵀ K, made anew: q of one key depends on the counts of all.
        return linear_reading((weights[..., None] * means).mT @ wide(self._keys), keys)

    def _reset(self) -> None:
        super()._reset()
        self._keys = self._sums = self._counts = None


def _rank(counts: Tensor) -> Tensor:
    """int64 (*batch, keys): 0 for the largest count; among equal ones, the earlier key first."""
    order = counts.argsort(dim=-1, descending=True, stable=True)
    positions = torch.arange(counts.shape[-1], device=counts.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, positions)
