"""What a task asks of a sequence model, and what every sequence model offers.

A model is built as ``Model(specification, **hyperparameters)``; the hyperparameters are the keys of
the YAML file beside it (or, for a model of another package, the arguments of its constructor).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@dataclass(frozen=True)
class SequenceSpecification:
    """Shapes of the sequences of a task.

    Either ``vocabulary`` is set (int64 tokens in, logits over the same vocabulary out), or
    ``input_channels`` and ``output_channels`` are (real vectors in and out).

    Attributes:
        maximum_length: longest sequence in positions, for models that keep a table of positions.
    """

    maximum_length: int
    vocabulary: int | None = None
    input_channels: int | None = None
    output_channels: int | None = None

    def __post_init__(self) -> None:
        channels = (self.input_channels, self.output_channels)
        tokens = self.vocabulary is not None
        # Exactly one of the two kinds, and none of the other's numbers.
        if tokens == (None not in channels) or (tokens and channels != (None, None)):
            raise ValueError(
                "a SequenceSpecification has either a vocabulary or both input_channels and "
                f"output_channels, got {self}"
            )

    @property
    def output_size(self) -> int:
        """Width of the last axis of the outputs: classes or channels."""
        size = self.vocabulary if self.vocabulary is not None else self.output_channels
        assert size is not None
        return size


@runtime_checkable
class SequenceModel(Protocol):
    """A strictly causal map from sequences to sequences.

    ``forward(inputs) -> outputs``: inputs int64 (batch, time) or real (batch, time, channels);
    outputs (batch, time, output_size). Outputs at t depend on inputs at positions <= t only.
    No state that training changes lives outside ``nn.Parameter``, and no Python control flow
    depends on data, so that torch.compile and torch.func.vmap over stacked parameters both work.

    A state is a pytree (tuples, lists, dicts) of tensors whose first axis is the batch, so that
    sequences are chosen and repeated by ``index_select(0, ...)``.

    These are optional; whoever needs one that a model lacks says so in one sentence:

    * ``hidden(inputs) -> (batch, time, width)`` and the property ``output_matrix``
      (output_size, width), with ``forward(inputs) == hidden(inputs) @ output_matrix.T``: a loss
      over a large vocabulary need not hold the logits of a whole batch.
    * ``prefill(inputs) -> (outputs, state)``: the outputs of the last position
      (batch, output_size), and the state from which ``step`` goes on, in one parallel pass.
    * ``context_limit``: the most positions that the model can take; None or absent: no limit.
    * ``attention_of_last(inputs) -> (layers, batch, heads, time)``: the weights, float32 or wider,
      with which the last position reads every position; they sum to 1, or to 0 where nothing can
      be read.
    * ``leaky_coefficients() -> (layers, heads)``: how much of the average key of the past each
      head keeps from one position to the next.
    """

    def __call__(self, inputs: Tensor) -> Tensor: ...

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) that one sequence must keep after ``length`` positions to go on."""
        ...

    def step(self, inputs: Tensor, state: Any | None = None) -> tuple[Tensor, Any]:
        """One position with a cache: inputs (batch,) or (batch, channels) -> (batch, output_size).

        ``state=None`` starts a sequence. Equals ``forward`` position by position in eval mode.
        """
        ...
