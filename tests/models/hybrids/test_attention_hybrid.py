"""Hybrids of a mixer and full attention: which layer is what; attention against its equation."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from models.hybrids.attention_hybrid import MIXERS, AttentionHybrid, FullAttention
from models.linear.delta_net import DeltaRuleMixer
from models.specification import SequenceSpecification
from tests.closeness import assert_near
from tests.models.built import NETWORK, in_steps
from tests.models.derivatives import disturbed
from tests.models.linear.naive import assert_layer_equals

SPECIFICATION = SequenceSpecification(maximum_length=64, vocabulary=11)


def kinds(**settings: Any) -> str:
    model = AttentionHybrid(SPECIFICATION, width=16, **settings)
    return "".join(
        "a" if isinstance(b.mixer, FullAttention) else "m" for b in model._typed_blocks()
    )


def test_attention_is_the_last_layer_of_every_few() -> None:
    assert kinds() == "mmma"
    assert kinds(layers=8) == "mmmammma"
    assert kinds(layers=6) == "mammma"
    assert kinds(layers=3, attention_every=1) == "aaa"
    assert kinds(layers=3, attention_every=2) == "ama"
    first = AttentionHybrid(SPECIFICATION, width=16)._typed_blocks()[0].mixer
    assert isinstance(first, DeltaRuleMixer)
    assert first.decays_by == "channel"


def attention(mixer: Any, x: Tensor) -> Tensor:
    """Over all pairs; positions as turns of complex numbers."""
    q, k, v = (
        (x @ part.T).unflatten(-1, (mixer.heads, -1)) for part in mixer.projection.weight.chunk(3)
    )
    if mixer.positions == "rope":
        pairs = torch.arange(mixer.head_width // 2, dtype=torch.float64)
        angles = torch.arange(x.shape[1])[:, None] * 10_000 ** (-2 * pairs / mixer.head_width)
        turns = torch.polar(torch.ones_like(angles), angles)[:, None]
        q, k = (
            torch.view_as_real(torch.view_as_complex(p.unflatten(-1, (-1, 2))) * turns).flatten(-2)
            for p in (q, k)
        )
    scores = torch.einsum("bihk,bjhk->bhij", q, k) / math.sqrt(mixer.head_width)
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(later, -math.inf), -1)
    return torch.einsum("bhij,bjhk->bihk", weights, v).flatten(2) @ mixer.output_projection.weight.T


@pytest.mark.parametrize("positions", ["none", "rope"])
def test_attention_equals_its_equation(positions: Any) -> None:
    mixer = disturbed(FullAttention(16, 2, positions=positions))
    assert_layer_equals(mixer, attention)


@pytest.mark.parametrize("mixer", sorted(MIXERS))
def test_every_mixer_trains_and_generates(mixer: str) -> None:
    torch.manual_seed(0)
    model = AttentionHybrid(SPECIFICATION, width=32, layers=2, mixer=mixer, positions="rope")
    tokens = torch.randint(0, 11, (2, 9))
    model(tokens).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model = disturbed(model, 0.05).eval()  # type: ignore[assignment]
    outputs, _ = in_steps(model.step, tokens)
    with torch.no_grad():
        _, filled = model.prefill(tokens[:, :8])
        assert_near(outputs, model(tokens), name=mixer, **NETWORK)
        assert_near(model.step(tokens[:, 8], filled)[0], outputs[:, 8], name=mixer, **NETWORK)
    assert model.state_bytes(64) > model.state_bytes(9)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mixer": "rwkv7"}, "mixer='rwkv7' is unknown; choose one of mamba, mamba2"),
        ({"positions": "learned"}, "positions='learned' is unknown; choose one of none, rope"),
        ({"attention_every": 0}, "attention_every=0 is no distance"),
        ({"positions": "rope", "heads": 16}, "has 1; make width a multiple of 2 heads"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        AttentionHybrid(SPECIFICATION, width=16, **settings)
