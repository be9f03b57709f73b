"""Sliding-window attention against an explicit mask, and hybrids of each mixer that it takes."""

import math
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from models.gpt2 import GPT2
from models.layers.residual import Mixer
from models.layers.window_attention import attend_to_window
from models.mamba import MambaMixer
from models.rwkv4 import TimeMixing
from models.specification import SequenceSpecification
from models.window_hybrid import MIXERS, MixerName, WindowAttention, WindowHybrid
from tests.closeness import assert_near
from tests.models.built import constructor, hyperparameters, in_steps
from tests.models.derivatives import assert_derivatives_near, disturbed, leaves_of, with_gradients

TOKENS = SequenceSpecification(maximum_length=64, vocabulary=11)
SUMS = {"terms": 37 * 8, "condition": 100.0}


def naive_window(q: Tensor, k: Tensor, v: Tensor, window: int, scale: float) -> Tensor:
    rows = []
    for t in range(q.shape[2]):
        seen = slice(max(t - window + 1, 0), t + 1)
        scores = scale * (k[:, :, seen] @ q[:, :, t].unsqueeze(-1)).squeeze(-1)
        rows.append((scores.softmax(-1).unsqueeze(-1) * v[:, :, seen]).sum(2))
    return torch.stack(rows, 2)


@pytest.mark.parametrize(
    ("length", "window"), [(1, 1), (2, 1), (37, 1), (37, 5), (36, 6), (37, 36), (37, 37), (9, 50)]
)
def test_blocks_equal_the_plain_window(length: int, window: int) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, length, 4, dtype=torch.float64).requires_grad_() for _ in "qkv")
    leaves = {"q": q, "k": k, "v": v}
    expected = with_gradients(lambda: naive_window(q, k, v, window, 0.7), leaves)
    found = with_gradients(lambda: attend_to_window(q, k, v, window, scale=0.7), leaves)
    assert_derivatives_near(found, expected, leaves, **SUMS)


def turned(x: Tensor) -> Tensor:
    """(..., time, 2i) as complex numbers turned by t · 10000^(−2i/h)."""
    size, time = x.shape[-1], x.shape[-2]
    angles = torch.tensor(
        [[t * 10_000.0 ** (-2 * i / size) for i in range(size // 2)] for t in range(time)],
        dtype=torch.float64,
    )
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def test_the_mixer_equals_its_definition() -> None:
    torch.manual_seed(0)
    mixer = disturbed(WindowAttention(8, heads=2, window=6))
    hidden = torch.randn(2, 23, 8, dtype=torch.float64, requires_grad=True)
    leaves = leaves_of(mixer, hidden=hidden)

    def naive() -> Tensor:
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(1, 2)
            for part in (hidden @ leaves["projection.weight"].T).chunk(3, -1)
        )
        read = naive_window(turned(q), turned(k), v, 6, 1 / math.sqrt(4))
        return read.transpose(1, 2).flatten(2) @ leaves["output_projection.weight"].T

    found = with_gradients(lambda: mixer(hidden), leaves)
    assert_derivatives_near(found, with_gradients(naive, leaves), leaves, **SUMS)


def test_a_window_of_everything_is_the_attention_of_gpt2() -> None:
    torch.manual_seed(0)
    gpt2 = GPT2(TOKENS, width=8, layers=1, heads=2, positions="rope").double().eval()
    theirs = gpt2.blocks[0].attention
    mixer = WindowAttention(8, heads=2, window=40).double()
    mixer.projection.weight.data = theirs.projection.weight.data
    mixer.output_projection.weight.data = theirs.output.weight.data
    hidden = torch.randn(1, 37, 8, dtype=torch.float64)
    _, position = gpt2._encode(hidden, 0)
    assert_near(mixer(hidden), theirs(hidden, position)[0], **SUMS)


def test_steps_far_beyond_the_window_equal_the_parallel_form() -> None:
    """Keys are kept unturned, so the angles of a step do not grow."""
    torch.manual_seed(0)
    mixer = disturbed(WindowAttention(8, heads=2, window=5))
    hidden = torch.randn(2, 41, 8, dtype=torch.float64)
    outputs, state = in_steps(mixer.step, hidden)
    assert_near(outputs, mixer(hidden), **SUMS)
    assert state.keys.shape == (2, 2, 5, 4)


def types(model: nn.Module) -> list[type]:
    return [type(block.mixer) for block in model.blocks]


@pytest.mark.parametrize("mixer", MIXERS)
def test_any_mixer_alternates_with_windows(mixer: Any) -> None:
    torch.manual_seed(0)
    made = WindowHybrid(TOKENS, width=16, layers=4, mixer=mixer)
    kind = types(made)[0]
    assert issubclass(kind, Mixer)
    assert types(made) == [kind, WindowAttention] * 2
    made = made.double().eval()
    tokens = torch.randint(0, 11, (2, 40))
    outputs, _ = in_steps(made.step, tokens)
    assert_near(outputs, made(tokens), terms=1000, condition=1000.0)


def test_names_of_mixers_are_those_of_the_type() -> None:
    assert set(MIXERS) == set(get_args(MixerName))


# But for Mamba-2, whose heads are as wide as the hybrid's.
@pytest.mark.parametrize("name", sorted(set(MIXERS) - {"mamba2"}))
def test_a_mixer_has_the_parameters_of_the_model_of_its_name(name: Any) -> None:
    own = constructor(name)(TOKENS, **hyperparameters(name) | {"width": 16, "layers": 2})
    made = WindowHybrid(TOKENS, width=16, layers=2, mixer=name)
    expected, found = (
        {key: value.shape for key, value in model.blocks[0].mixer.state_dict().items()}
        for model in (own, made)
    )
    assert found == expected


def test_layers_know_their_place() -> None:
    made = WindowHybrid(TOKENS, width=16, layers=3, window_every=3, mixer="rwkv4")
    assert types(made) == [TimeMixing, TimeMixing, WindowAttention]
    later = TimeMixing(16, layer=1, layers=3)
    assert_near(made.blocks[1].mixer.time_decay, later.time_decay)
    alone = WindowHybrid(TOKENS, width=16, layers=2, window_every=1)
    assert types(alone) == [WindowAttention] * 2


def test_sizes_are_those_of_the_protocol() -> None:
    mixer = WindowAttention(128, heads=2, window=64)
    assert sum(p.numel() for p in mixer.parameters()) == 65_536
    assert mixer.state_size == 16_384
    mamba = MambaMixer(128).state_size
    made = WindowHybrid(TOKENS, layers=4, window=64)
    assert made.state_bytes(1000) == 4 * 2 * (mamba + 16_384)
    assert made.state_bytes(3) == 4 * 2 * (mamba + 2 * 3 * 128)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"mixer": "os.system"}, "choose one of mamba, mamba2"),
        ({"window": 0}, "at least its own position"),
        ({"window_every": 0}, "set it to 1"),
        ({"heads": 3}, "make width a multiple of heads"),
        ({"width": 6, "heads": 2}, "a multiple of 2 heads"),
    ],
)
def test_wrong_hyperparameters_are_refused(wrong: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        WindowHybrid(TOKENS, **wrong)
