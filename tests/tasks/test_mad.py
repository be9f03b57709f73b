"""MAD: every sequence is read again from its prompt by a loop, and sizes are the published ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tasks.mad import Mad
from tasks.mad.sequences import SequenceSizes, fuzzy_recall, recall, selective_copying

NAMES = [
    "in_context_recall",
    "fuzzy_recall",
    "noisy_recall",
    "selective_copying",
    "compression",
    "memorisation",
]
FEW: dict[str, Any] = {"training_examples": 130, "validation_size": 40, "test_size": 70}
Answers = list[int | None]  # of each position; None where nothing can be known


def read_pairs(prompt: list[int], tokens: int) -> Answers:
    """A table filled from left to right; whatever is beyond ``tokens`` is noise."""
    known: dict[int, int] = {}
    answers: Answers = []
    for place, token in enumerate(prompt):
        answers.append(known.get(token) if token < tokens // 2 else None)
        if tokens // 2 <= token < tokens:
            known[prompt[place - 1]] = token
    return answers


def read_motifs(prompt: list[int]) -> Answers:
    """Keys of three tokens below 7, values above: what is known of a key when it comes again."""
    answers: Answers = [None] * len(prompt)
    known: dict[tuple[int, ...], list[int]] = {}
    place = prompt.count(15)
    assert prompt[:place] == [15] * place
    while place < len(prompt):
        key = tuple(prompt[place : place + 3])
        assert max(key) < 7
        assert len(set(key)) == 3
        place += 3
        value = []
        while place < len(prompt) and prompt[place] >= 7:
            value.append(prompt[place])
            place += 1
        start = place - len(value) - 1
        for shift, token in enumerate(known.get(key, [])):
            if start + shift < len(prompt):
                answers[start + shift] = token
        known.setdefault(key, value)
        assert known[key][: len(value)] == value
    return answers


def read_copies(prompt: list[int]) -> Answers:
    """What is no blank before the token 15, in its order, after it."""
    at = prompt.index(15)
    tokens = [token for token in prompt[:at] if token < 14]
    assert prompt[at + 1 :] == [14] * len(tokens)
    assert prompt[at - 1] == tokens[-1]
    return [*[None] * (at + 1), *tokens]


READERS: dict[str, Callable[[list[int]], Answers]] = {
    "in_context_recall": lambda prompt: read_pairs(prompt, 16),
    "noisy_recall": lambda prompt: read_pairs(prompt, 16),
    "fuzzy_recall": read_motifs,
    "selective_copying": read_copies,
    "compression": lambda prompt: list(prompt),
}


def facts(task: Mad) -> dict[int, int]:
    """The values of memorisation, as the training sequences tell them."""
    train = task.splits[0]
    keys, values = train.inputs[:, ::2].ravel(), train.targets[:, 1::2].ravel()
    return dict(zip(keys.tolist(), values.tolist(), strict=True))


def reader(task: Mad) -> Callable[[list[int]], Answers]:
    if task.synthetic != "memorisation":
        return READERS[task.synthetic]
    known = facts(task)

    def read(prompt: list[int]) -> Answers:
        assert prompt[1::2] == [255] * 16
        return [a for key in prompt[::2] for a in (None, known[key])]

    return read


@pytest.mark.parametrize("name", NAMES)
def test_what_is_asked_is_what_the_prompt_tells(name: str) -> None:
    task = Mad(synthetic=name, **FEW)
    read = reader(task)
    for split in (1, 2):
        examples = task.splits[split]
        for prompt, targets in zip(
            examples.inputs.tolist(), examples.targets.tolist(), strict=True
        ):
            assert [-100 if a is None else a for a in read(prompt)] == targets


class Told(nn.Module):
    """Says what a reading of the prompt says."""

    def __init__(self, task: Mad) -> None:
        super().__init__()
        self.read, self.task = reader(task), task

    def forward(self, inputs: Tensor) -> Tensor:
        size = self.task.specification().output_size
        scores = torch.zeros(*inputs.shape, size)
        for row, prompt in enumerate(inputs.tolist()):
            for place, answer in enumerate(self.read(prompt)):
                if answer is not None and self.task.synthetic == "compression":
                    scores[row, -1, place * 16 + answer] = 50.0
                elif answer is not None:
                    scores[row, place, answer] = 50.0
        return scores


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_reads_the_prompt_is_always_right(name: str) -> None:
    task = Mad(synthetic=name, **FEW)
    found = task.evaluate(Told(task), "test", "cpu")
    assert found.metrics["accuracy"] == 1
    assert found.metrics["loss"] == pytest.approx(0, abs=1e-6)
    assert set(found.per_sequence["accuracy"]) == {1.0}
    assert set(found.curves["accuracy_by_position"]["y"]) == {1.0}


class Last(nn.Module):
    """A model that can give its last output alone."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.read = nn.Embedding(classes, 4)
        self.output_matrix = nn.Parameter(torch.randn(classes, 4))

    def hidden(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.read(inputs).cumsum(1)
        return found

    def forward(self, inputs: Tensor) -> Tensor:
        return self.hidden(inputs) @ self.output_matrix.T


def test_compression_reads_the_last_output_alone() -> None:
    task = Mad(synthetic="compression", **FEW)
    classes = task.specification().vocabulary
    assert classes == 32 * 16
    model, batch = Last(classes), task.training_batch(0, 0, 5)
    alone, of_all = task.training_loss(model, batch), task.loss(model(batch.inputs), batch)
    torch.testing.assert_close(alone, of_all)
    outputs = model(batch.inputs)
    outputs[:, :-1] = 7.0
    torch.testing.assert_close(task.loss(outputs, batch), of_all)


@pytest.mark.parametrize(
    ("name", "length", "vocabulary", "examples"),
    [
        ("in_context_recall", 127, 16, 12_800),
        ("fuzzy_recall", 128, 16, 12_800),
        ("noisy_recall", 127, 32, 12_800),
        ("selective_copying", 256, 16, 12_800),
        ("compression", 32, 16, 12_800),
        ("memorisation", 32, 256, 256),
    ],
)
def test_sizes_are_the_published_ones(
    name: str, length: int, vocabulary: int, examples: int
) -> None:
    task = Mad(synthetic=name)
    assert task.sizes == {0: examples, 1: 1280, 2: 1280}
    few = Mad(synthetic=name, **FEW)
    assert few.splits[2].inputs.shape == (70, length)
    assert task.rule.vocabulary == vocabulary
    assert few.splits[0].inputs.max() < vocabulary


@pytest.mark.parametrize("name", NAMES)
def test_a_guess_is_right_as_often_as_there_are_answers(name: str) -> None:
    """One over the answers that are seen, the mean over places."""
    task = Mad(synthetic=name, validation_size=1, training_examples=1)
    targets = task.splits[2].targets
    by_place = [targets[:, place] for place in range(targets.shape[1])]
    parts = by_place if name == "compression" else [targets[targets >= 0]]
    shares = [1 / len(np.unique(part)) for part in parts]
    guess = task.baselines()["uniform"]("test").metrics
    assert guess["accuracy"] == pytest.approx(np.mean(shares))
    assert guess["loss"] == pytest.approx(-np.mean(np.log(shares)))


def test_training_of_recall_asks_every_next_token() -> None:
    for name in NAMES[:3]:
        train = Mad(synthetic=name, **FEW).splits[0]
        assert (train.trained[:, :-1] == train.inputs[:, 1:]).all()
        assert (train.trained >= 0).all()


def test_facts_are_the_same_in_all_sequences_and_of_the_data_seed() -> None:
    task = Mad(synthetic="memorisation")
    known = facts(task)
    assert sorted(known) == list(range(127))
    assert len(set(known.values())) == 127
    assert set(known.values()) <= set(range(127, 255))
    assert facts(Mad(synthetic="memorisation", training_examples=300)) == known
    assert facts(Mad(synthetic="memorisation", data_seed=1)) != known


def test_a_larger_set_starts_with_the_smaller_one() -> None:
    small, large = (Mad(**{**FEW, "training_examples": n}).splits[0] for n in (70, 200))
    assert (large.inputs[:70] == small.inputs).all()


def test_an_epoch_shows_each_sequence_once() -> None:
    task = Mad(**{**FEW, "training_examples": 128})
    assert task.steps_per_epoch(32) == 4
    for epoch in (0, 1):
        shown = torch.cat([task.training_batch(3, 4 * epoch + k, 32).inputs for k in range(4)])
        assert sorted(shown.tolist()) == sorted(task.splits[0].inputs.tolist())


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_keys_noise_and_motifs_are_drawn_as_published() -> None:
    """Shares within four standard errors of 2,000 sequences and more."""
    noisy = recall(rng(), 2000, SequenceSizes(32, 128, noise=0.6), training=False).inputs
    pairs = noisy[:, :-1:2].reshape(2000, -1)
    # One of the 63 pairs is never noise.
    assert (pairs >= 16).mean() == pytest.approx(0.6 * 62 / 63, abs=4 * 0.5 / 2000**0.5 / 63**0.5)
    keys = np.bincount(pairs[pairs < 8], minlength=8)
    assert keys / keys.sum() == pytest.approx([1 / 8] * 8, abs=0.01)
    train = fuzzy_recall(rng(), 300, SequenceSizes(16, 128), training=True).inputs
    runs: list[int] = []
    for prompt in train:
        is_key = np.diff(np.concatenate([[0], (prompt < 7).astype(int), [0]]))
        runs += (np.flatnonzero(is_key == -1) - np.flatnonzero(is_key == 1)).tolist()
    # Each of the three sizes is as frequent among keys (all but the cut last of a sequence).
    assert np.bincount(runs)[1:] / len(runs) == pytest.approx([1 / 3] * 3, abs=0.02)


def test_blanks_fall_anywhere_before_the_last_token() -> None:
    copies = selective_copying(rng(), 4000, SequenceSizes(16, 30, to_copy=4), training=False).inputs
    tokens = np.argsort(copies[:, :25] == 14, axis=1, kind="stable")[:, :4]
    before = np.diff(tokens, prepend=-1, axis=1) - 1
    # 21 blanks, each before one of four tokens.
    assert before.mean(0) == pytest.approx([21 / 4] * 4, abs=0.15)
    assert before[:, 0].var() == pytest.approx(21 * 3 / 16, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"synthetic": "recall"}, "in_context_recall, fuzzy_recall"),
        ({"noise": 0.2}, "only noisy_recall"),
        ({"synthetic": "noisy_recall", "noise": 1.0}, "between 0 and 1"),
        ({"to_copy": 4}, "only selective_copying"),
        ({"synthetic": "selective_copying", "length": 32}, "from 34 on"),
        ({"synthetic": "noisy_recall", "vocabulary": 16}, "at least 20"),
        ({"length": 7}, "even number"),
        ({"test_size": 0}, "from 1 on"),
    ],
)
def test_what_cannot_be_drawn_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Mad(**settings)
