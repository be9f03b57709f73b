"""The recurrence of the linear models against matrices that are multiplied one after the other."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from models.layers.linear_recurrence import linear_recurrence, recurrence_loop, recurrence_step
from models.layers.recurrence.writes import Writes

RULES = ("additive", "delta", "rank one")
DECAYS = ("none", "head", "channel")
BATCH, HEADS, KEY, VALUE = 2, 2, 4, 3
NAMES = ("queries", "keys", "values", "log_decays", "strengths", "a", "b", "state")
Tensors = dict[str, Any]  # a tensor or None

on_every_rule = pytest.mark.parametrize("rule", RULES)
on_every_decay = pytest.mark.parametrize("decay", DECAYS)


def tensors(
    rule: str,
    decay: str,
    length: int,
    *,
    seed: int = 0,
    decays: tuple[float, float] = (1e-6, 30.0),
    alphabet: int | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensors:
    """Random arguments. −g is log-uniform between ``decays``, β uniform on [0, 2] or just 2, and
    keys are unit vectors of an ``alphabet`` of so many, or all different."""
    generator = torch.Generator().manual_seed(seed)
    shape = (BATCH, length, HEADS)
    normal = partial(torch.randn, generator=generator, dtype=torch.float64)
    uniform = partial(torch.rand, generator=generator, dtype=torch.float64)

    keys = normal(*shape, KEY)
    if alphabet is not None:
        letters = torch.randint(alphabet, shape, generator=generator)
        keys = normal(alphabet, KEY)[letters]
    keys = keys / keys.norm(dim=-1, keepdim=True)
    low, high = (torch.tensor(x, dtype=torch.float64).log() for x in decays)
    widths: dict[str, tuple[int, ...]] = {"head": (), "channel": (KEY,)}
    made: Tensors = dict.fromkeys(NAMES)
    made |= {"queries": normal(*shape, KEY), "keys": keys, "values": normal(*shape, VALUE)}
    made["state"] = normal(BATCH, HEADS, KEY, VALUE)
    if decay != "none":
        made["log_decays"] = -(low + (high - low) * uniform(*shape, *widths[decay])).exp()
    if rule == "delta":
        made["strengths"] = (3 * uniform(*shape)).clamp(max=2)
    if rule == "rank one":
        made |= {"a": -keys, "b": keys * uniform(*shape, KEY)}
    return {name: None if x is None else x.to(dtype) for name, x in made.items()}


def call(form: Callable[..., tuple[Tensor, Tensor]], given: Tensors) -> tuple[Tensor, Tensor]:
    q, k, v, g, beta, a, b, state = (given[name] for name in NAMES)
    return form(q, Writes(k, v, g, beta, None if a is None else (a, b)), state)


def by_matrices(given: Tensors) -> tuple[Tensor, Tensor]:
    """S_t = M_t S_{t−1} + k_t v_tᵀ with the matrix M_t of each position written out."""
    q, k, v, g, beta, a, b, state = (given[name] for name in NAMES)
    outputs = []
    for t in range(q.shape[1]):
        kept = torch.ones_like(k[:, t])
        if g is not None:
            kept = kept * (g[:, t] if g.dim() == 4 else g[:, t, :, None]).exp()
        matrix = torch.diag_embed(kept)
        written = k[:, t]
        if beta is not None:
            erased = torch.einsum("bh,bhi,bhj->bhij", beta[:, t], k[:, t], k[:, t])
            matrix = (torch.eye(KEY, dtype=k.dtype) - erased) @ matrix
            written = beta[:, t, :, None] * k[:, t]
        if a is not None and b is not None:
            matrix = matrix + torch.einsum("bhi,bhj->bhij", b[:, t], a[:, t])
        state = matrix @ state + torch.einsum("bhk,bhv->bhkv", written, v[:, t])
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state))
    return torch.stack(outputs, 1), state


def results(
    compute: Callable[[Tensors], tuple[Tensor, Tensor]], given: Tensors
) -> dict[str, Tensor]:
    """Outputs, last state, and the gradients of a sum over both with weights of all sizes."""
    leaves = {n: None if x is None else x.clone().requires_grad_() for n, x in given.items()}
    outputs, state = compute(leaves)
    places = torch.arange(outputs.numel() + state.numel()).to(outputs).cos()
    both = torch.cat((outputs.flatten(), state.flatten().to(outputs)))
    present = {name: x for name, x in leaves.items() if x is not None}
    gradients = torch.autograd.grad((both * places).sum(), list(present.values()))
    return {"outputs": outputs, "last": state, **dict(zip(present, gradients, strict=True))}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, target in expected.items():
        error = float((found[name].detach() - target.detach()).abs().max())
        assert error <= tolerance * max(1.0, float(target.detach().abs().max())), (name, error)


def chunked(given: Tensors, chunk: int | None = None) -> tuple[Tensor, Tensor]:
    return call(partial(linear_recurrence, chunk=chunk), given)


@on_every_decay
@on_every_rule
@pytest.mark.parametrize(("length", "chunks"), [(1, (1,)), (2, (1, 2, 64)), (257, (16, 64, None))])
def test_chunks_and_loop_equal_the_matrices(
    rule: str, decay: str, length: int, chunks: Sequence[int | None]
) -> None:
    given_ones = tensors(rule, decay, length, alphabet=5)
    expected = results(by_matrices, given_ones)
    assert_equal(results(partial(call, recurrence_loop), given_ones), expected, 1e-9)
    for chunk in chunks:
        assert_equal(results(partial(chunked, chunk=chunk), given_ones), expected, 1e-9)


@given(
    rule=st.sampled_from(RULES),
    decay=st.sampled_from(DECAYS),
    length=st.integers(2, 67),
    chunk=st.integers(1, 64),
    decays=st.sampled_from([(1e-6, 2e-6), (1e-6, 30.0), (29.0, 30.0)]),
    alphabet=st.sampled_from([None, 1, 2, 18]),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=40)
def test_any_chunk_equals_the_matrices(
    rule: str,
    decay: str,
    length: int,
    chunk: int,
    decays: tuple[float, float],
    alphabet: int | None,
    seed: int,
) -> None:
    made = tensors(rule, decay, length, decays=decays, alphabet=alphabet, seed=seed)
    expected = results(by_matrices, made)
    assert_equal(results(partial(chunked, chunk=chunk), made), expected, 1e-9)


@on_every_decay
@on_every_rule
def test_a_sequence_may_be_cut(rule: str, decay: str) -> None:
    """The pieces go on from the state, the last ones position by position."""
    made = tensors(rule, decay, 37)
    outputs, last = chunked(made, 16)
    pieces: list[Tensor] = []
    state = made["state"]
    for start, end in ((0, 13), (13, 30), *((t, t + 1) for t in range(30, 37))):
        piece = {n: None if x is None else x[:, start:end] for n, x in made.items()}
        found, state = chunked(piece | {"state": state}, 16)
        pieces.append(found)
    assert_equal(
        {"outputs": torch.cat(pieces, 1), "last": state}, {"outputs": outputs, "last": last}, 1e-12
    )


@pytest.mark.bitwise
@on_every_decay
@on_every_rule
def test_outputs_do_not_change_with_what_comes_later(rule: str, decay: str) -> None:
    made, other = tensors(rule, decay, 37), tensors(rule, decay, 37, seed=1)
    mixed = {
        n: x if n == "state" or x is None else torch.cat((x[:, :21], other[n][:, 21:]), 1)
        for n, x in made.items()
    }
    assert torch.equal(chunked(mixed, 16)[0][:, :21], chunked(made, 16)[0][:, :21])


@on_every_decay
@on_every_rule
def test_float32_stays_finite_and_near_over_long_times(rule: str, decay: str) -> None:
    """8,192 positions with one key in all of them or a few, and decays from none to all."""
    made = tensors(rule, decay, 8192, alphabet=3, decays=(1e-6, 30.0))
    found = results(chunked, {n: None if x is None else x.float() for n, x in made.items()})
    assert all(x.dtype == torch.float32 for x in found.values())
    assert all(x.isfinite().all() for x in found.values())
    with torch.no_grad():
        outputs, last = chunked(made)
    expected = {"outputs": outputs, "last": last}
    assert_equal({name: found[name].double() for name in expected}, expected, 1e-4)


class Numbers(TorchDispatchMode):
    """Counts the numbers that all operations give, those of gradients too."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if not func.is_view:
            leaves = pytree.tree_leaves(found)
            self.count += sum(x.numel() for x in leaves if isinstance(x, Tensor))
        return found


@on_every_decay
@on_every_rule
def test_work_is_linear_in_time(rule: str, decay: str) -> None:
    counts = []
    for length in (256, 1024):
        made = tensors(rule, decay, length)
        with Numbers() as numbers:
            results(partial(chunked, chunk=16), made)
        counts.append(numbers.count)
    assert counts[1] < 4.2 * counts[0]


@pytest.mark.parametrize("strength", [1.0, 2.0])
@pytest.mark.parametrize("decay", ["none", "channel"])
def test_one_key_again_and_again_is_exact_in_float32(strength: float, decay: str) -> None:
    """Where an inverse by powers of the system loses all digits."""
    made = tensors("delta", decay, 512, alphabet=1, decays=(1e-6, 2e-6))
    made["strengths"] = torch.full_like(made["strengths"], strength)
    with torch.no_grad():
        expected, last = call(recurrence_loop, made)
        found, state = chunked({n: None if x is None else x.float() for n, x in made.items()}, 64)
    assert_equal({"o": found.double(), "s": state.double()}, {"o": expected, "s": last}, 1e-4)
    if strength == 1:  # it holds the last value of the key, and what is across it
        assert last.norm() <= made["values"].norm(dim=-1).max() * 2 + made["state"].norm()


def test_orthonormal_keys_are_stored_and_returned() -> None:
    keys = torch.eye(4, dtype=torch.float64)[None, :, None]
    values = torch.randn(1, 4, 1, 3, dtype=torch.float64)
    ones = torch.ones(1, 4, 1, dtype=torch.float64)
    _, state = linear_recurrence(keys, Writes(keys, values, strengths=ones))
    for position in range(4):
        read, _ = recurrence_step(
            keys[:, position], Writes(keys[:, 0], 0 * values[:, 0], strengths=0 * ones[:, 0]), state
        )
        assert_equal({"v": read}, {"v": values[:, position]}, 1e-12)


def test_forms_that_are_special_cases_of_others() -> None:
    made = tensors("delta", "head", 37)
    g, beta, k = made["log_decays"], made["strengths"], made["keys"]
    expected = dict(zip(("o", "s"), chunked(made), strict=True))
    by_channel = made | {"log_decays": g[..., None].expand(*g.shape, KEY)}
    assert_equal(dict(zip(("o", "s"), chunked(by_channel), strict=True)), expected, 1e-12)
    strong = beta[..., None] * k
    rank_one = made | {"strengths": None, "keys": strong, "a": -k, "b": g.exp()[..., None] * strong}
    assert_equal(dict(zip(("o", "s"), chunked(rank_one), strict=True)), expected, 1e-12)
    zero = tensors("additive", "none", 37)
    still = zero | {"log_decays": torch.zeros(1, 37, HEADS, dtype=torch.float64)}
    expected = dict(zip(("o", "s"), chunked(zero), strict=True))
    assert_equal(dict(zip(("o", "s"), chunked(still), strict=True)), expected, 1e-12)


@on_every_rule
@pytest.mark.parametrize("length", [1, 37])
def test_heads_and_sequences_may_share(rule: str, length: int) -> None:
    """Keys and queries of one head for all, and decays of one sequence for all."""
    made = tensors(rule, "head", length)
    names = [n for n in ("queries", "keys", "a", "b") if made[n] is not None]
    shared = made | {n: made[n][:, :, :1] for n in names}
    shared["log_decays"] = made["log_decays"][:1]
    whole = shared | {n: shared[n].expand(-1, -1, HEADS, -1) for n in names}
    whole["log_decays"] = shared["log_decays"].expand(BATCH, -1, -1)
    expected = dict(zip(("o", "s"), by_matrices(whole), strict=True))
    for form in (chunked, partial(call, recurrence_loop)):
        assert_equal(dict(zip(("o", "s"), form(shared), strict=True)), expected, 1e-12)


@pytest.mark.bitwise
def test_single_precision_is_kept_under_autocast() -> None:
    made = tensors("delta", "channel", 40, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, state = chunked(made)
    expected, last = chunked(made)
    assert torch.equal(outputs, expected)
    assert torch.equal(state, last)
    half = {n: None if x is None or n == "state" else x.bfloat16() for n, x in made.items()}
    outputs, state = chunked(half)
    assert (outputs.dtype, state.dtype) == (torch.bfloat16, torch.float32)


def test_what_cannot_be_is_refused() -> None:
    made = tensors("delta", "none", 4)
    both = made | {"a": made["keys"], "b": made["keys"]}
    with pytest.raises(ValueError, match="strengths or vectors of rank one, got both"):
        chunked(both)
    with pytest.raises(ValueError, match="at least one position, got chunk=0"):
        chunked(made, 0)
