"""What every memory owes its users; a new file in ``models/memories/`` is tested without an edit.

Memories are found by their YAML files and built small. Their cards say what their theory promises
(``models/memories/interface.py``); some are tested in more settings than their defaults.
"""

import inspect

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bench.config import groups
from models.memories.interface import Reading
from reproduce.plotting.models import look
from tests.models.memories.every import (
    KEYS,
    NAMES,
    VALUES,
    assert_identical,
    assert_same,
    configuration,
    constructor,
    hyperparameters,
    on_every_case,
    on_every_memory,
    pairs,
    promised,
    queries,
    random_units,
    small,
)


def test_memories_are_found() -> None:
    assert NAMES


@on_every_memory
def test_card_is_complete(name: str) -> None:
    card = configuration(name)["card"]
    assert all(isinstance(card[key], str) and card[key] for key in ("label", "source", "note"))
    assert groups.card("memories", name) == card  # refuses keys that nobody reads
    assert look(name).colour  # refuses what cannot be drawn
    assert card["state"] in ("fixed", "grows")
    assert card.get("gradients", False) is False
    if "calls" in card:
        assert card["calls"] == "matter"
    else:
        assert card["order"] in ("any", "matters")


@on_every_memory
def test_defaults_of_the_constructor_are_those_of_the_yaml(name: str) -> None:
    parameters = list(inspect.signature(constructor(name)).parameters.values())
    assert [parameter.name for parameter in parameters[:2]] == ["key_size", "value_size"]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[2:])
    assert {p.name: p.default for p in parameters[2:]} == hyperparameters(name)


@on_every_memory
def test_sizes_below_one_are_refused(name: str) -> None:
    for sizes in ((0, 3), (3, 0)):
        with pytest.raises(ValueError, match="at least one number"):
            small(name, {}, sizes=sizes)


SHAPES_AND_TYPES: list[tuple[torch.dtype, tuple[int, ...]]] = [
    (torch.float64, ()),
    (torch.float64, (2, 3)),
    (torch.float32, (2,)),
    (torch.bfloat16, (2,)),
    (torch.float16, (2,)),
]


@on_every_case
def test_readings_have_the_shape_and_type_of_the_queries(
    name: str, settings: dict, card: dict
) -> None:
    for dtype, batch in SHAPES_AND_TYPES:
        memory = small(name, settings, dtype)
        memory.write(*pairs(*batch, 3, dtype=dtype))
        memory.write(*pairs(*batch, 1, dtype=dtype))
        values, confidence = memory.read(queries(*batch, 5, dtype=dtype))
        assert (values.shape, values.dtype) == ((*batch, 5, VALUES), dtype)
        assert (confidence.shape, confidence.dtype) == ((*batch, 5), dtype)
        assert values.isfinite().all()
        assert (confidence >= memory.lowest_confidence).all()
        assert memory.read(queries(*batch, 0, dtype=dtype)).values.shape == (*batch, 0, VALUES)


@on_every_case
def test_few_pairs_are_recalled_and_known(name: str, settings: dict, card: dict) -> None:
    """Three random pairs in 32 dimensions fit into every memory."""
    memory = small(name, settings, sizes=(32, 32))
    keys, values, others = (random_units(5, 3, 32, seed=seed) for seed in (1, 2, 3))
    memory.write(keys, values)
    read, confidence = memory.read(keys)
    scores = functional.normalize(read, dim=-1) @ values.mT
    assert (scores.argmax(-1) == torch.arange(3)).double().mean() > 0.9
    unknown = memory.read(others).confidence
    assert (confidence[..., :, None] > unknown[..., None, :]).double().mean() > 0.75


@on_every_case
def test_an_empty_memory_answers_zeros(name: str, settings: dict, card: dict) -> None:
    memory = small(name, settings)
    for empty in ("never written", "no items", "reset"):
        if empty != "never written":
            memory.write(*pairs(2, 0 if empty == "no items" else 4))
        if empty == "reset":
            memory.reset()
        assert memory.is_empty, empty
        assert memory.size_in_bytes() == 0, empty
        values, confidence = memory.read(queries(2, 3))
        assert torch.equal(values, torch.zeros(2, 3, VALUES, dtype=torch.float64)), empty
        assert (confidence == memory.lowest_confidence).all(), empty


@on_every_case
@pytest.mark.bitwise
def test_no_items_change_nothing(name: str, settings: dict, card: dict) -> None:
    memory = small(name, settings)
    memory.write(*pairs(2, 4))
    before, size = memory.read(queries(2, 5)), memory.size_in_bytes()
    memory.write(*pairs(2, 0))
    assert_identical(memory.read(queries(2, 5)), before)
    assert memory.size_in_bytes() == size


@on_every_case
@pytest.mark.bitwise
def test_reset_forgets_everything(name: str, settings: dict, card: dict) -> None:
    fresh, used = small(name, settings), small(name, settings)
    used.write(random_units(3, 5, KEYS, seed=8), random_units(3, 5, VALUES, seed=9))
    used.reset()
    for memory in (fresh, used):
        memory.write(*pairs(2, 4))
    assert_identical(used.read(queries(2, 5)), fresh.read(queries(2, 5)))


@on_every_case
def test_calls_may_be_split(name: str, settings: dict, card: dict) -> None:
    if promised(name, card, "calls") == "matter":
        pytest.skip("the card says that each call is a training of its own")
    keys, values = pairs(2, 9)
    keys[:, 6], keys[:, 7] = keys[:, 1], keys[:, 5]
    whole, parts = small(name, settings), small(name, settings)
    whole.write(keys, values)
    for part in (slice(0, 3), slice(3, 4), slice(4, 6), slice(6, 9)):
        parts.write(keys[:, part], values[:, part])
    assert_same(name, parts.read(queries(2, 5)), whole.read(queries(2, 5)))
    assert_same(name, parts.read(keys), whole.read(keys))
    assert parts.size_in_bytes() == whole.size_in_bytes()


@on_every_case
def test_order_is_as_the_card_says(name: str, settings: dict, card: dict) -> None:
    """Two items share a key, so that whoever goes by order must answer otherwise."""
    order = promised(name, card, "order")
    if order is None:
        pytest.skip("the card promises nothing of the order")
    keys, values = pairs(2, 6)
    keys[:, 4] = keys[:, 1]
    forwards, backwards = small(name, settings), small(name, settings)
    forwards.write(keys, values)
    backwards.write(keys.flip(1), values.flip(1))
    read, other = (memory.read(keys) for memory in (forwards, backwards))
    if order == "any":
        assert_same(name, other, read)
    else:
        assert not torch.allclose(other.values, read.values, rtol=1e-6, atol=1e-6)


@on_every_case
def test_size_is_as_the_card_says(name: str, settings: dict, card: dict) -> None:
    memory = small(name, settings)
    sizes = []
    for seed in (4, 5, 6):
        memory.write(random_units(2, 4, KEYS, seed=seed), random_units(2, 4, VALUES, seed=seed))
        sizes.append(memory.size_in_bytes())
        memory.read(queries(2, 3))
        assert memory.size_in_bytes() == sizes[-1]
    assert 0 < memory.weights_in_bytes() <= sizes[-1]
    if promised(name, card, "state") == "fixed":
        assert sizes[0] == sizes[1] == sizes[2]
    else:
        assert sizes[0] < sizes[1] < sizes[2]


@on_every_case
def test_memories_of_a_batch_are_independent(name: str, settings: dict, card: dict) -> None:
    if promised(name, card, "calls") == "matter":
        pytest.skip("another order of sums may lead a training elsewhere")
    keys, values = pairs(2, 3, 6)
    keys[0, 0, 5] = keys[0, 0, 2]  # one memory of the batch has fewer distinct keys
    keys[1, 2, 4] = 0
    values[1, 2, 4] = values[1, 2, 0]
    asked = queries(2, 3, 5)
    together = small(name, settings)
    together.write(keys, values)
    read = together.read(asked)
    for index in ((0, 0), (0, 1), (1, 2)):
        alone = small(name, settings)
        alone.write(keys[index], values[index])
        expected = alone.read(asked[index])
        assert_same(name, Reading(read.values[index], read.confidence[index]), expected)


@on_every_case
@pytest.mark.bitwise
def test_a_memory_of_a_batch_does_not_change_with_the_others(
    name: str, settings: dict, card: dict
) -> None:
    """To the bit, with values of the others that are not those of the same keys."""
    keys, values = pairs(2, 3, 6)
    keys[:, :, 5] = keys[:, :, 2]
    mine = torch.zeros(2, 3, 1, 1, dtype=torch.bool)
    mine[1, 2] = True
    readings = []
    for written in (values, torch.where(mine, values, values.flip(2))):
        memory = small(name, settings)
        memory.write(keys, written)
        readings.append(memory.read(queries(2, 3, 5)))
    before, after = readings
    assert_identical(Reading(*(part[1, 2] for part in after)), Reading(*(p[1, 2] for p in before)))
    assert not torch.equal(after.values[0, 0], before.values[0, 0])


@on_every_case
def test_keys_written_many_times_and_zeros_stay_finite(
    name: str, settings: dict, card: dict
) -> None:
    keys, values = pairs(6)
    keys[1:4] = keys[0]
    keys[5] = 0
    values[4] = 0
    memory = small(name, settings)
    memory.write(keys, values)
    read, confidence = memory.read(torch.cat((keys, queries(2))))
    assert read.isfinite().all()
    assert confidence.isfinite().all()


@on_every_case
@pytest.mark.bitwise
def test_reading_changes_nothing_and_draws_nothing(name: str, settings: dict, card: dict) -> None:
    memory = small(name, settings)
    keys, values = pairs(2, 4)
    before = torch.get_rng_state()
    memory.write(keys, values)
    first = memory.read(queries(2, 5))
    kept = Reading(first.values.clone(), first.confidence.clone())
    first.values.detach().zero_()
    keys.zero_()
    values.zero_()
    assert_identical(memory.read(queries(2, 5)), kept)
    assert torch.equal(before, torch.get_rng_state())


@on_every_case
def test_gradients(name: str, settings: dict, card: dict) -> None:
    if promised(name, card, "gradients") is False:
        pytest.skip("the card says that no gradient flows through the whole memory")
    memory = small(name, settings, sizes=(4, 3))

    def write_and_read(keys: Tensor, values: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        memory.reset()
        memory.write(keys[:, :3], values[:, :3])
        memory.write(keys[:, 3:], values[:, 3:])
        return memory.read(asked)

    given = [random_units(2, 5, 4, seed=1), random_units(2, 5, 3, seed=2)]
    given.append(random_units(2, 3, 4, seed=3))
    assert torch.autograd.gradcheck(
        write_and_read, [x.requires_grad_() for x in given], nondet_tol=1e-5
    )


@on_every_case
def test_float32_is_near_float64(name: str, settings: dict, card: dict) -> None:
    if promised(name, card, "calls") == "matter":
        pytest.skip("a training need not take the same way in another precision")
    readings = []
    for dtype in (torch.float32, torch.float64):
        memory = small(name, settings, torch.float32).to(dtype)
        memory.write(*(x.to(dtype) for x in pairs(2, 5, dtype=torch.float32)))
        readings.append(memory.read(queries(2, 5, dtype=torch.float32).to(dtype)))
    single, double = readings
    assert_same(name, single, double, torch.float32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@on_every_case
def test_a_gpu_gives_the_same(name: str, settings: dict, card: dict) -> None:
    keys, values = pairs(2, 9)
    keys[:, 6] = keys[:, 1]
    here, there = small(name, settings), small(name, settings).to("cuda")
    here.write(keys, values)
    there.write(keys.cuda(), values.cuda())
    expected, read = here.read(queries(2, 5)), there.read(queries(2, 5).cuda())
    if promised(name, card, "calls") == "matter":
        assert read.values.isfinite().all()
    else:
        assert_same(name, Reading(*(x.cpu() for x in read)), expected)
    with pytest.raises(ValueError, match=r"give the same|move one of them"):
        there.write(keys, values)
