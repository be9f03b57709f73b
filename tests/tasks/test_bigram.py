"""The bigram task against its definition, published entropies and sequences followed by hand."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tasks.bigram import Bigram
from tasks.bigram.metrics import measure
from tasks.bigram.sequences import Sequences
from tasks.bigram.table import Table, count, dirichlet
from tests.closeness import assert_near
from tests.conftest import Command

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {"length": 48, "validation_size": 40, "test_size": 40}


def test_the_table_is_that_of_tiny_shakespeare() -> None:
    """Published: 1,115,394 characters of 65 kinds, 1403 different pairs, entropies 3.3128 and
    2.4526 nats, best guess right 27.1 % of the time; space .1523, e .0848, t .0601, o .0590,
    a .0498 are the most frequent."""
    task = Bigram()
    table = task.sampler.table
    assert (table.vocabulary, table.unigrams.sum()) == (65, 1_115_394)
    assert (table.bigrams > 0).sum() == 1403
    unigram, following = table.of_token, table.of_next
    logs = np.log(np.where(following > 0, following, 1))
    assert -(unigram * np.log(unigram)).sum() == pytest.approx(3.3128, abs=5e-5)
    assert -(unigram[:, None] * following * logs).sum() == pytest.approx(2.4526, abs=5e-5)
    assert (unigram * following.max(1)).sum() == pytest.approx(0.271, abs=5e-4)
    file = json.loads((ROOT / "tasks/bigram/tiny_shakespeare.json").read_text())
    assert "".join(file["characters"][k] for k in task.sampler.fixed) == " etoa"
    assert np.sort(unigram)[::-1][:5] == pytest.approx(
        [0.1523, 0.0848, 0.0601, 0.0590, 0.0498], abs=5e-5
    )


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=2, max_size=60))
def test_counts_are_those_of_a_loop(text: str) -> None:
    if len(set(text)) < 2:
        with pytest.raises(ValueError, match="two different characters"):
            count(text)
        return
    characters, table = count(text)
    for i, one in enumerate(characters):
        assert table.unigrams[i] == text.count(one)
        for j, other in enumerate(characters):
            pairs = sum(a == one and b == other for a, b in pairwise(text))
            assert table.bigrams[i, j] == pairs
    assert table.of_next.sum(1) == pytest.approx(1)


def test_the_command_makes_a_table_that_a_text_gives_too(
    run_command: Command, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\n", encoding="utf-8")
    made = run_command("-m", "tasks.bigram", str(text))
    content = json.loads(made.stdout)
    task = Bigram(source="text", text=str(text), number_of_triggers=2)
    assert content["characters"] == "\n acehmnost"
    assert content["bigrams"] == task.sampler.table.bigrams.tolist()
    assert task.specification().vocabulary == 11


@pytest.mark.parametrize("source", ["tiny_shakespeare", "dirichlet"])
@pytest.mark.parametrize("triggers", ["fixed", "random"])
@pytest.mark.parametrize("no_repeat", [False, True])
def test_every_trigger_is_followed_by_its_output(
    source: Any, triggers: Any, no_repeat: bool
) -> None:
    task = Bigram(source=source, triggers=triggers, no_repeat=no_repeat, **SMALL)
    table, found = task.sampler.table, task.splits["validation"]
    occurrences = found.occurrences()
    rows = zip(found.tokens, found.triggers, found.outputs, occurrences, strict=True)
    for row, chosen, outputs, counted in rows:
        output_of = dict(zip(chosen.tolist(), outputs.tolist(), strict=True))
        assert len(output_of) == 5
        if no_repeat:
            assert all(one != other for one, other in output_of.items())
        counts: dict[int, int] = {}
        expected = []
        for token, following in zip(row[:-1].tolist(), row[1:].tolist(), strict=True):
            if token in output_of:
                counts[token] = counts.get(token, 0) + 1
                assert following == output_of[token]
            else:
                assert table.bigrams[token, following] > 0
            expected.append(counts[token] if token in output_of else 0)
        assert counted.tolist() == expected
    if triggers == "random":
        assert len({tuple(sorted(row)) for row in found.triggers.tolist()}) > 5


def test_draws_follow_the_table() -> None:
    """Frequencies over many draws, within four standard errors of their probabilities."""
    table = Table(
        np.array([40, 30, 20, 10]),
        np.array([[1, 2, 1, 0], [0, 0, 3, 1], [1, 1, 1, 1], [2, 0, 0, 2]]),
    )
    task = Bigram(length=2, number_of_triggers=1, triggers="random")
    task.__dict__["sampler"] = task._sampler(table)
    found = task._draw(20_000, 9)

    def close(share: float, probability: float, of: int) -> bool:
        return abs(share - probability) <= 4 * np.sqrt(probability * (1 - probability) / of) + 1e-12

    first = found.tokens[:, 0]
    for token in range(4):
        assert close((first == token).mean(), table.of_token[token], len(first))
        assert close((found.triggers[:, 0] == token).mean(), table.of_token[token], len(first))
        assert close((found.outputs[:, 0] == token).mean(), 0.25, len(first))
        free = (first == token) & (found.triggers[:, 0] != token)
        for following in range(4):
            share = (found.tokens[free, 1] == following).mean()
            assert close(share, table.of_next[token, following], int(free.sum()))


def test_random_outputs_may_follow_the_bigrams() -> None:
    task = Bigram(outputs="bigram", no_repeat=True, **SMALL)
    found, table = task.splits["test"], task.sampler.table
    assert (table.bigrams[found.triggers, found.outputs] > 0).all()
    assert (found.triggers != found.outputs).all()


def test_a_random_table_is_stationary_and_sparse_with_the_concentration() -> None:
    table = dirichlet(30, 0.1, seed=3)
    assert table.of_token @ table.of_next == pytest.approx(table.of_token, abs=1e-5)
    entropy = [
        -(np.log(p.of_next + 1e-12) * p.of_next).sum(1).mean()
        for p in (dirichlet(30, 0.01, 3), table, dirichlet(30, 10, 3))
    ]
    assert entropy == sorted(entropy)
    assert table.sha256() != dirichlet(30, 0.1, seed=4).sha256()


class Fixed(nn.Module):
    """Always the same logits."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, inputs: Tensor) -> Tensor:
        return self.logits.expand(*inputs.shape, -1)


def test_metrics_of_a_sequence_counted_by_hand() -> None:
    """Trigger 1 → 2 and trigger 0 → 0; a predictor with probabilities .2, .3, .5."""
    table = Table(np.array([1, 1, 2]), np.array([[1, 0, 0], [0, 0, 1], [1, 1, 0]]))
    tokens = np.array([[1, 2, 1, 2, 1, 2, 0, 0, 0]])
    sequences = Sequences(tokens, np.array([[1, 0]]), np.array([[2, 0]]))
    assert sequences.occurrences().tolist() == [[1, 0, 2, 0, 3, 0, 1, 2]]
    logs = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64).log()
    found = measure(lambda rows: logs.expand(*rows.inputs.shape, -1), sequences, table)
    assert_near(
        found.metrics,
        {
            "loss": -(2 * np.log(0.5) + np.log(0.2)) / 3,
            "in_context_accuracy": 2 / 3,
            "accuracy_without_repeats": 1.0,
            "first_occurrence_accuracy": 0.5,
            "global_loss": -(2 * np.log(0.3) + np.log(0.2)) / 3,
            "global_divergence": -np.log(2) - (np.log(0.2) + np.log(0.3)) / 2,
        },
        terms=10,
        dtype=torch.float32,
        largest=3.0,
    )
    assert found.curves["accuracy_by_occurrence"] == {"x": [1.0, 2.0, 3.0], "y": [0.5, 0.5, 1.0]}
    by_position = found.curves["in_context_accuracy_by_position"]
    assert by_position == {"x": [3.0, 5.0, 8.0], "y": [1.0, 1.0, 0.0]}


@pytest.mark.bitwise  # argmax takes the first of classes that are equal
def test_a_model_and_the_same_predictor_get_the_same_numbers() -> None:
    task = Bigram(**SMALL)
    uniform = task.baselines()["uniform"]("validation").metrics
    model = Fixed(torch.zeros(65))
    found = task.evaluate(model, "validation", "cpu").metrics
    loss = float(np.log(65))
    assert_near(found, uniform, terms=65 + 40 * 64, largest=loss, dtype=torch.float32)
    assert_near(uniform["loss"], loss, terms=65 + 40 * 64, dtype=torch.float32)


@pytest.mark.parametrize("triggers", ["fixed", "random"])
def test_the_oracle_is_perfect_where_it_can_be_and_at_chance_elsewhere(triggers: Any) -> None:
    task = Bigram(triggers=triggers, length=64, test_size=1000)
    oracle = task.baselines()["in-context bigram (oracle)"]("test").metrics
    assert oracle["in_context_accuracy"] == 1
    assert oracle["loss"] == 0
    assert_near(oracle["global_divergence"], 0.0, terms=65, largest=np.log(65), dtype=torch.float32)
    assert oracle["first_occurrence_accuracy"] == pytest.approx(1 / 65, abs=0.01)
    blind = task.baselines()["global bigram"]("test").metrics
    assert blind["in_context_accuracy"] < 0.05
    assert blind["global_loss"] == oracle["global_loss"]


def test_the_data_are_those_of_the_seed_alone() -> None:
    task, other = Bigram(**SMALL), Bigram(**{**SMALL, "validation_size": 20})
    one, two = task.splits["validation"].tokens, other.splits["validation"].tokens
    assert (one != task.splits["test"].tokens).any()
    assert task.data_hashes()["test"] == other.data_hashes()["test"]
    assert (len(one), len(two)) == (40, 20)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"source": "text"}, "set text=PATH"),
        ({"source": "text", "text": "/nowhere.txt"}, "cannot be read"),
        ({"number_of_triggers": 70}, "ask for fewer triggers"),
        ({"concentration": 0.0, "source": "dirichlet"}, "above 0"),
    ],
)
def test_mistakes_get_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Bigram(**wrong).data_hashes()
