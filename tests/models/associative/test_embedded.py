"""Memories between embeddings: their equations, and trials that do not feel each other."""

import math

import pytest
import torch

from models.associative.embedded import EmbeddedMemory
from models.associative.exponential import Exponential
from models.associative.learnable import Learnable
from models.associative.matrix import Matrix
from tests.closeness import assert_near

TOKENS, DIMENSION, CLASSES = 7, 4, 3
ALL = (Matrix, Learnable, Exponential)


def generators(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def everything(trials: int) -> torch.Tensor:
    return torch.arange(TOKENS).expand(trials, -1)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("model", ALL)
def test_scores_are_those_of_the_equation(model: type[EmbeddedMemory], layer_norm: bool) -> None:
    memory = model(TOKENS, DIMENSION, CLASSES, generators(0, 1), layer_norm=layer_norm)
    scores = memory(everything(2))
    by_hand = torch.zeros(scores.shape, dtype=torch.float64)
    for trial in range(2):
        embedding, readout = memory.embedding[trial], memory.readout[trial]
        for token in range(TOKENS):
            vector = embedding[token]
            if model is Exponential:
                hidden = [max(x, 0.0) for x in vector.tolist()]
            else:
                weight = memory.weight[trial].tolist()
                hidden = [
                    sum(vector[i].item() * weight[i][j] for i in range(DIMENSION))
                    for j in range(DIMENSION)
                ]
            if layer_norm:
                length = math.sqrt(sum(x * x for x in hidden) + 1e-6)
                hidden = [x / length for x in hidden]
            for k in range(CLASSES):
                expected = sum(hidden[i] * readout[i, k].item() for i in range(DIMENSION))
                by_hand[trial, token, k] = expected
    # Sums over 4 inputs, 4 hidden numbers and, in the norm, 4 squares.
    assert_near(scores.detach(), by_hand, terms=12, condition=2, dtype=torch.float32)


@pytest.mark.parametrize("model", ALL)
def test_a_trial_is_the_same_alone_and_among_others(model: type[EmbeddedMemory]) -> None:
    together, alone = generators(5, 6, 7), generators(6)
    among = model(TOKENS, DIMENSION, CLASSES, together)(everything(3))[1]
    by_itself = model(TOKENS, DIMENSION, CLASSES, alone)(everything(1))[0]
    assert_near(among, by_itself, terms=2 * DIMENSION)
    # The caller goes on drawing from where the model stopped.
    expected = torch.rand(5, generator=together[1])
    assert torch.equal(torch.rand(5, generator=alone[0]), expected)


@pytest.mark.bitwise
def test_matrix_draws_weight_then_inputs_then_outputs() -> None:
    torch.manual_seed(42)
    shapes = ((DIMENSION, DIMENSION), (TOKENS, DIMENSION), (DIMENSION, CLASSES))
    drawn = [torch.randn(shape) / DIMENSION**0.5 for shape in shapes]
    memory = Matrix(TOKENS, DIMENSION, CLASSES, generators(42))
    for value, expected in zip(
        (memory.weight, memory.embedding, memory.readout), drawn, strict=True
    ):
        assert torch.equal(value[0], expected)


@pytest.mark.parametrize(
    ("model", "trained"),
    [
        (Matrix, {"weight": 1 / DIMENSION}),
        (Learnable, {"weight": 1 / DIMENSION, "embedding": 0.5, "readout": 0.5}),
        (Exponential, {"embedding": 0.5, "readout": 0.5}),
    ],
)
def test_what_is_trained_and_how_far_a_sign_step_moves_it(
    model: type[EmbeddedMemory], trained: dict[str, float]
) -> None:
    memory = model(TOKENS, DIMENSION, CLASSES, generators(0))
    assert {name for name, _ in memory.named_parameters()} == set(trained)
    names = {id(parameter): name for name, parameter in memory.named_parameters()}
    assert {names[id(p)]: scale for p, scale in memory.step_scales()} == trained


@pytest.mark.parametrize("model", ALL)
def test_gradients_by_differences(model: type[EmbeddedMemory]) -> None:
    memory = model(TOKENS, DIMENSION, CLASSES, generators(0, 1), layer_norm=True).double()
    inputs = torch.randn(2, 3, DIMENSION, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(memory.read, (inputs,), nondet_tol=1e-5)


@pytest.mark.parametrize("sizes", [(0, 4, 3), (7, 0, 3), (7, 4, 0)])
def test_sizes_below_one_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least one token, dimension, class and trial"):
        Matrix(*sizes, generators(0))
    with pytest.raises(ValueError, match="and 0"):
        Matrix(7, 4, 3, [])
