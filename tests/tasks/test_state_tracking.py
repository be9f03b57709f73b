"""State tracking: groups against matrices of permutations, words against a loop, scores by hand."""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tasks.state_tracking import StateTracking
from tasks.state_tracking.groups import GROUPS, Group

SMALL: dict[str, Any] = {"length": 6, "factors": [1, 2, 4], "validation_size": 8, "test_size": 40}


def matrices(points: int, *, even: bool) -> np.ndarray:
    """Permutation matrices, told even from odd by their determinants."""
    every = np.array([np.eye(points)[:, list(p)] for p in itertools.permutations(range(points))])
    return every[np.linalg.det(every) > 0] if even else every


@pytest.mark.parametrize(("name", "points", "even"), [("s3", 3, False), ("a5", 5, True)])
def test_products_are_those_of_permutation_matrices(name: str, points: int, even: bool) -> None:
    every = matrices(points, even=even)
    products = np.einsum("aij,bjk->abik", every, every)
    assert np.array_equal(every[GROUPS[name]().table], products)


@pytest.mark.parametrize("name", GROUPS)
def test_tables_are_groups_of_the_right_kind(name: str) -> None:
    table = GROUPS[name]().table
    everything = np.arange(len(table))
    assert np.array_equal(table[0], everything)
    assert np.array_equal(table[:, 0], everything)
    assert (np.sort(table) == everything).all()
    assert (np.sort(table.T) == everything).all()
    for c in everything:  # (ab)c = a(bc)
        assert np.array_equal(table[table, c], table[everything[:, None], table[None, :, c]])
    kinds = {
        "parity": {1: 1, 2: 1},
        "z60": {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 2, 10: 4, 12: 4, 15: 8, 20: 8, 30: 8, 60: 16},
        "s3": {1: 1, 2: 3, 3: 2},
        "a5": {1: 1, 2: 15, 3: 20, 5: 24},
        "s5": {1: 1, 2: 25, 3: 20, 4: 30, 5: 24, 6: 20},
    }
    assert Counter(order_of(int(element), table) for element in everything) == kinds[name]


def order_of(element: int, table: np.ndarray) -> int:
    power, count = element, 1
    while power:
        power, count = int(table[power, element]), count + 1
    return count


def test_commutators_and_small_letters_are_the_known_ones() -> None:
    known = {"parity": 1, "z60": 1, "s3": 3, "a5": 60, "s5": 60}
    assert {name: make().commutators for name, make in GROUPS.items()} == known
    small = {name: make().small for name, make in GROUPS.items()}
    assert {name: len(letters) for name, letters in small.items()} == {
        "parity": 0,
        "z60": 0,
        "s3": 1 + 3,
        "a5": 1 + 20,
        "s5": 1 + 10,
    }
    for name in ("s3", "a5", "s5"):
        assert len(reached(GROUPS[name]())) == GROUPS[name]().order


def reached(group: Group) -> set[int]:
    found = {0}
    while grown := {int(group.table[a, b]) for a in group.small for b in found} - found:
        found |= grown
    return found


@pytest.mark.parametrize("letters", ["all", "small"])
def test_states_are_what_the_letters_do_to_five_cups(letters: Any) -> None:
    elements = list(itertools.permutations(range(5)))
    batch = StateTracking(group="s5", letters=letters, **SMALL).training_batch(3, 5, 4)
    for word, states in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        cups = list(range(5))  # where the cup that began at each place is now
        for letter, state in zip(word, states, strict=True):
            cups = [elements[letter][place] for place in cups]
            assert tuple(cups) == elements[state]
    moved = [sum(a != b for a, b in enumerate(elements[x])) for x in batch.inputs.flatten()]
    assert (max(moved) <= 2) == (letters == "small")


def test_cyclic_states_are_sums_and_all_states_are_as_frequent() -> None:
    for name, order in (("parity", 2), ("z60", 60)):
        batch = StateTracking(group=name, length=30).training_batch(0, 0, 2000)
        assert torch.equal(batch.targets, batch.inputs.cumsum(1) % order)
        counts = torch.bincount(batch.targets[:, -1], minlength=order).double()
        assert ((counts - 2000 / order).abs() < 5 * (2000 / order) ** 0.5).all()


class Tracker(nn.Module):
    """Knows the table; after ``span`` positions it answers with a letter's own element."""

    def __init__(self, group: Group, span: int) -> None:
        super().__init__()
        self.group, self.span = group, span

    def forward(self, inputs: Tensor) -> Tensor:
        known = torch.from_numpy(self.group.products(inputs.numpy()))
        known[:, self.span :] = inputs[:, self.span :]
        return 30 * nn.functional.one_hot(known, self.group.order).float()


def test_positions_count_where_they_are_first_asked_for() -> None:
    task = StateTracking(group="s5", **SMALL)
    whole = task.evaluate(Tracker(task.group, 24), "test", "cpu")
    names = {"accuracy", "accuracy/1x", "accuracy/2x", "accuracy/4x"}
    assert {name: whole.metrics[name] for name in names} == dict.fromkeys(names, 1.0)
    part = task.evaluate(Tracker(task.group, 9), "test", "cpu")
    assert part.metrics["accuracy/1x"] == 1.0
    assert part.metrics["accuracy/2x"] == pytest.approx(0.5, abs=0.06)  # 3 of 6 positions
    assert part.metrics["accuracy/4x"] < 0.06
    assert part.metrics["accuracy"] == pytest.approx(3 / 18, abs=0.06)
    curve = part.curves["accuracy_by_position"]
    assert curve["x"] == list(range(1, 25))
    assert curve["y"][:9] == [1.0] * 9
    assert part.metrics["loss"] == whole.metrics["loss"] < 1e-6  # of the training length alone
    assert task.validation_loss(Tracker(task.group, 6), "cpu") < 1e-6


def test_predictors_guess_among_elements_or_cosets() -> None:
    found = {
        name: make("test").metrics for name, make in StateTracking(group="s3").baselines().items()
    }
    assert found["uniform"]["accuracy"] == pytest.approx(1 / 6)
    assert found["letters without order"]["accuracy/8x"] == pytest.approx(1 / 3)
    assert found["product (oracle)"]["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"group": "z60", "letters": "small"}, "letters='small' of z60: give all"),
        ({"factors": [2, 4]}, "give 1 and larger ones"),
        ({"factors": [1]}, "give 1 and larger ones"),
        ({"length": 1}, "length=1 is too small"),
    ],
)
def test_wrong_settings_are_sentences(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        StateTracking(**settings)
