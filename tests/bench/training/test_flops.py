"""FLOPs against counts by hand: 2 for each multiply-add, three times the forward pass in all."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.runs.sizes import count_cost
from bench.training.building import build_task, build_to_train
from bench.training.flops import count_training_flops, typical_batch
from models.gpt2 import GPT2
from models.specification import SequenceSpecification
from tasks.interface import Batch
from tasks.text import losses
from tests.configurations import compose

BATCH, TIME, WIDTH = 2, 7, 5


class _Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 3, bias=False), nn.Linear(3, 4, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.second(self.first(inputs))


class _LSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH, bias=False)
        self.lstm = nn.LSTM(WIDTH, 6, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.lstm(self.mix(inputs))[0]


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, 16, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        heads = self.mix(inputs).unsqueeze(1)
        return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


class _Fourier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, inputs: Tensor) -> Tensor:
        spectrum = torch.fft.rfft((inputs * self.gain).transpose(1, 2), n=8)
        return torch.fft.irfft(spectrum, n=8)


POSITIONS = BATCH * TIME
TRANSFORM = 2.5 * 8 * 3 * BATCH * WIDTH  # of length 8 for each channel


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # The first map needs no gradient for its inputs: forward and weights only.
        (_Linear(), 2 * POSITIONS * (2 * WIDTH * 3 + 3 * 3 * 4)),
        (_LSTM(), 2 * POSITIONS * (2 * WIDTH**2 + 3 * 4 * 6 * (WIDTH + 6))),
        # Two products forward; backward has the scores again and four gradients.
        (_Attention(), 2 * POSITIONS * 2 * WIDTH * 16 + 7 * 2 * BATCH * TIME**2 * 16),
        # One each way; backward has two the other way round, one complex and so worth two.
        (_Fourier(), 5 * TRANSFORM),
    ],
)
def test_equal_to_a_count_by_hand(model: nn.Module, expected: int) -> None:
    inputs = torch.randn(BATCH, TIME, WIDTH)
    batch = Batch(inputs, inputs, POSITIONS)
    counted = count_training_flops(
        model, batch, lambda model, batch: model(batch.inputs).pow(2).mean()
    )
    assert counted == expected
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_loss_in_chunks_counts_as_the_loss_of_all_logits() -> None:
    specification = SequenceSpecification(64, vocabulary=losses.SMALL_VOCABULARY)
    model = GPT2(specification, width=16, layers=1, heads=1)
    tokens = torch.arange(2 * 65).view(2, 65)
    batch = Batch(tokens[:, :-1], tokens[:, 1:], tokens=128)
    whole = count_training_flops(
        model, batch, lambda m, b: F.cross_entropy(m(b.inputs).flatten(0, 1), b.targets.flatten())
    )
    chunks = count_training_flops(
        model, batch, lambda m, b: losses.training_loss(m, b.inputs, b.targets)
    )
    assert chunks == whole


@pytest.mark.parametrize("model", ["rwkv4", "gpt2"])
def test_a_typical_batch_is_padded_and_long_like_the_batches_of_a_training(model: str) -> None:
    """Models that leave padding out do work in proportion to the positions that are used, and
    attention in proportion to the length of a batch as well."""
    words = ["tasks=regbench", "preset=smoke", f"models={model}", "tasks.string_length=[1,40]"]
    words += ["models.layers=1", "tasks.training_automata=100"]
    configuration = compose(words)
    task, size = build_task(configuration), configuration.training.batch_size
    batches = [task.training_batch(0, step, size) for step in range(64)]
    used = sum(batch.tokens for batch in batches)
    share = used / sum(batch.inputs.numel() for batch in batches)
    typical = typical_batch(task, 0, size, 64)
    assert typical.tokens / typical.inputs.numel() == pytest.approx(share, rel=0.03)
    cost = count_cost(configuration, task, torch.device("cpu"))
    assert cost.training_flops is not None
    model = build_to_train(configuration, task, 0).train()
    some = batches[::8]
    flops = sum(count_training_flops(model, batch, task.training_loss) for batch in some)
    counted = flops / sum(batch.inputs.numel() for batch in some)
    assert cost.training_flops == pytest.approx(counted, rel=0.05)


def test_a_training_of_one_step_is_counted_on_the_batch_that_it_takes() -> None:
    """Else a control's FLOPs are those of one batch and its tokens those of another."""
    words = ["tasks=regbench", "preset=smoke", "models=rwkv4", "training.steps=1"]
    for seed in range(2):
        configuration = compose([*words, f"seed={seed}"])
        task = build_task(configuration)
        only = task.training_batch(seed, 0, configuration.training.batch_size)
        model = build_to_train(configuration, task, seed).train()
        flops = count_training_flops(model, only, task.training_loss)
        cost = count_cost(configuration, task, torch.device("cpu"))
        assert cost.training_flops == flops / only.inputs.numel()


def test_a_batch_without_padding_is_the_first() -> None:
    configuration = compose(["tasks=multi_query_recall", "preset=smoke", "models=gpt2"])
    task = build_task(configuration)
    typical = typical_batch(task, 3, 4, 100)
    assert torch.equal(typical.inputs, task.training_batch(3, 0, 4).inputs)
