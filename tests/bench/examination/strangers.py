"""Small models for the examination: each has one fault, or looks as if it had one.

All are a causal mean of embeddings with something added, so that a fault is the only thing that
tells one from another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification

VOCABULARY, WIDTH, LONGEST = 13, 12, 48
TOKENS = SequenceSpecification(maximum_length=LONGEST, vocabulary=VOCABULARY)


class Honest(nn.Module):
    """The mean over positions 0..t of a linear map of the embeddings, read out."""

    def __init__(self, specification: SequenceSpecification = TOKENS) -> None:
        super().__init__()
        assert specification.vocabulary is not None
        self.embedding = nn.Embedding(specification.vocabulary, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, specification.output_size)

    def mean(self, vectors: Tensor) -> Tensor:
        counts = torch.arange(1, vectors.shape[1] + 1, device=vectors.device, dtype=vectors.dtype)
        return vectors.cumsum(1) / counts[:, None]

    def vectors(self, inputs: Tensor) -> Tensor:
        return self.mix(self.embedding(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        vectors = self.vectors(inputs)
        return self.out(self.mean(vectors) + self.added(vectors))

    def added(self, vectors: Tensor) -> Tensor:
        """What a stranger adds, (batch, time, WIDTH)."""
        return torch.zeros_like(vectors)


def following(vectors: Tensor) -> Tensor:
    """The vector of the next position; zeros at the last."""
    return functional.pad(vectors, (0, 0, -1, 1))


# Faults: each sees the future in its own way.


class NextInBlock(Honest):
    """The next position, inside blocks of 8, without a gradient."""

    def added(self, vectors: Tensor) -> Tensor:
        places = torch.arange(vectors.shape[1]) % 8 != 7
        return following(vectors.detach()) * places[:, None]


class LateLeak(Honest):
    """The next position, in the last tenth of the longest sequences alone."""

    def added(self, vectors: Tensor) -> Tensor:
        late = torch.arange(vectors.shape[1]) >= 0.9 * LONGEST
        return following(vectors) * late[:, None]


class BehindAGate(Honest):
    """The next position, behind a gate that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def added(self, vectors: Tensor) -> Tensor:
        return self.gate * following(vectors)


class BehindAClosedDoor(Honest):
    """The next position, times a number that no move of the size of an initial value opens."""

    def __init__(self) -> None:
        super().__init__()
        self.door = nn.Parameter(torch.full((), -60.0))

    def added(self, vectors: Tensor) -> Tensor:
        return self.door.sigmoid() * following(vectors)


class OpensInTraining(Honest):
    """The next position, as soon as a bias that starts at zero is larger than any first move."""

    def __init__(self, specification: SequenceSpecification = TOKENS) -> None:
        super().__init__(specification)
        self.bias = nn.Parameter(torch.zeros(WIDTH))

    def added(self, vectors: Tensor) -> Tensor:
        return self.bias + functional.relu(self.bias.abs().max() - 0.2) * following(vectors)


class WholeMean(Honest):
    """Normalised by the mean of the whole sequence."""

    def added(self, vectors: Tensor) -> Tensor:
        return -vectors.mean(1, keepdim=True).expand_as(vectors)


class ByNumpy(Honest):
    """The largest vector of the sequence, found outside of torch."""

    def added(self, vectors: Tensor) -> Tensor:
        largest = np.asarray(vectors.detach().cpu().numpy()).max(axis=1, keepdims=True)
        return torch.from_numpy(largest).to(vectors).expand_as(vectors)


class InTrainingAlone(Honest):
    """The next position in training mode, so that a curve looks better than the model is."""

    def added(self, vectors: Tensor) -> Tensor:
        return following(vectors) if self.training else torch.zeros_like(vectors)


class LengthIsAnInput(Honest):
    """Knows how long the sequence is."""

    def added(self, vectors: Tensor) -> Tensor:
        return torch.full_like(vectors, vectors.shape[1] / LONGEST)


class FromTheEnd(Honest):
    """Blocks counted from the end of the sequence: where they begin depends on its length."""

    def added(self, vectors: Tensor) -> Tensor:
        time = vectors.shape[1]
        padded = functional.pad(vectors, (0, 0, -time % 7, 0))
        blocks = padded.view(len(vectors), -1, 7, WIDTH).cumsum(2)
        return blocks.view(len(vectors), -1, WIDTH)[:, -time:]


class AcrossTheBatch(Honest):
    """The sequence above in the batch."""

    def added(self, vectors: Tensor) -> Tensor:
        return vectors.roll(1, 0)


class BatchStatistics(Honest):
    """Batch normalisation over batch and time."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def added(self, vectors: Tensor) -> Tensor:
        return self.norm(vectors.transpose(1, 2)).transpose(1, 2)


class Remembers(Honest):
    """Starts with the last vector of the call before."""

    last: Tensor | None = None

    def added(self, vectors: Tensor) -> Tensor:
        before, self.last = self.last, vectors.detach()[:1, -1:]
        return torch.zeros_like(vectors) if before is None else before.expand_as(vectors)


class WritesIntoInputs(Honest):
    """Rare tokens become one, in place."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.clamp_(max=VOCABULARY // 2))


class ReadsACopy(Honest):
    """The same without touching what was given."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.clamp(max=VOCABULARY // 2))


class NoNumbers(Honest):
    """NaN where a sequence is longer than 16."""

    def added(self, vectors: Tensor) -> Tensor:
        late = torch.arange(vectors.shape[1]) >= 16
        return torch.where(late[:, None], torch.nan, torch.zeros_like(vectors))


class HiddenLeak(Honest):
    """Honest outputs, and hidden vectors, by which the loss is computed, that see the future."""

    @property
    def output_matrix(self) -> Tensor:
        return self.out.weight

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def hidden(self, inputs: Tensor) -> Tensor:
        vectors = self.vectors(inputs)
        return self.mean(vectors) + following(vectors)


FAULTS: dict[str, tuple[type[Honest], str]] = {
    "next in block": (NextInBlock, "sees the future"),
    "late": (LateLeak, "sees the future"),
    "gate": (BehindAGate, "sees the future.* once its parameters are moved"),
    "mean of all": (WholeMean, "sees the future"),
    "by numpy": (ByNumpy, "sees the future"),
    "in training alone": (InTrainingAlone, "sees the future in training mode"),
    "length": (LengthIsAnInput, "sees how long a sequence is"),
    "blocks from the end": (FromTheEnd, "sees how long a sequence is"),
    "across the batch": (AcrossTheBatch, "depends on the other sequences of its batch"),
    "batch statistics": (BatchStatistics, "in training mode"),
    "remembers": (Remembers, "keeps something between calls"),
    "hidden": (HiddenLeak, "hidden and output_matrix give other outputs than forward"),
}


# Honest ones that look suspicious.


class Dropped(Honest):
    """Dropout of a half."""

    def added(self, vectors: Tensor) -> Tensor:
        return functional.dropout(vectors, 0.5, self.training)


class ByFourier(Honest):
    """A long convolution by FFT, which rounds by the size of the whole sequence."""

    def added(self, vectors: Tensor) -> Tensor:
        time = vectors.shape[1]
        kernel = torch.exp(-torch.arange(time, dtype=vectors.dtype) / 10)
        by_frequency = torch.fft.rfft(vectors, 2 * time, 1)
        by_frequency = by_frequency * torch.fft.rfft(kernel, 2 * time)[:, None]
        return torch.fft.irfft(by_frequency, 2 * time, 1)[:, :time]


class Rotated(Honest):
    """Causal attention with rotary positions."""

    def added(self, vectors: Tensor) -> Tensor:
        places = torch.arange(vectors.shape[1], dtype=vectors.dtype)
        angles = places[:, None] * 10.0 ** -torch.arange(WIDTH // 2, dtype=vectors.dtype)
        turned = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(vectors.unflatten(-1, (-1, 2)).contiguous())
        keys = torch.view_as_real(pairs * turned).flatten(-2).unsqueeze(1)
        read = functional.scaled_dot_product_attention(
            keys, keys, vectors.unsqueeze(1), is_causal=True
        )
        return read.squeeze(1)


class Padded(Honest):
    """Sums in blocks of 8, with zeros after the end."""

    def added(self, vectors: Tensor) -> Tensor:
        batch, time, width = vectors.shape
        padded = functional.pad(vectors, (0, 0, 0, -time % 8))
        blocks = padded.view(batch, -1, 8, width)
        sums = blocks.sum(2).cumsum(1) - blocks.sum(2)
        return (blocks.cumsum(2) + sums.unsqueeze(2)).flatten(1, 2)[:, :time] / LONGEST


class LearnsAsItReads(Honest):
    """A matrix memory that takes a gradient step at each position, anew for each sequence."""

    def added(self, vectors: Tensor) -> Tensor:
        memory = vectors.new_zeros(len(vectors), WIDTH, WIDTH, requires_grad=True)
        reads = []
        for vector in vectors.unbind(1):
            with torch.enable_grad():
                memory = memory if memory.requires_grad else memory.requires_grad_()
                error = (torch.einsum("bij,bj->bi", memory, vector) - vector.roll(1, 1)).square()
                (slope,) = torch.autograd.grad(error.sum(), memory, create_graph=self.training)
            memory = memory - 0.05 * slope
            reads.append(torch.einsum("bij,bj->bi", memory, vector))
        return torch.stack(reads, 1)


class Huge(Honest):
    """Outputs of 10,000, and a class that is never meant, of minus a billion."""

    def forward(self, inputs: Tensor) -> Tensor:
        never = torch.zeros(VOCABULARY).index_fill(0, torch.tensor([3]), -1e9)
        return 1e4 * super().forward(inputs) + never


class Masked(Honest):
    """A class whose probability is 0."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).index_fill(2, torch.tensor([3]), -torch.inf)


class Tiny(Honest):
    """Outputs of 1e-20."""

    def forward(self, inputs: Tensor) -> Tensor:
        return 1e-20 * super().forward(inputs)


class ZeroHead(Honest):
    """Outputs that are all zero before a training."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)


class Counts(Honest):
    """A buffer that says how often it was trained, and is in no output."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def added(self, vectors: Tensor) -> Tensor:
        if self.training:
            calls: Any = self.calls
            calls.add_(1)
        return torch.zeros_like(vectors)


class InHalf(Honest):
    """Computes in bfloat16 inside, whatever it is given."""

    def added(self, vectors: Tensor) -> Tensor:
        coarse = vectors.bfloat16()
        return (coarse.cumsum(1) @ torch.eye(WIDTH, dtype=torch.bfloat16)).to(vectors) / LONGEST


class Sharp(Honest):
    """Large exponentials, which stretch the errors of what is below them."""

    def added(self, vectors: Tensor) -> Tensor:
        return torch.sin(1e4 * self.mean(vectors))


LOOKS: dict[str, type[Honest]] = {
    "plain": Honest,
    "dropout": Dropped,
    "fourier": ByFourier,
    "rotary": Rotated,
    "padded": Padded,
    "learns as it reads": LearnsAsItReads,
    "huge": Huge,
    "masked class": Masked,
    "tiny": Tiny,
    "zero head": ZeroHead,
    "counts": Counts,
    "bfloat16 inside": InHalf,
    "sharp": Sharp,
}
