"""Titans, variant by variant; the conformance tests see only the first."""

from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional
from torch.utils import _pytree as pytree

from models.specification import SequenceSpecification
from models.titans import MemoryAlone, MemoryAsContext, MemoryAsGate, MemoryAsLayer, Titans, Variant
from tests.closeness import assert_near
from tests.models.built import in_steps

VOCABULARY, WIDTH = 11, 8
# Memory, attention and convolutions at each of some 20 positions, and what is written goes into the
# next gradients; norms stretch errors too.
NETWORK = {"terms": 21 * 200, "condition": 1000.0}
on_every_variant = pytest.mark.parametrize("variant", get_args(Variant))


def model(variant: str, seed: int = 0, **hyperparameters: Any) -> Titans:
    """A small model whose last memory layers are not at zero, so that every read counts."""
    torch.manual_seed(seed)
    small: dict[str, Any] = {"width": WIDTH, "heads": 2, "chunk": 4, "segment": 8, "persistent": 3}
    built = Titans(
        SequenceSpecification(maximum_length=64, vocabulary=VOCABULARY),
        variant=variant,  # type: ignore[arg-type]
        **small | hyperparameters,
    )
    for name, parameter in built.named_parameters():
        if ".start." in name:
            nn.init.normal_(parameter, std=0.3)
    return built.double().eval()


def tokens(batch: int, time: int) -> Tensor:
    generator = torch.Generator().manual_seed(time)
    return torch.randint(0, VOCABULARY, (batch, time), generator=generator)


@on_every_variant
@pytest.mark.parametrize(
    "hyperparameters",
    [{}, {"depth": 1, "chunk": 1}, {"persistent": 0, "convolution": 1}, {"segment": 4, "depth": 3}],
)
def test_steps_and_prefills_equal_the_forward_pass(
    variant: str, hyperparameters: dict[str, Any]
) -> None:
    one = model(variant, **hyperparameters)
    inputs = tokens(2, 21)
    with torch.no_grad():
        expected = one(inputs)
        for filled in (0, 1, 13):
            state = None
            if filled:
                output, state = one.prefill(inputs[:, :filled])
                assert_near(output, expected[:, filled - 1], **NETWORK)
            outputs, _ = in_steps(one.step, inputs[:, filled:], state)
            assert_near(outputs, expected[:, filled:], **NETWORK)


@on_every_variant
def test_no_position_sees_a_later_one(variant: str) -> None:
    """Jacobian of the outputs in the embeddings: exactly zero above the diagonal, nowhere else.

    Segments of 8 and chunks of 4: a leak inside a segment would show.
    """
    one = model(variant, layers=1)
    embedded = torch.randn(1, 19, WIDTH, dtype=torch.float64)
    block = one.blocks[0]
    jacobian = torch.autograd.functional.jacobian(lambda x: block.mixer(x).sum(-1)[0], embedded)
    moved = jacobian[:, 0].abs().sum(-1)
    assert not moved.triu(1).any()
    assert (moved.tril() + torch.ones(19, 19).triu(1) > 0).all()


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # slow where torch has no rule
@on_every_variant
def test_stacked_models_equal_single_models(variant: str) -> None:
    singles = [model(variant, seed) for seed in (0, 1)]
    inputs = tokens(2, 13)
    parameters, buffers = stack_module_state(list[nn.Module](singles))

    def loss(parameters: Any) -> Tensor:
        return functional_call(singles[0], (parameters, {}), (inputs,)).square().mean()

    assert not buffers
    gradients = vmap(grad(loss))(parameters)
    for index, single in enumerate(singles):
        single(inputs).square().mean().backward()
        for name, parameter in single.named_parameters():
            assert_near(gradients[name][index], parameter.grad, name=name, **NETWORK)


@on_every_variant
@pytest.mark.parametrize("length", [1, 9, 30])
def test_declared_bytes_hold_the_state(variant: str, length: int) -> None:
    """No state is larger than declared, and the largest within a segment is exactly as large."""
    one, state, held = model(variant).float(), None, []
    for position in tokens(1, length).unbind(1):
        _, state = one.step(position, state)
        leaves = pytree.tree_leaves(state)
        held.append(sum(leaf.numel() * leaf.element_size() for leaf in leaves))
    assert max(held) <= one.state_bytes(length)
    if length == 30:
        assert max(held) == one.state_bytes(length)


def segment_loop(mixer: MemoryAsContext, x: Tensor, segment: int, chunk: int) -> Tensor:
    """Section 4.1 for one sequence and one head, position by position, by torch.func."""
    attention, memory = mixer.attention, mixer.memory
    width = x.shape[1]

    def convolved(part: Any, inputs: list[Tensor]) -> Tensor:
        """The short convolution at the last of some positions."""
        convolution = part.convolution
        total = convolution.bias
        for lag in range(convolution.taps):
            if lag < len(inputs):
                total = total + convolution.filters[convolution.taps - 1 - lag] * (
                    part.projection.weight @ inputs[-1 - lag]
                )
        return functional.silu(total)

    def unit(vector: Tensor) -> Tensor:
        return vector / vector.norm()

    def norm(part: nn.RMSNorm, vector: Tensor) -> Tensor:
        return part.weight * vector / (vector.square().mean() + part.eps).sqrt()

    def network(weights: list[Tensor], vector: Tensor) -> Tensor:
        return weights[1] @ functional.silu(weights[0] @ vector)

    def token(vector: Tensor) -> tuple[Tensor, Tensor]:
        bias: Any = attention.inputs.convolution.bias
        mixed = functional.silu(attention.inputs.projection.weight @ vector + bias)
        return unit(mixed[width : 2 * width]), mixed[2 * width :]

    weights = [layer[0] for layer in memory.start]
    momentum = [torch.zeros_like(layer) for layer in weights]
    anchor = known = weights
    outputs, answered, pairs = [], [], []
    for t in range(len(x)):
        if t % segment == 0:
            known, pairs = weights, [token(p) for p in mixer.persistent]
        if t % chunk == 0:
            anchor = weights
        so_far = list(x[: t + 1])
        h = network(known, unit(convolved(mixer.context, so_far)))
        pairs.append(token(norm(mixer.context_norm, h)))
        q, k, v = convolved(attention.inputs, so_far).split(width)
        pairs.append((unit(k), v))
        scale = attention.log_scale.exp().squeeze()
        scores = torch.stack([scale * unit(q) @ key for key, _ in pairs])
        seen = sum(w * value for w, (_, value) in zip(scores.softmax(0), pairs, strict=True))
        assert isinstance(seen, Tensor)
        y = norm(mixer.attention_norm, seen)
        answered.append(y)
        q, k, v = convolved(memory.inputs, answered).split(width)
        theta, eta, alpha = torch.sigmoid(memory.rates.weight @ y + memory.rates.bias)
        theta = theta * (1 - eta) / chunk
        key, value = unit(k), v

        def loss(memory: list[Tensor], key: Tensor = key, value: Tensor = value) -> Tensor:
            return (network(memory, key) - value).square().sum()

        # In the memory alone: key and value depend on earlier weights too.
        gradients = grad(loss)(anchor)
        momentum = [eta * s - theta * g for s, g in zip(momentum, gradients, strict=True)]
        weights = [(1 - alpha) * m + s for m, s in zip(weights, momentum, strict=True)]
        read = norm(mixer.memory_norm, network(weights, unit(q)))
        gate = functional.silu(mixer.gate.weight @ x[t])
        outputs.append(mixer.output_projection.weight @ (y * torch.sigmoid(read) * gate))
    return torch.stack(outputs)


def test_context_writes_what_attention_gave() -> None:
    """The whole of MAC against a plain loop. The memory is written after the attention and from its
    output; a memory that is written before it is another architecture (MAL)."""
    one = model("context", heads=1, layers=1, largest_surprise=None)
    mixer = one.blocks[0].mixer
    assert isinstance(mixer, MemoryAsContext)
    x = torch.randn(1, 21, WIDTH, dtype=torch.float64)
    expected = segment_loop(mixer, x[0], segment=8, chunk=4)
    assert_near(mixer(x)[0], expected, **NETWORK)


def test_gate_layer_and_alone_are_what_they_are_called() -> None:
    """Without persistent tokens: the gate multiplies, the layer chains, alone has no attention."""
    x = torch.randn(2, 15, WIDTH, dtype=torch.float64)
    gate, layer, alone = (
        model(variant, layers=1, persistent=0).blocks[0].mixer
        for variant in ("gate", "layer", "alone")
    )
    assert isinstance(gate, MemoryAsGate)
    assert isinstance(layer, MemoryAsLayer)
    assert isinstance(alone, MemoryAlone)

    def finished(mixer: Any, mixed: Tensor) -> Tensor:
        return mixer.output_projection(mixed * functional.silu(mixer.gate(x)))

    seen = gate.attention_norm(gate.attention(x, None, always=0)[0])
    read = torch.sigmoid(gate.memory_norm(gate.memory(x)[0]))
    assert_near(gate(x), finished(gate, seen * read), **NETWORK)
    over = layer.attention(layer.memory_norm(layer.memory(x)[0]), None, always=0)[0]
    assert_near(layer(x), finished(layer, layer.attention_norm(over)), **NETWORK)
    expected = finished(alone, alone.memory_norm(alone.memory(x)[0]))
    assert_near(alone(x), expected, **NETWORK)


def test_windows_slide_and_persistent_tokens_stay() -> None:
    """Which positions the attention of the gate reads: 3 tokens that stay and 8 of the window."""
    mixer = model("gate", layers=1, convolution=1).blocks[0].mixer
    assert isinstance(mixer, MemoryAsGate)
    x = torch.randn(1, 25, WIDTH, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(
        lambda x: mixer.attention(x, None, always=3)[0].sum(-1)[0], x
    )
    reads = jacobian[:, 0].abs().sum(-1) > 0
    time = torch.arange(25)
    age = time[:, None] - time
    assert torch.equal(reads, (age >= 0) & ((age < 8) | (time < 3)))


@on_every_variant
def test_a_memory_that_outlasts_the_attention_is_read(variant: str) -> None:
    """A token reaches positions that no window and no convolution joins to it."""
    one = model(variant, layers=1)
    inputs = tokens(1, 40)
    other = inputs.clone()
    other[0, 0] = (inputs[0, 0] + 1) % VOCABULARY
    with torch.no_grad():
        assert (one(inputs)[0, -1] - one(other)[0, -1]).abs().max() > 1e-9


def test_four_layers_deep_no_length_makes_nan() -> None:
    """Depth 4 and length 4096 with a stretch of one token, which makes the steps of all chunks
    point the same way: outputs and gradients are finite. Small, so that it takes seconds."""
    torch.manual_seed(0)
    one = Titans(
        SequenceSpecification(maximum_length=4096, vocabulary=VOCABULARY),
        width=8, layers=1, heads=1, depth=4, chunk=64, segment=64,
    )  # fmt: skip
    inputs = tokens(1, 4096)
    inputs[:, 500:3500] = 3
    outputs = one(inputs)
    outputs.square().mean().backward()
    assert outputs.isfinite().all()
    for name, parameter in one.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize(
    ("hyperparameters", "said"),
    [
        ({"variant": "mac"}, "choose context, gate, layer, alone"),
        ({"width": 9, "heads": 2}, "multiple of heads"),
        ({"segment": 20, "chunk": 16}, "multiple of chunk"),
        ({"chunk": 0}, "chunk=0"),
        ({"depth": 0}, "depth=0"),
        ({"expansion": 0}, "expansion=0"),
        ({"convolution": 0}, "taps=0"),
        ({"persistent": -1}, "persistent=-1"),
        ({"layers": 0}, "layers=0"),
        ({"activation": "relu"}, "choose silu or gelu"),
    ],
)
def test_settings_that_cannot_work_are_refused(hyperparameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Titans(SequenceSpecification(maximum_length=8, vocabulary=5), **hyperparameters)
