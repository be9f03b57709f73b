"""Attention of the last position: averages against full maps, windows, and the numbers read."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from models.gpt2 import GPT2
from models.lstm import LSTM
from models.memory_mosaic import MemoryMosaic
from tasks.attention import AttentionOfStories
from tasks.attention.task import DIGITS, POSITIONS_AT_ONCE, first_position, unevenness
from tests.closeness import assert_near, rounding
from tests.conftest import PREPARED

LENGTH, EXTENSION, WINDOWS = 33, 3, 300  # more windows than fit into one batch
WIDTH, HEADS = 16, 4
POSITIONS = ("learned", "rope", "alibi")


def make_task(**changes: Any) -> AttentionOfStories:
    settings = {
        "stories_size": 200,
        "length": LENGTH,
        "held_out_tokens": 500,
        "estimate_windows": 4,
        "extension": EXTENSION,
        "windows": WINDOWS,
        "prepared": str(PREPARED),
    }
    return AttentionOfStories(**{**settings, **changes})


@pytest.fixture(scope="module")
def task() -> AttentionOfStories:
    return make_task()


def transformer(task: AttentionOfStories, positions: str) -> GPT2:
    torch.manual_seed(3)
    model = GPT2(
        task.specification(),
        width=WIDTH,
        layers=1,
        heads=HEADS,
        positions=positions,  # type: ignore[arg-type]
    ).eval()
    with torch.no_grad():  # as it starts, attention is nearly uniform
        model.blocks[0].attention.projection.weight *= 40  # type: ignore[operator, union-attr]
    return model


def mosaic(task: AttentionOfStories) -> MemoryMosaic:
    torch.manual_seed(3)
    return MemoryMosaic(task.specification(), width=WIDTH, layers=1, heads=HEADS).eval()


def of_heads(x: Tensor) -> Tensor:
    """(windows, time, width) -> (windows, heads, time, head width)"""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def map_of_transformer(model: GPT2, tokens: Tensor) -> Tensor:
    """Full maps of the only block, float64 (windows, heads, time, time), from the definitions."""
    block: Any = model.blocks[0]
    time = tokens.shape[1]
    hidden = model.input_output.embed(tokens)
    if model.position_table is not None:
        hidden = hidden + model.position_table.weight[:time]
    projected = block.attention_norm(hidden) @ block.attention.projection.weight.T
    queries, keys, _ = (of_heads(part) for part in projected.chunk(3, dim=-1))
    if model.positions == "rope":  # pairs of channels as complex numbers
        pairs = WIDTH // HEADS // 2
        speed = 10_000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
        angle = torch.arange(time, dtype=torch.float64)[:, None] * speed
        turn = torch.polar(torch.ones_like(angle), angle)
        queries, keys = (
            torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (pairs, 2))) * turn).flatten(
                -2
            )
            for x in (queries, keys)
        )
    scores = queries @ keys.mT / math.sqrt(WIDTH // HEADS)
    if model.positions == "alibi":
        distance = torch.arange(time)[:, None] - torch.arange(time)
        slopes = 2.0 ** (-8 * torch.arange(1, HEADS + 1, dtype=torch.float64) / HEADS)
        scores = scores - slopes[:, None, None] * distance
    future = torch.ones(time, time).triu(1).bool()
    return scores.masked_fill(future, -math.inf).softmax(-1)


def map_of_mosaic(model: MemoryMosaic, tokens: Tensor) -> Tensor:
    """As above; the row of the first position, whose memory is empty, is 0."""
    block: Any = model.blocks[0]
    memory = block.contextual
    hidden = block.contextual_norm(model.input_output.embed(tokens))
    projected = of_heads(hidden @ memory.projection.weight.chunk(2)[0].T)
    coefficient = torch.exp(-10 * memory.key_extractor.leak.abs())[:, None]
    averages, last = [], torch.zeros_like(projected[:, :, 0])
    for t in range(tokens.shape[1]):
        last = projected[:, :, t] + coefficient * last
        averages.append(last)
    keys = nn.functional.normalize(torch.stack(averages, dim=2), dim=-1)
    scale = torch.exp(2 * (10 * memory.bandwidth).clamp(max=5))[:, None, None]
    present = torch.ones(tokens.shape[1], tokens.shape[1]).triu(0).bool()
    return (scale * keys @ keys.mT).masked_fill(present, -math.inf).softmax(-1).nan_to_num(0)


def brute_force(
    task: AttentionOfStories, factor: int, of_windows: Callable[[Tensor], Tensor]
) -> NDArray[np.float64]:
    """Mean of the last rows of full maps, (1, heads, time), one window after the other."""
    tokens = np.asarray(task.stream("valid").tokens).astype(np.int64)
    length = LENGTH * factor
    places = len(tokens) - length
    total = torch.zeros(HEADS, length, dtype=torch.float64)
    for window in range(WINDOWS):
        start = window * places // WINDOWS
        one = torch.from_numpy(tokens[start : start + length])[None]
        total += of_windows(one)[0, :, -1]
    return (total / WINDOWS).numpy()[None]


@pytest.mark.parametrize("kind", [*POSITIONS, "mosaic"])
def test_averages_equal_full_maps(task: AttentionOfStories, kind: str) -> None:
    model: Any = (mosaic(task) if kind == "mosaic" else transformer(task, kind)).double()

    def full_map(tokens: Tensor) -> Tensor:
        return (
            map_of_mosaic(model, tokens) if kind == "mosaic" else map_of_transformer(model, tokens)
        )

    with torch.no_grad():
        found = task.evaluate(model, "test", "cpu")
        lengths = {"trained": 1} if kind == "learned" else {"trained": 1, "extended": EXTENSION}
        for name, factor in lengths.items():
            expected = brute_force(task, factor, full_map)
            half = 0.5 * 10.0**-DIGITS  # of the last decimal that is kept
            difference = np.abs(np.array(found.arrays[name]) - expected).max()
            assert difference <= half + rounding(1.0, torch.float64, terms=1000, condition=100)
            assert expected.std() > 0.1 / (LENGTH * factor)  # there is something to be equal to
            suffix = "_extended" if factor > 1 else ""
            first = expected[..., 0].mean() * LENGTH * factor
            assert found.metrics[f"first_position{suffix}"] == pytest.approx(first)
            mean = expected.mean(axis=(0, 1))
            curve = found.curves[f"{name}_attention"]
            assert_near(np.array(curve["y"]), mean, terms=1000, condition=100)
            assert curve["x"] == list(range(LENGTH * factor - 1, -1, -1))
    if kind == "mosaic":
        leak = model.blocks[0].contextual.key_extractor.leak
        expected_leak = torch.exp(-10 * leak.abs()).tolist()
        assert found.arrays["leaky_coefficients"] == [pytest.approx(expected_leak)]


def test_a_learned_table_is_measured_at_the_training_length_only(task: AttentionOfStories) -> None:
    with torch.no_grad():
        found = task.evaluate(transformer(task, "learned"), "test", "cpu")
    assert "trained" in found.arrays
    names = [*found.metrics, *found.arrays, *found.curves]
    assert not [name for name in names if "extended" in name]


def test_a_model_without_attention_gets_one_sentence(task: AttentionOfStories) -> None:
    model = LSTM(task.specification(), width=8, layers=1).eval()
    with torch.no_grad(), pytest.raises(ValueError, match=r"LSTM has no .*: choose ") as error:
        task.evaluate(model, "test", "cpu")
    assert "\n" not in str(error.value)


def test_a_file_too_short_for_the_longer_windows_gets_one_sentence() -> None:
    long = make_task(extension=1000)
    with pytest.raises(ValueError, match=r"too few for a window of 33000: give more text") as error:
        long.data_hashes()
    assert "\n" not in str(error.value)


def test_every_model_reads_the_same_hashed_windows(task: AttentionOfStories) -> None:
    read: dict[str, list[Tensor]] = {}
    for name, model in (("mosaic", mosaic(task)), ("rope", transformer(task, "rope"))):
        plain: Any = model.attention_of_last
        seen = read.setdefault(name, [])

        def reading(inputs: Tensor, plain: Any = plain, seen: list[Tensor] = seen) -> Tensor:
            seen.append(inputs)
            return plain(inputs)

        model.attention_of_last = reading  # type: ignore[method-assign]
        with torch.no_grad():
            task.evaluate(model, "test", "cpu")
    assert len(read["mosaic"]) > 2  # more than one batch at a length
    assert all(torch.equal(a, b) for a, b in zip(read["mosaic"], read["rope"], strict=True))
    hashes = task.data_hashes()
    other, fewer = make_task(extension=2).data_hashes(), make_task(windows=299).data_hashes()
    assert make_task().data_hashes() == hashes
    assert [key for key in hashes if other[key] != hashes[key]] == ["extended_windows"]
    assert [key for key in hashes if fewer[key] != hashes[key]] == ["windows", "extended_windows"]


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for part in made if isinstance(made, tuple | list) else (made,):
            if isinstance(part, Tensor):
                self.elements = max(self.elements, part.numel())
        return made


@pytest.mark.parametrize("kind", ["rope", "alibi", "mosaic"])
def test_no_map_of_time_by_time_is_made(kind: str) -> None:
    largest = {}
    for length in (256, 2048):
        sizes = {"stories_size": 400, "held_out_tokens": 5000, "windows": 40}
        long = make_task(length=length, extension=1, **sizes)
        model: Any = mosaic(long) if kind == "mosaic" else transformer(long, kind)
        plain, watch = model.attention_of_last, Largest()

        def watched(inputs: Tensor, plain: Any = plain, watch: Largest = watch) -> Tensor:
            with watch:
                return plain(inputs)

        model.attention_of_last = watched
        with torch.no_grad():
            long.evaluate(model, "test", "cpu")
        largest[length] = watch.elements
    assert largest[2048] <= 2 * largest[256]  # windows 8 times as long, 8 times fewer at once
    assert largest[2048] < 2048**2 / 4
    assert largest[2048] <= 4 * POSITIONS_AT_ONCE * WIDTH


def test_numbers_by_hand() -> None:
    # One layer, two heads, 8 positions: the newest one is no part of what is called flat.
    sink = [0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    peak = [0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.65]
    attention = np.array([[sink, peak]])
    assert first_position(attention) == pytest.approx((2.4 + 0.4) / 2)
    of_sink = 0.2 * math.sqrt(6) / 7 / (0.9 / 7)  # deviation of (3, 1, 1, 1, 1, 1, 1) / 10
    assert unevenness(attention[:, :1]) == pytest.approx(of_sink)
    assert unevenness(attention[:, 1:]) == pytest.approx(0, abs=1e-12)
    assert unevenness(attention) == pytest.approx(of_sink / 2)
    half = np.full((1, 1, 8), (0.2**2 * 6 / 49) / 2)  # half of the variance is noise
    assert unevenness(attention[:, :1], half) == pytest.approx(of_sink / math.sqrt(2))
    uniform = make_task().baselines()["uniform attention"]("test")
    assert uniform.metrics == pytest.approx({"first_position": 1, "unevenness": 0})


@pytest.mark.parametrize("tilt", [0.0, 0.5])
def test_the_noise_of_few_windows_is_no_unevenness(tilt: float) -> None:
    generator = np.random.default_rng(0)
    time, windows = 512, 50
    expected = 1 + tilt * np.linspace(-1, 1, time)
    weights = expected * generator.exponential(size=(windows, time)) / time
    mean = weights.mean(axis=0)[None, None]
    noise = weights.var(axis=0, ddof=1)[None, None] / windows
    truth = unevenness(expected[None, None] / time)
    assert unevenness(mean) > truth + 0.02
    assert unevenness(mean, noise) == pytest.approx(truth, abs=0.015 if tilt else 0.05)
