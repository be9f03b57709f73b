"""Models for the examination beside those of ``generated``: each has one fault, or looks so.

A fault is the only thing that tells one from another.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tests.bench.examination.generated import (
    Across,
    Blocks,
    Convolved,
    Dropping,
    Gated,
    Guest,
    InBlocks,
    InOneMode,
    Keeps,
    KnowsLength,
    Late,
    OfAll,
    Scaled,
    ahead,
)

VOCABULARY, WIDTH, LONGEST = 13, 8, 48
TOKENS = SequenceSpecification(maximum_length=LONGEST, vocabulary=VOCABULARY)


# Faults.


class BehindAClosedDoor(Guest):
    """The next position, times a number that no move of the size of an initial value opens."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.door = nn.Parameter(torch.full((), -60.0))

    def added(self, vectors: Tensor) -> Tensor:
        return self.door.sigmoid() * ahead(vectors)


class BatchStatistics(Guest):
    """Batch normalisation over batch and time."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.norm = nn.BatchNorm1d(WIDTH)

    def added(self, vectors: Tensor) -> Tensor:
        return self.norm(vectors.transpose(1, 2)).transpose(1, 2)


class HiddenLeak(Guest):
    """Honest outputs, and hidden vectors, by which the loss is computed, that see the future."""

    @property
    def output_matrix(self) -> Tensor:
        return self.out.weight

    def hidden(self, inputs: Tensor) -> Tensor:
        vectors = self.vectors(inputs)
        return self.mean(vectors) + ahead(vectors)


Made = Callable[[SequenceSpecification], Guest]
FAULTS: dict[str, tuple[Made, str]] = {
    "next in block": (partial(InBlocks, graph=False), "sees the future"),
    "late": (Late, "sees the future"),
    "gate": (Gated, "sees the future.* once its parameters are moved"),
    "mean of all": (OfAll, "sees the future"),
    "by numpy": (partial(OfAll, statistic="largest"), "sees the future"),
    "in training alone": (InOneMode, "sees the future in training mode"),
    "length": (KnowsLength, "sees how long a sequence is"),
    "blocks from the end": (partial(KnowsLength, block=7), "sees how long a sequence is"),
    "across the batch": (Across, "depends on the other sequences of its batch"),
    "batch statistics": (BatchStatistics, "in training mode"),
    "remembers": (Keeps, "keeps something between calls"),
    "hidden": (HiddenLeak, "hidden and output_matrix give other outputs than forward"),
}


# Honest ones that look suspicious.


class Rotated(Guest):
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


class LearnsAsItReads(Guest):
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


class Huge(Guest):
    """Outputs of 10,000, and a class that is never meant, of minus a billion."""

    def forward(self, inputs: Tensor) -> Tensor:
        never = torch.zeros(VOCABULARY).index_fill(0, torch.tensor([3]), -1e9)
        return 1e4 * super().forward(inputs) + never


class Masked(Guest):
    """A class whose probability is 0."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).index_fill(2, torch.tensor([3]), -torch.inf)


class ZeroHead(Guest):
    """Outputs that are all zero before a training."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        nn.init.zeros_(self.out.weight)


class Counts(Guest):
    """A buffer that says how often it was trained, and is in no output."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.register_buffer("calls", torch.zeros(()))

    def added(self, vectors: Tensor) -> Tensor:
        if self.training:
            calls: Any = self.calls
            calls.add_(1)
        return torch.zeros_like(vectors)


class InHalf(Guest):
    """Computes in bfloat16 inside, whatever it is given."""

    def added(self, vectors: Tensor) -> Tensor:
        coarse = vectors.bfloat16()
        return (coarse.cumsum(1) @ torch.eye(WIDTH, dtype=torch.bfloat16)).to(vectors) / LONGEST


class ByTorchJit(Guest):
    """A part that torch.jit has traced, whose parameters lie in no dictionary."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            part: Any = torch.jit.trace(nn.Linear(WIDTH, WIDTH), torch.zeros(1, 2, WIDTH))
        self.part = part

    def added(self, vectors: Tensor) -> Tensor:
        added: Tensor = self.part(vectors)
        return added


class Sharp(Guest):
    """Large exponentials, which stretch the errors of what is below them."""

    def added(self, vectors: Tensor) -> Tensor:
        return torch.sin(1e4 * self.mean(vectors))


LOOKS: dict[str, Made] = {
    "plain": Guest,
    "dropout": Dropping,
    "fourier": Convolved,
    "rotary": Rotated,
    "padded": Blocks,
    "learns as it reads": LearnsAsItReads,
    "huge": Huge,
    "masked class": Masked,
    "tiny": partial(Scaled, size=1e-20),
    "zero head": ZeroHead,
    "counts": Counts,
    "bfloat16 inside": InHalf,
    "sharp": Sharp,
    "traced": ByTorchJit,
}
