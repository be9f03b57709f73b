"""Layers of the linear models against their equations position by position, or over all pairs."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.recurrence.mixer import RecurrentMixer
from models.linear.delta_net import DeltaNet, DeltaRuleMixer
from models.linear.gla import GLA, GatedLinearAttention
from models.linear.linear_transformer import LinearAttention, LinearTransformer
from models.linear.mamba2 import Mamba2, Mamba2Mixer
from models.linear.retnet import Retention, RetNet
from models.linear.rwkv7 import RWKV7, RWKV7ChannelMixing, RWKV7TimeMixing
from models.specification import SequenceSpecification
from tests.closeness import assert_near

SPECIFICATION = SequenceSpecification(maximum_length=12, vocabulary=11)
LENGTH = 11
# The sums of a layer, forwards and backwards, and its quotients and exponentials.
LAYER: dict[str, Any] = {"terms": 1000, "condition": 1000.0}


def mixers(model: nn.Module) -> list[Any]:
    return [block.mixer for block in model.blocks]  # type: ignore[union-attr]


def drawn(model: nn.Module) -> nn.Module:
    """In float64 and eval mode, with parameters that are not small, so that all of them count."""
    torch.manual_seed(0)
    for parameter in model.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.eval()


def heads_of(x: Tensor, width: int) -> Tensor:
    return x.view(*x.shape[:-1], -1, width)


def convolved(x: Tensor, filters: Tensor) -> Tensor:
    """torch's own depthwise convolution of (batch, time, channels) by (taps, channels)."""
    taps, channels = filters.shape
    past = functional.pad(x.mT, (taps - 1, 0))
    return functional.conv1d(past, filters.T.unsqueeze(1), groups=channels).mT


def linear_attention(mixer: LinearAttention, x: Tensor) -> Tensor:
    """All pairs of positions at once."""
    q, k, v = (
        heads_of(p, mixer.head_width).transpose(1, 2) for p in mixer.projection(x).chunk(3, -1)
    )
    if mixer.feature_map == "elu":
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
    else:
        q = q / math.sqrt(mixer.head_width)
    weights = torch.einsum("bhik,bhjk->bhij", q, k).tril()
    if mixer.normaliser:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-6)
    return mixer.output_projection((weights @ v).transpose(1, 2).flatten(2))


def retention(mixer: Retention, x: Tensor) -> Tensor:
    """The parallel form of the paper, with complex numbers for the turns."""
    width, h = x.shape[-1], mixer.head_width
    q, k, v, gates = mixer.projection(x).split((width, width, 2 * width, 2 * width), -1)
    angles = 10_000.0 ** -torch.linspace(0, 1, h // 2, dtype=torch.float64)
    positions = torch.arange(x.shape[1], dtype=torch.float64)
    turns = torch.polar(torch.ones(1, dtype=torch.float64), positions[:, None] * angles)[:, None]
    q, k = (torch.view_as_complex(heads_of(p, h).unflatten(-1, (-1, 2))) * turns for p in (q, k))
    scores = torch.einsum("bihk,bjhk->bhij", q, k.conj()).real / math.sqrt(h)
    gamma = 1 - 2.0 ** (-5 - torch.arange(mixer.heads, dtype=torch.float64))
    distance = positions[:, None] - positions
    decay = torch.where(distance >= 0, gamma[:, None, None] ** distance.clamp(min=0), 0)
    found = torch.einsum("bhij,bjhv->bihv", scores * decay, heads_of(v, 2 * h))
    normed = found / (found.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    return mixer.output_projection(normed.flatten(2) * functional.silu(gates))


def gated_linear_attention(mixer: GatedLinearAttention, x: Tensor) -> Tensor:
    width, heads = x.shape[-1], mixer.heads
    q, k, v = mixer.projection(x).split((width // 2, width // 2, width), -1)
    alpha = torch.sigmoid(mixer.decay(x)) ** (1 / 16)
    q, k, alpha = (heads_of(p, width // 2 // heads) for p in (q, k, alpha))
    v = heads_of(v, width // heads)
    state, found = x.new_zeros(len(x), heads, k.shape[-1], v.shape[-1]), []
    for t in range(x.shape[1]):
        state = alpha[:, t, :, :, None] * state + k[:, t, :, :, None] * v[:, t, :, None]
        found.append(torch.einsum("bhk,bhkv->bhv", q[:, t] / math.sqrt(q.shape[-1]), state))
    read = torch.stack(found, 1)
    centred = read - read.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return mixer.output_projection(normed.flatten(2) * functional.silu(mixer.gate(x)))


def delta_rule(mixer: DeltaRuleMixer, x: Tensor) -> Tensor:
    assert mixer.neighbours.convolution is not None
    seen = functional.silu(convolved(mixer.projection(x), mixer.neighbours.convolution.filters))
    q, k, v = (p.unflatten(-1, (mixer.heads, -1)) for p in seen.split(mixer.parts, -1))
    q, k = (p / (p.square().sum(-1, keepdim=True) + 1e-6).sqrt() for p in (q, k))
    beta = mixer.largest_strength / (1 + torch.exp(-mixer.strength(x)))
    alpha = torch.ones_like(k)
    if mixer.decay is not None:
        steps = torch.log1p(torch.exp(mixer.decay(x) + mixer.step_bias))
        steps = steps.unflatten(-1, (mixer.heads, -1))
        alpha = torch.exp(-steps * mixer.log_rates.exp()[:, None]).expand_as(k)
    state, found = x.new_zeros(len(x), mixer.heads, k.shape[-1], v.shape[-1]), []
    for t in range(x.shape[1]):
        state = alpha[:, t, :, :, None] * state
        error = v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state)
        state = state + torch.einsum("bh,bhk,bhv->bhkv", beta[:, t], k[:, t], error)
        found.append(torch.einsum("bhk,bhkv->bhv", q[:, t] / math.sqrt(q.shape[-1]), state))
    read = torch.stack(found, 1)
    normed = read / (read.square().mean(-1, keepdim=True) + 1e-5).sqrt() * mixer.norm.weight
    gate = 1.0 if mixer.gate is None else functional.silu(mixer.gate(x))
    return mixer.output_projection(normed.flatten(2) * gate)


def state_space_dual(mixer: Mamba2Mixer, x: Tensor) -> Tensor:
    """All pairs of positions at once: a sum of decays between two of them, as in section 6."""
    gates, seen, steps = mixer.input_projection(x).split(mixer.parts, -1)
    seen = functional.silu(convolved(seen, mixer.convolution.filters) + mixer.convolution.bias)
    inputs, b, c = seen.split((mixer.channels, mixer.state, mixer.state), -1)
    inputs = heads_of(inputs, mixer.head_width)
    steps = torch.log1p(torch.exp(steps + mixer.step_bias))
    decayed = (-steps * torch.exp(mixer.log_rates)).cumsum(1)
    between = (decayed[:, :, None] - decayed[:, None]).exp() * steps[:, None]
    weights = torch.einsum("bin,bjn,bijh->bhij", c, b, between).tril()
    read = torch.einsum("bhij,bjhp->bihp", weights, inputs) + mixer.skip[:, None] * inputs
    gated = read.flatten(2) * functional.silu(gates)
    normed = gated / (gated.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return mixer.output_projection(normed * mixer.norm.weight)


def time_mixing(mixer: RWKV7TimeMixing, x: Tensor, first_values: Tensor | None = None) -> Tensor:
    before = torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)
    seen = {n: x * (1 - mu) + before * mu for n, mu in mixer.shares.items()}
    low = {n: list(maps.parameters()) for n, maps in mixer.low.items()}
    r, k, v = mixer.read_map(seen["r"]), mixer.key_map(seen["k"]), mixer.value_map(seen["v"])
    if first_values is not None:
        nu = torch.sigmoid(mixer.offsets["v"] + seen["v"] @ low["v"][0] @ low["v"][1])
        v = (1 - nu) * v + nu * first_values
    w = mixer.offsets["w"] + torch.tanh(seen["w"] @ low["w"][0]) @ low["w"][1]
    alpha = torch.exp(-torch.exp(-functional.softplus(-w) - 0.5))
    a = torch.sigmoid(mixer.offsets["a"] + seen["a"] @ low["a"][0] @ low["a"][1])
    gate = torch.sigmoid(seen["g"] @ low["g"][0]) @ low["g"][1]
    kappa, n = heads_of(k * mixer.removal_scale, mixer.head_width), mixer.head_width
    kappa = kappa / kappa.norm(dim=-1, keepdim=True)
    k = k * (1 + (a - 1) * mixer.rate_scale)
    r, k, v, alpha, a = (heads_of(p, n) for p in (r, k, v, alpha, a))
    state, found = x.new_zeros(len(x), r.shape[2], n, n), []
    for t in range(x.shape[1]):
        removed = torch.einsum("bhk,bhkv->bhv", kappa[:, t], state)
        state = (
            alpha[:, t, :, :, None] * state
            - (kappa * a)[:, t, :, :, None] * removed[:, :, None]
            + k[:, t, :, :, None] * v[:, t, :, None]
        )
        found.append(torch.einsum("bhk,bhkv->bhv", r[:, t], state))
    read = torch.stack(found, 1)
    centred = read - read.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + 64e-5).sqrt()
    y = normed.flatten(2) * mixer.norm.weight + mixer.norm.bias
    y = y + ((r * k * mixer.bonus).sum(-1, keepdim=True) * v).flatten(2)
    return mixer.output_projection(y * gate)


def channel_mixing(mixer: RWKV7ChannelMixing, x: Tensor) -> Tensor:
    before = torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)
    inner = mixer.expansion(x * (1 - mixer.shares) + before * mixer.shares)
    return mixer.output_projection(functional.relu(inner) ** 2)


def build(kind: type[nn.Module], **settings: Any) -> list[Any]:
    return mixers(drawn(kind(SPECIFICATION, width=16, dropout=0.0, **settings)))


GATED: dict[str, Any] = {"decay": "head", "output_gate": True}
CASES: dict[str, tuple[Callable[..., Tensor], type[nn.Module], dict[str, Any]]] = {
    "linear transformer": (linear_attention, LinearTransformer, {}),
    "linear transformer as released": (
        linear_attention,
        LinearTransformer,
        {"feature_map": "none", "normaliser": False},
    ),
    "retnet": (retention, RetNet, {}),
    "gla": (gated_linear_attention, GLA, {}),
    "delta net": (delta_rule, DeltaNet, {}),
    "negative eigenvalues": (delta_rule, DeltaNet, {"largest_strength": 2.0}),
    "gated delta net": (delta_rule, DeltaNet, {**GATED, "value_expansion": 1.5}),
    "kda": (delta_rule, DeltaNet, {**GATED, "decay": "channel"}),
    "rwkv7": (time_mixing, RWKV7, {"head_width": 8}),
    "mamba2": (state_space_dual, Mamba2, {"state": 8, "head_width": 8}),
}


def with_gradients(compute: Callable[[Tensor], Tensor], mixer: nn.Module) -> dict[str, Tensor]:
    """Outputs for a fixed input, and the gradients of it and of all parameters that count."""
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(2, LENGTH, 16, generator=generator, dtype=torch.float64)
    hidden.requires_grad_()
    outputs = compute(hidden)
    names, leaves = zip(*mixer.named_parameters(), strict=True)
    loss = (outputs * torch.arange(outputs.numel()).to(outputs).cos().view_as(outputs)).sum()
    found = torch.autograd.grad(loss, (hidden, *leaves), allow_unused=True)
    gradients = dict(zip(("hidden", *names), found, strict=True))
    return {"outputs": outputs} | {n: g for n, g in gradients.items() if g is not None}


@pytest.mark.parametrize("name", CASES)
def test_layers_equal_their_equations(name: str) -> None:
    equations, kind, settings = CASES[name]
    mixer: RecurrentMixer = build(kind, layers=1, **settings)[0]
    expected = with_gradients(lambda x: equations(mixer, x), mixer)
    assert_near(with_gradients(mixer, mixer), expected, name=name, **LAYER)


def test_later_layers_of_rwkv7_see_the_values_of_the_first() -> None:
    _, first_channels, mixer, _ = build(RWKV7, layers=2, head_width=8, channel_mixing=True)
    values = torch.randn(2, LENGTH, 16, dtype=torch.float64)
    expected = with_gradients(lambda x: time_mixing(mixer, x, values), mixer)
    found = with_gradients(lambda x: mixer.advance_with(x, None, values)[0], mixer)
    assert expected.keys() >= {"low.v.up", "offsets.v"}
    assert_near(found, expected, **LAYER)
    expected = with_gradients(lambda x: channel_mixing(first_channels, x), first_channels)
    assert_near(with_gradients(first_channels, first_channels), expected, **LAYER)


def test_rwkv7_hands_the_values_on() -> None:
    """The gradient of the second layer's outputs alone reaches the first layer's values."""
    model: Any = drawn(RWKV7(SPECIFICATION, width=16, head_width=8, dropout=0.0))
    tokens = torch.randint(0, 11, (2, LENGTH))
    hidden = model.input_output.embed(tokens)
    values = mixers(model)[0].advance_with(model.blocks[0].mixer_norm(hidden), None, None)[2]
    entering = model.finish(
        model.blocks[0], hidden, mixers(model)[0](model.blocks[0].mixer_norm(hidden))
    )
    mixed = time_mixing(mixers(model)[1], model.blocks[1].mixer_norm(entering), values)
    expected = model.norm(model.finish(model.blocks[1], entering, mixed))
    assert_near(model.hidden(tokens), expected, **LAYER)


# Sheet of sizes at width 128, two heads, a block's mixer: parameters, numbers of state.
SIZES: list[tuple[type[nn.Module], dict[str, Any], int, int]] = [
    (LinearTransformer, {}, 4 * 128**2 + 4 * 128, 128 * 64 + 128),
    (LinearTransformer, {"feature_map": "none", "normaliser": False}, 66_048, 8_192),
    (RetNet, {}, 131_072, 16_384),
    (GLA, {}, 68_800, 4_096),
    (Mamba2, {}, 117_388, 17_536),
    (DeltaNet, {}, 67_392, 9_344),
    (DeltaNet, {**GATED, "key_expansion": 0.75, "value_expansion": 1.5}, 100_452, 10_368),
    (RWKV7, {}, 108_288, 128 * 64 + 128),
    (RWKV7, {"channel_mixing": True}, 108_288 + 8 * 128**2 + 128, 8_448),
]


@pytest.mark.parametrize(("kind", "settings", "parameters", "state"), SIZES)
def test_sizes_are_those_of_the_released_modules(
    kind: type[nn.Module], settings: dict[str, Any], parameters: int, state: int
) -> None:
    model: Any = kind(SPECIFICATION, width=128, layers=1, **settings)
    assert sum(p.numel() for mixer in mixers(model) for p in mixer.parameters()) == parameters
    assert model.state_bytes(1) == model.state_bytes(10**6) == 4 * state


def test_dropout_on_scores_is_that_of_all_pairs() -> None:
    (mixer,) = build(
        LinearTransformer, layers=1, feature_map="none", normaliser=False, score_dropout=0.4
    )
    hidden = torch.randn(2, LENGTH, 16, dtype=torch.float64)
    q, k, v = (heads_of(p, 8).transpose(1, 2) for p in mixer.projection(hidden).chunk(3, -1))
    scores = (q @ k.mT / math.sqrt(8)).tril()
    torch.manual_seed(5)
    dropped = functional.dropout(scores, 0.4) @ v
    torch.manual_seed(5)
    found, state = mixer.train().prefill(hidden)
    expected = mixer.output_projection(dropped.transpose(1, 2).flatten(2))
    assert_near(found, expected, **LAYER)
    assert_near(state, mixer.eval().prefill(hidden)[1], **LAYER)


def test_initial_decays_are_those_of_the_papers() -> None:
    torch.manual_seed(0)
    gla = GatedLinearAttention(64, 2)
    logits = gla.decay(torch.zeros(1, 1, 64))
    half_life = math.log(0.5) / functional.logsigmoid(logits).mean().item() * 16
    assert half_life == pytest.approx(16, rel=0.2)
    slow = Retention(64, 8).log_decays(torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    assert (math.log(0.5) / slow).flatten()[:3].tolist() == pytest.approx(
        [21.8, 44, 88.4], rel=0.01
    )
    spread = Retention(64, 2, decays="spread").log_decays(torch.zeros(1, 1, 2, 8))
    assert spread.exp().flatten().tolist() == pytest.approx([1 - 2**-5, 1 - 2**-12])
    for mixer in (Mamba2Mixer(512), DeltaRuleMixer(128, 2, decay="head")):
        steps = functional.softplus(mixer.step_bias.detach())
        assert steps.min() >= 0.99e-3
        assert steps.max() <= 0.101
    alpha = torch.sigmoid(RWKV7(SPECIFICATION).blocks[0].mixer.offsets["w"].detach())  # type: ignore[union-attr,index]
    assert alpha.min() < 0.01  # some channels keep nearly all
    assert alpha.max() > 0.5


def test_a_learned_table_of_positions_ends() -> None:
    model = LinearTransformer(SPECIFICATION, width=16, positions="learned").eval()
    tokens = torch.randint(0, 11, (2, 12))
    assert model.context_limit == 12
    assert model.position_parameters() == 12 * 16
    _, state = model.prefill(tokens)
    with pytest.raises(ValueError, match="position 13 is past the table of 12 learned positions"):
        model.step(tokens[:, 0], state)
    assert LinearTransformer(SPECIFICATION, width=16).context_limit is None


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (LinearTransformer, {"feature_map": "relu"}, "feature_map='relu' is unknown; choose one"),
        (LinearTransformer, {"feature_map": "none"}, "weights have both signs"),
        (LinearTransformer, {"positions": "rope"}, "positions='rope' is unknown"),
        (LinearTransformer, {"convolution": 0}, "convolution=0 sees no position"),
        (RetNet, {"decays": "fast"}, "decays='fast' is unknown; choose one of official, spread"),
        (RetNet, {"heads": 16}, "has 1; make width a multiple of 2 heads"),
        (GLA, {"heads": 16}, "cannot be split in heads=32"),
        (DeltaNet, {"decay": "all"}, "decay='all' is unknown; choose one of none, head, channel"),
        (DeltaNet, {"largest_strength": 2.5}, "outside"),
        (DeltaNet, {"key_expansion": 0.3}, "channels cannot be split in heads=2"),
        (Mamba2, {"head_width": 12}, "cannot be split in heads of head_width=12"),
        (RWKV7, {"head_width": 5}, "cannot be split in heads of head_width=5"),
        (RWKV7, {"layers": 0}, "set layers to 1 or more"),
    ],
)
def test_what_cannot_be_is_refused(
    kind: type[nn.Module], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        kind(SPECIFICATION, **({"width": 16, "layers": 1} | settings))
