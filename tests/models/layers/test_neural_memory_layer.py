"""The neural memory against a plain loop whose gradients are torch's own."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.layers.memory_network import initial_weights, read_memory, surprise
from models.layers.neural_memory import (
    GradientWrites,
    MemoryState,
    UpdateRule,
    recur_memory,
    scan_memory,
    start_of,
    weights_now,
)
from tests.closeness import assert_near

BATCH, KEY, VALUE, WIDTH = (2, 3), 5, 4, 6
# Every position goes through up to three layers of width 6 forwards and backwards, and what is
# written goes into the gradient of the next, so that errors grow along the sequence.
MEMORY = {"terms": 65 * 3 * 2 * WIDTH, "condition": 1000.0}


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def setting(time: int, depth: int, seed: int = 0) -> tuple[list[Tensor], GradientWrites, Tensor]:
    """Weights that are not zero anywhere, writes whose rates take both ends, and queries."""
    generator = torch.Generator().manual_seed(1000 * seed + 10 * time + depth)
    sizes = [KEY, *[WIDTH] * (depth - 1), VALUE]
    weights = [normal(generator, *BATCH, o, i) * 0.5 for i, o in itertools.pairwise(sizes)]
    rates = torch.rand(3, *BATCH, time, generator=generator, dtype=torch.float64)
    rates[1:, ..., time // 2] = 1.0
    rates[1:, ..., time // 3] = 0.0
    keys = functional.normalize(normal(generator, *BATCH, time, KEY), dim=-1)
    values, queries = normal(generator, *BATCH, time, VALUE), normal(generator, *BATCH, time, KEY)
    return weights, GradientWrites(keys, values, 0.1 * rates[0], rates[1], rates[2]), queries


def network(weights: list[Tensor], x: Tensor, activation: str) -> Tensor:
    for index, layer in enumerate(weights):
        x = layer @ (x if index == 0 else getattr(functional, activation)(x))
    return x


class Clip(torch.autograd.Function):
    """M and S of one layer as they are; their gradients together no longer than a bound."""

    @staticmethod
    def forward(context: Any, memory: Tensor, momentum: Tensor, bound: float) -> tuple[Tensor, ...]:
        context.bound = bound
        return memory.clone(), momentum.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        length = float(torch.cat([g.flatten() for g in gradients]).norm())
        return *(g * min(1.0, context.bound / length) for g in gradients), None


def loop(
    weights: list[Tensor], writes: GradientWrites, queries: Tensor, rule: UpdateRule, read_own: bool
) -> tuple[Tensor, list[Tensor]]:
    """Equations 11, 13 and 14 for one memory after the other, gradients by autograd."""
    outputs, ends = [], []
    for b in itertools.product(*(range(size) for size in BATCH)):
        current = [layer[b] for layer in weights]
        anchor, momentum, rows = current, [torch.zeros_like(m) for m in current], []
        for t in range(queries.shape[-2]):
            if t % rule.chunk == 0:
                if rule.largest_gradient is not None and t:
                    bound = rule.largest_gradient
                    pairs = zip(current, momentum, strict=True)
                    clipped = [Clip.apply(*pair, bound) for pair in pairs]
                    current, momentum = map(list, zip(*clipped, strict=True))
                anchor = current
            loss = (
                (network(anchor, writes.keys[b][t], rule.activation) - writes.values[b][t])
                .square()
                .sum()
            )
            gradients = torch.autograd.grad(loss, anchor, create_graph=True)
            if rule.largest_surprise is not None:
                norm = torch.cat([g.flatten() for g in gradients]).norm()
                shrink = rule.largest_surprise / norm.clamp(min=rule.largest_surprise)
                gradients = [g * shrink for g in gradients]
            eta, theta, alpha = (r[b][t] for r in (writes.momenta, writes.steps, writes.forgetting))
            before = current
            momentum = [eta * s - theta * g for s, g in zip(momentum, gradients, strict=True)]
            current = [(1 - alpha) * m + s for m, s in zip(current, momentum, strict=True)]
            reading = current if read_own else before
            rows.append(network(reading, queries[b][t], rule.activation))
        outputs.append(torch.stack(rows))
        ends.append(current)
    stacked = [torch.stack(layer).unflatten(0, BATCH) for layer in zip(*ends, strict=True)]
    return torch.stack(outputs).unflatten(0, BATCH), stacked


def scanned(
    form: Callable[..., tuple[Tensor, MemoryState]],
    weights: list[Tensor],
    writes: GradientWrites,
    queries: Tensor,
    rule: UpdateRule,
    read_own: bool,
) -> tuple[Tensor, list[Tensor]]:
    start = start_of(tuple(weights), writes)
    outputs, state = form(start, writes, queries, rule, read_own=read_own)
    return outputs, list(weights_now(state, rule))


def with_gradients(
    function: Callable[..., tuple[Tensor, list[Tensor]]],
    weights: list[Tensor],
    writes: GradientWrites,
    queries: Tensor,
    rule: UpdateRule,
    read_own: bool = True,
) -> list[Tensor]:
    """Outputs, final weights, and the gradients of both in everything that goes in."""
    leaves = [t.detach().clone().requires_grad_() for t in (*weights, *writes, queries)]
    depth = len(weights)
    outputs, ends = function(
        leaves[:depth], GradientWrites(*leaves[depth:-1]), leaves[-1], rule, read_own
    )
    found = [outputs, *ends]
    loss = sum((t * torch.arange(t.numel()).to(t).cos().view(t.shape)).sum() for t in found)
    assert isinstance(loss, Tensor)
    return [*found, *torch.autograd.grad(loss, leaves)]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert_near(one, other, **MEMORY)


def scan(*arguments: object) -> tuple[Tensor, list[Tensor]]:
    return scanned(scan_memory, *arguments)  # type: ignore[arg-type]


def recurrence(*arguments: object) -> tuple[Tensor, list[Tensor]]:
    return scanned(recur_memory, *arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("read_own", [True, False])
@pytest.mark.parametrize(
    "rule",
    [
        UpdateRule(1),
        UpdateRule(3, "gelu"),
        UpdateRule(4, "silu", 0.5),
        UpdateRule(16),
        UpdateRule(3, "silu", 2.0, 0.5),
    ],
    ids=["plain", "gelu", "bounded", "short", "bounded gradient"],
)
def test_both_forms_equal_the_loop(depth: int, read_own: bool, rule: UpdateRule) -> None:
    arguments = (*setting(11, depth), rule, read_own)
    expected = with_gradients(loop, *arguments)
    assert_equal(with_gradients(recurrence, *arguments), expected)
    assert_equal(with_gradients(scan, *arguments), expected)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 16, 33, 64])
@pytest.mark.parametrize("time", [1, 7, 31, 65])
def test_scan_equals_the_recurrence(chunk: int, time: int) -> None:
    """Odd lengths, chunks from 1 to 64, lengths below a chunk; a chunk of 64 is too long a step to
    leave unbounded."""
    arguments = (*setting(time, 2), UpdateRule(chunk, "silu", 1.0))
    expected = with_gradients(recurrence, *arguments)
    assert_equal(with_gradients(scan, *arguments), expected)


@pytest.mark.parametrize("cuts", [(0, 1, 2, 3, 13), (0, 5, 13), (0, 4, 8, 13), (0, 6, 7, 13)])
@pytest.mark.parametrize("form", [scan_memory, recur_memory])
def test_many_calls_equal_one(
    cuts: tuple[int, ...], form: Callable[..., tuple[Tensor, MemoryState]]
) -> None:
    weights, writes, queries = setting(13, 2)
    rule = UpdateRule(4)
    expected, end = form(start_of(tuple(weights), writes), writes, queries, rule)
    state, found = start_of(tuple(weights), writes), []
    for low, high in itertools.pairwise(cuts):
        outputs, state = form(state, writes.between(low, high), queries[..., low:high, :], rule)
        found.append(outputs)
    assert_near(torch.cat(found, -2), expected, **MEMORY)
    assert_near(state, end, **MEMORY)
    silent = start_of(tuple(weights), writes)
    for low, high in itertools.pairwise(cuts):
        nothing, silent = scan_memory(silent, writes.between(low, high), None, rule)
        assert nothing is None
    assert_near(silent, end, **MEMORY)


@pytest.mark.parametrize("read_own", [True, False])
@pytest.mark.parametrize("last", [0, 5, 9])
@pytest.mark.bitwise
def test_readings_are_causal(read_own: bool, last: int) -> None:
    """A later write moves no earlier reading; the write of a position moves its own reading with
    ``read_own`` and only the next one without."""
    weights, writes, queries = setting(12, 2)
    rule = UpdateRule(4)
    outputs, _ = scan_memory(
        start_of(tuple(weights), writes), writes, queries, rule, read_own=read_own
    )
    other = writes._replace(values=writes.values.clone())
    other.values[..., last, :] += 1.0
    moved, _ = scan_memory(start_of(tuple(weights), other), other, queries, rule, read_own=read_own)
    first = last if read_own else last + 1
    assert torch.equal(moved[..., :first, :], outputs[..., :first, :])
    assert not torch.equal(moved[..., first, :], outputs[..., first, :])


@pytest.mark.parametrize("period", [3, 7])
@pytest.mark.bitwise
def test_gradients_through_many_chunks_need_their_bound(period: int) -> None:
    """Steps of a deep memory that are too long make its last reading a chaotic function of its
    first weights. The bound changes no reading."""
    torch.manual_seed(0)
    time, size = 2048, 8
    start = initial_weights(size, size, 4, 2 * size)
    keys = functional.normalize(torch.randn(1, period, size), dim=-1)
    keys, values = (x.repeat(1, time, 1)[:, :time] for x in (keys, torch.randn(1, period, size)))
    writes = GradientWrites(
        keys, values, *(torch.full((1, time), rate) for rate in (0.1, 0.5, 0.01))
    )
    readings, finite = [], []
    for bound in (None, 1.0):
        weights = tuple(layer.clone().requires_grad_() for layer in start)
        rule = UpdateRule(16, "silu", 10.0, bound)
        outputs, _ = scan_memory(start_of(weights, writes), writes, keys, rule)
        assert outputs is not None
        outputs[:, -1].square().mean().backward()
        readings.append(outputs)
        finite.append(
            [bool(layer.grad is not None and layer.grad.isfinite().all()) for layer in weights]
        )
    assert torch.equal(*readings)
    assert finite == [[False] * 4, [True] * 4]


def test_the_matrix_is_the_delta_rule() -> None:
    """θ = ½ without momentum and forgetting: M += (v − M k) kᵀ."""
    weights, writes, queries = setting(9, 1)
    rates = [torch.full_like(writes.steps, value) for value in (0.5, 0.0, 0.0)]
    _, state = scan_memory(
        start_of(tuple(weights), writes),
        writes._replace(steps=rates[0], momenta=rates[1], forgetting=rates[2]),
        queries,
        UpdateRule(),
    )
    matrix = weights[0]
    for key, value in zip(writes.keys.unbind(-2), writes.values.unbind(-2), strict=True):
        error = value - (matrix @ key.unsqueeze(-1)).squeeze(-1)
        matrix = matrix + error.unsqueeze(-1) * key.unsqueeze(-2)
    assert_near(state.weights[0], matrix, **MEMORY)


def test_equation_16_without_momentum() -> None:
    """M_t = β_t M_0 − Σ θ_i β_t/β_i u_i with all gradients at M_0."""
    weights, writes, queries = setting(7, 2)
    writes = writes._replace(
        momenta=torch.zeros_like(writes.momenta), forgetting=0.9 * writes.forgetting
    )
    _, state = scan_memory(start_of(tuple(weights), writes), writes, queries, UpdateRule(7))
    beta = (1 - writes.forgetting).cumprod(-1)[..., None]
    for layer, (inputs, errors), found in zip(
        weights,
        surprise(tuple(weights), writes.keys, writes.values, "silu"),
        state.weights,
        strict=True,
    ):
        share = writes.steps[..., None] * beta[..., -1:, :] / beta
        expected = beta[..., -1:, :] * layer - (share * errors).mT @ inputs
        assert_near(found, expected, **MEMORY)


def test_forgetting_everything_leaves_the_last_surprise() -> None:
    """α = 1 erases M, η = 0 erases S: neither makes a quotient 0/0 in values or gradients."""
    weights, writes, queries = setting(8, 2)
    writes = writes._replace(
        momenta=torch.zeros_like(writes.momenta), forgetting=torch.ones_like(writes.forgetting)
    )
    for tensor in with_gradients(scan, weights, writes, queries, UpdateRule(8)):
        assert tensor.isfinite().all()
    _, state = scan_memory(start_of(tuple(weights), writes), writes, queries, UpdateRule(8))
    (inputs, errors), *_ = surprise(tuple(weights), writes.keys, writes.values, "silu")
    last = -writes.steps[..., -1:, None] * errors[..., -1:, :].mT @ inputs[..., -1:, :]
    assert_near(state.weights[0], last, **MEMORY)


def test_bounded_surprises_make_weights_grow_linearly_at_worst() -> None:
    """Depth 4 and 4096 positions with steps far too long: unbounded they overflow, bounded not."""
    generator = torch.Generator().manual_seed(0)
    weights = initial_weights(8, 8, 4, 16)
    keys, values = (torch.randn(1, 4096, 8, generator=generator) for _ in range(2))
    steps = torch.ones(1, 4096)
    writes = GradientWrites(keys, values, steps, 0.9 * steps, 0 * steps)
    ends = {}
    for bound in (None, 1.0):
        rule = UpdateRule(16, "silu", bound)
        outputs, state = scan_memory(start_of(weights, writes), writes, keys, rule)
        ends[bound] = outputs.isfinite().all() and all(w.isfinite().all() for w in state.weights)
        if bound is not None:
            norm = torch.stack([w.square().sum() for w in state.weights]).sum().sqrt()
            start = torch.stack([w.square().sum() for w in weights]).sum().sqrt()
            assert norm - start <= bound * 4096 / (1 - 0.9)
    assert not ends[None]
    assert ends[1.0]


def test_an_empty_memory_reads_zeros_and_learns() -> None:
    torch.manual_seed(0)
    weights = initial_weights(KEY, VALUE, 3, WIDTH)
    keys = torch.randn(1, 2, KEY)
    assert not read_memory(weights, keys, "silu").any()
    gradients = surprise(weights, keys, torch.ones(1, 2, VALUE), "silu")
    assert gradients[-1][0].any()
    assert gradients[-1][1].any()


def test_first_layers_have_the_variance_of_the_protocol() -> None:
    torch.manual_seed(0)
    first, second, last = initial_weights(50, 7, 3, 400)
    assert first.var().item() == pytest.approx(2 / 50, rel=0.05)
    assert second.var().item() == pytest.approx(2 / 400, rel=0.05)
    assert last.shape == (7, 400)
    assert [w.shape for w in initial_weights(5, 4, 1, 99)] == [(4, 5)]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (UpdateRule(0), "chunk=0"),
        (UpdateRule(1, "relu"), "relu"),  # type: ignore[arg-type]
        (UpdateRule(1, "silu", 0.0), "largest_surprise=0.0"),
        (UpdateRule(1, "silu", None, 0.0), "largest_gradient=0.0"),
    ],
)
def test_senseless_rules_are_refused(rule: UpdateRule, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rule.checked()
