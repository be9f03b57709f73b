"""What hides from an examination: below the rounding of large numbers, behind a first call, in
weights that a call moves."""

from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.examination.examination import RepeatedAnswers
from bench.examination.rounding import sizes_of
from bench.training.unfit import UnfitModel
from models.specification import SequenceSpecification
from tests.bench.examination.generated import Guest
from tests.bench.examination.strangers import TOKENS, VOCABULARY
from tests.bench.examination.test_examination import examined, made


class WithOffset(Guest):
    """One large number is added to all logits of a position, which no probability depends on."""

    offset = 1e6

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + self.offset


class LeaksBesideAnOffset(WithOffset):
    """The next token has twelve more, which is below a unit in the last place of large sums."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        following = torch.cat([inputs[:, 1:], inputs[:, -1:]], 1)
        return outputs + 12 * functional.one_hot(following, VOCABULARY).to(outputs.dtype)


def test_an_offset_of_all_logits_hides_nothing_and_is_no_fault() -> None:
    assert examined(made(WithOffset)).passed
    with pytest.raises(UnfitModel, match="sees the future"):
        examined(made(LeaksBesideAnOffset))


class LeaksOnce(Guest):
    """Batches of so many rows show the next token, the first time that they are asked for."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.seen: list[tuple[Any, ...]] = []

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        key = (inputs.shape, int(inputs.sum()))
        again = key in self.seen
        self.seen.append(key)
        following = torch.cat([inputs[:, 1:], inputs[:, -1:]], 1)
        leak = 12 * functional.one_hot(following, VOCABULARY).to(outputs.dtype)
        return outputs if again else outputs + leak


def test_what_a_second_call_does_not_show_is_no_rounding() -> None:
    with pytest.raises(UnfitModel):
        examined(made(LeaksOnce))


class MovesItsWeights(Guest):
    """A teacher follows the weights, and the weights are limited, in each call of a training."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.teacher = nn.Parameter(torch.zeros_like(self.out.weight), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        if self.training:
            with torch.no_grad():
                self.teacher.lerp_(self.out.weight, 0.1)
                self.out.weight.data.clamp_(-0.01, 0.01)
            return outputs
        return outputs + functional.linear(self.vectors(inputs), self.teacher)


@pytest.mark.parametrize("trained", [False, True])
def test_weights_that_a_call_moves_are_left_as_they_were(trained: bool) -> None:
    model = made(MovesItsWeights)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with suppress(UnfitModel):  # what is said of it is of no interest here
        examined(model, trained=trained)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


class Masked(Guest):
    """Classes that are never meant have one very small logit: the first half and one more."""

    mask, leak = -1e7, 0.0

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        following = torch.cat([inputs[:, 1:], inputs[:, -1:]], 1)
        outputs = outputs + self.leak * functional.one_hot(following, VOCABULARY)
        masked = torch.arange(VOCABULARY) < VOCABULARY // 2 + 1
        return outputs.masked_fill(masked, self.mask)


@pytest.mark.parametrize("mask", [-100.0, -1e4, -1e7, -1e9, -1e30, float("-inf")])
@pytest.mark.parametrize("trained", [False, True])
def test_masked_classes_hide_nothing_and_are_no_fault(mask: float, trained: bool) -> None:
    """They are more than half of the classes, so that the median of the logits is the mask."""
    torch.manual_seed(0)
    honest, leaking = Masked(TOKENS), Masked(TOKENS)
    honest.mask, leaking.mask, leaking.leak = mask, mask, 1.0
    assert "causal by values" in examined(honest, trained=trained).passed
    with pytest.raises(UnfitModel, match="sees the future"):
        examined(leaking, trained=trained)


def test_tolerances_follow_from_the_classes_that_weigh() -> None:
    logits = torch.randn(2, 5, 9, generator=torch.Generator().manual_seed(0))
    alone = sizes_of(logits[..., 5:])
    for mask in (-200.0, -1e7, -1e9, -torch.inf):
        beside = torch.cat([torch.full((2, 5, 5), mask), logits[..., 5:]], 2)
        sizes = sizes_of(beside)[..., 5:]
        digits = 8 * torch.finfo(torch.float32).eps  # a median, a difference and a maximum
        assert bool((sizes >= (1 - digits) * alone).all())
        assert float(sizes.max()) <= (1 + digits) * max(1.0, float(alone.max()))
    assert float(sizes_of(1e6 + logits).max()) <= 1e6 / 1000


def test_what_changes_with_every_call_is_no_rounding_of_the_model() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.calls = nn.Embedding(9, 4), 0

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.embedding(inputs) + 1e-3 * self.calls

    answers = RepeatedAnswers(Counting(), torch.arange(8).view(2, 4), seed=0)
    with pytest.raises(
        UnfitModel, match=r"after the evaluation the same inputs.*keeps something between calls"
    ):
        answers.refuse_others()


def test_what_a_model_keeps_outside_of_itself_is_no_rounding_of_it() -> None:
    """A copy, by which rounding is told from a dependence, has none of what is kept of a model by
    its identity."""
    kept: dict[int, int] = {}

    class KeptElsewhere(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, 4)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            kept[id(self)] = kept.get(id(self), 0) + 1
            return self.embedding(inputs) + 1e-3 * kept[id(self)]

    model = KeptElsewhere()
    answers = RepeatedAnswers(model, torch.arange(8).view(2, 4), seed=0)
    with pytest.raises(
        UnfitModel, match=r"after the evaluation the same inputs.*keeps something between calls"
    ):
        answers.refuse_others()


def test_answers_that_differ_by_the_rounding_of_a_large_sum_are_the_same() -> None:
    """A device may sum in another order at another call: logits that are small beside what they
    are sums of then differ by more than their own size explains, and in float64 by nothing."""

    class AnotherOrder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.calls = nn.Embedding(9, 4), 0

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            logits = self.embedding(inputs)
            large = torch.tensor([1e5, 1.1e5, 1.2e5, 1.3e5], dtype=logits.dtype)
            return (logits + large) - large if self.calls % 2 else logits + (large - large)

    for calls in (0, 1):
        model = AnotherOrder()
        answers = RepeatedAnswers(model, torch.arange(8).view(2, 4), seed=0)
        model.calls += calls
        answers.refuse_others()
