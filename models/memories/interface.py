"""What every associative memory offers: write pairs, read by key, forget everything.

Writing changes the state of a memory and ``reset`` clears it; buffers and parameters hold what is
fixed before use (random features, initial weights). State is made of tensors with their graph, so
that gradients flow from what is read to what was written. Example::

    memory.write(keys, values)  # (*batch, items, key_size) and (*batch, items, value_size)
    values, confidence = memory.read(queries)  # (*batch, queries, value_size), (*batch, queries)

The card in the YAML file of a memory says, beside label, source and note, what its theory promises;
the conformance tests hold it to that:

* ``state``: ``fixed`` if its size does not depend on how much was written, else ``grows``;
* ``order``: ``any`` if items in any order leave the same memory, else ``matters``;
* ``calls: matter`` if each call is a training of its own: one call and several calls with the same
  items then leave different memories, and ``order`` is left out, since nothing is promised of it.
  Without ``calls``, one call may be split into several anywhere;
* ``gradients: false`` if gradients do not flow all the way from what is read to what was written;
  left out otherwise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn


class Reading(NamedTuple):
    """What a memory answers.

    Attributes:
        values: (*batch, queries, value_size).
        confidence: (*batch, queries), higher where the memory is surer; its range is the memory's
            own. An empty memory answers zeros with the lowest confidence of that range; where an
            answer has left the range of its float type, as after steps that diverged, its values
            are NaN, also with the lowest confidence.
    """

    values: Tensor
    confidence: Tensor


def wide(x: Tensor) -> Tensor:
    """``x`` in float32 or wider: sums over many items do not fit in half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def without_inference(x: Tensor) -> Tensor:
    """``x`` as autograd may save it, also if it was made in inference mode."""
    # Autograd refuses to save a tensor of inference mode; a copy made outside of it is an ordinary
    # one.
    return x.clone() if x.is_inference() else x


def without_graph(state: Any) -> Any:
    """The same numbers, also within lists and tuples, without how they came about."""
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*(without_graph(part) for part in state))
    if isinstance(state, (list, tuple)):
        return type(state)([without_graph(part) for part in state])
    return state


def bytes_of(*state: Tensor | None) -> int:
    """Bytes of the tensors that are there."""
    return sum(part.numel() * part.element_size() for part in state if part is not None)


class Memory(nn.Module, ABC):
    """Pairs of vectors, kept so that a key finds its value again.

    Leading axes of keys and values are a batch of independent memories; the first ``write`` after
    ``reset`` fixes them. Items are written in the order in which they stand. Subclasses give
    ``_write``, ``_read``, ``_reset`` and ``size_in_bytes`` and may rely on checked arguments: at
    least one item to write, and something written before ``_read``.

    Attributes:
        lowest_confidence: what an empty memory answers with.

    Args:
        key_size: width of keys.
        value_size: width of values.

    Raises:
        ValueError: a size below 1.
    """

    lowest_confidence: ClassVar[float] = 0.0

    def __init__(self, key_size: int, value_size: int) -> None:
        super().__init__()
        if key_size < 1 or value_size < 1:
            raise ValueError(
                f"a memory needs keys and values of at least one number, got {key_size} and "
                f"{value_size}"
            )
        self.key_size, self.value_size = key_size, value_size
        self._batch: tuple[torch.Size, torch.dtype, torch.device] | None = None

    def write(self, keys: Tensor, values: Tensor) -> None:
        """Keep pairs.

        Args:
            keys: (*batch, items, key_size), any float type; zero items, or a batch of none,
                change nothing.
            values: (*batch, items, value_size), of the same type and on the same device.

        Raises:
            ValueError: wrong shapes, types or devices, another batch than before, or a number
                that is not finite or whose square leaves the float type. The memory is then as it
                was.
        """
        self._check("keys", keys, self.key_size)
        self._check("values", values, self.value_size)
        if keys.shape[:-1] != values.shape[:-1]:
            raise ValueError(
                f"each key has one value, got keys of shape {tuple(keys.shape)} and values of "
                f"shape {tuple(values.shape)}"
            )
        if (values.dtype, values.device) != (keys.dtype, keys.device):
            raise ValueError(
                f"keys are {keys.dtype} on {keys.device} and values {values.dtype} on "
                f"{values.device}: give both the same type and device"
            )
        self._check_batch(keys)
        self._check_numbers("keys", keys)
        self._check_numbers("values", values)
        # After the checks: an empty write with a wrong shape is a mistake all the same.
        if not keys.shape[:-1].numel():
            return
        # Out of inference mode: what is written must be usable by a later read that wants
        # gradients.
        gradients = torch.is_grad_enabled()
        with torch.inference_mode(False), torch.set_grad_enabled(gradients):
            self._write(without_inference(keys), without_inference(values))
        # Last: a write that failed must leave the memory as it was.
        self._batch = (keys.shape[:-2], keys.dtype, keys.device)

    def read(self, keys: Tensor) -> Reading:
        """Answer queries; the memory does not change.

        Args:
            keys: (*batch, queries, key_size), of the type and on the device of what was written.

        Returns:
            values and confidence of the type of ``keys``.

        Raises:
            ValueError: as ``write``.
        """
        self._check("keys", keys, self.key_size)
        self._check_batch(keys)
        self._check_numbers("keys", keys)
        if self._batch is None:
            shape = keys.shape[:-1]
            return Reading(
                keys.new_zeros(*shape, self.value_size),
                keys.new_full(shape, self.lowest_confidence),
            )
        values, confidence = self._read(keys)
        # Diverged weights answer inf as often as NaN: one way to say that there is no answer.
        lost = ~(values.isfinite().all(-1) & confidence.isfinite())
        return Reading(
            # Of a lost answer no number may be taken for one.
            values.masked_fill(lost[..., None], torch.nan),
            confidence.masked_fill(lost, self.lowest_confidence),
        )

    def reset(self) -> None:
        """Forget everything that was written."""
        self._batch = None
        self._reset()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy and a file hold: no gradient flows through either."""
        return {name: without_graph(part) for name, part in self.__dict__.items()}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written since ``reset``."""
        return self._batch is None

    @abstractmethod
    def size_in_bytes(self) -> int:
        """Bytes of the state that writing has made, for the whole batch: what must be kept to go
        on, without parameters. 0 for an empty memory that holds nothing."""

    def weights_in_bytes(self) -> int:
        """The part of ``size_in_bytes`` that answers: without pairs that are kept to be trained
        again."""
        return self.size_in_bytes()

    @abstractmethod
    def _write(self, keys: Tensor, values: Tensor) -> None: ...

    @abstractmethod
    def _read(self, keys: Tensor) -> Reading: ...

    @abstractmethod
    def _reset(self) -> None: ...

    def _check(self, name: str, given: Tensor, size: int) -> None:
        if not isinstance(given, Tensor) or given.layout != torch.strided or given.is_meta:
            raise ValueError(f"{name} are no dense tensor with numbers: give one")
        if given.ndim < 2 or given.shape[-1] != size:
            raise ValueError(
                f"{name} are (*batch, items, {size}) here, got the shape {tuple(given.shape)}"
            )
        if not given.is_floating_point():
            raise ValueError(f"{name} are {given.dtype}: give a float type, such as float32")
        fixed = next(iter((*self.parameters(), *self.buffers())), None)
        if fixed is not None and (fixed.dtype, fixed.device) != (given.dtype, given.device):
            raise ValueError(
                f"{name} are {given.dtype} on {given.device}, but this memory is {fixed.dtype} on "
                f"{fixed.device}: move one of them by .to(...)"
            )

    def _check_numbers(self, name: str, given: Tensor) -> None:
        """Refuse what has no distance to other such numbers: its square must fit the float type in
        which sums are taken."""
        if not given.numel():
            return
        working = torch.finfo(wide(given).dtype)
        # (2 bound)² · size is the largest number of the type: differences of two such vectors fit
        # too.
        bound = math.sqrt(working.max / given.shape[-1]) / 2
        largest = float(given.detach().abs().amax())
        if not math.isfinite(largest):
            raise ValueError(
                f"{name} hold NaN or infinity, which are near nothing and could never be forgotten "
                "again: give finite numbers"
            )
        if largest > bound:
            raise ValueError(
                f"{name} reach {largest:.1e}, and squares of numbers above {bound:.1e} do not fit "
                f"{working.dtype}: scale them, or give a wider type"
            )

    def _check_batch(self, keys: Tensor) -> None:
        if self._batch is None:
            return
        batch, dtype, device = self._batch
        if keys.shape[:-2] != batch:
            raise ValueError(
                f"this memory holds a batch {tuple(batch)}, got {tuple(keys.shape[:-2])}: reset it "
                "before another batch"
            )
        if (keys.dtype, keys.device) != (dtype, device):
            raise ValueError(
                f"this memory holds {dtype} on {device}, got {keys.dtype} on {keys.device}: "
                "give the same, or reset it"
            )
