"""What a model keeps of earlier calls, seeds that it sets and settings of the process that it
changes: in each case the next answer is no longer that of its inputs and weights alone."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.examination.examination import examine
from bench.examination.untouched import UntouchedCopy
from bench.training.numerics import SETTINGS
from bench.training.unfit import UnfitModel
from models.specification import SequenceSpecification
from tests.bench.examination.generated import Guest
from tests.bench.examination.strangers import LONGEST, TOKENS, VOCABULARY

INPUTS = torch.randint(VOCABULARY, (16, 29), generator=torch.Generator().manual_seed(0))
OF_MODULE: dict[Any, Any] = {}


class Remembers(Guest):
    """Adds the mean of the first sequence that began with the same tokens, in some modes."""

    count, modes = 2, (False, True)
    of_class: ClassVar[dict[Any, Any]] = {}

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.of_object: dict[Any, Any] = {}

    @property
    def answers(self) -> dict[Any, Any]:
        return self.of_object

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        if self.training not in self.modes:
            return outputs
        keys = [tuple(row[: self.count].tolist()) for row in inputs]
        added = [
            self.answers.setdefault(key, self.kept(row))
            for key, row in zip(keys, inputs, strict=True)
        ]
        return outputs + torch.stack(added)[:, None, None]

    def kept(self, row: Tensor) -> Tensor:
        return self.embedding(row).mean().detach()


class OfItsFirstToken(Remembers):
    count = 1


class InEvaluation(Remembers):
    modes = (False,)  # type: ignore[assignment]


class InTraining(Remembers):
    modes = (True,)  # type: ignore[assignment]


class InItsClass(Remembers):
    @property
    def answers(self) -> dict[Any, Any]:
        return self.of_class


class InItsModule(Remembers):
    @property
    def answers(self) -> dict[Any, Any]:
        return OF_MODULE


@cache
def first_answer(key: tuple[int, ...], holder: _Holder) -> float:
    return holder.value


class _Holder:
    """Equal to all others, so that a cache asks about its key alone."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Holder)

    def __hash__(self) -> int:
        return 0


class ByCachedFunction(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        values = [
            first_answer(tuple(row[:2].tolist()), _Holder(float(row.float().mean())))
            for row in inputs
        ]
        return super().forward(inputs) + torch.tensor(values)[:, None, None]


class OldState(Remembers):
    """The right vector of the first position, from the weights of the time when it was kept."""

    count = 1

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = Guest.forward(self, inputs)
        firsts = [
            self.answers.setdefault(int(row[0]), o[0].detach())
            for row, o in zip(inputs, outputs, strict=True)
        ]
        return torch.cat([torch.stack(firsts)[:, None], outputs[:, 1:]], 1)


class CountsTraining(Remembers):
    """Louder each time that a sequence begins so."""

    modes = (True,)  # type: ignore[assignment]

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            for row in inputs:
                key = int(row[0])
                self.answers[key] = self.answers.get(key, 0) + 1
        loud = [0.1 * self.answers.get(int(row[0]), 0) * self.training for row in inputs]
        return Guest.forward(self, inputs) + torch.tensor(loud)[:, None, None]


class KeepsMasks(Guest):
    """Honest: a table for each length, in the object, its class and a function."""

    tables: ClassVar[dict[int, Tensor]] = {}

    @staticmethod
    @cache
    def positions(length: int) -> Tensor:
        return torch.arange(length).cos()

    def added(self, vectors: Tensor) -> Tensor:
        length = vectors.shape[1]
        table = self.tables.setdefault(length, torch.ones(length))
        return (vectors * self.positions(length)[:, None] + table[:, None]) / LONGEST


class KeepsMatrix(Guest):
    """Honest: a product of its weights for evaluations, which a training drops."""

    product: Tensor | None = None

    def train(self, mode: bool = True) -> KeepsMatrix:
        self.product = None if mode else self.product
        return super().train(mode)

    def added(self, vectors: Tensor) -> Tensor:
        if self.training:
            return vectors @ (self.mix.weight @ self.mix.weight)
        if self.product is None:
            self.product = (self.mix.weight @ self.mix.weight).detach()
        return vectors @ self.product


class Hooked(Guest):
    """Honest: a hook holds on to the object that it was made for, of which a copy is none."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.seen: list[Tensor] = []
        self.mix.register_forward_hook(lambda module, args, output: self.seen.append(output))

    def added(self, vectors: Tensor) -> Tensor:
        total = sum(self.seen, torch.zeros_like(vectors))
        self.seen.clear()
        return total


class Uncopied(Guest):
    """Honest, and refuses to be copied."""

    def __deepcopy__(self, memo: Any) -> Uncopied:
        raise RuntimeError("there is one of me")


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    for container in (OF_MODULE, Remembers.of_class, KeepsMasks.tables):
        container.clear()
    first_answer.cache_clear()


def examined(kind: type[nn.Module], trained: bool = False) -> None:
    torch.manual_seed(0)
    examine(kind(TOKENS), TOKENS, INPUTS, trained=trained)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        *(Remembers, OfItsFirstToken, InEvaluation, InTraining, InItsClass, InItsModule),
        *(ByCachedFunction, CountsTraining),
    ],
)
def test_a_cache_by_first_tokens_is_named(kind: type[nn.Module], trained: bool) -> None:
    with pytest.raises(UnfitModel, match=r"than without them.*keeps something between calls"):
        examined(kind, trained)


def test_what_was_kept_of_other_weights_is_named() -> None:
    with pytest.raises(UnfitModel, match=r"once its parameters are.*keeps something between calls"):
        examined(OldState)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("kind", [KeepsMasks, KeepsMatrix, Hooked, Uncopied])
def test_honest_models_with_a_memory_of_their_own_pass(
    kind: type[nn.Module], trained: bool
) -> None:
    examined(kind, trained)


def test_what_classes_and_modules_hold_is_left_as_it_was() -> None:
    OF_MODULE["before"] = 1
    model = InItsModule(TOKENS)
    untouched = UntouchedCopy(model)
    OF_MODULE["since"] = 2
    with untouched._forgotten():
        assert OF_MODULE == {"before": 1}
        OF_MODULE["within"] = 3
    assert OF_MODULE == {"before": 1, "since": 2}


# Seeds and settings.


class Drops(Guest):
    """Dropout, behind whatever a kind does as it is called."""

    def added(self, vectors: Tensor) -> Tensor:
        self.begin()
        return functional.dropout(vectors, 0.2, self.training)

    def begin(self) -> None:
        """What a kind does."""


class SeedsTorch(Drops):
    def begin(self) -> None:
        torch.manual_seed(0)


class SeedsTorchInTraining(Drops):
    def begin(self) -> None:
        if self.training:
            torch.manual_seed(0)


class SeedsNumpy(Drops):
    def begin(self) -> None:
        np.random.seed(0)  # noqa: NPY002


class SeedsPython(Drops):
    def begin(self) -> None:
        random.seed(0)


class SetsTheState(Drops):
    state = torch.Generator().manual_seed(3).get_state()

    def begin(self) -> None:
        torch.set_rng_state(self.state)


class Forks(Drops):
    """Honest: what it has seeded is as it was when it ends."""

    def begin(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            torch.randn(3)


@pytest.mark.parametrize(
    ("kind", "generator"),
    [
        (SeedsTorch, "PyTorch's generator"),
        (SeedsTorchInTraining, "PyTorch's generator"),
        (SetsTheState, "PyTorch's generator"),
        (SeedsNumpy, "numpy.random"),
        (SeedsPython, "Python's random"),
    ],
)
def test_a_model_that_seeds_as_it_is_called_is_named(kind: type[nn.Module], generator: str) -> None:
    with pytest.raises(UnfitModel, match=f"the model seeds {generator} as it is called"):
        examined(kind)


def test_dropout_and_a_seed_in_a_block_of_its_own_pass() -> None:
    for kind in (Drops, Forks):
        examined(kind)


CHANGES: dict[str, tuple[Any, object]] = {
    "default type": (torch.set_default_dtype, torch.float64),
    "gradients": (torch.set_grad_enabled, False),
    "threads": (torch.set_num_threads, 3),
    "deterministic algorithms": (torch.use_deterministic_algorithms, True),
}


@pytest.mark.parametrize("in_training", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_changes_a_setting_as_it_is_called_is_named(
    name: str, in_training: bool
) -> None:
    function, value = CHANGES[name]

    class Sets(Guest):
        def forward(self, inputs: Tensor) -> Tensor:
            outputs = super().forward(inputs)
            if self.training == in_training:
                function(value)
            return outputs

    before = {setting: SETTINGS[setting].read() for setting in SETTINGS}
    if name == "gradients" and not in_training:  # where they are off already
        examined(Sets)
    else:
        sentence = f"sets PyTorch's {name} to {value} for the whole.*take torch.{function.__name__}"
        with pytest.raises(UnfitModel, match=sentence):
            examined(Sets)
    assert {setting: SETTINGS[setting].read() for setting in SETTINGS} == before
