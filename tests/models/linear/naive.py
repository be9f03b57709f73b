"""What the tests of the newer linear models share: tolerances, loops over positions, gradients."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification

SPECIFICATION = SequenceSpecification(maximum_length=12, vocabulary=11)
ACCURACY = 1e-9  # of the largest value of a tensor, in float64
HIDDEN = (2, 11, 16)  # batch, time, width of the layers under test


def small_model(kind: Callable[..., nn.Module], width: int = 16, **settings: Any) -> nn.Module:
    """A model of one block."""
    return kind(SPECIFICATION, width=width, layers=1, dropout=0.0, **settings)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def uniform(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit_vectors(*shape: int, seed: int = 0) -> Tensor:
    vectors = normal(*shape, seed=seed)
    return vectors / vectors.norm(dim=-1, keepdim=True)


def outer(keys: Tensor, values: Tensor) -> Tensor:
    return keys.unsqueeze(-1) * values.unsqueeze(-2)


def read(memory: Tensor, vectors: Tensor) -> Tensor:
    """Sᵀ x for memories (..., key width, value width)."""
    return torch.einsum("...kv,...k->...v", memory, vectors)


def results(
    compute: Callable[..., tuple[Tensor, ...]], arguments: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """What a function of named tensors returns, and the gradients of a sum with many weights."""
    leaves = {name: x.detach().clone().requires_grad_() for name, x in arguments.items()}
    returned = compute(**leaves)
    joined = torch.cat([x.flatten() for x in returned])
    weights = torch.arange(len(joined)).to(joined).cos()
    gradients = torch.autograd.grad(
        (joined * weights).sum(), list(leaves.values()), materialize_grads=True
    )
    named = {f"result {index}": x.detach() for index, x in enumerate(returned)}
    return named | dict(zip(leaves, gradients, strict=True))


def layer_results(
    mixer: nn.Module, compute: Callable[[Tensor], Tensor], shape: tuple[int, ...] = HIDDEN
) -> dict[str, Tensor]:
    """Outputs for a fixed input, and the gradients of it and of every parameter that counts."""
    hidden = normal(*shape, seed=1).requires_grad_()
    outputs = compute(hidden)
    names, parameters = zip(*mixer.named_parameters(), strict=True)
    loss = (outputs * torch.arange(outputs.numel()).to(outputs).cos().view_as(outputs)).sum()
    gradients = torch.autograd.grad(loss, (hidden, *parameters), allow_unused=True)
    named = dict(zip(("hidden", *names), gradients, strict=True))
    return {"outputs": outputs.detach()} | {n: g for n, g in named.items() if g is not None}


def assert_accurate(
    actual: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    accuracy: float = ACCURACY,
    summed: Mapping[str, float] | None = None,
) -> None:
    """Errors are relative to the largest element of a tensor, or where nothing is left of larger
    numbers, to the size of these: ``summed`` by name."""
    assert actual.keys() == expected.keys()
    for name, target in expected.items():
        assert actual[name].shape == target.shape, name
        if not target.numel():
            continue
        error = float((actual[name] - target).detach().abs().max())
        largest = max(float(target.detach().abs().max()), (summed or {}).get(name, 0.0))
        assert error <= accuracy * largest, (name, error)


def assert_layer_equals(
    mixer: nn.Module, equations: Callable[[Any, Tensor], Tensor], shape: tuple[int, ...] = HIDDEN
) -> None:
    """Outputs and gradients are those of the equations of a mixer, and every parameter counts."""
    expected = layer_results(mixer, partial(equations, mixer), shape)
    assert_accurate(layer_results(mixer, mixer, shape), expected)
    assert expected.keys() == {"outputs", "hidden", *dict(mixer.named_parameters())}


def assert_pieces_equal_the_whole(mixer: Any, shape: tuple[int, ...] = HIDDEN) -> None:
    """The state of a piece of any length goes on as the whole sequence does."""
    hidden = normal(*shape, seed=2)
    whole, last = mixer.advance(hidden, None)
    state, pieces, start = None, [], 0
    for length in (1, 3, 1, shape[1] - 5):
        piece, state = mixer.advance(hidden[:, start : start + length], state)
        pieces.append(piece)
        start += length
    leaves = (torch.utils._pytree.tree_leaves(x) for x in (last, state))
    ends = ({f"state {i}": x for i, x in enumerate(tensors)} for tensors in leaves)
    expected, actual = ends
    assert_accurate(
        actual | {"outputs": torch.cat(pieces, 1)}, expected | {"outputs": whole}, ACCURACY
    )


def decay_by_head(decay: Any, hidden: Tensor) -> Tensor:
    """α = exp(−e^A ln(1 + exp(W x + c))), (batch, time, heads)."""
    steps = torch.log1p(torch.exp(hidden @ decay.projection.weight.T + decay.step_bias))
    return torch.exp(-torch.exp(decay.log_rates) * steps)


def decay_by_channel(decay: Any, hidden: Tensor) -> Tensor:
    """The same with a map of small rank, (batch, time, heads, key width)."""
    first, second = decay.projection
    steps = torch.log1p(torch.exp(hidden @ first.weight.T @ second.weight.T + decay.step_bias))
    return torch.exp(-torch.exp(decay.log_rates)[:, None] * steps.unflatten(-1, (decay.heads, -1)))


def convolved_heads(streams: Any, hidden: Tensor) -> list[Tensor]:
    """SiLU of torch's own depthwise convolution, (batch, time, heads, head width) each."""
    filters = streams.neighbours.convolution.filters
    taps, channels = filters.shape
    inputs = functional.pad((hidden @ streams.projection.weight.T).mT, (taps - 1, 0))
    seen = functional.conv1d(inputs, filters.T.unsqueeze(1), groups=channels).mT
    parts = (seen * torch.sigmoid(seen)).split(streams.channels, -1)
    return [part.unflatten(-1, (streams.heads, -1)) for part in parts]


def normalised(x: Tensor) -> Tensor:
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def root_mean_square_norm(x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain


def new_mixer(model: nn.Module) -> Any:
    """The mixer of a model of one block, in float64, as it starts."""
    (block,) = model.double().eval().blocks  # type: ignore[misc]
    return block.mixer


def only_mixer(model: nn.Module) -> Any:
    """The same, with parameters that are not small."""
    torch.manual_seed(0)
    mixer = new_mixer(model)
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return mixer


def parameters_and_state(model: nn.Module) -> tuple[int, int]:
    """Parameters of the one mixer, and the numbers that a sequence keeps."""
    mixer = new_mixer(model)
    return sum(p.numel() for p in mixer.parameters()), mixer.state_size
