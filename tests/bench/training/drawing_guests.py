"""Models of a stranger, honest ones and others, that share memory, draw numbers or keep state in
every way that tests ask for. Each has the same small network around what is its own."""

import itertools
import os
import random
import secrets
import time
import uuid
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from models.specification import SequenceSpecification

WIDTH = 8
NUMBERS = itertools.count(1)
AT_IMPORT = np.random.randn(WIDTH).astype("float32")  # noqa: NPY002
AT_IMPORT_UNSEEDED = np.random.default_rng().normal(size=WIDTH).astype("float32")


class Guest(nn.Module):
    """The mean of all embeddings so far."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__()
        if specification.vocabulary is None:
            raise ValueError("this model takes tokens: choose a task of tokens")
        self.embed = nn.Embedding(specification.vocabulary, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, specification.output_size, bias=False)

    def hidden_of(self, inputs: Tensor) -> Tensor:
        hidden = self.mix(self.embed(inputs))
        count = torch.arange(1, hidden.shape[1] + 1, device=hidden.device)
        return hidden.cumsum(1) / count[:, None]

    def change(self, hidden: Tensor) -> Tensor:
        """(batch, time, width), by what is special of a guest."""
        return hidden

    def forward(self, inputs: Tensor) -> Tensor:
        return self.out(self.change(self.hidden_of(inputs)))


class Tied(Guest):
    """The matrix of the outputs is that of the embedding."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.out.weight = self.embed.weight


class WithBuffer(Guest):
    """What ``drawn`` gives is a fixed factor of the hidden vectors."""

    persistent = False

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        values = torch.tensor(np.asarray(self.drawn()), dtype=torch.float32)
        self.register_buffer("factor", values, persistent=self.persistent)

    def drawn(self) -> object:
        return np.random.randn(WIDTH)  # noqa: NPY002

    def change(self, hidden: Tensor) -> Tensor:
        return hidden * self.factor


class PythonBuffer(WithBuffer):
    def drawn(self) -> object:
        return [random.gauss(0, 1) for _ in range(WIDTH)]


class ImportedBuffer(WithBuffer):
    def drawn(self) -> object:
        return AT_IMPORT


class UnseededImport(WithBuffer):
    def drawn(self) -> object:
        return AT_IMPORT_UNSEEDED


class Urandom(WithBuffer):
    persistent = True

    def drawn(self) -> object:
        return [byte / 255 for byte in os.urandom(WIDTH)]


class Secrets(WithBuffer):
    def drawn(self) -> object:
        return [secrets.randbelow(1000) / 1000 for _ in range(WIDTH)]


class Uuid(WithBuffer):
    persistent = True

    def drawn(self) -> object:
        return [byte / 255 for byte in uuid.uuid4().bytes[:WIDTH]]


class Clock(WithBuffer):
    persistent = True

    def drawn(self) -> object:
        return [time.time_ns() % 10**6 / 10**6 + k for k in range(WIDTH)]


class ClassCounter(WithBuffer):
    persistent = True

    def drawn(self) -> object:
        return [next(NUMBERS)] * WIDTH


class DefaultRng(WithBuffer):
    persistent = True

    def drawn(self) -> object:
        return np.random.default_rng().normal(size=WIDTH)


class SetOrder(WithBuffer):
    persistent = True

    def drawn(self) -> object:
        return [float(name) for name in {str(k) for k in range(WIDTH)}]


class Address(WithBuffer):
    persistent = True

    def drawn(self) -> object:
        return [id(object()) // 16 % 1000] * WIDTH


class TextOfObject(WithBuffer):
    """The text of an object has its address, which no word of the source says."""

    persistent = True

    def drawn(self) -> object:
        return [float(ord(letter)) for letter in f"{object()}"[-WIDTH - 1 : -1]]


class PlainNumber(Guest):
    """Drawn where no seed reaches, and no tensor."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.scale = random.SystemRandom().random() + 0.5

    def change(self, hidden: Tensor) -> Tensor:
        return hidden * self.scale


class SeededNoise(Guest):
    """Draws in each step of training from all that is seeded."""

    def change(self, hidden: Tensor) -> Tensor:
        if not self.training:
            return hidden
        shift = random.random() + np.random.rand() + torch.rand(()).item()  # noqa: NPY002
        return hidden + 0.1 * shift


class UnseededNoise(Guest):
    def change(self, hidden: Tensor) -> Tensor:
        noise = np.random.default_rng().normal(size=WIDTH).astype("float32")
        return hidden + torch.from_numpy(noise) if self.training else hidden


class GatedNoise(UnseededNoise):
    """Nothing of it is seen until a gate has opened."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.gate = nn.Parameter(torch.zeros(()))

    def change(self, hidden: Tensor) -> Tensor:
        return hidden + self.gate * (super().change(hidden) - hidden)


class OwnGenerator(Guest):
    """Seeded, but a training that is taken up again has it anew."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.generator = np.random.default_rng(0)

    def change(self, hidden: Tensor) -> Tensor:
        return hidden * float(self.generator.normal()) if self.training else hidden


class Statistics(Guest):
    """Batch normalisation: its statistics are buffers of the state dict."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.norm = nn.BatchNorm1d(WIDTH)

    def change(self, hidden: Tensor) -> Tensor:
        return self.norm(hidden.flatten(0, 1)).view(hidden.shape)


class Running(Guest):
    """An average of all batches, by which outputs are shifted when the model is evaluated."""

    persistent: ClassVar[bool] = True

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.register_buffer("average", torch.zeros(WIDTH), persistent=self.persistent)

    def change(self, hidden: Tensor) -> Tensor:
        if self.training:
            self.average = 0.9 * self.average + 0.1 * hidden.detach().mean((0, 1))
            return hidden
        return hidden - self.average


class LostRunning(Running):
    persistent = False


class Counter(Guest):
    """Counts its calls in a plain attribute, and goes by the count."""

    calls = 0

    def change(self, hidden: Tensor) -> Tensor:
        self.calls += self.training
        return hidden / (1 + self.calls)


class Monitor(Guest):
    """Leaves what it has computed in attributes, for whoever wants to look, as many models do."""

    def change(self, hidden: Tensor) -> Tensor:
        self.last, self.calls = hidden.detach(), getattr(self, "calls", 0) + 1
        return hidden


class Grown(Guest):
    """A table that is made as long as it is needed, in no state dict."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.register_buffer("table", torch.empty(0), persistent=False)

    def change(self, hidden: Tensor) -> Tensor:
        if len(self.table) < hidden.shape[1]:
            self.table = torch.arange(hidden.shape[1], device=hidden.device).cos()
        return hidden * self.table[: hidden.shape[1], None]


class GrownAndSaved(Guest):
    """The same in the state dict, whose shapes are then others than at the start."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.register_buffer("table", torch.empty(0))

    change = Grown.change


class Initialised(Guest):
    """Sets its scale by the first batch; a flag that nobody saves says whether it has."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.scale, self.begun = nn.Parameter(torch.ones(WIDTH)), False

    def change(self, hidden: Tensor) -> Tensor:
        if self.training and not self.begun:
            self.scale.data.copy_(1 / hidden.detach().std((0, 1)))
            self.begun = True
        return hidden * self.scale


class Settings(Guest):
    """Has more in its state dict than tensors."""

    def get_extra_state(self) -> dict[str, int]:
        return {"version": 1}

    def set_extra_state(self, state: dict[str, int]) -> None:
        assert state["version"] == 1


class Merges(Guest):
    """Adds a product of two small matrices to a weight in eval mode, as layers of LoRA do."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.left = nn.Parameter(torch.randn(7, 1))
        self.right = nn.Parameter(torch.zeros(1, 7))
        self.whole = nn.Parameter(torch.randn(7, 7), requires_grad=False)
        self.merged = False

    def train(self, mode: bool = True) -> "Merges":
        if mode is self.merged:
            product = (self.left @ self.right).detach()
            self.whole.data += -product if mode else product
            self.merged = not mode
        return super().train(mode)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        whole = self.whole if self.merged else self.whole + self.left @ self.right
        return outputs @ whole


class SharesALayer(Guest):
    """Has the output matrix that the first model of the process got."""

    made: ClassVar[list[nn.Linear]] = []

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.made.append(self.out)
        self.out = self.made[0]


class SharesAConstant(Guest):
    """Likewise a matrix that is not trained."""

    made: ClassVar[list[Tensor]] = []

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        if not self.made:
            self.made.append(torch.ones(WIDTH))
        self.ones = nn.Parameter(self.made[0], requires_grad=False)

    def change(self, hidden: Tensor) -> Tensor:
        return hidden * self.ones


class KeepsATable(Guest):
    """Keeps a table in the class, which its first constructor makes; a size by width."""

    table: ClassVar[Tensor | None] = None

    def __init__(self, specification: SequenceSpecification, width: int = WIDTH) -> None:
        super().__init__(specification)
        if KeepsATable.table is None:
            KeepsATable.table = torch.arange(512).cos()
        self.wide = nn.Linear(WIDTH, width)
        self.narrow = nn.Linear(width, WIDTH)

    def change(self, hidden: Tensor) -> Tensor:
        assert self.table is not None
        return self.narrow(self.wide(hidden)) * self.table[: hidden.shape[1], None]
