"""GPT2 against transformers, the formulas of RoPE and ALiBi, and its published sizes."""

import math

import pytest
import torch
from torch import Tensor

from models.gpt2 import GPT2, alibi_slopes
from models.layers.rotary import rotate
from models.specification import SequenceSpecification
from tests.closeness import assert_near, rounding

TOKENS = SequenceSpecification(maximum_length=40, vocabulary=23)
CHANNELS = SequenceSpecification(maximum_length=40, input_channels=6, output_channels=5)
POSITIONS = ("learned", "rope", "alibi", "none")
# Sums between inputs and outputs, forwards and backwards, in two or three blocks: widths, MLPs of
# four times the width, positions and the batch; the norms and the softmax stretch errors.
NETWORK = {"terms": 1000, "condition": 100.0}


def build(specification=TOKENS, *, dtype=torch.float64, seed=0, **changes) -> GPT2:
    """A small model with weights large enough that attention is far from uniform."""
    torch.manual_seed(seed)
    options = {"width": 24, "layers": 2, "heads": 3, "dropout": 0.0} | changes
    model = GPT2(specification, **options).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter) + (parameter.dim() == 1))
    return model


def sample(specification=TOKENS, time=31, seed=1, dtype=torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if specification.vocabulary is None:
        return torch.randn((2, time, 6), generator=generator, dtype=dtype)
    return torch.randint(specification.vocabulary, (2, time), generator=generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_transformers_with_the_same_weights(dtype):
    transformers = pytest.importorskip("transformers")
    model = build(dtype=dtype).eval()
    configuration = transformers.GPT2Config(
        vocab_size=23, n_positions=40, n_embd=24, n_layer=2, n_head=3, attn_implementation="eager"
    )
    theirs = transformers.GPT2LMHeadModel(configuration).to(dtype).eval()
    copied = {
        "transformer.wte.weight": model.input_output.source.weight,
        "transformer.wpe.weight": model.position_table.weight,
        "transformer.ln_f.weight": model.norm.weight,
    }
    for index, block in enumerate(model.blocks):
        # transformers stores these matrices as (inputs, outputs)
        copied |= {
            f"transformer.h.{index}.{name}": value
            for name, value in {
                "ln_1.weight": block.attention_norm.weight,
                "attn.c_attn.weight": block.attention.projection.weight.T,
                "attn.c_proj.weight": block.attention.output.weight.T,
                "ln_2.weight": block.mlp_norm.weight,
                "mlp.c_fc.weight": block.expansion.weight.T,
                "mlp.c_proj.weight": block.output.weight.T,
            }.items()
        }
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            assert (name in copied) != name.endswith("bias")
            parameter.copy_(copied[name] if name in copied else torch.zeros_like(parameter))
        tokens = sample()
        ours, true = model(tokens), theirs(tokens).logits
    # Two blocks, each with sums over 24, 8, 31, 24, 24 and 96, and the logits over 24.
    assert_near(ours, true, terms=450, condition=2)


def test_rope_turns_complex_numbers():
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    pairs, positions = torch.arange(4), torch.arange(5, 12)
    angles = positions[:, None] * 10_000.0 ** (-2 * pairs.double() / 8)
    numbers = torch.view_as_complex(x.unflatten(-1, (4, 2)))
    turned = numbers * torch.polar(torch.ones_like(angles), angles)
    assert_near(rotate(x, angles), torch.view_as_real(turned).flatten(-2), terms=2)


def test_alibi_slopes_of_the_paper():
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(1) == [2.0**-8]
    expected = [2.0 ** (-i / 2) for i in range(1, 17)]
    assert alibi_slopes(16) == pytest.approx(expected)
    assert alibi_slopes(12) == pytest.approx(alibi_slopes(8) + expected[:8:2])


@pytest.mark.parametrize("positions", POSITIONS)
def test_attention_follows_its_formula(positions):
    """softmax(q k^T / √h + bias) v with explicit matrices; queries and keys turned for RoPE."""
    model, hidden = build(positions=positions), torch.randn(2, 9, 24, dtype=torch.float64)
    attention = model.blocks[0].attention
    _, position = model._encode(hidden, start=0)
    ours, _ = attention(hidden, position)
    reads = []
    for head, rows in enumerate(torch.arange(24).split(8)):
        q, k, v = (hidden @ w[rows].T for w in attention.projection.weight.chunk(3))
        scores = torch.full((2, 9, 9), -math.inf, dtype=torch.float64)
        for t in range(9):
            for s in range(t + 1):
                q_t, k_s = q[:, t], k[:, s]
                if positions == "rope":
                    frequency = 10_000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
                    turn = torch.block_diag(
                        *(
                            torch.tensor(
                                [[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]],
                                dtype=torch.float64,
                            )
                            for a in ((t - s) * frequency).tolist()
                        )
                    )
                    q_t = q_t @ turn.T  # a rotation by the distance alone
                scores[:, t, s] = (q_t * k_s).sum(-1) / math.sqrt(8)
                if positions == "alibi":
                    scores[:, t, s] -= alibi_slopes(3)[head] * (t - s)
        reads.append(torch.softmax(scores, dim=-1) @ v)
    true = torch.cat(reads, dim=-1) @ attention.output.weight.T
    assert_near(ours, true, **NETWORK)


def full_map(model: GPT2, hidden: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """All weights (batch, heads, time, time) of one layer for its normed inputs, and what its
    attention puts out; RoPE as complex numbers turned by the distance."""
    attention = model.blocks[layer].attention
    distance = torch.arange(hidden.shape[1])[:, None] - torch.arange(hidden.shape[1])
    maps, reads = [], []
    for head in range(model.heads):
        rows = slice(head * model.head_width, (head + 1) * model.head_width)
        q, k, v = (hidden @ w[rows].T for w in attention.projection.weight.chunk(3))
        scores = q @ k.mT
        if model.positions == "rope":
            pairs = torch.arange(model.head_width // 2, dtype=torch.float64)
            angles = distance[..., None] * 10_000.0 ** (-2 * pairs / model.head_width)
            a, b = (torch.view_as_complex(x.unflatten(-1, (-1, 2))) for x in (q, k))
            turned = (
                a[:, :, None] * b[:, None].conj() * torch.polar(torch.ones_like(angles), angles)
            )
            scores = turned.sum(-1).real
        scores = scores / math.sqrt(model.head_width)
        if model.positions == "alibi":
            scores = scores - alibi_slopes(model.heads)[head] * distance
        maps.append(scores.masked_fill(distance < 0, -math.inf).softmax(-1))
        reads.append(maps[-1] @ v)
    return torch.stack(maps, 1), torch.cat(reads, -1) @ attention.output.weight.T


@pytest.mark.parametrize("time", [1, 2, 13, 39])
@pytest.mark.parametrize("positions", POSITIONS)
def test_attention_of_the_last_position_is_the_last_row_of_the_full_map(positions, time):
    """Up to three times the maximum length, where there is no table of positions."""
    short = SequenceSpecification(maximum_length=13, vocabulary=23)
    model = build(short, positions=positions, layers=3, width=12).eval()
    tokens = sample(time=time)
    if positions == "learned" and time > 13:
        with pytest.raises(ValueError, match="raise maximum_length"):
            model.attention_of_last(tokens)
        return
    with torch.no_grad():
        found = model.attention_of_last(tokens)
        hidden, position = model._encode(model.input_output.embed(tokens), start=0)
        expected = []
        for layer, block in enumerate(model.blocks):
            weights, attended = full_map(model, block.attention_norm(hidden), layer)
            output, _ = block.attention(block.attention_norm(hidden), position)
            assert_near(attended, output, **NETWORK)
            expected.append(weights[:, :, -1])
            hidden, _ = block(hidden, position)
    assert found.shape == (3, 2, 3, time)
    assert_near(found, torch.stack(expected), **NETWORK)


def test_attention_of_the_last_position_is_at_least_float32():
    model = build(dtype=torch.bfloat16, positions="rope").eval()
    assert model.attention_of_last(sample()).dtype == torch.float32


@pytest.mark.parametrize("positions", POSITIONS)
def test_context_limit_is_that_of_the_table(positions):
    model = build(positions=positions)
    assert model.context_limit == (40 if positions == "learned" else None)


@pytest.mark.parametrize("specification", [TOKENS, CHANNELS], ids=["tokens", "channels"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_steps_equal_the_forward_pass_and_keep_the_stated_bytes(specification, positions):
    model = build(specification, positions=positions).eval()
    inputs, state = sample(specification, time=12), None
    with torch.no_grad():
        true = model(inputs)
        for t in range(inputs.shape[1]):
            output, state = model.step(inputs[:, t], state)
            assert_near(output, true[:, t], **NETWORK)
            kept = sum(tensor[0].numel() * 4 for cache in state for tensor in cache)
            assert model.state_bytes(t + 1) == kept


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.bitwise
def test_past_logits_do_not_change_by_a_bit_when_the_future_does(positions):
    model, tokens = build(positions=positions, dtype=torch.float32), sample()
    with torch.no_grad():
        before = model(tokens)
        for t in (0, 7, 15, 29):
            changed = tokens.clone()
            changed[:, t + 1 :] = (tokens[:, t + 1 :] + 1) % 23
            after = model(changed)
            assert torch.equal(after[:, : t + 1], before[:, : t + 1])
            assert not torch.equal(after[:, t + 1], before[:, t + 1])


@pytest.mark.parametrize("positions", POSITIONS)
def test_order_of_the_past_matters_only_with_positions(positions):
    model, tokens = build(positions=positions, layers=1), sample(time=8)
    swapped = tokens.clone()
    swapped[:, 1], swapped[:, 4] = tokens[:, 4], tokens[:, 1]
    outputs = model(tokens)
    difference = (outputs - model(swapped))[:, -1].abs().max()
    allowed = rounding(outputs.abs().max().item(), outputs.dtype, **NETWORK)
    assert (difference <= allowed) == (positions == "none")


@pytest.mark.bitwise
def test_dropout_reaches_every_place_of_the_baseline():
    """Embeddings, attention weights, attention output, MLP output."""
    model, hidden = build(dropout=0.5), torch.randn(1, 9, 24, dtype=torch.float64)
    block = model.blocks[0]
    encoded, position = model._encode(hidden, start=0)
    assert (encoded == 0).any()
    assert not torch.equal(
        block.attention(hidden, position)[0], block.attention(hidden, position)[0]
    )
    block.attention.dropout = 0.0
    with torch.no_grad():
        block.output.weight.zero_()
        attended, _ = block(hidden, position)
        assert ((attended - hidden) == 0).any()
        block.output.weight.normal_()
        block.attention.output.weight.zero_()
        transformed, _ = block(hidden, position)
        assert ((transformed - hidden) == 0).any()
    model.eval()
    assert torch.equal(model(sample()), model(sample()))


@pytest.mark.parametrize(
    ("layers", "published"),
    [
        (1, 46_106_880),
        (4, 67_345_152),
        (8, 95_662_848),
        (12, 123_980_544),
        (18, 166_457_088),
    ],
)
def test_published_parameter_counts(layers, published):
    with torch.device("meta"):
        specification = SequenceSpecification(512, vocabulary=50_304)
        model = GPT2(specification, width=768, layers=layers, heads=12)
        without = GPT2(specification, width=768, layers=layers, heads=12, positions="rope")
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == published
    assert model.position_parameters() == 512 * 768
    assert without.position_parameters() == 0
    assert total - model.position_parameters() == sum(p.numel() for p in without.parameters())


def test_initial_values():
    torch.manual_seed(0)
    model = GPT2(TOKENS, width=256, layers=8, heads=4)
    block = model.blocks[3]
    for weight, deviation in [
        (model.input_output.source.weight, 0.02),
        (model.position_table.weight, 0.02),
        (block.attention.projection.weight, 0.02),
        (block.expansion.weight, 0.02),
        (block.attention.output.weight, 0.005),
        (block.output.weight, 0.005),
    ]:
        tolerance = 4 * deviation / math.sqrt(2 * weight.numel())
        assert weight.std().item() == pytest.approx(deviation, abs=tolerance)


def test_sequences_past_the_table_of_positions_are_refused():
    model, tokens = build(), sample(time=41)
    with pytest.raises(ValueError, match="raise maximum_length"):
        model(tokens)
    state = None
    for t in range(40):
        _, state = model.step(tokens[:, t], state)
    with pytest.raises(ValueError, match="raise maximum_length"):
        model.step(tokens[:, 40], state)
    assert build(positions="rope")(tokens).isfinite().all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heads": 5}, "multiple of heads"),
        ({"layers": 0}, "layers to 1 or more"),
        ({"positions": "sinusoidal"}, "choose one of learned, rope, alibi, none"),
        ({"width": 9, "positions": "rope"}, "multiple of 2 heads"),
    ],
)
def test_bad_hyperparameters_are_refused_with_the_fix(changes, words):
    with pytest.raises(ValueError, match=words):
        build(**changes)
