"""Exchanges: what everybody holds, by swaps of a dictionary; scores that are known."""

from typing import Any

import numpy as np
import pytest

from tasks.exchanges import FILLER, FIRST_NAME, QUESTION, Exchanges
from tasks.interface import IGNORED


def told(tokens: list[int], people: int, names: int) -> tuple[dict[int, int], list[int], int]:
    """Who holds what in the end, who is asked for, and how many exchanges there were."""
    held: dict[int, int] = {}
    for place in range(people):
        name, thing = tokens[2 * place], tokens[2 * place + 1]
        assert FIRST_NAME <= name < FIRST_NAME + names <= thing < FIRST_NAME + 2 * names
        held[name] = thing
    rest = [token for token in tokens[2 * people :] if token != FILLER]
    exchanged, questions = rest[: -2 * people], rest[-2 * people :]
    for one, other in zip(exchanged[::2], exchanged[1::2], strict=True):
        assert one != other
        held[one], held[other] = held[other], held[one]
    assert set(questions[::2]) == {QUESTION}
    return held, questions[1::2], len(exchanged) // 2


@pytest.mark.parametrize("exchanges", [[0], [3], [1, 2, 5]])
def test_objects_are_those_of_swaps_in_a_dictionary(exchanges: list[int]) -> None:
    task = Exchanges(people=3, names=5, exchanges=exchanges)
    batch = task.training_batch(2, 9, 300)
    numbers = []
    for tokens, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        held, asked, number = told(tokens, 3, 5)
        numbers.append(number)
        assert sorted(asked) == sorted(held)
        assert len(set(held.values())) == 3
        places = [place for place, target in enumerate(targets) if target != IGNORED]
        assert [tokens[place] for place in places] == asked
        assert [targets[place] for place in places] == [held[name] for name in asked]
    assert set(numbers) == set(exchanges)
    for number in exchanges:  # drawn evenly
        share = 1 / len(exchanges)
        spread = (share * (1 - share) / 300) ** 0.5
        assert abs(numbers.count(number) / 300 - share) <= 5 * spread


def test_every_pair_of_people_exchanges_as_often() -> None:
    batch = Exchanges(people=3, names=3, exchanges=[4]).training_batch(0, 0, 500)
    pairs = np.sort(batch.inputs[:, 6:14].numpy().reshape(-1, 2), axis=1)
    _, counts = np.unique(pairs, axis=0, return_counts=True)
    assert len(counts) == 3
    assert (np.abs(counts - 2000 / 3) < 5 * (2000 * 2 / 9) ** 0.5).all()


def test_fixed_objects_follow_from_names() -> None:
    batch = Exchanges(people=4, names=6, exchanges=[2], fixed=True).training_batch(0, 0, 50)
    given = batch.inputs[:, :8].numpy().reshape(50, 4, 2)
    assert (given[..., 1] - given[..., 0] == 6).all()


def accuracies(**settings: Any) -> dict[str, float]:
    task = Exchanges(evaluation_sequences=1000, **settings)
    return {name: f("test").metrics["accuracy"] for name, f in task.baselines().items()}


def test_scores_of_predictors_are_those_of_chance() -> None:
    scores = accuracies(people=4, names=8, exchanges=[1])
    assert scores["tracked object (oracle)"] == 1
    # Two of four have another object after one exchange.
    assert scores["first object"] == pytest.approx(0.5)
    # Of four objects that are as likely, the first one of the vocabulary is named.
    assert abs(scores["uniform over seen objects"] - 0.25) < 1e-9
    recall = accuracies(people=4, names=8, exchanges=[0])
    assert recall["first object"] == recall["tracked object (oracle)"] == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"people": 1}, "people=1"),
        ({"people": 5, "names": 4}, "names=4 are fewer"),
        ({"exchanges": []}, r"exchanges=\[\]"),
        ({"exchanges": [-1]}, r"exchanges=\[-1\]"),
    ],
)
def test_impossible_settings_are_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Exchanges(**wrong)


def test_the_example_of_the_docstring_is_the_first_sequence() -> None:
    batch = Exchanges(people=3, names=4, exchanges=[2]).training_batch(0, 0, 1)
    signs = "_?ABCDabcd"
    shown = " ".join(signs[token] for token in batch.inputs[0].tolist())
    asked = " ".join("." if x == IGNORED else signs[x] for x in batch.targets[0].tolist())
    assert f"input   {shown}\n        target  {asked}\n" in (Exchanges.__doc__ or "")
