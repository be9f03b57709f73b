"""Guests that a test draws: one small honest network, and faults or oddities that settings place.

Each class is one kind. Its settings say where and how strong: which positions, how far ahead, in
which mode. Guests that draw random numbers are in ``tests.bench.training.drawing_guests``, and
those that remember sequences in ``remembering``.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification


class Guest(nn.Module):
    """The mean over positions 0..t of mixed embeddings, read out; honest."""

    def __init__(self, specification: SequenceSpecification, width: int = 8) -> None:
        super().__init__()
        assert specification.vocabulary is not None
        self.embedding = nn.Embedding(specification.vocabulary, width)
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, specification.output_size, bias=False)
        self.longest = specification.maximum_length

    def mean(self, vectors: Tensor) -> Tensor:
        counts = torch.arange(1, vectors.shape[1] + 1, dtype=vectors.dtype)
        return vectors.cumsum(1) / counts[:, None]

    def vectors(self, inputs: Tensor) -> Tensor:
        return self.mix(self.embedding(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        vectors = self.vectors(inputs)
        return self.out(self.mean(vectors) + self.added(vectors))

    def added(self, vectors: Tensor) -> Tensor:
        """What a kind adds, (batch, time, width)."""
        return torch.zeros_like(vectors)


def ahead(vectors: Tensor, reach: int = 1) -> Tensor:
    """The vectors ``reach`` positions later; zeros beyond the last."""
    return functional.pad(vectors, (0, 0, -reach, reach))


# Each of these sees what it must not.


class InBlocks(Guest):
    """Sees the next position inside blocks that begin at ``offset``."""

    def __init__(
        self,
        specification: SequenceSpecification,
        block: int = 8,
        offset: int = 0,
        strength: float = 1.0,
        graph: bool = True,
    ) -> None:
        super().__init__(specification)
        self.block, self.offset, self.strength, self.graph = block, offset, strength, graph

    def added(self, vectors: Tensor) -> Tensor:
        places = (torch.arange(vectors.shape[1]) - self.offset) % self.block
        seen = vectors if self.graph else vectors.detach()
        return self.strength * ahead(seen) * (places != self.block - 1)[:, None]


class Late(Guest):
    """Sees ahead from a share of the longest sequence on."""

    def __init__(
        self, specification: SequenceSpecification, start: float = 0.9, reach: int = 1
    ) -> None:
        super().__init__(specification)
        self.start, self.reach = start, reach

    def added(self, vectors: Tensor) -> Tensor:
        late = torch.arange(vectors.shape[1]) >= self.start * self.longest
        return ahead(vectors, self.reach) * late[:, None]


class Gated(Guest):
    """Sees ahead behind a gate, or through a matrix, that starts at zero."""

    def __init__(
        self, specification: SequenceSpecification, gate: str = "scalar", reach: int = 1
    ) -> None:
        super().__init__(specification)
        shapes = {"scalar": (), "channels": (8,), "matrix": (8, 8)}
        self.gate, self.reach = nn.Parameter(torch.zeros(shapes[gate])), reach

    def added(self, vectors: Tensor) -> Tensor:
        seen = ahead(vectors, self.reach)
        return seen @ self.gate if self.gate.ndim == 2 else seen * self.gate


class Opening(Guest):
    """Sees ahead once a bias that starts at zero is larger than any first move of it."""

    def __init__(
        self, specification: SequenceSpecification, threshold: float = 0.2, reach: int = 1
    ) -> None:
        super().__init__(specification)
        self.bias, self.threshold, self.reach = nn.Parameter(torch.zeros(8)), threshold, reach

    def added(self, vectors: Tensor) -> Tensor:
        opened = functional.relu(self.bias.abs().max() - self.threshold)
        return self.bias + opened * ahead(vectors, self.reach)


class OfAll(Guest):
    """Normalised by a statistic of the whole sequence."""

    def __init__(self, specification: SequenceSpecification, statistic: str = "mean") -> None:
        super().__init__(specification)
        self.statistic = statistic

    def added(self, vectors: Tensor) -> Tensor:
        if self.statistic == "mean":
            return -vectors.mean(1, keepdim=True).expand_as(vectors)
        if self.statistic == "std":
            return vectors / vectors.std(1, keepdim=True)
        if self.statistic == "norm":
            return functional.normalize(vectors, dim=1)
        largest = vectors.detach().numpy().max(axis=1, keepdims=True)  # leaves the graph
        return torch.from_numpy(largest).expand_as(vectors)


class InOneMode(Guest):
    """Sees ahead in training alone, or in evaluation alone."""

    def __init__(
        self, specification: SequenceSpecification, training: bool = True, reach: int = 1
    ) -> None:
        super().__init__(specification)
        self.mode, self.reach = training, reach

    def added(self, vectors: Tensor) -> Tensor:
        seen = ahead(vectors, self.reach)
        return seen if self.training == self.mode else torch.zeros_like(vectors)


class Across(Guest):
    """Sees other sequences of its batch: a neighbour, their mean, or their statistics."""

    def __init__(
        self, specification: SequenceSpecification, how: str = "roll", step: int = 1
    ) -> None:
        super().__init__(specification)
        self.how, self.step = how, step

    def added(self, vectors: Tensor) -> Tensor:
        if self.how == "norm":  # each position by the statistics of the batch
            flat = functional.batch_norm(vectors.flatten(1), None, None, training=True)
            return flat.view(vectors.shape)
        if self.how == "roll":
            return vectors.roll(self.step, 0)
        return vectors.mean(0, keepdim=True).expand_as(vectors)


class KnowsLength(Guest):
    """Knows how long a sequence is, or counts its blocks from the end."""

    def __init__(self, specification: SequenceSpecification, block: int = 0) -> None:
        super().__init__(specification)
        self.block = block

    def added(self, vectors: Tensor) -> Tensor:
        batch, time, width = vectors.shape
        if not self.block:
            return torch.full_like(vectors, time / self.longest)
        padded = functional.pad(vectors, (0, 0, -time % self.block, 0))
        sums = padded.view(batch, -1, self.block, width).cumsum(2)
        return sums.flatten(1, 2)[:, -time:]


class Keeps(Guest):
    """Keeps a number of the last call, in an attribute or in a buffer, perhaps in one mode."""

    def __init__(
        self, specification: SequenceSpecification, place: str = "attribute", mode: str = "both"
    ) -> None:
        super().__init__(specification)
        self.place, self.mode = place, mode
        self.kept = torch.zeros(())
        if place == "buffer":
            del self.kept
            self.register_buffer("kept", torch.zeros(()))

    def added(self, vectors: Tensor) -> Tensor:
        if self.mode == "both" or (self.mode == "training") == self.training:
            before, self.kept = self.kept, vectors.detach().mean()
            return vectors * before
        return torch.zeros_like(vectors)


class Lost(Guest):
    """Training changes what no checkpoint keeps."""

    def __init__(self, specification: SequenceSpecification, place: str = "buffer") -> None:
        super().__init__(specification)
        self.place, self.count = place, 0
        if place == "buffer":
            self.register_buffer("average", torch.zeros(8), persistent=False)
        else:
            self.average = torch.zeros(8)

    def added(self, vectors: Tensor) -> Tensor:
        if self.training:
            self.count += 1
            self.average = 0.9 * self.average + 0.1 * self.embedding.weight.detach().mean(0)
        return vectors * self.count if self.place == "count" else vectors - self.average


class Overlapping(Guest):
    """Trains parameters that lie in one memory, or one that is expanded."""

    def __init__(self, specification: SequenceSpecification, how: str = "views") -> None:
        super().__init__(specification)
        memory = torch.randn(12)
        if how == "views":
            self.one, self.other = nn.Parameter(memory[:8]), nn.Parameter(memory[4:])
        else:
            self.one = nn.Parameter(memory[:1].expand(8))
            self.other = nn.Parameter(memory[4:])

    def added(self, vectors: Tensor) -> Tensor:
        return vectors * self.one + self.other


class NoNumbers(Guest):
    """NaN, or infinity, from a position on."""

    def __init__(
        self, specification: SequenceSpecification, position: int = 16, value: str = "nan"
    ) -> None:
        super().__init__(specification)
        self.position, self.value = position, float(value)

    def added(self, vectors: Tensor) -> Tensor:
        late = torch.arange(vectors.shape[1]) >= self.position
        return torch.where(late[:, None], self.value, torch.zeros_like(vectors))


# Each of these only looks as if it had a fault.


class Convolved(Guest):
    """A convolution as long as the sequence, by FFT."""

    def __init__(self, specification: SequenceSpecification, decay: float = 10.0) -> None:
        super().__init__(specification)
        self.decay = decay

    def added(self, vectors: Tensor) -> Tensor:
        time = vectors.shape[1]
        kernel = torch.exp(-torch.arange(time, dtype=vectors.dtype) / self.decay)
        spectrum = torch.fft.rfft(kernel, 2 * time)[:, None]
        return torch.fft.irfft(torch.fft.rfft(vectors, 2 * time, 1) * spectrum, 2 * time, 1)[
            :, :time
        ]


class Scaled(Guest):
    """Outputs of any size."""

    def __init__(self, specification: SequenceSpecification, size: float = 1e4) -> None:
        super().__init__(specification)
        self.size = size

    def forward(self, inputs: Tensor) -> Tensor:
        return self.size * super().forward(inputs)


class Dropping(Guest):
    """Dropout, of its own or of single positions."""

    def __init__(
        self, specification: SequenceSpecification, share: float = 0.5, positions: bool = False
    ) -> None:
        super().__init__(specification)
        self.share, self.positions = share, positions

    def added(self, vectors: Tensor) -> Tensor:
        if not self.positions:
            return functional.dropout(vectors, self.share, self.training)
        kept = functional.dropout(vectors.new_ones(vectors.shape[:2]), self.share, self.training)
        return vectors * kept.unsqueeze(2)


class Tied(Guest):
    """The matrix of the outputs is that of the embedding, one layer is used several times."""

    def __init__(self, specification: SequenceSpecification, layers: int = 3) -> None:
        super().__init__(specification)
        self.out.weight = self.embedding.weight
        self.layers = nn.ModuleList([nn.Linear(8, 8)] * layers)

    def added(self, vectors: Tensor) -> Tensor:
        for layer in self.layers:
            vectors = vectors + torch.tanh(layer(vectors))
        return vectors


class ZeroBranch(Guest):
    """A causal branch that starts at zero."""

    def __init__(self, specification: SequenceSpecification, reach: int = 1) -> None:
        super().__init__(specification)
        self.gate, self.reach = nn.Parameter(torch.zeros(8)), reach

    def added(self, vectors: Tensor) -> Tensor:
        return self.gate * functional.pad(vectors, (0, 0, self.reach, 0))[:, : vectors.shape[1]]


class Blocks(Guest):
    """Causal sums in blocks, padded after the end."""

    def __init__(self, specification: SequenceSpecification, block: int = 8) -> None:
        super().__init__(specification)
        self.block = block

    def added(self, vectors: Tensor) -> Tensor:
        batch, time, width = vectors.shape
        padded = functional.pad(vectors, (0, 0, 0, -time % self.block))
        sums = padded.view(batch, -1, self.block, width).cumsum(2)
        return sums.flatten(1, 2)[:, :time] / self.block


class Normalised(Guest):
    """Normalised over the channels of each position."""

    def __init__(self, specification: SequenceSpecification, groups: int = 1) -> None:
        super().__init__(specification)
        self.norm = nn.GroupNorm(groups, 8)

    def added(self, vectors: Tensor) -> Tensor:
        normalised: Tensor = self.norm(vectors.flatten(0, 1))
        return normalised.view(vectors.shape)


class InPlace(Guest):
    """Rare tokens become one, in the tensor that it is given, or in one of its own."""

    def __init__(
        self, specification: SequenceSpecification, largest: int = 20, writes: bool = True
    ) -> None:
        super().__init__(specification)
        self.largest, self.writes = largest, writes

    def forward(self, inputs: Tensor) -> Tensor:
        largest = self.largest
        return super().forward(
            inputs.clamp_(max=largest) if self.writes else inputs.clamp(max=largest)
        )
