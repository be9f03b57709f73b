"""Needle: every book is read again from its tokens by a loop."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tasks.needle import Needle
from tasks.needle.books import Book, draw
from tests.tasks.test_task_conformance import settings as yaml_of

SMALL: dict[str, Any] = {
    "lengths": [90, 140],
    "evaluated_lengths": [90, 200],
    "letters": 8,
    "name_length": 2,
    "digits": 3,
    "questions": 2,
    "validation_size": 20,
    "test_size": 30,
}


def read(prompt: list[int], book: Book) -> tuple[dict[int, int], int, list[tuple[int, ...]]]:
    """The answers that a left-to-right reading gives at each place, how often a page was written,
    and the names that were asked for, answered or not."""
    place = 0
    while prompt[place] == 0:
        place += 1
    known: dict[tuple[int, ...], list[int]] = {}
    answers: dict[int, int] = {}
    pages, names = 0, []
    while place < len(prompt):
        asked = prompt[place] == 1
        place += asked
        name = tuple(prompt[place : place + book.name_length])
        assert min(name) >= 12
        place += book.name_length
        if asked:
            names.append(name)
            if place < len(prompt) and not 2 <= prompt[place] < 12:
                continue  # a question before a further reading
            for shift, digit in enumerate(known[name]):
                answers[place - 1 + shift] = digit
        else:
            number = prompt[place : place + book.digits]
            assert known.setdefault(name, number) == number
            assert all(2 <= digit < 12 for digit in number)
            pages += 1
        place += book.digits
    return answers, pages, names


@pytest.mark.parametrize("readings", [1, 2, 3])
def test_a_book_read_from_left_to_right_answers_every_question(readings: int) -> None:
    task = Needle(**SMALL, readings=readings)
    for length, lookups in task.splits["test"].items():
        entries = task.book.entries(length)
        assert lookups.inputs.shape == (30, length)
        assert (lookups.inputs[:, 0] == 0).mean() in (0, 1)
        for prompt, targets in zip(lookups.inputs.tolist(), lookups.targets.tolist(), strict=True):
            answers, pages, names = read(prompt, task.book)
            assert answers == {place: t for place, t in enumerate(targets) if t != -100}
            assert len(answers) == 2 * 3
            assert pages == readings * entries
            assert names == names[:2] * readings
            assert len(set(names)) == 2
            # No further entry would have had room.
            assert prompt.count(0) < readings * task.book.entry


class Told(nn.Module):
    """Says what a reading of the prompt says; a wrong last digit from length ``wrong_from`` on."""

    def __init__(self, task: Needle, wrong_from: int = 10**6) -> None:
        super().__init__()
        self.task, self.wrong_from = task, wrong_from

    def forward(self, inputs: Tensor) -> Tensor:
        scores = torch.zeros(*inputs.shape, 12 + self.task.book.letters)
        for row, prompt in enumerate(inputs.tolist()):
            answers, _, _ = read(prompt, self.task.book)
            for place, digit in answers.items():
                last = place + 1 not in answers
                wrong = last and len(prompt) >= self.wrong_from
                scores[row, place, 11 if wrong and digit != 11 else 2 if wrong else digit] = 50.0
        return scores


def test_a_number_counts_only_if_all_of_its_digits_are_right() -> None:
    task = Needle(**SMALL, readings=2)
    right = task.evaluate(Told(task), "test", "cpu")
    assert right.metrics["accuracy"] == right.metrics["digit_accuracy"] == 1
    assert right.metrics["loss"] == pytest.approx(0, abs=1e-6)
    assert set(right.curves["accuracy_by_depth"]["y"]) == {1.0}
    partly = task.evaluate(Told(task, wrong_from=200), "test", "cpu")
    assert partly.metrics["accuracy/90"] == 1
    assert partly.metrics["accuracy/200"] == 0
    assert partly.metrics["accuracy"] == 0.5
    assert partly.metrics["digit_accuracy"] == pytest.approx(1 - 0.5 / 3)
    assert partly.curves["accuracy_by_length"] == {"x": [90.0, 200.0], "y": [1.0, 0.0]}
    assert np.mean(partly.per_sequence["accuracy"]) == 0.5


class Random(nn.Module):
    """Draws every digit."""

    def forward(self, inputs: Tensor) -> Tensor:
        scores = torch.rand(*inputs.shape, 20, generator=torch.Generator().manual_seed(1))
        scores[..., :2] = scores[..., 12:] = -1
        return scores


def test_guesses_are_the_expected_shares() -> None:
    task = Needle(**{**SMALL, "digits": 1, "test_size": 1000})
    guess = {name: run("test").metrics for name, run in task.baselines().items()}
    drawn = task.evaluate(Random(), "test", "cpu").metrics
    # 4,000 questions in all: four standard errors.
    assert drawn["accuracy"] == pytest.approx(guess["uniform over digits"]["accuracy"], abs=0.02)
    assert guess["uniform over digits"]["accuracy"] == pytest.approx(0.1)
    lookups = task.splits["test"][200]
    entries = task.book.entries(200)
    numbers = lookups.inputs[:, -entries * 3 - 7 : -7].reshape(1000, entries, 3)[:, :, 2]
    hits = (numbers[:, None] == lookups.targets[:, lookups.places][:, :, 0][:, :, None]).mean()
    seen = guess["uniform over seen numbers"]["accuracy/200"]
    assert hits == pytest.approx(seen, abs=0.01)


def test_entries_names_and_digits_are_uniform() -> None:
    book = Book(letters=4, name_length=2, digits=2, questions=1, readings=1)
    found = draw(np.random.default_rng(0), 6000, 36, book)
    assert book.entries(36) == 8
    assert np.bincount(found.asked.ravel()) / 6000 == pytest.approx([1 / 8] * 8, abs=0.02)
    names = found.inputs[:, -36:][:, :2]
    shares = np.bincount((names[:, 0] - 12) * 4 + names[:, 1] - 12, minlength=16) / 6000
    assert shares == pytest.approx([1 / 16] * 16, abs=0.02)
    digits = np.bincount(found.inputs[:, 2] - 2, minlength=10) / 6000
    assert digits == pytest.approx([0.1] * 10, abs=0.02)


def test_every_preset_has_room_for_two_readings() -> None:
    tree = yaml_of("needle")
    plain = {k: v for k, v in tree.items() if k in tree and k not in ("card", "presets", "sweep")}
    for key in ("_target_", "protocols"):
        plain.pop(key)
    for block in tree["presets"].values():
        task = Needle(**{**plain, **block.get("tasks", {}), "readings": 2})
        assert task.book.entries(min(task.lengths)) >= task.book.questions


def test_what_cannot_be_written_is_refused() -> None:
    for settings, words in (
        ({"lengths": [30]}, "no room"),
        ({"readings": 0}, "at least 1"),
        ({"letters": 3}, "9 names"),
        ({"letters": 600}, "360000 names"),
        ({"lengths": []}, "no list"),
        ({"protocol": "once"}, "as_set, phonebook"),
    ):
        with pytest.raises(ValueError, match=words):
            Needle(**{**SMALL, "questions": 4, **settings})
