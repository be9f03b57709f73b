"""Three gradient steps and the probes, against gradients and memories written down by hand."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from core.progress import silent
from models.associative.disentangled_attention import DisentangledAttention
from models.associative.two_layer_attention import TwoLayerAttention
from tasks.bigram.sequences import Sequences
from tasks.bigram_probes import BigramProbes
from tasks.bigram_probes.task import IN_TURN, _let_learn, crossing, followers
from tasks.three_gradient_steps import ThreeGradientSteps
from tasks.three_gradient_steps.probes import output_recall, position_recall, token_recall
from tasks.three_gradient_steps.task import _gradient
from tests.closeness import assert_near

MEMORIES, PROBED = list(IN_TURN), list(IN_TURN.values())
SMALL: dict[str, Any] = {"tokens": 16, "length": 8, "sequences": 4000, "evaluated": 500}


def build_of(kind: Any, **settings: Any) -> Any:
    def build(*sizes: int, seed: int = 0) -> nn.Module:
        torch.manual_seed(seed)
        return kind(*sizes, **settings)

    return build


def ideal(strength: float = 100.0) -> DisentangledAttention:
    """The memories of the theorem: W_O² = Σ u eᵀ, W_K² = Σ e (R e)ᵀ, W_K¹ = Σ p_t p_{t-1}ᵀ."""
    torch.manual_seed(0)
    model = DisentangledAttention(16, 8, width=64)
    with torch.no_grad():
        model.output_2 += strength * model.readout.T @ model.tokens
        model.key_2 += strength * model.tokens.T @ (model.tokens @ model.moved.T)
        model.key_1 += strength * model.positions[1:].T @ model.positions[:-1]
    return model


def test_sequences_hold_the_trigger_twice_and_ask_for_its_output() -> None:
    task = ThreeGradientSteps(**SMALL, first_place=2)
    inputs, answers = task.draw(500, "test", 3, 0)
    places = set()
    for sequence, answer in zip(inputs.tolist(), answers.tolist(), strict=True):
        trigger = sequence[-1]
        found = [place for place, token in enumerate(sequence[:-1]) if token == trigger]
        assert len(found) == 1
        assert sequence[found[0] + 1] == answer != trigger
        places.add(found[0] + 1)
    assert places == set(range(2, 7))


def test_the_ideal_memories_answer_all_but_a_trigger_at_the_first_place() -> None:
    """The first position can only look at itself, so there the trigger looks like its output's key:
    half of the attention goes to each of the two."""
    model = ideal()
    assert output_recall(model) == token_recall(model) == position_recall(model) == 1
    for first_place, share in ((2, 1.0), (1, None)):
        task = ThreeGradientSteps(**SMALL, first_place=first_place)
        inputs, answers = task.draw(500, "test", 0, 0)
        right = model(inputs)[:, -1].argmax(-1) == answers
        assert right[inputs[:, 0] != inputs[:, -1]].all()
        assert share is None or float(right.float().mean()) == share


def test_lookup_of_all_scores_is_the_model_as_it_is_written() -> None:
    torch.manual_seed(1)
    model = DisentangledAttention(6, 5, width=9, embeddings="gaussian").double()
    for name in ("output_2", "key_2", "key_1"):
        nn.init.normal_(getattr(model, name))
    inputs = torch.tensor([[1, 4, 2, 2, 0], [5, 0, 3, 1, 5]])
    for row, sequence in enumerate(inputs):
        e, p = model.tokens[sequence], model.positions
        seen = []
        for t in range(5):
            weights = torch.stack([p[t] @ model.key_1 @ p[s] for s in range(t + 1)]).softmax(0)
            seen.append(model.moved @ (weights[:, None] * e[: t + 1]).sum(0))
        for t in range(5):
            scores = torch.stack([e[t] @ model.key_2 @ seen[s] for s in range(t + 1)])
            read = (scores.softmax(0)[:, None] * e[: t + 1]).sum(0)
            expected = model.readout @ model.output_2 @ read
            assert_near(model(inputs)[row, t], expected, terms=4 * 9 + 10, condition=100)


def test_the_residual_model_is_the_one_that_is_written() -> None:
    torch.manual_seed(2)
    model = TwoLayerAttention(6, 5, width=8, feed_forward=True).double()
    inputs = torch.tensor([[1, 4, 2, 2, 0]])
    hidden = model.tokens[inputs[0]] + model.positions

    def attention(x: Tensor, key: Tensor) -> Tensor:
        rows = []
        for t in range(5):
            scores = torch.stack([x[t] @ key @ x[s] for s in range(t + 1)]) / math.sqrt(8)
            rows.append((scores.softmax(0)[:, None] * x[: t + 1]).sum(0))
        return torch.stack(rows)

    hidden = hidden + attention(hidden, model.key_1) @ model.moved.T
    read = attention(hidden, model.key_2)
    hidden = hidden + read @ model.value_2.T @ model.output_2.T
    assert model.feed_forward is not None
    hidden = hidden + hidden @ model.feed_forward.T
    assert_near(model(inputs)[0], hidden @ model.readout.T, terms=8 * 8 + 10, condition=100)
    names = {name for name, _ in model.named_parameters()}
    assert names == {"output_2", "key_2", "key_1", "feed_forward"}


def test_the_first_gradient_is_the_one_of_the_lemma() -> None:
    """From zero, the gradient of W_O is Σ_k u_k E[(p̂(k) - 1{o = k}) x̄]ᵀ with the mean token x̄."""
    task = ThreeGradientSteps(**SMALL)
    torch.manual_seed(0)
    model = DisentangledAttention(16, 8, width=64)
    inputs, answers = task.draw(3000, "validation", 0, 1)
    mean = model.tokens[inputs].mean(1)
    wanted = torch.nn.functional.one_hot(answers, 16).float()
    expected = model.readout.T @ ((1 / 16 - wanted).T @ mean) / len(answers)
    found = _gradient(model, model.output_2, inputs, answers)
    # Most of what 3000 sequences add to a token cancels: its numbers are this large.
    added = model.readout.abs().T @ ((1 / 16 - wanted).abs().T @ mean.abs()) / len(answers)
    assert_near(found, expected, terms=3000 + 8 + 16, largest=float(added.max()))


def test_three_steps_make_an_induction_head() -> None:
    """At the sizes of the sheet: .85 or more, where 1 of 32 tokens would be guessed."""
    task = ThreeGradientSteps(sequences=10_000, evaluated=1000)
    found = task.measure(build_of(DisentangledAttention), "test", 0, "cpu", silent)
    metrics = found.metrics
    assert metrics["accuracy"] >= 0.85
    assert metrics["accuracy_after_0"] < 0.1
    assert metrics["accuracy_after_2"] < 0.1
    assert metrics["output_recall"] == metrics["token_recall"] == 1
    assert metrics["position_recall"] >= 0.9
    assert found.curves["accuracy"]["x"] == [0, 1, 2, 3]


def test_the_simplified_model_learns_and_its_probes_start_at_chance() -> None:
    task = BigramProbes(length=32, evaluated=32, steps=60, batch=32, probe_every=30)
    found = task.measure(build_of(TwoLayerAttention, width=64), "validation", 0, "cpu", silent)
    assert {tuple(curve["x"]) for curve in found.curves.values()} == {(0, 30, 60)}
    accuracy, loss = found.curves["accuracy"]["y"], found.curves["loss"]["y"]
    assert accuracy[0] < 0.1 < accuracy[-1] == found.metrics["accuracy"]
    assert loss[0] > loss[-1]
    assert found.curves["output_recall"]["y"][0] < 0.1


def test_an_ideal_model_has_full_probes_of_attention() -> None:
    """Matrices of the theorem at the sizes of the bigram task."""
    task = BigramProbes(length=32, evaluated=64, steps=1, batch=1)
    torch.manual_seed(0)
    model = DisentangledAttention(65, 32, width=80)
    with torch.no_grad():
        model.output_2 += 100 * model.readout.T @ model.tokens
        model.key_2 += 100 * model.tokens.T @ (model.tokens @ model.moved.T)
        model.key_1 += 100 * model.positions[1:].T @ model.positions[:-1]
    drawn = task.bigram.splits["test"]
    # A trigger at the first position looks like its own output's key.
    kept = ~np.isin(drawn.inputs[:, 0], task.bigram.sampler.fixed)
    clean = Sequences(drawn.tokens[kept], drawn.triggers[kept], drawn.outputs[kept])
    found = task._probe(model, clean, "cpu")
    assert found["first_layer_on_previous"] == 1
    assert found["position_recall"] == found["token_recall"] == found["output_recall"] == 1
    assert found["second_layer_after_trigger"] == found["second_layer_on_output"] == 1
    assert found["accuracy"] == 1


@pytest.mark.parametrize(
    ("values", "expected"), [([0.2, 0.4, 0.8], 12.5), ([0.5, 0.1, 0.2], 0.0), ([0, 0.1, 0.2], None)]
)
def test_the_crossing_of_one_half(values: list[float], expected: float | None) -> None:
    assert crossing([0, 10, 20], values) == (None if expected is None else pytest.approx(expected))


def test_models_without_these_memories_are_refused() -> None:
    build = build_of(lambda *sizes: nn.Linear(2, 2))
    for task in (ThreeGradientSteps(**SMALL), BigramProbes(length=16, evaluated=4)):
        with pytest.raises(ValueError, match="memories of an induction head"):
            task.measure(build, "test", 0, "cpu", silent)


def test_draws_differ_between_splits_and_seeds() -> None:
    task = ThreeGradientSteps(**SMALL)
    drawn = [
        task.draw(100, split, seed, 0)[0] for split in ("validation", "test") for seed in (0, 1)
    ]
    assert all(not np.array_equal(one, other) for i, one in enumerate(drawn) for other in drawn[:i])


def test_what_followed_a_token_before() -> None:
    inputs = np.random.default_rng(0).integers(0, 4, (5, 12))
    found = followers(inputs, 4)
    for row, sequence in enumerate(inputs.tolist()):
        for place, token in enumerate(sequence):
            after = {b for a, b in pairwise(sequence[: place + 1]) if a == token}
            assert set(np.flatnonzero(found[row, place])) == after


@pytest.mark.bitwise
def test_a_memory_waits_until_the_one_before_it_is_half_learned() -> None:
    """In as many steps as leave W_O² below half, the keys are what they were drawn as."""
    built = []

    def build(*sizes: int, seed: int = 0) -> nn.Module:
        torch.manual_seed(0)
        built.append(TwoLayerAttention(*sizes, width=16))
        return built[-1]

    task = BigramProbes(length=16, evaluated=8, steps=3, batch=8, probe_every=1, in_turn=True)
    found = task.measure(build, "test", 0, "cpu", silent)
    start = build(65, 16)
    for name, is_kept in {"output_2": False, "key_2": True, "key_1": True}.items():
        same = torch.equal(built[0].get_parameter(name), start.get_parameter(name))
        assert same == is_kept
    assert max(found.curves["output_recall"]["y"]) < 0.5
    for learned in range(4):  # from a start at 0.2, half is 0.6
        curves = {probe: [0.2, 0.61 if n < learned else 0.59] for n, probe in enumerate(PROBED)}
        _let_learn(start, curves)
        trained = [name for name, one in start.named_parameters() if one.requires_grad]
        assert sorted(trained) == sorted(MEMORIES[: learned + 1])


def test_without_its_w_f_a_model_that_holds_bigrams_there_knows_none() -> None:
    """W_F holds log π_b and nothing else speaks: its loss is that of the table, then that of 65
    tokens alike."""
    task = BigramProbes(length=32, evaluated=32, triggers="random", ablated=True)
    drawn, table = task.bigram.splits["test"], task.bigram.sampler.table.of_next
    model = TwoLayerAttention(65, 32, width=130, feed_forward=True)
    logs = torch.from_numpy(table).float().clamp(min=1e-30).log()
    with torch.no_grad():
        for content in (*model.parameters(), *model.buffers()):
            content.zero_()
        model.tokens[:, :65] = model.readout[:, 65:] = torch.eye(65)
        model.get_parameter("feed_forward")[65:, :65] = logs.T
    found = task._ablation(model, drawn, "cpu")
    ordinary = drawn.occurrences() == 0
    expected = -np.log(table[drawn.inputs, drawn.targets][ordinary]).mean()
    assert found["ordinary_loss"] == pytest.approx(expected, rel=1e-5)
    assert found["ordinary_loss_without_w_f"] == pytest.approx(math.log(65), rel=1e-5)
    assert found["global_share"] == 1
    assert found["in_context_share"] == 0
    assert found["global_share_without_w_f"] < 0.1


def test_a_model_without_w_f_cannot_go_without_it() -> None:
    task = BigramProbes(length=16, evaluated=8, ablated=True)
    with pytest.raises(ValueError, match=r"models\.feed_forward=true"):
        task.measure(build_of(TwoLayerAttention, width=16), "test", 0, "cpu", silent)
