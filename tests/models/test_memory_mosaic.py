"""Memory Mosaic against its equations, its plain implementation and its published sizes."""

import math

import pytest
import torch
from torch import Tensor

from models.layers.contextual_memory import read_past, read_past_reference, unit
from models.memory_mosaic import MemoryMosaic
from models.specification import SequenceSpecification
from tests.closeness import assert_near

TOKENS = SequenceSpecification(maximum_length=512, vocabulary=11)
CHANNELS = SequenceSpecification(maximum_length=512, input_channels=6, output_channels=5)
SMALL = {"width": 12, "layers": 2, "heads": 3, "dropout": 0.0, "persistent_slots": 7}
# Sums between inputs and outputs, forwards and backwards: widths, slots, positions and the batch;
# norms, quotients and the kernel of β = e² = 7.4 in two layers stretch errors.
NETWORK = {"terms": 1000, "condition": 100.0}


def build(specification=TOKENS, *, dtype=torch.float64, seed=0, **changes) -> MemoryMosaic:
    """A small model whose scalars have left their initial values."""
    torch.manual_seed(seed)
    model = MemoryMosaic(specification, **(SMALL | changes)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def sample(specification=TOKENS, batch=2, time=9, seed=1, dtype=torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if specification.vocabulary is None:
        shape = (batch, time, specification.input_channels)
        return torch.randn(shape, generator=generator, dtype=dtype)
    return torch.randint(specification.vocabulary, (batch, time), generator=generator)


def from_the_equations(
    parameters: dict[str, Tensor], tokens: Tensor, layers: int, heads: int
) -> Tensor:
    """Logits (time, vocabulary) of one sequence, position by position and head by head."""

    def norm(x: Tensor, gain: Tensor) -> Tensor:
        centred = x - x.mean()
        return gain * centred / torch.sqrt((centred**2).mean() + 1e-5)

    def keys_of(inputs: list[Tensor], w_phi: Tensor, b: Tensor) -> list[Tensor]:
        lam = torch.exp(-10 * abs(b))
        keys = []
        for t in range(len(inputs)):
            average = sum(lam ** (t - s) * (w_phi @ inputs[s]) for s in range(t + 1))
            keys.append(average / torch.sqrt(average @ average))
        return keys

    def beta_of(kappa: Tensor) -> Tensor:
        return torch.exp(2 * torch.minimum(10 * kappa, torch.tensor(5.0, dtype=kappa.dtype)))

    def regress(beta: Tensor, query: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
        scores = [beta * (query @ key) for key, _ in pairs]
        weights = [torch.exp(score - max(scores).detach()) for score in scores]
        return sum(w * value for w, (_, value) in zip(weights, pairs, strict=True)) / sum(weights)

    table = parameters["input_output.source.weight"]
    width, length = table.shape[1], len(tokens)
    size = width // heads
    x = [table[token] for token in tokens]
    for layer in range(layers):
        p = {
            name.removeprefix(f"blocks.{layer}."): value
            for name, value in parameters.items()
            if name.startswith(f"blocks.{layer}.")
        }
        normed = [norm(v, p["contextual_norm.weight"]) for v in x]
        w_phi, w_psi = p["contextual.projection.weight"].split(width)
        outputs: list[list[Tensor]] = [[] for _ in range(length)]
        for head in range(heads):
            rows = slice(head * size, (head + 1) * size)
            keys = keys_of(normed, w_phi[rows], p["contextual.key_extractor.leak"][head])
            c = p["contextual.value_mixing"][head]
            scale = torch.exp(10 * p["contextual.value_scale"][head])
            values = []
            for t in range(length - 1):
                v = (1 - c) * (w_psi[rows] @ normed[t + 1]) + c * (w_psi[rows] @ normed[t])
                values.append(scale * v / torch.sqrt(v @ v))
            beta = beta_of(p["contextual.bandwidth"][head])
            for t in range(length):
                pairs = [(keys[s], values[s]) for s in range(t)]
                outputs[t].append(regress(beta, keys[t], pairs) if t else torch.zeros_like(keys[0]))
        x = [x[t] + p["contextual.output.weight"] @ torch.cat(outputs[t]) for t in range(length)]

        normed = [norm(v, p["persistent_norm.weight"]) for v in x]
        outputs = [[] for _ in range(length)]
        for head in range(heads):
            rows = slice(head * size, (head + 1) * size)
            w_phi = p["persistent.projection.weight"][rows]
            keys = keys_of(normed, w_phi, p["persistent.key_extractor.leak"][head])
            scale = torch.exp(10 * p["persistent.value_scale"][head])
            beta = beta_of(p["persistent.bandwidth"][head])
            slots = list(zip(p["persistent.keys"][head], p["persistent.values"][head], strict=True))
            for t in range(length):
                outputs[t].append(scale * regress(beta, keys[t], slots))
        x = [x[t] + p["persistent.output.weight"] @ torch.cat(outputs[t]) for t in range(length)]
    final = parameters["norm.weight"]
    return torch.stack([table @ norm(v, final) / math.sqrt(width) for v in x])


def gradients(outputs: Tensor, model: MemoryMosaic) -> dict[str, Tensor]:
    weight = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(3)).to(outputs)
    named = dict(model.named_parameters())
    return dict(
        zip(named, torch.autograd.grad((outputs * weight).sum(), list(named.values())), strict=True)
    )


def assert_same(ours: dict[str, Tensor], true: dict[str, Tensor], **rounding: float) -> None:
    for name, value in true.items():
        assert value.abs().max() > 0, f"{name} has no gradient, nothing is compared"
        assert_near(ours[name], value, name=name, **(rounding or NETWORK))


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_logits_and_all_gradients_follow_the_equations(implementation):
    model, tokens = build(implementation=implementation), sample(batch=1, time=7)
    with torch.no_grad():  # one head beyond the cap of β, where its bandwidth has no gradient
        model.blocks[0].contextual.bandwidth[0] = 0.6
    ours = model(tokens)
    true = from_the_equations(dict(model.named_parameters()), tokens[0], 2, 3)[None]
    beta = {"terms": 1000, "condition": math.exp(10)}  # of that head: the error of a score times β
    assert_near(ours, true, **beta)
    assert_same(gradients(ours, model), gradients(true, model), **beta)


@pytest.mark.parametrize("specification", [TOKENS, CHANNELS], ids=["tokens", "channels"])
@pytest.mark.parametrize("time", [3, 16, 37])
def test_fast_equals_reference(specification, time):
    fast, plain = (
        build(specification, implementation=name, persistent_slots=None)
        for name in ("fast", "reference")
    )
    plain.load_state_dict(fast.state_dict())
    inputs = sample(specification, time=time)
    ours, true = fast(inputs), plain(inputs)
    assert_near(ours, true, **NETWORK)
    assert_same(gradients(ours, fast), gradients(true, plain))


@pytest.mark.parametrize("beta", [1.0, 10.0, 150.0])
def test_shifted_causal_attention_equals_strict_mask_in_single_precision(beta):
    """The error of the scores is β times the rounding unit, so the tolerance grows with β."""
    torch.manual_seed(0)
    keys, values = (unit(torch.randn(2, 3, 129, 8)) for _ in range(2))
    ours = read_past(beta * keys, keys, values[:, :, 1:], 0.0)
    true = read_past_reference(beta * keys.double(), keys.double(), values[:, :, 1:].double(), 0.0)
    # 8 products in a score, and a mean of 128 unit vectors.
    assert_near(ours, true, terms=8 + 128, condition=beta, dtype=torch.float32)
    assert torch.equal(ours[:, :, 0], torch.zeros(2, 3, 8))


@pytest.mark.parametrize("time", [2, 17, 33, 300])
@pytest.mark.bitwise
def test_past_logits_do_not_change_by_a_bit_when_the_future_does(time):
    model, tokens = build(dtype=torch.float32), sample(time=time)
    with torch.no_grad():
        before = model(tokens)
        for t in {0, 14, 15, 16, 31, time // 2, 255, 256, time - 2}:
            if t > time - 2:
                continue
            changed = tokens.clone()
            changed[:, t + 1 :] = (tokens[:, t + 1 :] + 1) % 11
            after = model(changed)
            assert torch.equal(after[:, : t + 1], before[:, : t + 1])
            assert not torch.equal(after[:, t + 1], before[:, t + 1])


@pytest.mark.parametrize("specification", [TOKENS, CHANNELS], ids=["tokens", "channels"])
def test_steps_equal_the_forward_pass_and_keep_the_stated_bytes(specification):
    model, inputs = build(specification).eval(), sample(specification, time=20)
    state = None
    with torch.no_grad():
        true = model(inputs)
        for t in range(inputs.shape[1]):
            output, state = model.step(inputs[:, t], state)
            assert_near(output, true[:, t], **NETWORK)
            kept = sum(
                tensor[0].numel() * 4
                for block in state
                for tensor in (*block.contextual, block.average)
            )
            assert model.state_bytes(t + 1) == kept
    assert model.state_bytes(0) == 0


@pytest.mark.parametrize("implementation", ["fast", "reference"])
def test_first_position_reads_an_empty_memory(implementation):
    model, tokens = build(implementation=implementation), sample(time=1)
    block = model.blocks[0]
    hidden = block.contextual_norm(model.input_output.embed(tokens))
    assert torch.equal(block.contextual(hidden), torch.zeros_like(hidden))
    assert model(tokens).isfinite().all()


def test_zero_embedding_and_no_leak_stay_finite():
    """Both are NaN in the released library."""
    model = build(dtype=torch.float32)
    with torch.no_grad():
        model.input_output.source.weight[0] = 0
        model.blocks[0].contextual.key_extractor.leak.zero_()
    tokens = torch.zeros(1, 40, dtype=torch.int64)
    tokens[0, 20:] = 3
    logits = model(tokens)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.bitwise
def test_dropout_acts_in_training_only_and_on_both_memories():
    model, tokens = build(dropout=0.3), sample()
    model.eval()
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))
    model.blocks[0].dropout.p = 0.0
    for memory in (model.blocks[0].contextual, model.blocks[0].persistent):
        hidden = torch.randn(1, 9, 12, dtype=torch.float64)
        assert not torch.equal(memory(hidden), memory(hidden))


def test_reduced_precision_stays_close_to_single_precision():
    model, tokens = build(dtype=torch.float32), sample(time=40)
    # Roundings one after the other, some eight in each of two blocks; sums are kept in float32.
    reduced = {"dtype": torch.bfloat16, "terms": 2 * 8}
    with torch.no_grad():
        true = model(tokens)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = model(tokens)
        model.to(torch.bfloat16)
        half, state = model(tokens), None
        for t in range(tokens.shape[1]):
            stepped, state = model.step(tokens[:, t], state)
            assert_near(stepped, true[:, t], largest=float(true.abs().max()), **reduced)
    assert_near(mixed, true, **reduced)
    assert_near(half, true, **reduced)


@pytest.mark.bitwise
def test_compiles_without_a_break_in_the_graph():
    model, tokens = build(layers=1), sample(time=18)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    ours, true = compiled(tokens), model(tokens)
    assert_near(ours, true, **NETWORK)
    assert_same(gradients(ours, model), gradients(true, model))


@pytest.mark.parametrize(
    ("layers", "published"),
    [
        (1, 45_713_748),
        (4, 66_952_272),
        (8, 95_270_304),
        (12, 123_588_336),
        (18, 166_065_384),
    ],
)
def test_published_parameter_counts(layers, published):
    with torch.device("meta"):
        model = MemoryMosaic(
            SequenceSpecification(512, vocabulary=50_304), width=768, layers=layers, heads=12
        )
    assert sum(parameter.numel() for parameter in model.parameters()) == published


def test_initial_values_of_the_released_library():
    torch.manual_seed(0)
    model = MemoryMosaic(TOKENS, width=256, layers=4, heads=8)
    block = model.blocks[2]
    for weight, deviation in [
        (model.input_output.source.weight, 256**-0.5),
        (block.contextual.projection.weight, 256**-0.5),
        (block.persistent.projection.weight, 256**-0.5),
        (block.contextual.output.weight, 1024**-0.5),
        (block.persistent.output.weight, 1024**-0.5),
        (block.persistent.keys, 32**-0.5),
        (block.persistent.values, 32**-0.5),
    ]:
        tolerance = 4 * deviation / math.sqrt(2 * weight.numel())
        assert weight.std().item() == pytest.approx(deviation, abs=tolerance)
    for memory in (block.contextual, block.persistent):
        factors = torch.exp(-10 * memory.key_extractor.leak.abs())
        assert factors[0].item() == pytest.approx(0.6065, abs=1e-4)
        assert factors[-1].item() == pytest.approx(0.0067, abs=1e-4)
        keys = unit(torch.randn(1, 8, 1, 32))
        assert memory._queries(keys).norm(dim=-1).mean().item() == pytest.approx(7.389, abs=1e-3)
        assert torch.exp(10 * memory.value_scale[0]).item() == pytest.approx(0.6065, abs=1e-4)
    mixing = block.contextual.value_mixing
    assert mixing.min() >= 0
    assert mixing.max() <= 1
    assert block.persistent.keys.shape == (8, 896, 32)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heads": 5}, "multiple of heads"),
        ({"layers": 0}, "at least 1"),
        ({"persistent_slots": 0}, "at least 1"),
        ({"implementation": "quick"}, "choose one of fast, reference"),
    ],
)
def test_bad_hyperparameters_are_refused_with_the_fix(changes, words):
    with pytest.raises(ValueError, match=words):
        MemoryMosaic(TOKENS, **(SMALL | changes))


@pytest.mark.parametrize("implementation", ["fast", "reference"])
@pytest.mark.parametrize("time", [1, 2, 13, 39])
def test_attention_of_the_last_position_is_the_last_row_of_the_full_map(time, implementation):
    """Weights by equations (3), (6) and (7) between all positions, up to three times the maximum
    length; they also give back what the contextual memory puts out."""
    short = SequenceSpecification(maximum_length=13, vocabulary=11)
    model = build(short, layers=3, implementation=implementation).eval()
    tokens = sample(time=time)
    with torch.no_grad():
        found, lambdas = model.attention_of_last(tokens), model.leaky_coefficients()
        hidden = model.input_output.embed(tokens)
        expected = []
        for layer, block in enumerate(model.blocks):
            memory, normed = block.contextual, block.contextual_norm(hidden)
            w_phi, w_psi = memory.projection.weight.chunk(2)
            rows, reads = [], []
            for head, part in enumerate(torch.arange(12).split(4)):
                lam = torch.exp(-10 * memory.key_extractor.leak[head].abs())
                assert_near(lambdas[layer, head], lam, condition=5)  # exp of -5 to 0
                projected = normed @ w_phi[part].T
                averages = [
                    sum(lam ** (t - s) * projected[:, s] for s in range(t + 1)) for t in range(time)
                ]
                keys = torch.stack([a / a.norm(dim=-1, keepdim=True) for a in averages], 1)
                beta = torch.exp(2 * torch.clamp(10 * memory.bandwidth[head], max=5))
                earlier = torch.ones(time, time, dtype=torch.bool).tril(-1)
                kernel = torch.exp(beta * (keys @ keys.mT - 1)) * earlier
                weights = kernel / kernel.sum(-1, keepdim=True).clamp(min=1e-300)
                rows.append(weights[:, -1])
                w = normed @ w_psi[part].T
                c = memory.value_mixing[head]
                mixed = (1 - c) * w.roll(-1, dims=1) + c * w  # the last one has weight 0
                values = mixed / mixed.norm(dim=-1, keepdim=True)
                reads.append(weights @ values * torch.exp(10 * memory.value_scale[head]))
            read = torch.cat(reads, -1) @ memory.output.weight.T
            assert_near(memory(normed), read, **NETWORK)
            expected.append(torch.stack(rows, 1))
            hidden = block(hidden)
    assert lambdas.shape == (3, 3)
    assert found.shape == (3, 2, 3, time)
    assert (found[..., -1] == 0).all()
    assert_near(found, torch.stack(expected), **NETWORK)


def test_attention_of_the_last_position_is_at_least_float32():
    model = build(dtype=torch.bfloat16).eval()
    assert model.attention_of_last(sample()).dtype == torch.float32
