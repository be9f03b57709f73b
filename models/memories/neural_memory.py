"""Neural memory: a perceptron that goes on learning while it is used.

Source: Behrouz, Zhong and Mirrokni 2025, "Titans: learning to memorize at test time" (arXiv
2501.00663), equations (11) to (16), with the same step, momentum and forgetting for every item;
the recurrence is that of ``models/layers/neural_memory.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.layers.memory_network import Activation, Weights, initial_weights, read_memory
from models.layers.neural_memory import (
    GradientWrites,
    MemoryState,
    UpdateRule,
    scan_memory,
    start_of,
    weights_now,
)
from models.memories.interface import Memory, Reading, bytes_of, wide


class NeuralMemory(Memory):
    """S ← η S − θ u with the surprise u = ∇‖M(k) − v‖², then M ← (1 − α) M + S, for each pair.

    M starts with random first layers, the same in each memory of a batch, and a last layer of
    zeros; the answer is M(q) and the confidence its length. Several calls of ``write`` leave the
    same memory as one. The surprise is bounded: without that, steps that are too long for the keys
    at hand make the weights overflow; unit keys and values stay below the default.

    Args:
        key_size: width of keys.
        value_size: width of values.
        rate: θ, above 0.
        momentum: η, from 0 to below 1.
        decay: α, from 0 to 1.
        depth: layers of M; 1 is a matrix, and the delta rule with step 2θ.
        width: units of each hidden layer.
        chunk: items whose surprises are measured by the same weights; 1 is the plain recurrence.
        activation: "silu" or "gelu".
        largest_surprise: longest gradient of an item; longer ones are scaled to it, null has none.

    Raises:
        ValueError: a number outside its range.
    """

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        rate: float = 0.05,
        momentum: float = 0.5,
        decay: float = 0.0,
        depth: int = 2,
        width: int = 256,
        chunk: int = 1,
        activation: Activation = "silu",
        largest_surprise: float | None = 10.0,
    ) -> None:
        super().__init__(key_size, value_size)
        if not rate > 0:
            raise ValueError(f"rate is the step of a gradient descent and above 0, got {rate}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum lies between 0 and below 1, got {momentum}")
        if not 0 <= decay <= 1:
            raise ValueError(
                f"decay is the share that each item forgets, between 0 and 1, got {decay}"
            )
        self.rate, self.momentum, self.decay = rate, momentum, decay
        self.rule = UpdateRule(chunk, activation, largest_surprise).checked()
        self.depth = depth
        for index, layer in enumerate(initial_weights(key_size, value_size, depth, width)):
            self.register_buffer(f"layer_{index}", layer)
        self._state: MemoryState | None = None

    def size_in_bytes(self) -> int:
        """Weights, momentum if there is any, and the keys and values of an unfinished chunk."""
        if self._state is None:
            return 0
        weights, momentum, pending = self._state
        # Without momentum S is the last step alone, which no later write needs.
        tensors = weights + (momentum if self.momentum else ())
        return bytes_of(*tensors, pending.keys, pending.values)  # rates are settings, not state

    def _write(self, keys: Tensor, values: Tensor) -> None:
        keys, values = wide(keys), wide(values)
        rates = (keys.new_full(keys.shape[:-1], r) for r in (self.rate, self.momentum, self.decay))
        writes = GradientWrites(keys, values, *rates)
        if self._state is None:
            self._state = start_of(self._initial(), writes)
        # No queries: a write reads nothing, and an open chunk waits for its end.
        _, self._state = scan_memory(self._state, writes, None, self.rule)

    def _read(self, keys: Tensor) -> Reading:
        assert self._state is not None
        weights = weights_now(self._state, self.rule)
        answers = read_memory(weights, wide(keys), self.rule.activation)
        # The last layer starts at 0: an answer grows in length only where something was written.
        confidence = torch.linalg.vector_norm(answers, dim=-1)
        return Reading(answers.to(keys.dtype), confidence.to(keys.dtype))

    def _reset(self) -> None:
        self._state = None

    def _initial(self) -> Weights:
        return tuple(wide(self.get_buffer(f"layer_{index}")) for index in range(self.depth))


class LinearNeuralMemory(NeuralMemory):
    """The neural memory whose M is a matrix, which starts at 0.

    Args:
        key_size: width of keys.
        value_size: width of values.
        rate, momentum, decay, chunk, largest_surprise: as :class:`NeuralMemory`.
    """

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        rate: float = 0.1,
        momentum: float = 0.5,
        decay: float = 0.0,
        chunk: int = 1,
        largest_surprise: float | None = 10.0,
    ) -> None:
        super().__init__(
            key_size,
            value_size,
            rate=rate,
            momentum=momentum,
            decay=decay,
            depth=1,
            chunk=chunk,
            largest_surprise=largest_surprise,
        )
