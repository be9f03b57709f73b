"""Tasks of which only the drawing is written: tokens, classes, masked real targets."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tasks.generated import GeneratedTask
from tasks.interface import IGNORED, Metric

LENGTH = 6


class FirstToken(GeneratedTask):
    """The target is always the first token."""

    vocabulary, length = 5, LENGTH

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Any, ...]:
        tokens = generator.integers(0, 5, (count, LENGTH))
        return tokens, tokens[:, :1].repeat(LENGTH, axis=1)


class LargestChannel(GeneratedTask):
    """Which of three channels had the largest value so far; asked from the second position on."""

    channels, classes, length = 3, 4, LENGTH

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Any, ...]:
        values = generator.normal(size=(count, LENGTH, 3))
        largest = np.maximum.accumulate(values, axis=1).argmax(-1)
        largest[:, 0] = IGNORED
        return values, largest

    def metrics(self, answers: Tensor, targets: Tensor, asked: Tensor) -> dict[str, Tensor]:
        last = (answers[:, -1].argmax(-1) == targets[:, -1]).float()
        return {**super().metrics(answers, targets, asked), "at the end": last}


class RunningMean(GeneratedTask):
    """The mean of two channels so far, asked at a random half of the positions."""

    channels, outputs, length = 2, 2, LENGTH

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Any, ...]:
        values = generator.normal(size=(count, LENGTH, 2))
        means = values.cumsum(1) / np.arange(1, LENGTH + 1)[:, None]
        return values, means, generator.random((count, LENGTH)) < 0.5


KINDS = [FirstToken, LargestChannel, RunningMean]


class Answers(nn.Module):
    """Gives fixed answers, whatever is asked."""

    def __init__(self, answers: Tensor) -> None:
        super().__init__()
        self.answers = answers
        self.place = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.place += len(inputs)
        return self.answers[self.place - len(inputs) : self.place]


@pytest.mark.parametrize("kind", KINDS)
def test_data_are_a_function_of_settings_seed_and_step_alone(kind: type[GeneratedTask]) -> None:
    task, again = kind(), kind()
    np.random.seed(7)  # noqa: NPY002 - the global state is what is disturbed
    torch.manual_seed(7)
    one, other = task.training_batch(3, 5, 4), again.training_batch(3, 5, 4)
    assert torch.equal(one.inputs, other.inputs)
    assert torch.equal(one.targets, other.targets)
    assert task.data_hashes() == again.data_hashes()
    hashes = task.data_hashes()
    assert len(set(hashes.values())) == 3
    assert not set(hashes.values()) & set(kind(data_seed=1).data_hashes().values())
    drawn = {
        tuple(task.training_batch(seed, step, 4).inputs.flatten().tolist())
        for seed in range(3)
        for step in range(3)
    }
    assert len(drawn) == 9


def test_the_loss_is_a_mean_over_what_is_asked_for() -> None:
    task = RunningMean()
    batch = task.training_batch(0, 0, 8)
    outputs = torch.randn(8, LENGTH, 2, generator=torch.Generator().manual_seed(0))
    mask = batch.extras["asked"].numpy()
    squares = (outputs.numpy().astype(float) - batch.targets.numpy()) ** 2
    assert 0 < mask.sum() < mask.size
    assert batch.asked == 2 * mask.sum()
    assert float(task.loss(outputs, batch)) == pytest.approx(squares[mask].mean(), rel=1e-5)
    parts = [(part, outputs[k : k + 3]) for k, part in zip((0, 3, 6), batch.split(3), strict=True)]
    together = sum(float(task.loss(o, part)) * part.asked / batch.asked for part, o in parts)
    assert together == pytest.approx(float(task.loss(outputs, batch)), rel=1e-5)


def test_a_part_of_which_nothing_is_asked_adds_nothing() -> None:
    for task in (RunningMean(), LargestChannel()):
        batch = task.training_batch(0, 0, 2)
        outputs = torch.zeros(2, LENGTH, task.specification().output_size, requires_grad=True)
        if batch.targets.is_floating_point():
            batch.extras["asked"][:] = False
        else:
            batch.targets[:] = IGNORED
        assert batch.asked == 0
        loss = task.loss(outputs, batch)
        loss.backward()
        assert float(loss.detach()) == 0
        assert outputs.grad is not None
        assert not outputs.grad.any()


def test_classes_of_real_inputs_are_measured_by_two_metrics() -> None:
    task = LargestChannel(evaluation_sequences=100)
    assert task.headline == Metric("accuracy", "maximise")
    specification = task.specification()
    assert (specification.input_channels, specification.output_size) == (3, 4)
    batch = task._split("test")
    assert batch.inputs.dtype == torch.float32
    assert batch.targets.dtype == torch.int64
    # Right at the end of even sequences, and wrong before and elsewhere: class 3 is never a target.
    answers = torch.zeros(100, LENGTH, 4)
    answers[:, :, 3] = 1
    even = torch.arange(0, 100, 2)
    answers[even, -1] = 5 * nn.functional.one_hot(batch.targets[even, -1], 4).float()
    found = task.evaluate(Answers(answers), "test", "cpu")
    assert found.metrics["at the end"] == 0.5
    assert found.metrics["accuracy"] == pytest.approx(0.5 / (LENGTH - 1))
    assert len(found.per_sequence["accuracy"]) == 100
    # -log p of the target at each of the five positions that ask, by hand.
    wrong = math.log(3 + math.e)
    right = math.log(3 + math.exp(5)) - 5
    assert found.metrics["loss"] == pytest.approx((9 * wrong + right) / 10, rel=1e-5)


def test_what_is_no_number_is_no_answer() -> None:
    task = FirstToken(evaluation_sequences=8)
    nothing = torch.full((8, LENGTH, 5), torch.nan)
    assert task.evaluate(Answers(nothing), "test", "cpu").metrics["accuracy"] == 0


def test_predictors_know_the_targets_of_the_training_and_no_input() -> None:
    found = RunningMean(evaluation_sequences=2000).baselines()["mean"]("test")
    # The target's variance after k of n positions is 1/k, and its mean 0.
    expected = np.mean([1 / k for k in range(1, LENGTH + 1)])
    assert found.metrics["error"] == pytest.approx(expected, rel=0.1)
    frequent = FirstToken(evaluation_sequences=2000).baselines()["most_frequent"]("test")
    assert frequent.metrics["accuracy"] == pytest.approx(0.2, abs=0.04)
    assert frequent.metrics["loss"] == pytest.approx(math.log(5), rel=0.02)


def test_what_cannot_be_a_task_is_refused_in_a_sentence() -> None:
    class Both(FirstToken):
        channels = 3

    class Without(GeneratedTask):
        length = 3

        def draw(self, generator: np.random.Generator, count: int) -> tuple[Any, ...]:
            return np.zeros((count, 3)), np.zeros((count, 3))

    class Endless(Without):
        vocabulary = 5

    del Without.length

    class Scalar(FirstToken):
        def metrics(self, answers: Tensor, targets: Tensor, asked: Tensor) -> dict[str, Tensor]:
            return {"accuracy": torch.tensor(1.0)}

    with pytest.raises(ValueError, match="Both has vocabulary and channels: a task has"):
        Both().specification()
    with pytest.raises(ValueError, match="Without has no sizes: a task has a vocabulary, or"):
        Without().training_batch(0, 0, 2)
    with pytest.raises(ValueError, match="Endless has no length, the most positions"):
        Endless().training_batch(0, 0, 2)
    with pytest.raises(ValueError, match="metrics of Scalar gave accuracy of shape"):
        Scalar().evaluate(Answers(torch.zeros(256, LENGTH, 5)), "test", "cpu")
    with pytest.raises(ValueError, match="evaluation_sequences=0 of FirstToken: give a whole num"):
        FirstToken(evaluation_sequences=0).specification()
    with pytest.raises(TypeError, match="abstract"):
        type("NoDraw", (GeneratedTask,), {"vocabulary": 5, "length": 3})()


TOKENS = np.arange(2 * LENGTH).reshape(2, LENGTH) % 5
REAL = np.zeros((2, LENGTH, 2))


def drawing(kind: type[GeneratedTask], *drawn: Any) -> GeneratedTask:
    """A task of a kind that draws the same whatever it is asked for; one thing is no tuple."""

    class Fixed(kind):  # type: ignore[misc,valid-type]
        def draw(self, generator: np.random.Generator, count: int) -> Any:
            return drawn if len(drawn) > 1 else drawn[0]

    task: GeneratedTask = Fixed()
    return task


@pytest.mark.parametrize(
    ("kind", "drawn", "said"),
    [
        (FirstToken, (None,), "a NoneType: return inputs, targets, or"),
        (FirstToken, (TOKENS,), "a ndarray: return inputs, targets, or"),
        (FirstToken, (TOKENS,) * 4, "a tuple of 4: return inputs, targets, or"),
        (
            FirstToken,
            (np.zeros((LENGTH, 2)), TOKENS),
            r"inputs of shape \(6, 2\) for count=2: give \(2, time\), with time .*before",
        ),
        (FirstToken, (TOKENS[0], TOKENS), r"inputs of shape \(6,\) for count=2: give \(2, time\)"),
        (FirstToken, (TOKENS[:, :0], TOKENS[:, :0]), r"inputs of shape \(2, 0\).*from 1 to 6"),
        (
            FirstToken,
            (TOKENS, TOKENS[:, 0]),
            r"targets of shape \(2,\) for count=2: give \(2, 6\), with -100 where nothing is asked",
        ),
        (FirstToken, (TOKENS + 1, TOKENS), "5 among its inputs: give integers from 0 to 4"),
        (FirstToken, (TOKENS, TOKENS + 1), "5 among its targets: give integers from 0 to 4, or"),
        (FirstToken, (TOKENS, TOKENS - 1), "-1 among its targets: give integers from 0 to 4, or"),
        (FirstToken, (TOKENS - 100, TOKENS), "-100 among its inputs: give integers from 0 to 4"),
        (FirstToken, (TOKENS, TOKENS / 2), "0.5 among its targets: give integers from 0 to 4, or"),
        (FirstToken, (TOKENS * np.nan, TOKENS), "nan among its inputs: give integers from 0 to 4"),
        (FirstToken, (TOKENS.astype(str), TOKENS), "inputs of type <U.*: give integers"),
        (FirstToken, ([[1], [1, 2]], TOKENS), "inputs that numpy makes no array of .*one length"),
        (FirstToken, (TOKENS, TOKENS, TOKENS), "a mask of shape .* and type int64: give bool"),
        (RunningMean, (REAL[..., :1], REAL), r"inputs of shape \(2, 6, 1\).*give \(2, time, 2\)"),
        (RunningMean, (REAL, REAL[..., 0]), r"targets of shape \(2, 6\).*give \(2, 6, 2\)$"),
        (RunningMean, (REAL + 1e39, REAL), r"1e\+39 among its inputs: give numbers that float32"),
        (RunningMean, (REAL, REAL + np.nan), "nan among its targets: .*where the mask is False"),
        (RunningMean, (REAL + 1j, REAL), "inputs of type complex128: give real numbers"),
        (LargestChannel, (TOKENS, TOKENS), r"inputs of shape \(2, 6\).*give \(2, time, 3\)"),
    ],
)
def test_a_draw_of_another_kind_is_refused_in_a_sentence(
    kind: type[GeneratedTask], drawn: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=f"draw of Fixed gave {said}"):
        drawing(kind, *drawn).training_batch(0, 0, 2)


def test_lists_tensors_and_whole_numbers_of_any_type_are_taken() -> None:
    expected = drawing(FirstToken, TOKENS, TOKENS).training_batch(0, 0, 2)
    for values in (TOKENS.tolist(), torch.from_numpy(TOKENS), TOKENS / 1.0, TOKENS.astype("u1")):
        batch = drawing(FirstToken, values, values).training_batch(0, 0, 2)
        assert torch.equal(batch.inputs, expected.inputs)
        assert torch.equal(batch.targets, expected.targets)
        assert batch.inputs.dtype == batch.targets.dtype == torch.int64


@pytest.mark.parametrize("stream", ["training", "validation", "test"])
def test_a_split_of_which_nothing_is_asked_is_refused(stream: str) -> None:
    class Silent(FirstToken):
        """Its streams are told apart by their first draw: numbers that only one of them has."""

        def draw(self, generator: np.random.Generator, count: int) -> tuple[Any, ...]:
            tokens, targets = super().draw(generator, count)
            key = int(generator.bit_generator.state["state"]["key"][1])
            if ("training", "validation", "test")[key] == stream:
                targets = np.full_like(targets, IGNORED)
            return tokens, targets

    with pytest.raises(ValueError, match=f"draw of Silent asks for nothing in the .*{stream}"):
        Silent().data_hashes()
