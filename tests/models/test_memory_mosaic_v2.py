"""Memory Mosaic v2 against loops over positions and pairs, its sizes, and its switches."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from models.layers.delayed_memory import (
    Bandwidth,
    Choices,
    DelayedMemory,
    GatedKeys,
    LongTermMemory,
    ShortTermMemory,
)
from models.layers.scaled_sums import ScaledSum, scaled_sums
from models.memory_mosaic_v2 import MemoryMosaicV2
from models.specification import SequenceSpecification
from tests.closeness import assert_near
from tests.models.built import in_steps
from tests.models.derivatives import assert_derivatives_near, disturbed, leaves_of, with_gradients

TOKENS = SequenceSpecification(maximum_length=64, vocabulary=11)
SUMS = {"terms": 37 * 37 * 8, "condition": 1000.0}
WIDTH, HEADS = 6, 2


def length_one(x: Tensor) -> Tensor:
    return x / x.square().sum(-1, keepdim=True).sqrt()


def keys_of(p: dict[str, Tensor], gated: bool) -> Tensor:
    """Unit keys (batch, time, heads, size), one position after the other."""
    hidden = p["hidden"]
    projected = (hidden @ p["projection.weight"][:WIDTH].T).unflatten(-1, (HEADS, -1))
    average, rows = torch.zeros_like(projected[:, 0]), []
    for t in range(hidden.shape[1]):
        if gated:
            gate = (hidden[:, t] @ p["key_extractor.gate.weight"].T).exp()
            kept = (-(hidden[:, t] @ p["key_extractor.forgetting.weight"].T).abs()).exp()
        else:
            gate = torch.ones(len(hidden), HEADS)
            kept = (-10 * p["key_extractor.leak"].abs()).exp().expand(len(hidden), HEADS)
        average = gate[..., None] * projected[:, t] + kept[..., None] * average
        rows.append(length_one(average))
    return torch.stack(rows, 1)


def naive(p: dict[str, Tensor], gated: bool, adaptive: bool, visible: Any) -> Tensor:
    """``visible(t)``: the pairs that position t may see, as a range."""
    keys = keys_of(p, gated)
    w = (p["hidden"] @ p["projection.weight"][WIDTH:].T).unflatten(-1, (HEADS, -1))
    mixing = p["value_mixing"][:, None]
    values = [
        length_one(mixing * w[:, s] + (1 - mixing) * w[:, s + 1]) for s in range(w.shape[1] - 1)
    ]
    rows = []
    for t in range(w.shape[1]):
        pairs = list(visible(t))
        if not pairs:
            rows.append(torch.zeros_like(w[:, 0]))
            continue
        if adaptive:
            power = len(pairs) ** p["bandwidth.exponent"].abs().clamp(max=1)
            sharpness = p["bandwidth.log_slope"].exp() * power + p["bandwidth.log_offset"].exp()
        else:
            sharpness = (20 * p["bandwidth.bandwidth"]).exp()
        scores = torch.stack([sharpness * (keys[:, t] * keys[:, s]).sum(-1) for s in pairs], -1)
        weights = scores.softmax(-1)
        read = sum(weights[..., i, None] * values[s] for i, s in enumerate(pairs))
        rows.append(p["value_scale"].abs().exp()[:, None] * read)
    return torch.stack(rows, 1).transpose(1, 2)


def memory_of(kind: str, window: int | None, **switches: bool) -> DelayedMemory:
    torch.manual_seed(0)
    given = {"adaptive_bandwidth": True, "gated_keys": True, **switches}
    choices = Choices(WIDTH, HEADS, dropout=0.0, **given)
    made = LongTermMemory(choices) if kind == "long" else ShortTermMemory(choices, window)
    made = disturbed(made, 0.1)
    assert isinstance(made, DelayedMemory)
    return made


CASES: list[tuple[str, int | None, int, dict[str, bool]]] = [
    ("long", None, 1, {}),
    ("long", None, 5, {"gated_keys": False}),
    ("long", None, 16, {"adaptive_bandwidth": False}),
    ("long", None, 36, {}),
    ("long", None, 40, {}),
    ("short", 5, 1, {}),
    ("short", 36, 1, {"adaptive_bandwidth": False}),
    ("short", None, 1, {"gated_keys": False}),
]


@pytest.mark.parametrize(("kind", "window", "delay", "switches"), CASES)
@pytest.mark.parametrize("length", [1, 2, 37])
def test_memories_equal_their_equations(
    kind: str, window: int | None, delay: int, switches: dict[str, bool], length: int
) -> None:
    """Values, gradients, and steps one after the other."""
    made = memory_of(kind, window, **switches)
    hidden = torch.randn(1, length, WIDTH, dtype=torch.float64, requires_grad=True)
    leaves = leaves_of(made, hidden=hidden)

    def visible(t: int) -> range:
        return range(t - delay + 1) if kind == "long" else range(max(t - (window or t), 0), t)

    def plain() -> Tensor:
        return naive(
            leaves,
            switches.get("gated_keys", True),
            switches.get("adaptive_bandwidth", True),
            visible,
        )

    def steps() -> Tensor:
        state, rows = None, []
        for position in hidden.unbind(1):
            row, state = made.step(position, state, delay)
            rows.append(row)
        return torch.cat(rows, 2)

    if not visible(length - 1):
        assert not made(hidden, delay)[0].any()
        assert not steps().any()
        return
    expected = with_gradients(plain, leaves)
    at_once = with_gradients(lambda: made(hidden, delay)[0], leaves)
    assert_derivatives_near(at_once, expected, leaves, **SUMS)
    assert_derivatives_near(with_gradients(steps, leaves), expected, leaves, **SUMS)


@pytest.mark.parametrize("piece", [1, 13, 37])
def test_scaled_sums_equal_the_recurrence(piece: int) -> None:
    """Decays of both signs and to e^−30, cut anywhere: values and gradients."""
    torch.manual_seed(0)
    x = torch.randn(2, 37, 3, 4, dtype=torch.float64, requires_grad=True)
    exponents = torch.randn(2, 37, 3, 1, dtype=torch.float64, requires_grad=True)
    strong = 30 * torch.rand(2, 37, 3, 1, dtype=torch.float64).pow(4)
    decays = (0.1 - strong).requires_grad_()
    leaves = {"x": x, "exponents": exponents, "decays": decays}

    def cut() -> Tensor:
        state, rows = None, []
        for start in range(0, 37, piece):
            part = slice(start, start + piece)
            sums = scaled_sums(x[:, part], exponents[:, part], decays[:, part], state)
            state = ScaledSum(sums.scale[:, -1], sums.total[:, -1])
            rows.append(sums.scale.exp() * sums.total)
        return torch.cat(rows, 1)

    def loop() -> Tensor:
        total, rows = torch.zeros_like(x[:, 0]), []
        for t in range(37):
            total = decays[:, t].exp() * total + exponents[:, t].exp() * x[:, t]
            rows.append(total)
        return torch.stack(rows, 1)

    expected = with_gradients(loop, leaves)
    assert_derivatives_near(with_gradients(cut, leaves), expected, leaves, **SUMS)


def test_gates_beyond_any_float_and_long_sequences_give_keys() -> None:
    torch.manual_seed(0)
    extractor = GatedKeys(4, 2)
    hidden = 300 * torch.randn(1, 8192, 4)
    projected = torch.randn(1, 2, 8192, 3)
    averages, _ = extractor(hidden, projected)
    keys = torch.nn.functional.normalize(averages, dim=-1)
    keys.square().sum().backward()
    assert_near(keys.norm(dim=-1), torch.ones(1, 2, 8192), terms=10)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in extractor.parameters())


def test_bandwidth_is_capped_and_starts_as_published() -> None:
    made = Bandwidth(1, adaptive=True).double()
    first = math.exp(1.5)
    n = torch.tensor([1, 8, 1000])
    expected = [first * 2, first * 3, first * 11]  # n^(1/3)
    assert_near(made(n).flatten().tolist(), expected, terms=50, dtype=torch.float32)
    made.log_slope.data.fill_(50.0)
    made.exponent.data.fill_(-7.0)
    assert made(n)[0, 1].item() == pytest.approx(math.exp(10) * 8 + first)
    constant = Bandwidth(1, adaptive=False)
    assert_near(constant(n).flatten().tolist(), [math.exp(2)] * 3, terms=9, dtype=torch.float32)


def test_sizes_are_those_of_the_protocol() -> None:
    model = MemoryMosaicV2(TOKENS, width=128, layers=1, heads=2, window=32)
    block = model.blocks[0]
    maps = [p for n, p in block.named_parameters() if "persistent" not in n and p.dim() == 2]
    assert sum(p.numel() for p in maps) == 99_328
    scalars = [p for n, p in block.contextual.named_parameters() if p.dim() == 1]
    assert sum(p.numel() for p in scalars) == 2 * 5 * 2
    assert block.persistent.output.weight.shape == (128, 253)  # 2 d − 4/3 H
    whole = 12 * 128**2
    matrices = sum(p.numel() for p in block.parameters() if p.dim() == 2)
    assert abs(matrices - whole) < 3 * 128
    assert model.state_bytes(1000) == 4 * 128 * (2 * 1000 + 2 * 32 + 4)


def test_matrices_start_smaller_in_later_blocks() -> None:
    torch.manual_seed(0)
    model = MemoryMosaicV2(TOKENS, width=128, layers=3, persistent_width=200)
    for layer, block in enumerate(model.blocks):
        for name, parameter in block.named_parameters():
            if parameter.dim() != 2:
                continue
            fan_in = 200 if name == "persistent.output.weight" else 128
            deviation = 1 / math.sqrt(2 * fan_in * (layer + 1))
            assert parameter.abs().max() <= 3 * deviation
            assert parameter.std().item() == pytest.approx(0.987 * deviation, rel=0.1)


@pytest.mark.bitwise
def test_a_delay_is_drawn_for_each_pass_of_training_alone() -> None:
    """Outputs of training without dropout are those of one of the delays, the same for a seed."""
    made = MemoryMosaicV2(TOKENS, width=16, heads=2, delay=2, longest_delay=4, dropout=0.0)
    tokens = torch.randint(0, 11, (1, 20))
    by_delay = []
    for delay in (2, 3, 4):
        made.delay = delay
        by_delay.append(made.eval()(tokens))
    made.delay = 2
    drawn = []
    for seed in range(12):
        torch.manual_seed(seed)
        drawn.append(made.train()(tokens))
        torch.manual_seed(seed)
        assert torch.equal(made(tokens), drawn[-1])
    places = [[torch.equal(one, other) for other in by_delay].index(True) for one in drawn]
    assert set(places) == {0, 1, 2}
    assert torch.equal(made.eval()(tokens), by_delay[0])


def test_every_part_has_its_switch() -> None:
    """All 24 combinations are models whose steps equal their parallel form; parts that are off
    have no parameters."""
    tokens = torch.randint(0, 11, (1, 8), generator=torch.Generator().manual_seed(0))
    sizes = set()
    switches = itertools.product((False, True), (False, True), ((0, 1), (1, 0), (1, 1)),
                                 ("none", "gated"))  # fmt: skip
    for adaptive, gated, (long, short), persistent in switches:
        torch.manual_seed(0)
        made = MemoryMosaicV2(
            TOKENS, width=8, heads=2, layers=1, adaptive_bandwidth=adaptive, gated_keys=gated,
            long_term=bool(long), short_term=bool(short), persistent=persistent,  # type: ignore[arg-type]
            window=4, delay=3,
        ).double().eval()  # fmt: skip
        sizes.add(sum(p.numel() for p in made.parameters()))
        assert_near(in_steps(made.step, tokens)[0], made(tokens), **SUMS)
    assert len(sizes) == 16  # the two memories alone are of one size


def test_without_contextual_memories_positions_do_not_meet() -> None:
    torch.manual_seed(0)
    made = MemoryMosaicV2(TOKENS, width=8, heads=2, long_term=False, short_term=False).eval()
    tokens = torch.randint(0, 11, (1, 9))
    assert_near(made(tokens)[:, 5], made(tokens[:, 5:6])[:, 0], terms=100)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"long_term": False, "short_term": False, "persistent": "none"}, "no memory is left"),
        ({"delay": 0}, "1 <= delay <= longest_delay"),
        ({"delay": 9, "longest_delay": 8}, "1 <= delay <= longest_delay"),
        ({"window": 0}, "window=0 must be at least 1"),
        ({"persistent": "swiglu"}, "choose one of gated, slots, none"),
        ({"heads": 3}, "make width a multiple of heads"),
        ({"layers": 0}, "layers=0 must be at least 1"),
    ],
)
def test_wrong_hyperparameters_are_refused(wrong: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        MemoryMosaicV2(TOKENS, **wrong)
