"""Public packages whose models are of the kind of one of ours, and how each is built.

A package is imported by its own function alone, so that none need be installed. What it computes
is its own code; at most an embedding and an output matrix stand around its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from torch import Tensor, nn

from bench.training.storage import count_parameters

FEED_FORWARD_MULTIPLE = 8  # of which widths of feed-forward layers are tried
CHUNK, SEGMENT = 16, 32  # tokens, of our Titans


@dataclass(frozen=True)
class Shape:
    """The sizes of a model.

    Attributes:
        length: the longest sequence, in tokens.
        feed_forward: width inside the feed-forward layers.
    """

    vocabulary: int
    length: int
    width: int
    layers: int
    heads: int
    feed_forward: int


class TokenModel(nn.Module):
    """A package's network as a map of tokens (batch, time) to logits (batch, time, vocabulary)."""

    def __init__(self, network: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self._call = network, call

    def forward(self, tokens: Tensor) -> Tensor:
        return self._call(self.network, tokens)


@dataclass(frozen=True)
class Peer:
    """A model of a package.

    Attributes:
        package: as PyPI names it.
        model: ours of its kind.
        build: makes it with random weights.
        settings: of ours, where it differs from its card, so that both have the same parts.
        sized: the feed-forward layers can have any width, and so the model as many parameters as
            ours.
    """

    package: str
    model: str
    build: Callable[[Shape], nn.Module]
    settings: Mapping[str, Any] = field(default_factory=dict)
    sized: bool = False

    @property
    def version(self) -> str | None:
        """Which one is installed; None of a package that is not."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def with_parameters(self, shape: Shape, parameters: int) -> nn.Module:
        """The model, as near to this number of parameters as its feed-forward layers allow."""
        if not self.sized:
            return self.build(shape)

        def with_width(width: int) -> nn.Module:
            return self.build(replace(shape, feed_forward=width))

        step = FEED_FORWARD_MULTIPLE
        smallest, next_one = (count_parameters(with_width(w)) for w in (step, 2 * step))
        more = round((parameters - smallest) / (next_one - smallest))
        return with_width(step * max(1, 1 + more))


def transformers_gpt2(shape: Shape) -> nn.Module:
    """GPT2LMHeadModel of the transformers library; its embedding is its output matrix."""
    from transformers import GPT2Config, GPT2LMHeadModel

    configuration = GPT2Config(
        vocab_size=shape.vocabulary,
        n_positions=shape.length,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_inner=shape.feed_forward,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
    )
    return TokenModel(GPT2LMHeadModel(configuration), lambda model, x: model(x).logits)


def x_transformers(shape: Shape) -> nn.Module:
    """TransformerWrapper around a Decoder, with rotary positions."""
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=shape.width,
        depth=shape.layers,
        heads=shape.heads,
        attn_dim_head=shape.width // shape.heads,
        ff_mult=shape.feed_forward / shape.width,
        rotary_pos_emb=True,
        attn_flash=True,
    )
    network = TransformerWrapper(
        num_tokens=shape.vocabulary,
        max_seq_len=shape.length,
        attn_layers=layers,
        use_abs_pos_emb=False,
    )
    return TokenModel(network, lambda model, x: model(x))


def yet_another_retnet(shape: Shape) -> nn.Module:
    """RetNet in its parallel form."""
    from yet_another_retnet.retnet import RetNet

    network = RetNet(
        shape.vocabulary,
        d_model=shape.width,
        nhead=shape.heads,
        num_layers=shape.layers,
        dim_feedforward=shape.feed_forward,
        dropout=0.0,
    )
    return TokenModel(network, lambda model, x: cast(Any, model).forward_parallel(x))


def mambapy(shape: Shape) -> nn.Module:
    """Mamba by its parallel scan."""
    from mambapy.mamba import Mamba, MambaConfig

    network = nn.Sequential(
        nn.Embedding(shape.vocabulary, shape.width),
        Mamba(MambaConfig(d_model=shape.width, n_layers=shape.layers)),
        nn.LayerNorm(shape.width),
        nn.Linear(shape.width, shape.vocabulary, bias=False),
    )
    return TokenModel(network, lambda model, x: model(x))


def minimamba(shape: Shape) -> nn.Module:
    """Mamba."""
    from minimamba import MambaForCausalLM, MambaLMConfig

    configuration = MambaLMConfig(
        d_model=shape.width, n_layer=shape.layers, vocab_size=shape.vocabulary
    )
    return TokenModel(
        MambaForCausalLM(configuration), lambda model, x: model(x)[..., : shape.vocabulary]
    )


def transformers_mamba(shape: Shape) -> nn.Module:
    """MambaForCausalLM of the transformers library."""
    from transformers import MambaConfig, MambaForCausalLM

    configuration = MambaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        use_cache=False,
    )
    return TokenModel(MambaForCausalLM(configuration), lambda model, x: model(x).logits)


def mamba3_ssm(shape: Shape) -> nn.Module:
    """MambaLMHeadModel with Mamba-3 layers."""
    from mamba3_ssm.block import MambaLMHeadModel
    from mamba3_ssm.config import MambaConfig

    layer = {"d_state": 32, "headdim": shape.width // shape.heads}
    configuration = MambaConfig(
        d_model=shape.width, n_layer=shape.layers, vocab_size=shape.vocabulary, ssm_cfg=layer
    )
    return TokenModel(
        MambaLMHeadModel(configuration), lambda model, x: model(x)[..., : shape.vocabulary]
    )


def titans_pytorch(shape: Shape) -> nn.Module:
    """MemoryAsContextTransformer with a memory in every layer."""
    from titans_pytorch import MemoryAsContextTransformer

    network = MemoryAsContextTransformer(
        num_tokens=shape.vocabulary,
        dim=shape.width,
        depth=shape.layers,
        heads=shape.heads,
        dim_head=shape.width // shape.heads,
        segment_len=SEGMENT,
        neural_memory_segment_len=CHUNK,
        num_persist_mem_tokens=4,
        num_longterm_mem_tokens=4,
        use_flex_attn=False,
    )
    return TokenModel(network, lambda model, x: model(x))


def xlstm(shape: Shape) -> nn.Module:
    """xLSTMLMModel of mLSTM blocks alone."""
    from xlstm import mLSTMBlockConfig, mLSTMLayerConfig, xLSTMLMModel, xLSTMLMModelConfig

    layer = mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=shape.heads)
    configuration = xLSTMLMModelConfig(
        mlstm_block=mLSTMBlockConfig(mlstm=layer),
        context_length=shape.length,
        num_blocks=shape.layers,
        embedding_dim=shape.width,
        vocab_size=shape.vocabulary,
    )
    return TokenModel(xLSTMLMModel(configuration), lambda model, x: model(x))


def min_gru(shape: Shape) -> nn.Module:
    """minLM."""
    from minGRU_pytorch.minLM import minLM

    network = minLM(
        num_tokens=shape.vocabulary,
        dim=shape.width,
        depth=shape.layers,
        ff_mult=shape.feed_forward / shape.width,
    )
    return TokenModel(network, lambda model, x: model(x))


def rwkv7_hf(shape: Shape) -> nn.Module:
    """RWKV7ForCausalLM."""
    from rwkv7_hf import RWKV7Config, RWKV7ForCausalLM

    configuration = RWKV7Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        head_dim=shape.width // shape.heads,
        decay_low_rank_dim=16,
        gate_low_rank_dim=16,
        a_low_rank_dim=16,
        v_low_rank_dim=16,
    )
    return TokenModel(
        RWKV7ForCausalLM(configuration), lambda model, x: model(x, use_cache=False).logits
    )


NO_MLP = {"mlp": False}
PEERS = (
    Peer("transformers", "gpt2", transformers_gpt2, sized=True),
    Peer("x-transformers", "gpt2_rope", x_transformers, sized=True),
    Peer("yet-another-retnet", "retnet", yet_another_retnet, sized=True),
    Peer("minGRU-pytorch", "min_gru", min_gru, sized=True),
    Peer("mambapy", "mamba", mambapy, NO_MLP),
    Peer("minimamba", "mamba", minimamba, NO_MLP),
    Peer("transformers", "mamba", transformers_mamba, NO_MLP),
    Peer("mamba3-ssm", "mamba3", mamba3_ssm, NO_MLP),
    Peer("xlstm", "mlstm", xlstm, NO_MLP),
    Peer("titans-pytorch", "titans", titans_pytorch),
    Peer("rwkv7-hf", "rwkv7", rwkv7_hf),
)
