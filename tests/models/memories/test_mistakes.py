"""What memories do with mistakes and with numbers, modes and uses at the edge."""

import copy
import pickle
from typing import Any

import pytest
import torch

from tests.closeness import assert_near
from tests.models.memories.every import (
    KEYS,
    VALUES,
    assert_identical,
    on_every_case,
    pairs,
    queries,
    small,
)


def wrong(kind: str) -> tuple[Any, Any]:
    keys, values = pairs(2, 4)
    if kind == "NaN key":
        keys[1, 2, 3] = torch.nan
    elif kind == "infinite value":
        values[0, 1, 2] = torch.inf
    elif kind == "too large":
        values = 1e154 * values
    elif kind == "no numbers":
        values = values.to("meta")
    return {
        "width of keys": (keys[..., 1:], values),
        "width of values": (keys, values[..., 1:]),
        "fewer values": (keys, values[:, 1:]),
        "no items axis": (keys[0, 0], values[0, 0]),
        "batch": (keys[:1], values[:1]),
        "integers": (keys.long(), values.long()),
        "complex": (keys + 1j, values + 1j),
        "sparse": (keys.to_sparse(), values),
        "lists": ([[0.0] * KEYS], [[0.0] * VALUES]),
        "types that differ": (keys, values.float()),
        "another type": (keys.float(), values.float()),
    }.get(kind, (keys, values))


SENTENCES = {
    "NaN key": r"keys hold NaN or infinity",
    "infinite value": r"values hold NaN or infinity",
    "width of keys": r"keys are \(\*batch, items, 8\)",
    "width of values": r"values are \(\*batch, items, 7\)",
    "fewer values": r"each key has one value",
    "no items axis": r"keys are \(\*batch, items, 8\)",
    "batch": r"holds a batch \(2,\), got \(1,\)",
    "integers": r"give a float type",
    "complex": r"give a float type",
    "sparse": r"keys are no dense tensor",
    "lists": r"keys are no dense tensor",
    "types that differ": r"same type and device|move one of them",
    "another type": r"give the same, or reset it|move one of them",
    "too large": r"values reach .* do not fit float64",
    "no numbers": r"values are no dense tensor",
}
IN_VALUES = {
    "infinite value",
    "width of values",
    "fewer values",
    "types that differ",
    "too large",
    "no numbers",
}


@on_every_case
@pytest.mark.bitwise
def test_mistakes_get_a_sentence_and_change_nothing(name: str, settings: dict, card: dict) -> None:
    memory = small(name, settings)
    memory.write(*pairs(2, 3))
    before = memory.read(queries(2, 5))
    for kind, sentence in SENTENCES.items():
        with pytest.raises(ValueError, match=sentence):
            memory.write(*wrong(kind))
        assert_identical(memory.read(queries(2, 5)), before)
    for kind in SENTENCES.keys() - IN_VALUES:
        with pytest.raises(ValueError, match=SENTENCES[kind]):
            memory.read(wrong(kind)[0])


@on_every_case
@pytest.mark.parametrize("scale", [1e-30, 1e6, 1e18])
def test_an_answer_out_of_range_is_nan_and_not_trusted(
    name: str, settings: dict, card: dict, scale: float
) -> None:
    """Never infinity, nor a confidence that is no number; and reset makes it good again."""
    memory = small(name, settings, torch.float32)
    keys, values = pairs(2, 4, dtype=torch.float32)
    memory.write(scale * keys, scale * values)
    read, confidence = memory.read(scale * keys)
    lost = read.isnan().any(-1)
    assert (read.isfinite().all(-1) | read.isnan().all(-1)).all()
    assert (confidence[lost] == memory.lowest_confidence).all()
    assert confidence.isfinite().all()
    memory.reset()
    memory.write(keys, values)
    assert memory.read(keys).values.isfinite().all()


def test_a_step_that_is_too_long_for_the_keys_is_such_a_case() -> None:
    """The delta rule multiplies errors by 1 - b |k|², here 1 - 1e12."""
    memory = small("delta_rule", {}, torch.float32)
    keys, values = pairs(4, dtype=torch.float32)
    memory.write(1e6 * keys[:1].expand(4, KEYS), values)
    assert memory.read(keys).values.isnan().all()
    assert (memory.read(keys).confidence == 0).all()


@on_every_case
def test_of_no_memories_there_is_nothing_to_write(name: str, settings: dict, card: dict) -> None:
    memory = small(name, settings)
    memory.write(*pairs(0, 4))
    values, confidence = memory.read(queries(0, 3))
    assert (values.shape, confidence.shape) == ((0, 3, VALUES), (0, 3))
    assert memory.size_in_bytes() == 0


@on_every_case
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.bitwise
def test_gradients_of_queries_after_a_write_without(
    name: str, settings: dict, card: dict, mode: Any
) -> None:
    memory, plain = small(name, settings), small(name, settings)
    with mode():
        memory.write(*pairs(2, 4))
    memory.write(*pairs(2, 2))
    for part in (pairs(2, 4), pairs(2, 2)):
        plain.write(*part)
    gradients = []
    for one in (memory, plain):
        asked = queries(2, 3).requires_grad_()
        read = one.read(asked)
        if read.values.requires_grad:
            read.values.sum().backward()
        gradients.append(asked.grad)
    assert (gradients[0] is None) == (gradients[1] is None)
    if gradients[0] is not None:
        assert_near(*gradients, terms=30, condition=1000)


@on_every_case
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.bitwise
def test_a_copy_is_a_memory_of_its_own(name: str, settings: dict, card: dict, copied: Any) -> None:
    memory = small(name, settings)
    memory.write(*(given.requires_grad_() for given in pairs(2, 4)))
    other = copied(memory)
    before = memory.read(queries(2, 5))
    assert_identical(other.read(queries(2, 5)), before)
    other.write(*pairs(2, 3))
    memory_now = memory.read(queries(2, 5))
    assert_identical(memory_now, before)
    memory.reset()
    memory.reset()
    assert not other.is_empty
