"""Tables of limited storage beside a dictionary, and buckets of a hash beside their definition."""

import math
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from models.memories.tables.hashed_table import HashedTable
from models.memories.tables.limited_table import Evicts, LimitedTable
from models.memories.tables.nearest_neighbour import NearestNeighbour
from tests.models.memories.every import random_units

SLOTS, TOKENS, SIZE = 3, 6, 4
# The squared distance of equal keys of length 1 is a sum of products, computed in float64.
EQUAL = 1 - 32 * SIZE * torch.finfo(torch.float64).eps


def held(tokens: list[int], evicts: str) -> OrderedDict[int, int]:
    """Token -> the event at which its latest value was written."""
    table: OrderedDict[int, int] = OrderedDict()
    for event, token in enumerate(tokens):
        if token in table:
            if evicts == "least_recent":
                table.move_to_end(token)
        elif len(table) == SLOTS:
            if evicts == "never":
                continue
            table.popitem(last=False)
        table[token] = event
    return table


@pytest.mark.parametrize("evicts", ["least_recent", "oldest", "never"])
def test_a_full_table_evicts_as_a_dictionary_does(evicts: Evicts) -> None:
    vectors = random_units(TOKENS, SIZE, seed=1)
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randint(TOKENS, (5, 40), generator=generator)
    values = random_units(5, 40, SIZE, seed=3)
    memory = LimitedTable(SIZE, SIZE, slots=SLOTS, evicts=evicts)
    for event in range(40):
        memory.write(vectors[drawn[:, event, None]], values[:, event, None])
        read = memory.read(vectors.expand(5, -1, -1))
        for trial, tokens in enumerate(drawn[:, : event + 1].tolist()):
            expected = held(tokens, evicts)
            exact = read.confidence[trial] >= EQUAL
            assert {token for token in range(TOKENS) if exact[token]} == {*expected}
            for token, written in expected.items():
                assert torch.equal(read.values[trial, token], values[trial, written])


@pytest.mark.bitwise
def test_a_table_with_room_for_all_is_a_search() -> None:
    keys, values = random_units(2, 7, SIZE, seed=1), random_units(2, 7, SIZE, seed=2)
    keys[:, 5] = keys[:, 1]
    search, table = NearestNeighbour(SIZE, SIZE), LimitedTable(SIZE, SIZE, slots=7)
    for memory in (search, table):
        memory.write(keys, values)
    asked = random_units(2, 9, SIZE, seed=3)
    for expected, found in zip(search.read(asked), table.read(asked), strict=True):
        assert torch.equal(found, expected)


def hashed(tables: int, bits: int, local: bool = True) -> HashedTable:
    torch.manual_seed(0)
    return HashedTable(SIZE, SIZE, tables=tables, bits=bits, local=local).double()


def test_a_read_answers_the_nearest_key_of_its_buckets_or_nothing() -> None:
    memory = hashed(tables=2, bits=3)
    keys, values = random_units(8, SIZE, seed=1), random_units(8, SIZE, seed=2)
    memory.write(keys, values)
    asked = random_units(40, SIZE, seed=3)
    read, compared = memory.read(asked), memory.compared(asked)
    planes = memory.planes.numpy()
    lost = 0
    for number, query in enumerate(asked.numpy()):
        sides = [(plane @ query > 0).tolist() for plane in planes]
        shared = [
            place
            for place, key in enumerate(keys.numpy())
            if any(
                (plane @ key > 0).tolist() == mine
                for plane, mine in zip(planes, sides, strict=True)
            )
        ]
        assert compared[number] == len(shared)
        if shared:
            best = min(shared, key=lambda place: np.sum((keys.numpy()[place] - query) ** 2))
            assert torch.equal(read.values[number], values[best])
        else:
            lost += 1
            assert not read.values[number].any()
            assert read.confidence[number] == 0
    assert 0 < lost < len(asked)


@pytest.mark.parametrize("bits", [1, 4])
def test_two_keys_share_a_bucket_as_often_as_their_angle_says(bits: int) -> None:
    """(1 − θ/π)^bits, over 4,000 tables as many draws (Charikar 2002)."""
    memory, tables = hashed(tables=4000, bits=bits), 4000
    key = random_units(1, SIZE, seed=4)
    across = random_units(1, SIZE, seed=5)
    across = normalize(across - (across @ key.T) * key, dim=-1)
    for angle in (0.3, 1.0, 2.0):
        query = math.cos(angle) * key + math.sin(angle) * across
        share = (memory._buckets(key) == memory._buckets(query)).double().mean().item()
        expected = (1 - angle / math.pi) ** bits
        four_deviations = 4 * math.sqrt(expected * (1 - expected) / tables)
        assert share == pytest.approx(expected, abs=four_deviations)


def test_a_hash_that_is_not_local_knows_equal_keys_alone() -> None:
    memory = hashed(tables=1, bits=30, local=False)
    keys = random_units(20, SIZE, seed=6)
    memory.write(keys, keys)
    assert (memory.compared(keys) == 1).all()
    moved = normalize(keys + 0.05 * random_units(20, SIZE, seed=7), dim=-1)
    assert not memory.compared(moved).any()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LimitedTable(2, 2, slots=0), "slots is a number of pairs, at least 1, got 0"),
        (
            lambda: LimitedTable(2, 2, evicts="random"),  # type: ignore[arg-type]
            "evicts is one of least_recent, oldest, never, got 'random'",
        ),
        (lambda: HashedTable(2, 2, tables=0), "got 0 tables of 8 bits"),
        (lambda: HashedTable(2, 2, bits=61), "bits from 1 to 60"),
        (lambda: HashedTable(2, 2).compared(torch.ones(1, 2)), "write to it first"),
    ],
)
def test_mistakes_get_a_sentence(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
