"""A Memory Mosaic with parts exchanged: what each part looks at."""

from typing import Any

import pytest
import torch

from models.associative.memory_mosaic_varied import MemoryMosaicVaried
from models.memory_mosaic import MemoryMosaic
from models.specification import SequenceSpecification

TOKENS = SequenceSpecification(16, vocabulary=11)
SMALL: dict[str, Any] = {"width": 8, "layers": 2, "heads": 2, "dropout": 0.0}
PARTS: list[dict[str, Any]] = [
    {"keys": "plain"},
    {"values": "next"},
    {"values": "current"},
    {"persistent": "mlp"},
    {"persistent": "none"},
]


def built(model: type[MemoryMosaic], **parts: Any) -> Any:
    torch.manual_seed(0)
    return model(TOKENS, **SMALL, **parts).double().eval()


@pytest.mark.bitwise
def test_without_exchange_it_is_the_mosaic() -> None:
    tokens = torch.randint(0, 11, (3, 9))
    assert torch.equal(built(MemoryMosaic)(tokens), built(MemoryMosaicVaried)(tokens))


@pytest.mark.parametrize("parts", PARTS)
def test_steps_give_what_a_pass_gives_and_the_state_has_its_size(parts: dict[str, Any]) -> None:
    model, tokens = built(MemoryMosaicVaried, **parts), torch.randint(0, 11, (2, 7))
    whole, steps = model(tokens), []
    state: Any = None
    for position in range(7):
        step, state = model.step(tokens[:, position], state)
        steps.append(step)
    torch.testing.assert_close(torch.stack(steps, 1), whole)
    last, _ = model.prefill(tokens)
    torch.testing.assert_close(last, whole[:, -1])
    numbers = 0
    for contextual, average in state:
        numbers += sum(part.numel() for part in contextual) + average.numel()
    assert model.state_bytes(7) == 4 * numbers // 2


@pytest.mark.bitwise
def test_plain_keys_and_values_of_one_input_are_blind_to_the_others() -> None:
    hidden = torch.randn(1, 5, 8, dtype=torch.float64)
    other = hidden.clone()
    other[:, 2] += 1.0
    changed = {}
    for name, parts in (("leaky", {}), ("plain", {"keys": "plain"})):
        memory = built(MemoryMosaicVaried, **parts).blocks[0].contextual
        keys = [memory.prefill(x)[1].keys for x in (hidden, other)]
        changed[name] = (keys[0] != keys[1]).any(-1).any(1)[0].tolist()
    # Of the pairs of positions 0 to 3.
    assert changed == {"leaky": [False, False, True, True], "plain": [False, False, True, False]}
    for name, seen in (("mixed", [1, 2]), ("next", [1]), ("current", [2])):
        memory = built(MemoryMosaicVaried, values=name).blocks[0].contextual
        values = [memory.prefill(x)[1].values for x in (hidden, other)]
        places = (values[0] != values[1]).any(-1).any(1)[0].nonzero()[:, 0].tolist()
        assert places == seen


def test_an_unknown_part_gets_a_sentence() -> None:
    with pytest.raises(ValueError, match="choose one of leaky, plain"):
        built(MemoryMosaicVaried, keys="none")
