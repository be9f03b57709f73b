"""Leaks that another type, a copy or other last digits hide, and such as an evaluation hides."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bench.examination.answers import answers_are_numbers
from bench.examination.scored import ScoredBatch
from bench.training.unfit import UnfitModel
from tests.bench.examination.generated import Guest
from tests.bench.examination.strangers import TOKENS, VOCABULARY
from tests.bench.examination.test_examination import examined, made, tokens


def shown(inputs: Tensor) -> Tensor:
    following = torch.cat([inputs[:, 1:], inputs[:, -1:]], 1)
    return 12.0 * functional.one_hot(following, VOCABULARY)


class InOneType(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs + shown(inputs) if outputs.dtype == torch.float32 else outputs


class BesideAHash(Guest):
    """Moving a weight by its last digit changes all outputs."""

    def forward(self, inputs: Tensor) -> Tensor:
        bits = int(self.out.weight.detach().float().view(torch.int32).long().sum()) % 1_000_003
        hashed = torch.sin(0.37 * bits * torch.arange(1, VOCABULARY + 1))
        return super().forward(inputs) + 3 * hashed + shown(inputs)


class HonestCopies(Guest):
    copied = False

    def __deepcopy__(self, memo: Any) -> "HonestCopies":
        twin = type(self)(TOKENS)
        twin.load_state_dict(copy.deepcopy(self.state_dict()))
        twin.copied = True
        return twin

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs if self.copied else outputs + shown(inputs)


@pytest.mark.parametrize("kind", [InOneType, BesideAHash, HonestCopies])
def test_a_leak_is_no_rounding_where_copies_or_other_digits_are_honest(kind: type[Guest]) -> None:
    with pytest.raises(UnfitModel):
        examined(made(kind))


class OwnCall(Guest):
    """Asks no hooks, takes them off, and leaks in batches of an evaluation."""

    def __call__(self, *inputs: Tensor) -> Tensor:
        self._forward_hooks.clear()
        self._forward_pre_hooks.clear()
        return self.forward(*inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs + shown(inputs) if len(inputs) > 40 else outputs


class DrawsItsLeak(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs + shown(inputs) if float(torch.rand(())) < 0.01 else outputs


def test_a_call_of_its_own_is_watched() -> None:
    model = made(OwnCall).eval()
    scored = ScoredBatch(model, TOKENS, seed=0)
    with scored.watching(), torch.no_grad():
        model(tokens().repeat(25, 1))
    with pytest.raises(UnfitModel, match="sees the future"):
        scored.examine()
    assert OwnCall.__call__.__qualname__ == "OwnCall.__call__"  # the class is as it was


def test_a_scored_leak_that_is_drawn_is_replayed() -> None:
    model = made(DrawsItsLeak).eval()
    seed = next(s for s in range(10_000) if _first_draw(s) < 0.01)
    scored = ScoredBatch(model, TOKENS, seed=0)
    torch.manual_seed(seed)
    with scored.watching(), torch.no_grad():
        model(tokens())
    with pytest.raises(UnfitModel, match="sees the future"):
        scored.examine()


def _first_draw(seed: int) -> float:
    return float(torch.rand((), generator=torch.Generator().manual_seed(seed)))


def test_an_evaluation_without_a_call_is_refused() -> None:
    scored = ScoredBatch(made(Guest), TOKENS, seed=0)
    with scored.watching():
        pass
    with pytest.raises(UnfitModel, match="no call of forward or hidden was seen"):
        scored.examine()


class AlwaysEqual(Tensor):
    def __eq__(self, other: object) -> Any:
        return torch.ones(self.shape, dtype=torch.bool)


class AnswersItself(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).as_subclass(AlwaysEqual)


def test_outputs_are_plain_tensors_before_anything_is_computed_from_them() -> None:
    model = made(AnswersItself).eval()
    with answers_are_numbers(model), torch.no_grad():
        assert type(model(tokens())) is Tensor


class Replaced(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        self.__class__ = ShowsAll  # type: ignore[assignment]
        return outputs


class ShowsAll(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + shown(inputs)


def test_a_class_that_a_call_replaces_is_named() -> None:
    with pytest.raises(UnfitModel, match="has replaced its class as it was called"):
        examined(made(Replaced))
