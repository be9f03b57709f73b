"""Attention with dropout against its plain form with the same masks, and the masks themselves."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from bench.training.flops import count_training_flops
from models.conv_attention import ConvAttention
from models.gpt2 import GPT2
from models.layers import attention
from models.layers.attention import attend
from models.layers.dropout import Dropout, kept
from models.memory_mosaic import MemoryMosaic
from models.specification import SequenceSpecification
from tests.closeness import assert_near

BATCH, HEADS, WIDTH = 2, 3, 4


def sample(time: int, positions: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(time)
    shapes = ((BATCH, HEADS, length, WIDTH) for length in (time, positions, positions))
    return [torch.randn(s, generator=generator, dtype=dtype, requires_grad=True) for s in shapes]


def seeded(*inputs: Tensor, causal: bool, dropout: float = 0.3, seed: int = 5) -> Tensor:
    torch.manual_seed(seed)
    return attend(*inputs, causal=causal, dropout=dropout)


def scaled_masks(queries: Tensor, keys: Tensor, causal: bool, **settings: float) -> Tensor:
    """What each weight was multiplied by, read off from values that are unit vectors."""
    ones = torch.eye(keys.shape[2], dtype=keys.dtype).expand(BATCH, HEADS, -1, -1)
    weights = plain(queries, keys, ones, causal, 1.0)
    read = seeded(queries, keys, ones, causal=causal, **settings)
    return torch.where(weights > 0, read / weights, torch.nan).detach()


def plain(queries: Tensor, keys: Tensor, values: Tensor, causal: bool, masks: float | Tensor):
    scores = queries @ keys.mT / math.sqrt(WIDTH)
    if causal:
        future = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
        masks = masks.masked_fill(future, 0.0) if isinstance(masks, Tensor) else masks
    return (scores.softmax(-1) * masks) @ values


@pytest.mark.parametrize("at_once", [1, 2**18], ids=["a head at a time", "all heads"])
@pytest.mark.parametrize("chunk", [1, 2, 7, 32, 64])
@pytest.mark.parametrize(
    ("time", "positions", "causal"), [(1, 1, True), (33, 33, True), (71, 71, True), (67, 13, False)]
)
def test_values_and_gradients_equal_the_plain_form(
    monkeypatch, time, positions, causal, chunk, at_once
):
    for name, value in {"CAUSAL_CHUNK": chunk, "CHUNK": chunk, "WEIGHTS_AT_ONCE": at_once}.items():
        monkeypatch.setattr(attention, name, value)
    inputs = sample(time, positions)
    masks = scaled_masks(*inputs[:2], causal)
    assert masks[~masks.isnan()].round(decimals=9).unique().numel() <= 2  # dropped, or scaled
    ours, true = seeded(*inputs, causal=causal), plain(*inputs, causal, masks)
    weight = torch.randn(true.shape, generator=torch.Generator().manual_seed(1)).double()
    pairs = [(ours, true)]
    pairs += zip(
        *(torch.autograd.grad((y * weight).sum(), inputs) for y in (ours, true)), strict=True
    )
    for mine, other in pairs:
        assert (mine - other).abs().max() < 1e-9


def test_kept_weights_are_scaled_by_one_over_their_share():
    queries, keys, _ = sample(200, 200)
    masks = scaled_masks(queries, keys, causal=True, dropout=0.05)
    allowed = torch.ones(200, 200, dtype=torch.bool).tril()
    assert masks[:, :, ~allowed].isnan().all()
    share = 1 - round(0.05 * 2**16) / 2**16
    found = masks[:, :, allowed]
    dropped = found == 0
    assert (found[~dropped] * share - 1).abs().max() < 1e-9
    # 120,600 masks; five standard deviations of their mean.
    spread = 5 * math.sqrt(0.05 * 0.95 / found.numel())
    assert abs(dropped.double().mean().item() - 0.05) < spread


def test_masks_are_independent_of_each_other():
    """Neighbours in time, positions, heads and sequences, and the four of one random number."""
    count, probability = 2**20, 0.3
    torch.manual_seed(0)
    masks = kept((count,), probability).double()
    share = 1 - round(probability * 2**16) / 2**16
    deviation = math.sqrt(share * (1 - share))
    assert abs(masks.mean().item() - share) < 5 * deviation / math.sqrt(count)
    standard = (masks - share) / deviation
    for distance in (1, 2, 3, 4, 5, 8, 64, 4096, 2**18):
        pairs = standard[distance:] * standard[:-distance]
        assert abs(pairs.mean().item()) < 5 / math.sqrt(len(pairs)), distance
    # A third moment is seen by pairs of no distance: masks drawn by xor of two words would fail.
    triples = standard[2:] * standard[1:-1] * standard[:-2]
    skew = 5 * math.sqrt(triples.square().mean().item() / len(triples))
    assert abs(triples.mean().item()) < skew
    after = kept((count,), probability).double()
    assert abs(((after - share) / deviation * standard).mean().item()) < 5 / math.sqrt(count)
    torch.manual_seed(0)
    assert torch.equal(kept((count,), probability).double(), masks)


@pytest.mark.parametrize("probability", [0.0, 1e-9, 2**-16, 0.05, 0.5, 0.999_999])
def test_share_kept_and_scale_agree_for_every_probability(probability):
    layer = Dropout(probability).train()
    torch.manual_seed(0)
    x = torch.ones(2**18, dtype=torch.float64)
    y = layer(x)
    share = min(1.0, 1 - round(probability * 2**16) / 2**16) or 2**-16
    scales = y[y != 0].unique()
    assert_near(scales, torch.full_like(scales, 1 / share))
    spread = 5 * math.sqrt((1 - share) / share / len(x))
    assert abs(y.mean().item() - 1) <= spread
    assert layer.eval()(x) is x


def test_a_probability_of_one_is_refused():
    with pytest.raises(ValueError, match="below 1; lower it"):
        Dropout(1.0).train()(torch.ones(3))


@pytest.mark.parametrize("causal", [True, False])
def test_stacked_inputs_have_the_gradients_of_single_ones(causal):
    stack = [
        torch.stack(tensors) for tensors in zip(*(sample(n, 9) for n in (9,) * 3), strict=True)
    ]
    stack = [(x + torch.arange(3)[:, None, None, None, None]).detach().sin() for x in stack]

    def loss(*inputs: Tensor) -> Tensor:
        return attend(*inputs, causal=causal, dropout=0.4).square().sum()

    gradients = grad(loss, argnums=(0, 1, 2))
    torch.manual_seed(3)
    stacked = vmap(gradients, randomness="same")(*stack)
    for index in range(3):
        torch.manual_seed(3)
        for mine, true in zip(stacked, gradients(*(x[index] for x in stack)), strict=True):
            assert (mine[index] - true).abs().max() < 5e-9
    twice = [x[:1].expand_as(x) for x in stack]
    first, second, _ = vmap(gradients, randomness="different")(*twice)[2]
    assert (first - second).abs().max() > 1e-3  # masks of their own
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(gradients)(*stack)


@pytest.mark.bitwise
def test_compiles_without_a_break_in_the_graph():
    inputs = sample(20, 20)

    def read(*inputs: Tensor) -> Tensor:
        return attend(*inputs, causal=True, dropout=0.3)

    compiled = torch.compile(read, backend="aot_eager", fullgraph=True)
    torch.manual_seed(2)
    ours = compiled(*inputs)
    torch.manual_seed(2)
    true = read(*inputs)
    pairs = zip(*(torch.autograd.grad(y.sum(), inputs) for y in (ours, true)), strict=True)
    assert torch.equal(ours, true)
    assert all(torch.equal(mine, other) for mine, other in pairs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.bitwise
def test_half_precision_is_computed_in_single_precision(dtype):
    inputs = [x.to(dtype) for x in sample(30, 30)]
    ours = seeded(*inputs, causal=True)
    assert torch.equal(ours, seeded(*(x.float() for x in inputs), causal=True).to(dtype))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(seeded(*inputs, causal=True), ours)


@pytest.mark.parametrize("kind", [GPT2, MemoryMosaic, ConvAttention])
@pytest.mark.bitwise
def test_dropout_changes_no_flops_and_follows_the_seed_of_a_step(kind):
    specification = SequenceSpecification(64, vocabulary=11)
    tokens = torch.randint(11, (2, 40), generator=torch.Generator().manual_seed(0))
    found = {}
    for probability in (0.0, 0.2):
        torch.manual_seed(0)
        model = kind(specification, width=16, layers=1, heads=2, dropout=probability).train()
        found[probability] = count_training_flops(
            model, tokens, lambda model, tokens: model(tokens).sum()
        )
    assert found[0.0] == found[0.2]
    seen = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        seen.append(model(tokens))
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


@pytest.mark.bitwise
def test_without_dropout_it_is_pytorchs_function_to_the_bit():
    inputs = sample(70, 70, torch.float32)
    true = nn.functional.scaled_dot_product_attention(*inputs, is_causal=True)
    assert torch.equal(attend(*inputs, causal=True), true)
