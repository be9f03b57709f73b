"""The delta rule with separate read vector, write key and target, against its equations."""

from functools import partial

import pytest
import torch
from torch import Tensor

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.general_delta import Edits, general_delta_loop, general_delta_rule
from models.layers.recurrence.writes import Writes
from tests.models.linear.naive import (
    assert_accurate,
    normal,
    outer,
    read,
    results,
    uniform,
    unit_vectors,
)

BATCH, HEADS, KEY, VALUE = 2, 2, 6, 4


def arguments(length: int, decay: str, strongest: float = 3.0) -> dict[str, Tensor]:
    shape = (BATCH, length, HEADS)
    drawn = {
        "q": normal(*shape, KEY, seed=1),
        "x": 1.2 * unit_vectors(*shape, KEY, seed=2),
        "k": unit_vectors(*shape, KEY, seed=3),
        "z": normal(*shape, VALUE, seed=4),
        "state": normal(BATCH, HEADS, KEY, VALUE, seed=5),
    }
    if decay == "head":
        drawn["g"] = -strongest * uniform(*shape, seed=6) ** 4
    elif decay == "channel":
        drawn["g"] = -strongest * uniform(*shape, KEY, seed=6) ** 4
    return drawn


def naive(
    q: Tensor,
    x: Tensor,
    k: Tensor,
    z: Tensor,
    state: Tensor,
    g: Tensor | None = None,
    *,
    undecayed: bool = False,
) -> tuple[Tensor, Tensor]:
    """S' = Diag(e^g)S;  S = S' + k⊗(z − S'ᵀx);  o = Sᵀq."""
    outputs = []
    for t in range(q.shape[1]):
        decayed = state
        if g is not None:
            rows = g[:, t] if g.dim() == 4 else g[:, t, :, None].expand(-1, -1, KEY)
            decayed = torch.diag_embed(rows.exp()) @ state
        prediction = read(state if undecayed else decayed, x[:, t])
        state = decayed + outer(k[:, t], z[:, t] - prediction)
        outputs.append(read(state, q[:, t]))
    return torch.stack(outputs, 1), state


def in_chunks(
    q: Tensor,
    x: Tensor,
    k: Tensor,
    z: Tensor,
    state: Tensor,
    g: Tensor | None = None,
    *,
    undecayed: bool = False,
    chunk: int | None = None,
) -> tuple[Tensor, Tensor]:
    return general_delta_rule(q, Edits(x, k, z, g, undecayed), state, chunk=chunk)


@pytest.mark.parametrize("undecayed", [False, True])
@pytest.mark.parametrize("decay", ["none", "head", "channel"])
@pytest.mark.parametrize("length", [1, 2, 37])
def test_every_form_equals_the_equations(length: int, decay: str, undecayed: bool) -> None:
    drawn = arguments(length, decay)
    expected = results(partial(naive, undecayed=undecayed), drawn)
    for chunk in (1, 5, 16, 37, 64, None):
        form = partial(in_chunks, undecayed=undecayed, chunk=chunk)
        assert_accurate(results(form, drawn), expected)
    q, x, k, z, state = (drawn[name] for name in ("q", "x", "k", "z", "state"))
    edits = Edits(x, k, z, drawn.get("g"), undecayed)
    output, last = general_delta_loop(q, edits, state)
    assert_accurate(
        {"result 0": output, "result 1": last},
        {"result 0": expected["result 0"], "result 1": expected["result 1"]},
    )


@pytest.mark.parametrize("decay", ["head", "channel"])
def test_strong_decays_leave_values_and_gradients_finite(decay: str) -> None:
    drawn = arguments(37, decay, strongest=30.0)
    expected = results(naive, drawn)
    found = results(partial(in_chunks, chunk=16), drawn)
    assert_accurate(found, expected)
    assert all(tensor.isfinite().all() for tensor in found.values())


@pytest.mark.parametrize("decay", ["none", "head", "channel"])
def test_the_delta_rule_is_the_case_of_one_key(decay: str) -> None:
    """DeltaNet, Gated DeltaNet and KDA: x = βk, z = βv; values and gradients are theirs."""
    drawn = arguments(37, decay)
    drawn |= {"beta": 2 * uniform(BATCH, 37, HEADS, seed=7), "v": drawn.pop("z")}
    del drawn["x"]

    def present(
        q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor, g: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        return linear_recurrence(q, Writes(k, v, g, beta), state)

    def general(
        q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor, g: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        strengths = beta.unsqueeze(-1)
        return general_delta_rule(q, Edits(strengths * k, k, strengths * v, g), state)

    assert_accurate(results(general, drawn), results(present, drawn), 1e-12)


@pytest.mark.parametrize("decay", ["none", "head"])
def test_a_read_vector_of_zeros_adds(decay: str) -> None:
    drawn = arguments(37, decay)
    g, state = drawn.get("g"), drawn["state"]
    q, k, z = drawn["q"], drawn["k"], drawn["z"]
    found = general_delta_rule(q, Edits(torch.zeros_like(k), k, z, g), state)
    expected = linear_recurrence(q, Writes(k, z, g), state)
    assert_accurate(
        dict(zip("os", found, strict=True)), dict(zip("os", expected, strict=True)), 1e-12
    )


def test_pieces_equal_the_whole() -> None:
    drawn = arguments(37, "channel")
    q, x, k, z, g, state = (drawn[name] for name in ("q", "x", "k", "z", "g", "state"))
    whole, last = general_delta_rule(q, Edits(x, k, z, g), state)
    pieces = []
    for piece in (slice(0, 13), slice(13, 14), slice(14, 37)):
        edits = Edits(x, k, z, g).each(lambda part, at=piece: part[:, at])  # type: ignore[misc]
        output, state = general_delta_rule(q[:, piece], edits, state)
        pieces.append(output)
    assert_accurate(
        {"o": torch.cat(pieces, 1), "s": state}, {"o": whole, "s": last}, accuracy=1e-12
    )


def test_a_chunk_of_no_position_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one position, got chunk=0"):
        results(partial(in_chunks, chunk=0), arguments(3, "none"))


@pytest.mark.parametrize("corner", ["erase up to 1", "erase up to 2", "query in the read vector"])
def test_long_sequences_stay_finite(corner: str) -> None:
    """At the corners of the gates that models allow, without a decay, in float32.

    No single step needs to shrink the memory: the norm of a step passes 1 there (1.155 for erase
    gates in [0, 1], 1.414 in [0, 2], 1.40 with the query in the read vector). Gates are 0 or their
    largest value, at random, keys of an alphabet of 18.
    """
    length, width = 8192, 16
    letters = (18 * uniform(1, length, 1, seed=1)).long()
    k = unit_vectors(18, width, seed=2)[letters].float()
    q = unit_vectors(18, width, seed=3)[letters].float()
    bits = (uniform(1, length, 1, width, seed=4) < 0.5).float()
    x = {
        "erase up to 1": bits * k,
        "erase up to 2": 2 * bits * k,
        "query in the read vector": bits[..., :1] * (k + q),
    }[corner]
    edits = Edits(x, k, normal(1, length, 1, 8, seed=5).float())
    outputs, state = general_delta_rule(q, edits)
    assert outputs.isfinite().all()
    assert state.isfinite().all()
    # A memory that forgets half in 693 positions forgets its start, and rounding with it.
    slow = edits._replace(log_decays=torch.full((1, length, 1), -0.01))
    outputs, _ = general_delta_rule(q, slow)
    exact, _ = general_delta_rule(q.double(), slow.each(Tensor.double))
    assert (outputs.double() - exact).abs().max() <= 1e-3 * exact.abs().max()
