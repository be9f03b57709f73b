"""The baselines of CogScale against torch's own modules, and against the parameters of its runs."""

import pytest
import torch
from torch import Tensor, nn

from models.mamba import MambaMixer
from models.peers.cogscale import CogScaleDecoder, CogScaleGRU, CogScaleLSTM, CogScaleMamba
from models.specification import SequenceSpecification
from tests.closeness import assert_near

CHANNELS, OUTPUTS, WIDTH = 5, 3, 16
SPECIFICATION = SequenceSpecification(20, input_channels=CHANNELS, output_channels=OUTPUTS)


def inputs() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 20, CHANNELS, generator=generator, dtype=torch.float64)


def test_the_decoder_is_a_causal_transformer_encoder_of_torch() -> None:
    model = CogScaleDecoder(SPECIFICATION, width=WIDTH).double().eval()
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, batch_first=True)
    reference = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double().eval()
    torch.manual_seed(1)
    for block, other in zip(model.blocks, reference.layers, strict=True):
        for parameter in block.parameters():
            nn.init.normal_(parameter, std=0.3)
        pairs = {
            "self_attn.in_proj_weight": block.projection.weight,
            "self_attn.in_proj_bias": block.projection.bias,
            "self_attn.out_proj.weight": block.output.weight,
            "self_attn.out_proj.bias": block.output.bias,
            "linear1.weight": block.expansion.weight,
            "linear1.bias": block.expansion.bias,
            "linear2.weight": block.contraction.weight,
            "linear2.bias": block.contraction.bias,
            "norm1.weight": block.attention_norm.weight,
            "norm1.bias": block.attention_norm.bias,
            "norm2.weight": block.mlp_norm.weight,
            "norm2.bias": block.mlp_norm.bias,
        }
        other.load_state_dict({name: value.detach() for name, value in pairs.items()})
    positions = torch.zeros(20, WIDTH, dtype=torch.float64)
    for position in range(20):
        for pair in range(0, WIDTH, 2):
            angle = torch.tensor(position / 10_000 ** (pair / WIDTH), dtype=torch.float64)
            positions[position, pair], positions[position, pair + 1] = angle.sin(), angle.cos()
    mask = nn.Transformer.generate_square_subsequent_mask(20, dtype=torch.float64)
    hidden = reference(model.encoder(inputs()) + positions, mask=mask, is_causal=True)
    expected = model.read_out(model.norm(hidden))
    assert_near(model(inputs()), expected, terms=1000, condition=100.0)


def test_blocks_of_the_decoder_start_alike_and_are_trained_apart() -> None:
    model = CogScaleDecoder(SPECIFICATION, width=WIDTH)
    first, second = (dict(block.named_parameters()) for block in model.blocks)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not {id(p) for p in first.values()} & {id(p) for p in second.values()}


@pytest.mark.parametrize("kind", [CogScaleLSTM, CogScaleGRU])
def test_the_recurrent_ones_are_a_layer_of_torch_and_a_linear_map(kind: type[nn.Module]) -> None:
    torch.manual_seed(3)
    model = kind(SPECIFICATION, width=WIDTH)
    torch.manual_seed(3)
    layer = (nn.LSTM if kind is CogScaleLSTM else nn.GRU)(CHANNELS, WIDTH, batch_first=True)
    read_out = nn.Linear(WIDTH, OUTPUTS)
    x = inputs().float()
    # Each of 20 positions adds up its channels and the hidden state of the one before.
    assert_near(model(x), read_out(layer(x)[0]), terms=20 * (CHANNELS + WIDTH) + WIDTH)


def test_mamba_has_nothing_between_its_layers() -> None:
    model = CogScaleMamba(SPECIFICATION, width=WIDTH).double()
    hidden = model.encoder(inputs())
    for layer in model.layers:
        assert isinstance(layer, MambaMixer)
        hidden = layer(hidden)
    # Two layers, each with 20 steps of a state of 16 behind maps of the width.
    terms = 2 * 20 * (16 + WIDTH)
    assert_near(model(inputs()), model.read_out(model.norm(hidden)), terms=terms, condition=10.0)


def test_tokens_are_refused_with_a_sentence() -> None:
    for kind in (CogScaleLSTM, CogScaleGRU, CogScaleMamba, CogScaleDecoder):
        with pytest.raises(ValueError, match="read real channels, and this task gives tokens"):
            kind(SequenceSpecification(8, vocabulary=5))
