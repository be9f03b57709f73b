"""Factual recall: sequences, training of several models at once, and the phases of learning."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from core.progress import silent
from models.associative.fact_transformer import FactTransformer
from models.associative.one_hot_attention import OneHotAttention
from tasks.factual_recall import FactualRecall
from tasks.factual_recall.facts import Facts
from tasks.factual_recall.phases import learn, plateau, published_facts
from tasks.factual_recall.stack import train
from tasks.seeds import generator_of
from tests.closeness import assert_near


def build(*sizes: int, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return FactTransformer(*sizes)


def some_facts() -> Facts:
    return Facts.random(4, 3, 2, 5, 9, generator_of("facts"))


def test_sequences_name_one_subject_and_one_relation() -> None:
    facts = some_facts()
    counts, subject, relation = facts.sequences(400, generator_of("sequences"))
    assert (facts.vocabulary, facts.classes, facts.end) == (13, 6, 12)
    assert torch.equal(counts[:, :4], functional.one_hot(subject, 4).float())
    assert torch.equal(counts[:, 4:7], functional.one_hot(relation, 3).float())
    assert (counts[:, 7:12].sum(1) == 9 - 3).all()
    assert (counts[:, 12] == 1).all()
    assert (facts.answers // 2 == torch.arange(3)).all()
    assert_near(counts[:, 7:12].mean().item(), 6 / 5, terms=2000, dtype=torch.float32)


def test_structured_answers_are_the_published_ones() -> None:
    facts = published_facts()
    assert facts.vocabulary == 41
    for subject in range(16):
        for relation in range(4):
            assert facts.answers[subject, relation] == relation * 8 + math.floor(subject * 8 / 16)


def test_models_trained_together_learn_as_alone() -> None:
    """Padding changes nothing: against PyTorch's AdamW on each model by itself."""
    facts = some_facts()
    sizes = [(8, 2, 1, 0), (8, 2, 3, 5), (8, 2, 2, 7)]
    rates = [0.01, 0.02, 0.005]

    def models() -> list[nn.Module]:
        return [build(13, 6, *size, seed=k).double() for k, size in enumerate(sizes)]

    alone = []
    for model, lr in zip(models(), rates, strict=True):
        generator = generator_of("training")
        counts, subject, relation = facts.sequences(1024, generator)
        test = counts.double(), facts.answers[subject, relation]
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
        best = 0.0
        for step in range(1, 41):
            counts, subject, relation = facts.sequences(32, generator)
            labels = facts.answers[subject, relation]
            optimizer.zero_grad()
            functional.cross_entropy(model(counts.double(), facts.end), labels).backward()
            optimizer.step()
            if step % 10 == 0:
                right = model(test[0], facts.end).argmax(-1) == test[1]
                best = max(best, float(right.double().mean()))
        alone.append(best)
    together, last = train(
        [model.float() for model in models()],
        rates,
        facts,
        generator_of("training"),
        batch_size=32,
        steps=40,
        check_every=10,
        success=2.0,
    )
    assert last == [40, 40, 40]
    assert together == pytest.approx(alone, abs=0.01)


def test_a_small_transformer_recalls_all_facts() -> None:
    task = FactualRecall(
        subjects=4,
        relations=4,
        choices=4,
        noise=8,
        length=8,
        width=16,
        head_size=4,
        heads=[4],
        mlp_widths=[0, 16],
        batch_size=64,
        steps=600,
        check_every=50,
    )
    evaluation = task.measure(build, "test", 0, "cpu", silent)
    assert max(evaluation.arrays["accuracy"][0]) >= 0.99
    assert evaluation.arrays["attention_parameters"] == [16 * 4 * 4]
    assert evaluation.arrays["mlp_parameters"] == [0, 256]
    assert evaluation.metrics["facts_per_parameter"] in (16 / 1024, 16 / 1536)


def test_the_search_counts_parameters_as_published() -> None:
    task = FactualRecall(
        part="facts_by_parameters",
        widths=[8],
        attention_ratios=[1.0],
        mlp_ratios=[2.0],
        batch_size=32,
        steps=4,
        check_every=4,
    )
    arrays = task.measure(build, "test", 0, "cpu", silent).arrays
    assert arrays["parameters"] == [4 * 8 * 1 * 8 + 2 * 16 * 8]
    assert arrays["facts"][0] == int(arrays["facts"][0] ** 0.5) ** 2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, lambda r: (r, 8 * r, 2 * r)),
        ({"subject_power": 2}, lambda r: (r * r, 8 * r, r * r + r)),
        ({"search_choices": None}, lambda r: (r, r * r, 2 * r)),
    ],
)
def test_the_variants_of_the_search_have_their_subjects_and_answers(
    settings: dict, expected: Callable[[int], tuple[int, int, int]]
) -> None:
    """Every try has S subjects, R relations, S + R tokens of noise and the end; R D answers."""
    task = FactualRecall(
        part="facts_by_parameters",
        widths=[8],
        attention_ratios=[1.0],
        mlp_ratios=[1.0],
        search_learning_rates=[0.01],
        batch_size=64,
        steps=40,
        check_every=40,
        **settings,
    )
    tried = []

    def counted(vocabulary: int, answers: int, *sizes: int, seed: int = 0) -> nn.Module:
        tried.append((vocabulary, answers))
        return build(vocabulary, answers, *sizes, seed=seed)

    arrays = task.measure(counted, "test", 0, "cpu", silent).arrays
    possible = {}
    for relations in range(1, 513):
        subjects, answers, noise = expected(relations)
        possible[subjects + relations + noise + 1, answers] = subjects * relations
    assert set(tried) <= set(possible)
    assert arrays["facts"][0] in {0, *(possible[sizes] for sizes in tried)}
    first = min(r for r in range(1, 9) if expected(r)[0] >= 8)
    assert possible[tried[0]] == expected(first)[0] * first


def test_relations_are_learned_long_before_facts() -> None:
    """The published phases, at a quarter of the batch: ln 32, then ln 8, then the facts."""
    task = FactualRecall(part="phases", batch_size=64, phase_steps=5600)

    def one_hot(*sizes: int, seed: int = 0) -> nn.Module:
        return OneHotAttention(*sizes)

    evaluation = task.measure(one_hot, "test", 0, "cpu", silent)
    loss, relation = (evaluation.curves[name]["y"] for name in ("loss", "relation_loss"))
    assert loss[0] == pytest.approx(math.log(32), abs=1e-3)
    assert relation[0] == pytest.approx(math.log(4), abs=1e-3)
    assert evaluation.metrics["plateau_steps"] >= 800
    assert evaluation.metrics["accuracy"] == 1.0
    assert evaluation.curves["choice_accuracy"]["y"][-1] == 1.0


def test_what_is_logged_of_an_answer_whose_probabilities_are_known() -> None:
    """One subject, and 2 relations of 2 answers: the right ones are the first and the last."""
    facts = Facts(1, 2, 2, 3, 5, torch.tensor([[0, 3]]))
    probabilities = torch.tensor([0.1, 0.5, 0.15, 0.25])  # the most probable is the second

    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Parameter(probabilities.log())

        def forward(self, counts: torch.Tensor, last: int) -> torch.Tensor:
            return self.logits.expand(len(counts), -1)

    logged = learn(Fixed(), facts, generator_of("logged"), 4, 0, lambda step: None)
    share = logged["relation_accuracy"][0]  # the most probable answer is of relation 0
    assert 0.4 < share < 0.6
    assert logged["accuracy"] == [0.0]
    rounding = {"terms": 4 + 1024, "dtype": torch.float32}  # answers, and the mean over sequences
    assert_near(logged["choice_accuracy"], [1 - share], **rounding)
    mixed = [share * math.log(a) + (1 - share) * math.log(b) for a, b in ((0.6, 0.4), (0.25, 0.75))]
    assert_near(logged["relation_loss"], [-mixed[0]], **rounding)
    assert_near(logged["choice_loss"], [-mixed[1]], **rounding)


def test_plateau_is_the_longest_stretch() -> None:
    level = math.log(8)
    logged = {
        "step": [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
        "relation_accuracy": [1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0],
        "accuracy": [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.9],
        "loss": [3.0, level + 0.04, level, level, level, level - 0.04, 0.0],
    }
    assert plateau(logged, 8) == 10.0
    assert plateau({**logged, "loss": [0.0] * 7}, 8) == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"part": "x"},
        {"length": 2},
        {"subjects": 0},
        {"learning_rates": [0.0]},
        {"search_learning_rates": [0.0]},
    ],
)
def test_settings_outside_their_range_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"give|at least|above 0"):
        FactualRecall(**wrong)


@pytest.mark.parametrize("wrong", [{"subject_power": 3}, {"search_choices": 0}])
def test_variants_that_are_none_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=f"tasks.{next(iter(wrong))} is"):
        FactualRecall(**wrong)
