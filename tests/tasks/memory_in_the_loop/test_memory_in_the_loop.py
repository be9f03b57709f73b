"""A language model in the loop: how answers are read, what confidence is worth, and the model that
is trained here. Servers have their own file."""

from typing import Any

import pytest
import torch

from core.progress import silent
from tasks.memory_in_the_loop import MemoryInTheLoop
from tasks.memory_in_the_loop.local import LocalModel
from tasks.memory_in_the_loop.questions import UNKNOWN, Question, read_answer
from tasks.memory_in_the_loop.recall import Sequences, stated_confidence

NAMES = [str(k) for k in range(1000)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("331", "331"),
        ("The last number is 331.", "331"),
        ("12 7 845 331", "331"),
        ("12, 7, 845 and so 12", "12"),
        ("<think>7 or 9?</think>\n**331**", "331"),
        ("<think>7 or 9", "unreadable"),
        ("I don’t know, perhaps 331", "unknown"),
        ("It cannot be known; I do not know.", "unknown"),
        ("331 or 332", "unreadable"),
        ("1000", "unreadable"),
        ("-5", "unreadable"),
        ("3.5", "unreadable"),
        ("purple elephants", "unreadable"),
        ("", "unreadable"),
    ],
)
def test_how_answers_are_read(text: str, expected: str) -> None:
    read = read_answer(text, ("12", "7", "845"), frozenset(NAMES))
    assert (read.item or read.kind) == expected


def test_a_stated_confidence_is_the_share_of_right_answers() -> None:
    known = torch.tensor([[0.1, 0.1, 0.2, 0.2, 0.9, 0.9, 0.9, 0.9]])
    right = torch.tensor([[0, 0, 1, 0, 0, 1, 1, 1]]).bool()
    asked = torch.tensor([[-5.0, 0.1, 0.2, 0.55, 0.9, 7.0]])
    # 0 of 2, 1 of 2 and 3 of 4, a line between the last two, in steps of ten.
    assert stated_confidence(known, right, asked).tolist() == [[0, 0, 50, 60, 80, 80]]
    # A confidence that falls where answers are right says nothing but how many are.
    assert set(stated_confidence(-known, right, -asked)[0].tolist()) == {50}


@pytest.mark.parametrize("material", ["numbers", "words"])
def test_sequences_are_different_and_can_be_written_out(material: str) -> None:
    sequences = Sequences(material, 8, 2, 0)
    drawn = sequences.drawn(2, 300, torch.Generator().manual_seed(0))
    assert all(len(set(trial)) == 300 for trial in drawn[..., 0].tolist())
    assert drawn.max() < len(sequences.names)
    texts = [
        read_answer(name, ("no",), frozenset(sequences.names)).item for name in sequences.names
    ]
    assert texts == sequences.names


def local(steps: int, data_seed: int = 0) -> LocalModel:
    return LocalModel(NAMES, "number", 4, steps=steps, note_accuracy=0.75, data_seed=data_seed)


def ask(model: LocalModel, shown: bool, percent: int | None) -> tuple[float, float]:
    """Shares of answers that are the note, and that do not know."""
    drawn = torch.randint(1000, (100, 4), generator=torch.Generator().manual_seed(percent or 0))
    asked = [
        Question(tuple(map(str, row[:3])), str(row[3]) if shown else None, percent)
        for row in drawn.tolist()
    ]
    answers = [answer.text for answer in model.answers(asked, silent)]
    used = [text == question.note for text, question in zip(answers, asked, strict=True)]
    return sum(used) / 100, answers.count(UNKNOWN) / 100


def test_the_local_model_trusts_a_note_as_far_as_its_confidence() -> None:
    model = local(150)
    used = [ask(model, True, percent)[0] for percent in (0, 20, 80, 100)]
    assert max(used[:2]) < 0.3
    assert min(used[2:]) > 0.8
    # Right three times in four, a note without a confidence is worth using.
    assert ask(model, True, None)[0] > 0.9
    assert ask(model, False, None) == (0.0, 1.0)


@pytest.mark.bitwise
def test_the_local_model_is_a_function_of_its_seed() -> None:
    asked = [Question(("1", "2", str(k)), "7", 60) for k in range(50)]
    found = []
    for state, seed in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(state)
        model = local(2, seed)
        model.answers(asked, silent)
        found.append(model._trained.output_matrix.detach())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize(
    "settings", [{"note_accuracy": 1.0}, {"timeout": 0.0}, {"length": 2, "items": 501}]
)
def test_settings_out_of_range(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        MemoryInTheLoop(**settings)
