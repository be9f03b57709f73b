"""Attention with a short convolution, against a library's convolution and plain attention."""

from __future__ import annotations

import torch
from torch.nn import functional

from models.conv_attention import Attention, ConvAttention, ShortConvolution
from models.specification import SequenceSpecification


def test_the_convolution_is_a_causal_depthwise_one() -> None:
    torch.manual_seed(0)
    convolution = ShortConvolution(6, 3).double()
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    taps = convolution.weight.T.flip(1)[:, None]  # a library's kernel begins with the oldest
    expected = functional.conv1d(functional.pad(x.mT, (2, 0)), taps, groups=6).mT
    torch.testing.assert_close(convolution(functional.pad(x, (0, 0, 2, 0))), expected)


def test_with_one_tap_of_one_it_is_plain_attention() -> None:
    torch.manual_seed(1)
    attention = Attention(8, 2, 1).double()
    with torch.no_grad():
        attention.convolution.weight.fill_(1.0)
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    queries, keys, values = attention.projection(x)[0].chunk(3, dim=-1)
    rows = []
    for t in range(5):
        heads = []
        for head in (slice(0, 4), slice(4, 8)):
            scores = keys[: t + 1, head] @ queries[t, head] / 2
            heads.append(scores.softmax(0) @ values[: t + 1, head])
        rows.append(attention.output(torch.cat(heads)))
    torch.testing.assert_close(attention(x, None)[0][0], torch.stack(rows))


def test_only_the_convolution_tells_the_order_of_the_past() -> None:
    specification = SequenceSpecification(maximum_length=8, vocabulary=9)
    inputs = torch.tensor([[1, 2, 3, 4, 5, 6], [3, 2, 1, 4, 5, 6]])
    for kernel, same in ((1, True), (3, False)):
        torch.manual_seed(0)
        model = ConvAttention(specification, width=16, layers=1, kernel=kernel).double().eval()
        outputs = model(inputs)[:, -1]
        assert torch.allclose(outputs[0], outputs[1], rtol=1e-10, atol=1e-10) == same
