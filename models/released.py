"""LSTM and Mamba inside the wrapper that the RegBench study released, its defect kept on purpose.

The loop over layers of that wrapper (seq_icl, commit 9b9223d; Akyürek et al. 2024) gives every
layer the embeddings in place of what the layer before it put out. So the outputs are those of the
last layer alone, whatever ``layers`` says. There is no residual, norm, MLP or dropout, and the
embedding keeps N(0, 1) although it is tied to the read-out. For comparison with the published
numbers only: statements about architectures need :class:`models.lstm.LSTM` and
:class:`models.mamba.Mamba`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor, nn

from models.layers.embedding import InputOutput
from models.layers.residual import BYTES_PER_NUMBER, Mixer
from models.lstm import LSTMMixer
from models.mamba import MambaMixer
from models.specification import SequenceSpecification


class AsReleased(nn.Module):
    """Read-out of the last mixer, applied to the embeddings.

    The mixers before the last one are parameters of the model, as they were of the published one,
    but nothing depends on them: they get no gradient and are not computed. Channels, which the
    study did not have, get untied linear maps of scale 1/sqrt(fan_in).
    """

    def __init__(
        self, specification: SequenceSpecification, width: int, mixers: Sequence[Mixer]
    ) -> None:
        super().__init__()
        if not mixers:
            raise ValueError("a model needs a layer, got layers=0; set layers to 1 or more")
        tokens = specification.vocabulary is not None
        # PyTorch's own N(0, 1) for an embedding, which the study did not scale for the read-out.
        self.input_output = InputOutput(
            specification, width, standard_deviation=1.0 if tokens else None
        )
        self.mixers = nn.ModuleList(mixers)

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 (batch, time) or (batch, time, channels) -> (batch, time, output_size)."""
        return self.input_output.read_out(self.hidden(inputs))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (batch, time, width), what ``output_matrix`` reads out."""
        return self._last()(self.input_output.embed(inputs))

    @property
    def output_matrix(self) -> Tensor:
        """(output_size, width)"""
        return self.input_output.matrix

    def prefill(self, inputs: Tensor) -> tuple[Tensor, Any]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden, state = self._last().prefill(self.input_output.embed(inputs))
        return self.input_output.read_out(hidden[:, -1]), state

    def step(self, inputs: Tensor, state: Any | None = None) -> tuple[Tensor, Any]:
        """One position: (batch,) or (batch, channels) -> (batch, output_size) and the state."""
        hidden, state = self._last().step(self.input_output.embed(inputs), state)
        return self.input_output.read_out(hidden), state

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) that the last mixer keeps of one sequence, of any ``length``."""
        return BYTES_PER_NUMBER * self._last().state_size

    def _last(self) -> Mixer:
        # Each layer got the embeddings, and its output took the place of that of the one before.
        return cast(Mixer, self.mixers[-1])


class LSTMAsReleased(AsReleased):
    """One LSTM layer, and ``layers`` − 1 that do nothing.

    Args:
        specification: shapes of the task.
        width: hidden channels, and cells.
        layers: layers in the parameter count.
    """

    def __init__(
        self, specification: SequenceSpecification, *, width: int = 32, layers: int = 2
    ) -> None:
        super().__init__(specification, width, [LSTMMixer(width) for _ in range(layers)])


class MambaAsReleased(AsReleased):
    """One Mamba mixer, and ``layers`` − 1 that do nothing.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: layers in the parameter count.
        state: states of each inner channel.
        convolution: positions that the short convolution sees.
        expand: inner channels for each hidden channel.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 4,
        state: int = 16,
        convolution: int = 4,
        expand: int = 2,
    ) -> None:
        mixers = [
            MambaMixer(width, state=state, convolution=convolution, expand=expand)
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers)
