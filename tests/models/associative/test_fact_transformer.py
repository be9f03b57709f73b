"""The transformer of facts against attention over positions."""

import math

import pytest
import torch
from torch.nn import functional

from models.associative.fact_transformer import FactTransformer
from models.associative.one_hot_attention import OneHotAttention
from tests.closeness import assert_near

VOCABULARY, END = 11, 10


def sequences() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, END, (6, 7), generator=torch.Generator().manual_seed(0))
    tokens = torch.cat([tokens, torch.full((6, 1), END)], 1)
    return tokens, functional.one_hot(tokens, VOCABULARY).sum(1).double()


@pytest.mark.parametrize("mlp_width", [0, 9])
def test_counts_are_softmax_attention_over_positions(mlp_width: int) -> None:
    torch.manual_seed(0)
    model = FactTransformer(VOCABULARY, 5, 8, 3, 2, mlp_width).double()
    tokens, counts = sequences()
    x = model.embedding[tokens]
    heads = []
    for head in range(2):
        keys, values = x @ model.key[head], x @ model.value[head]
        scores = keys @ (x[:, -1] @ model.query[head])[..., None] / math.sqrt(3)
        heads.append((scores.softmax(1) * values).sum(1))
    answer = torch.cat(heads, -1) @ model.output.flatten(0, 1)
    answer = answer + functional.relu(answer @ model.first + model.bias) @ model.second
    expected = answer @ model.unembedding
    assert_near(model(counts, END), expected, terms=8 + 3 + 8 + 6 + 8 + 9 + 8, condition=10)


def test_trained_parameters_are_counted_as_published() -> None:
    model = FactTransformer(VOCABULARY, 5, 8, 3, 2, 9)
    without_bias = sum(p.numel() for p in model.parameters()) - 9
    assert without_bias == 4 * 2 * 3 * 8 + 2 * 9 * 8


def test_linear_attention_is_a_sum_over_positions() -> None:
    model = OneHotAttention(VOCABULARY, 5, initial=1.0).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    tokens, counts = sequences()
    for row, sequence in enumerate(tokens):
        expected = sum(model.attention[END, t] * model.value[t] for t in sequence)
        assert_near(model(counts, END)[row], expected, terms=8)


def test_sizes_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        FactTransformer(VOCABULARY, 5, 8, 3, 0, 9)
    with pytest.raises(ValueError, match="at least one"):
        OneHotAttention(0, 5)
