"""Attention with a short convolution, against a library's convolution and plain attention."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from models.conv_attention import ConvAttention, ConvAttentionMixer
from models.layers.short_convolution import ConvolvedProjection, ShortConvolution
from models.specification import SequenceSpecification
from tests.closeness import assert_near, rounding


@pytest.mark.parametrize("bias", [False, True])
def test_the_convolution_is_a_causal_depthwise_one_in_whatever_pieces(bias: bool) -> None:
    torch.manual_seed(0)
    convolution = ShortConvolution(6, 3, bias=bias).double()
    library = nn.Conv1d(6, 6, 3, groups=6, bias=bias).double()
    with torch.no_grad():
        library.weight.copy_(convolution.filters.T[:, None])
        if library.bias is not None and convolution.bias is not None:
            library.bias.copy_(convolution.bias)
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    expected = library(functional.pad(x.mT, (2, 0))).mT
    assert_near(convolution(x)[0], expected, terms=4)
    past, pieces = None, []
    for piece in x.split((1, 5, 2, 1), 1):
        found, past = convolution(piece, past)
        assert past.shape == (2, 2, 6)
        pieces.append(found)
    assert_near(torch.cat(pieces, 1), expected, terms=4)


def test_behind_a_linear_map_it_is_what_a_library_computes() -> None:
    torch.manual_seed(0)
    projection = ConvolvedProjection(4, 6, 3).double()
    x = torch.randn(2, 9, 4, dtype=torch.float64)
    inner = projection.convolution
    mapped = functional.pad((x @ projection.projection.weight.T).mT, (2, 0))
    convolved = functional.conv1d(mapped, inner.filters.T[:, None], inner.bias, groups=6)
    assert_near(projection(x)[0], functional.silu(convolved).mT, terms=4 + 4, condition=10)


def test_a_convolution_without_taps_is_refused() -> None:
    with pytest.raises(ValueError, match="taps=0"):
        ShortConvolution(6, 0, bias=False)


def test_with_one_tap_of_one_it_is_plain_attention() -> None:
    torch.manual_seed(1)
    attention = ConvAttentionMixer(8, 2, 1).double()
    with torch.no_grad():
        attention.convolution.filters.fill_(1.0)
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    queries, keys, values = attention.projection(x)[0].chunk(3, dim=-1)
    rows = []
    for t in range(5):
        heads = []
        for head in (slice(0, 4), slice(4, 8)):
            scores = keys[: t + 1, head] @ queries[t, head] / 2
            heads.append(scores.softmax(0) @ values[: t + 1, head])
        rows.append(attention.output(torch.cat(heads)))
    assert_near(attention(x, None)[0][0], torch.stack(rows), terms=4 + 5 + 8, condition=10)


def test_only_the_convolution_tells_the_order_of_the_past() -> None:
    specification = SequenceSpecification(maximum_length=8, vocabulary=9)
    inputs = torch.tensor([[1, 2, 3, 4, 5, 6], [3, 2, 1, 4, 5, 6]])
    for kernel, same in ((1, True), (3, False)):
        torch.manual_seed(0)
        model = ConvAttention(specification, width=16, layers=1, kernel=kernel).double().eval()
        outputs = model(inputs)[:, -1]
        allowed = rounding(outputs.abs().max().item(), outputs.dtype, terms=200, condition=100)
        assert ((outputs[0] - outputs[1]).abs().max() <= allowed) == same
