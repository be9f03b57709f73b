"""Each fault is named, before a training where it can be known then; what only looks like one
passes."""

import random
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.config.questions import QUESTIONS, RECORDED
from bench.examination.answers import answers_are_numbers, give_copies
from bench.examination.examination import RepeatedAnswers, examine, positions_of_a_pass
from bench.examination.examined import Examined
from bench.examination.generation import WatchedGeneration
from bench.examination.scored import ScoredBatch
from bench.training.unfit import UnfitModel
from models.specification import SequenceSpecification
from tests.bench.examination.generated import (
    Dropping,
    Guest,
    InBlocks,
    InPlace,
    Keeps,
    NoNumbers,
    ahead,
)
from tests.bench.examination.strangers import (
    FAULTS,
    LONGEST,
    LOOKS,
    TOKENS,
    VOCABULARY,
    WIDTH,
    BehindAClosedDoor,
    HiddenLeak,
    Made,
)
from tests.closeness import assert_near

BATCH = 8
BEFORE_TRAINING = {"moved parameters"}
OF_MOST = {name for name in RECORDED if QUESTIONS[name].of in ("every model", "most")}
EVERY_TIME = OF_MOST - BEFORE_TRAINING


def tokens(length: int = 29) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, VOCABULARY, (BATCH, length), generator=generator)


def made(kind: Made) -> Guest:
    torch.manual_seed(0)
    return kind(TOKENS)


def examined(model: nn.Module, *, trained: bool = False, length: int = 29) -> Examined:
    return examine(model, TOKENS, tokens(length), trained=trained)


@pytest.mark.parametrize("length", [29, LONGEST])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_before_a_training(fault: str, length: int) -> None:
    kind, sentence = FAULTS[fault]
    with pytest.raises(UnfitModel, match=sentence) as caught:
        examined(made(kind), length=length)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", LOOKS)
def test_what_only_looks_like_a_fault_passes(name: str, trained: bool) -> None:
    passed = {*examined(made(LOOKS[name]), trained=trained).passed}
    assert passed == EVERY_TIME | (set() if trained else BEFORE_TRAINING)


def test_what_opens_with_training_is_named_with_the_trained_weights() -> None:
    model = made(BehindAClosedDoor)
    assert "moved parameters" in examined(model).passed
    nn.init.zeros_(model.door)  # type: ignore[arg-type]
    with pytest.raises(UnfitModel, match="sees the future with its trained weights"):
        examined(model, trained=True)


@pytest.mark.parametrize("leak", [1e-2, 1e-3])
def test_a_leak_is_told_from_rounding_by_its_size(leak: float) -> None:
    """Rounding of these outputs is below 1e-5 of them."""

    class Weak(Guest):
        def added(self, vectors: Tensor) -> Tensor:
            return leak * vectors.flip(1)

    with pytest.raises(UnfitModel, match="sees the future"):
        examined(made(Weak), trained=True)


class WrongShape(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs)[:, -1]


class NoTensor(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        return (super().forward(inputs), None)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (WrongShape, r"forward gave \(2, 13\) for inputs of shape \(2, 29\), .* = \(2, 29, 13\)"),
        (NoTensor, r"forward gave tuple for inputs"),
    ],
)
def test_a_wrong_shape_is_told(kind: Made, sentence: str) -> None:
    with pytest.raises(UnfitModel, match=sentence):
        examined(made(kind))


def test_no_numbers_beyond_the_batches_are_judged_after_training() -> None:
    assert "numbers" in examined(made(NoNumbers), length=16).passed
    sentence = r"no numbers \(NaN or infinity\) for \d+ of \d+ outputs, first at position 16 of 48"
    with pytest.raises(UnfitModel, match=sentence):
        examined(made(NoNumbers), length=16, trained=True)
    with pytest.raises(UnfitModel, match="first at position 16 of"):
        examined(made(NoNumbers), length=29)


def test_nothing_is_left_behind() -> None:
    model = made(LOOKS["counts"]).train()
    model.mix.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(1), random.seed(1), np.random.seed(1)  # noqa: NPY002
    examined(model)
    drawn = (torch.rand(()), random.random(), np.random.random())  # noqa: NPY002
    torch.manual_seed(1), random.seed(1), np.random.seed(1)  # noqa: NPY002
    assert drawn == (torch.rand(()), random.random(), np.random.random())  # noqa: NPY002
    assert model.training
    assert not model.mix.training
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_cuts_come_behind_the_positions_that_are_scored() -> None:
    """A leak at the few positions where it pays, told by the token that asks there."""
    question, length = 3, 41

    class AtQuestions(Guest):
        def forward(self, inputs: Tensor) -> Tensor:
            asked = (inputs == question).unsqueeze(2)
            return super().forward(inputs) + self.out(ahead(self.embedding(inputs))) * asked

    inputs = tokens(length).where(tokens(length) != question, 4)
    inputs[:, 20] = question
    for seed in range(5):
        with pytest.raises(UnfitModel, match="position 21 on change its output at position 20"):
            examine(made(AtQuestions), TOKENS, inputs, seed=seed, scored=inputs == question)


@pytest.mark.parametrize("length", [57, 64, 160])
@pytest.mark.parametrize("block", [2, 3, 5])
def test_blocks_are_seen_wherever_they_begin(block: int, length: int) -> None:
    """At most one of two cuts that are a prime apart is where a block begins."""
    specification = SequenceSpecification(length, vocabulary=VOCABULARY)
    for offset in range(block):
        for seed in range(2):
            model = InBlocks(specification, block, offset)
            with pytest.raises(UnfitModel, match="sees the future"):
                examine(model, specification, tokens(length), seed=seed, trained=True)


def test_what_only_a_large_batch_shows_is_named() -> None:
    class Many(Guest):
        def added(self, vectors: Tensor) -> Tensor:
            return ahead(vectors) if len(vectors) > 16 else torch.zeros_like(vectors)

    batch = tokens().repeat(4, 1)
    with pytest.raises(UnfitModel, match=r"size of its batch: among 32 sequences .* among 16"):
        examine(made(Many), TOKENS, batch)
    assert "causal by values" in examine(made(Dropping), TOKENS, batch).passed


def test_what_only_batches_larger_than_those_of_the_training_show_is_named() -> None:
    class Hundreds(Guest):
        def added(self, vectors: Tensor) -> Tensor:
            return ahead(vectors) if len(vectors) > 200 else torch.zeros_like(vectors)

    with pytest.raises(UnfitModel, match="sees the future with its trained weights"):
        examine(made(Hundreds), TOKENS, tokens(), trained=True)


@pytest.mark.parametrize("beside", [False, True])
def test_what_only_scored_batches_show_is_named(beside: bool) -> None:
    """In batches of more sequences than a training's, from the tenth position on."""

    class InHundreds(Guest):
        def added(self, vectors: Tensor) -> Tensor:
            late = (torch.arange(vectors.shape[1]) >= 10).unsqueeze(1)
            other = vectors.mean(0, keepdim=True) if beside else ahead(vectors)
            return other * late * float(len(vectors) > 40)

    model = made(InHundreds)
    assert examine(model, TOKENS, tokens(), trained=True).passed
    scored = ScoredBatch(model, TOKENS, seed=0)
    batch = tokens().repeat(25, 1)
    with scored.watching():
        model(batch[:30])
        model(batch)
        model(batch[:50])
    sentence = "depends on the other sequences of its batch" if beside else "sees the future"
    with pytest.raises(UnfitModel, match=sentence):
        scored.examine()


def test_scored_batches_of_an_honest_model_pass_and_leave_it_as_it_was() -> None:
    model = made(Guest)
    before = {name: value for name, value in vars(model).items() if name == "hidden"}
    scored = ScoredBatch(model, TOKENS, seed=0)
    with scored.watching():
        model.eval()(tokens().repeat(25, 1))
    scored.examine()
    assert not model.training
    assert not model._forward_pre_hooks
    assert {name: value for name, value in vars(model).items() if name == "hidden"} == before
    scored.examine()  # nothing larger was scored since


def test_an_examination_does_not_empty_a_cache_that_says_that_it_is_filled() -> None:
    class WithPositions(Guest):
        def __init__(self, specification: SequenceSpecification) -> None:
            super().__init__(specification)
            self.positions: Tensor
            self.register_buffer("positions", torch.zeros(LONGEST), persistent=False)
            self.filled = 0

        def added(self, vectors: Tensor) -> Tensor:
            if (time := vectors.shape[1]) > self.filled:
                self.positions[:time] = torch.arange(1.0, time + 1)
                self.filled = time
            return self.positions[:time, None].expand(vectors.shape)

    model, untouched = made(WithPositions), made(WithPositions)
    assert examine(model, TOKENS, tokens()).passed
    with torch.no_grad():
        assert_near(model.eval()(tokens()), untouched.eval()(tokens()), terms=LONGEST + 2 * WIDTH)


def test_the_same_seed_asks_the_same() -> None:
    def sentence(seed: int) -> str:
        with pytest.raises(UnfitModel) as caught:
            examine(made(FAULTS["next in block"][0]), TOKENS, tokens(), seed=seed)
        return str(caught.value)

    assert sentence(3) == sentence(3)
    assert len({sentence(seed) for seed in range(5)}) > 1


def test_parameters_without_use_are_named_with_trained_weights() -> None:
    class Idle(Guest):
        def __init__(self, specification: SequenceSpecification) -> None:
            super().__init__(specification)
            self.idle = nn.Linear(3, 3)

    assert examined(made(Idle)).unused == []
    assert examined(made(Idle), trained=True).unused == ["idle.weight", "idle.bias"]


def test_channels_are_examined_as_tokens_are() -> None:
    class Means(nn.Module):
        def __init__(self, future: bool) -> None:
            super().__init__()
            self.out, self.future = nn.Linear(3, 2), future

        def forward(self, inputs: Tensor) -> Tensor:
            sums = inputs.cumsum(1)
            return self.out(sums + 0.1 * inputs.flip(1) if self.future else sums)

    specification = SequenceSpecification(20, input_channels=3, output_channels=2)
    inputs = torch.randn(4, 20, 3, generator=torch.Generator().manual_seed(0))
    assert "causal by gradients" in examine(Means(False), specification, inputs).passed
    with pytest.raises(UnfitModel, match="sees the future"):
        examine(Means(True), specification, inputs)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_sequences_can_be_examined(length: int) -> None:
    specification = SequenceSpecification(length, vocabulary=VOCABULARY)
    passed = examine(Guest(specification), specification, tokens(length)[:1]).passed
    assert "causal by values" in passed


def test_a_model_that_takes_some_lengths_only_is_examined_at_these() -> None:
    class InPairs(Guest):
        def forward(self, inputs: Tensor) -> Tensor:
            if inputs.shape[1] != 30:
                raise ValueError("30 positions, please")
            return super().forward(inputs)

    passed = examined(made(InPairs), length=30).passed
    assert "causal by values" in passed
    assert not {"causal by prefixes", "longest sequence"} & {*passed}


def test_the_work_is_a_share_of_the_training() -> None:
    assert positions_of_a_pass(0) == positions_of_a_pass(10_000)  # a second is allowed
    large = positions_of_a_pass(10_000_000)
    assert positions_of_a_pass(0) < large < positions_of_a_pass(10**12) == 2**15
    assert 2 * 20 * large <= 0.02 * 3 * 10_000_000


def test_a_model_that_writes_into_its_inputs_gets_copies() -> None:
    model = made(partial(InPlace, largest=6))
    assert examined(model).writes
    given = tokens()
    give_copies(model)
    model(given)
    assert torch.equal(given, tokens())


def test_answers_are_looked_at_while_a_task_evaluates() -> None:
    model = made(NoNumbers).eval()
    with answers_are_numbers(model), torch.no_grad():
        model(tokens(16))
        with pytest.raises(UnfitModel, match="first at position 16 of 29, in the evaluation"):
            model(tokens())
    assert model(tokens()).isnan().any()

    hidden: Any = made(HiddenLeak).eval()
    nn.init.constant_(hidden.mix.bias, torch.nan)
    with answers_are_numbers(hidden), pytest.raises(UnfitModel, match="hidden gave no numbers"):
        hidden.hidden(tokens())
    assert "hidden" not in vars(hidden)


def test_sizes_and_parts_may_have_the_names_of_methods() -> None:
    class Named(Guest):
        def __init__(self, specification: SequenceSpecification) -> None:
            super().__init__(specification)
            self.hidden, self.rollout, self.step = WIDTH, "frozen", nn.Linear(WIDTH, WIDTH)

        def added(self, vectors: Tensor) -> Tensor:
            assert self.rollout == "frozen"
            return functional.linear(vectors, self.step.weight).view(len(vectors), -1, self.hidden)

    model = made(Named).eval()
    expected = model(tokens())
    give_copies(model)
    watched = WatchedGeneration(model, TOKENS, seed=0).watching()
    with watched, answers_are_numbers(model), torch.no_grad():
        assert_near(model(tokens()), expected, terms=1)


def test_what_an_evaluation_leaves_in_a_model_is_told() -> None:
    model = made(Dropping)
    answers = RepeatedAnswers(model, tokens(), 0)
    model(tokens(7))
    answers.refuse_others()
    remembering = made(Keeps)
    answers = RepeatedAnswers(remembering, tokens(), 0)
    with pytest.raises(UnfitModel, match=re.escape("after the evaluation the same inputs")):
        answers.refuse_others()
