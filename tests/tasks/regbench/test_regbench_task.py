"""RegBench as a task: batches, loss and evaluation of models."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tasks.regbench import RegBench
from tasks.regbench.automata import SEPARATOR
from tasks.regbench.metrics import measure
from tests.closeness import assert_near

SMALL = {
    "training_automata": 50,
    "validation_size": 20,
    "test_size": 20,
    "strings": (2, 6),
    "string_length": (1, 12),
}


class Recurrent(nn.Module):
    """A small causal model whose outputs depend on the whole past."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.core = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 20)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.core(self.embedding(inputs))[0])


def sequence(task: RegBench, split: str, index: int) -> list[int]:
    data = task.splits[split]
    return data.tokens[slice(*data.offsets[index : index + 2])].tolist()


def rows(task: RegBench, epoch: int, size: int) -> list[list[tuple[int, ...]]]:
    """Inputs without padding of every batch of an epoch."""
    steps = task.steps_per_epoch(size)
    batches = [task.training_batch(0, epoch * steps + step, size) for step in range(steps)]
    return [[tuple(row[row > 0].tolist()) for row in batch.inputs] for batch in batches]


@pytest.mark.parametrize("protocol", ["fair", "as_released"])
def test_an_epoch_holds_every_training_sequence_once(protocol: str) -> None:
    task = RegBench(**SMALL, protocol=protocol)
    expected = sorted(tuple(sequence(task, "train", i)[:-1]) for i in range(50))
    first, second = rows(task, 0, 3), rows(task, 1, 3)
    for batches in (first, second):
        assert [len(batch) for batch in batches] == [3] * 16 + [2]
        assert sorted(row for batch in batches for row in batch) == expected
    assert {frozenset(b) for b in first}.isdisjoint(frozenset(b) for b in second)


def test_sorting_by_length_saves_padding_but_neither_orders_the_epoch() -> None:
    sizes = {}
    for protocol in ("fair", "as_released"):
        task = RegBench(training_automata=320, protocol=protocol)
        widths = [task.training_batch(0, step, 8).inputs.shape[1] for step in range(40)]
        sizes[protocol] = sum(widths)
        assert abs(np.corrcoef(widths, np.arange(40))[0, 1]) < 0.4
    assert sizes["fair"] < 0.85 * sizes["as_released"]


def test_targets_are_the_next_letters_and_never_separators() -> None:
    task = RegBench(**SMALL)
    texts = {tuple(text[:-1]): text for text in (sequence(task, "train", i) for i in range(50))}
    batch = task.training_batch(0, 2, 7)
    assert batch.inputs.dtype == batch.targets.dtype == torch.int64
    assert batch.inputs.shape == batch.targets.shape
    tokens = 0
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        length = sum(token > 0 for token in inputs)
        text = texts[tuple(inputs[:length])]
        expected = [-100 if token == SEPARATOR else token for token in text[1:]]
        assert targets == expected + [-100] * (len(inputs) - length)
        tokens += length
    assert batch.tokens == tokens
    assert max(len(text) for text in texts.values()) <= task.specification().maximum_length


def test_loss_is_the_mean_over_the_letters_asked_for() -> None:
    task = RegBench(**SMALL)
    batch = task.training_batch(0, 0, 5)
    outputs = torch.randn(*batch.inputs.shape, 20, generator=torch.Generator().manual_seed(0))
    surprises = [
        -float(functional.log_softmax(scores, -1)[target])
        for row, asked in zip(outputs, batch.targets, strict=True)
        for scores, target in zip(row, asked, strict=True)
        if target >= 0
    ]
    terms = 20 + len(surprises)
    assert_near(
        task.loss(outputs, batch).item(), np.mean(surprises), terms=terms, dtype=torch.float32
    )


class Recorder(nn.Module):
    """Uniform scores, and what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(20))
        self.seen: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen.append(inputs)
        return self.bias.expand(*inputs.shape, -1)


@pytest.mark.parametrize(
    ("automata", "longest", "size"),
    [(100, 49, 32), (500, 49, 32), (500, 19, 16)],
    ids=["N = 100", "N = 500", "laptop"],
)
def test_training_computes_nearly_no_padding_and_every_sequence_once(
    automata: int, longest: int, size: int
) -> None:
    task = RegBench(
        training_automata=automata, string_length=(1, longest), validation_size=1, test_size=1
    )
    model = Recorder()
    for step in range(task.steps_per_epoch(size)):
        task.training_loss(model, task.training_batch(0, step, size))
    useful = sum(int((inputs > 0).sum()) for inputs in model.seen)
    assert useful >= 0.97 * sum(inputs.numel() for inputs in model.seen)
    texts = sorted(tuple(row[row > 0].tolist()) for inputs in model.seen for row in inputs)
    assert texts == sorted(tuple(sequence(task, "train", i)[:-1]) for i in range(automata))
    assert len(model.seen) <= 0.6 * automata  # and not one sequence in each pass


def test_training_loss_and_gradients_are_those_of_one_padded_pass() -> None:
    torch.manual_seed(0)
    task, model = RegBench(**SMALL), Recurrent().double()
    batch = task.training_batch(0, 1, 12)

    def gradients(loss: Tensor) -> list[Tensor]:
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

    ours = gradients(task.training_loss(model, batch))
    scores = functional.log_softmax(model(batch.inputs), -1)
    asked = batch.targets >= 0
    true = gradients(-scores[asked].gather(1, batch.targets[asked][:, None]).mean())
    for mine, other in zip(ours, true, strict=True):
        assert_near(mine, other, terms=10_000, dtype=torch.float32)


def test_evaluation_in_padded_batches_equals_one_sequence_at_a_time() -> None:
    torch.manual_seed(0)
    # Over 2**14 padded positions, so that there are several batches of different lengths.
    task = RegBench(training_automata=1, validation_size=90, test_size=1)
    model = Recurrent().eval()
    with torch.no_grad():
        found = task.evaluate(model, "validation", "cpu")
        alone = [
            functional.log_softmax(model(torch.tensor([sequence(task, "validation", i)[:-1]])), -1)
            for i in range(90)
        ]
        expected = measure(torch.cat(alone, 1)[0].numpy(), task.splits["validation"])
        loss = task.validation_loss(model, "cpu")
    # Sums over 20 letters, the widths and steps of the model, and the positions of a mean.
    rounding = {"terms": 10_000, "dtype": torch.float32}
    assert_near(loss, expected.metrics["loss"], **rounding)
    # Of tens of thousands of guesses some are between letters that are equal but for rounding.
    letters = len(task.splits["validation"].tokens)
    for name, value in expected.metrics.items():
        if "accuracy" in name:
            assert found.metrics[name] == pytest.approx(value, abs=5 / letters), name
        else:
            assert_near(found.metrics[name], value, name=name, **rounding)
    for name, values in expected.per_sequence.items():
        mine = np.array(found.per_sequence[name])
        if "accuracy" in name:
            assert (np.abs(mine - values) > 1e-5).sum() <= 5
        else:
            assert_near(mine, np.array(values), name=name, **rounding)


def test_counting_predictors_give_no_infinite_loss() -> None:
    baselines = RegBench(**SMALL).baselines()
    assert "loss" not in baselines["3-gram"]("test").metrics
    assert baselines["uniform"]("test").metrics["loss"] == pytest.approx(np.log(18))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"variant": "ood"}, "variant must be one of held_out, iid"),
        ({"protocol": "published"}, "protocol must be one of fair, as_released"),
        ({"test_size": 0}, "at least 1"),
        ({"data_seed": -1}, "at least 0"),
    ],
)
def test_unknown_settings_are_refused(setting: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RegBench(**setting)
