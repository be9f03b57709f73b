"""Public packages whose models are of the kind of one of ours, and how each is built.

A package is imported when its model is built, so that none need be installed. What it computes is
its own code; at most an embedding and an output matrix stand around its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
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
        module: of it, which has the classes.
        model: ours of its kind.
        make: makes it with random weights, from that module.
        settings: of ours, where it differs from its card, so that both have the same parts.
        sized: the feed-forward layers can have any width, and so the model as many parameters as
            ours.
    """

    package: str
    module: str
    model: str
    make: Callable[[Any, Shape], nn.Module]
    settings: Mapping[str, Any] = field(default_factory=dict)
    sized: bool = False

    @property
    def version(self) -> str | None:
        """Which one is installed; None of a package that is not."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def build(self, shape: Shape) -> nn.Module:
        """The model, with random weights.

        Raises:
            ImportError: the package, or another one that it needs, is not installed.
        """
        return self.make(import_module(self.module), shape)

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


def transformers_gpt2(package: Any, shape: Shape) -> nn.Module:
    """GPT2LMHeadModel of the transformers library; its embedding is its output matrix."""
    configuration = package.GPT2Config(
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
    return TokenModel(package.GPT2LMHeadModel(configuration), lambda model, x: model(x).logits)


def x_transformers(package: Any, shape: Shape) -> nn.Module:
    """TransformerWrapper around a Decoder, with rotary positions."""
    layers = package.Decoder(
        dim=shape.width,
        depth=shape.layers,
        heads=shape.heads,
        attn_dim_head=shape.width // shape.heads,
        ff_mult=shape.feed_forward / shape.width,
        rotary_pos_emb=True,
        attn_flash=True,
    )
    network = package.TransformerWrapper(
        num_tokens=shape.vocabulary,
        max_seq_len=shape.length,
        attn_layers=layers,
        use_abs_pos_emb=False,
    )
    return TokenModel(network, lambda model, x: model(x))


def yet_another_retnet(package: Any, shape: Shape) -> nn.Module:
    """RetNet in its parallel form."""
    network = package.RetNet(
        shape.vocabulary,
        d_model=shape.width,
        nhead=shape.heads,
        num_layers=shape.layers,
        dim_feedforward=shape.feed_forward,
        dropout=0.0,
    )
    return TokenModel(network, lambda model, x: cast(Any, model).forward_parallel(x))


def mambapy(package: Any, shape: Shape) -> nn.Module:
    """Mamba by its parallel scan."""
    network = nn.Sequential(
        nn.Embedding(shape.vocabulary, shape.width),
        package.Mamba(package.MambaConfig(d_model=shape.width, n_layers=shape.layers)),
        nn.LayerNorm(shape.width),
        nn.Linear(shape.width, shape.vocabulary, bias=False),
    )
    return TokenModel(network, lambda model, x: model(x))


def minimamba(package: Any, shape: Shape) -> nn.Module:
    """Mamba."""
    configuration = package.MambaLMConfig(
        d_model=shape.width, n_layer=shape.layers, vocab_size=shape.vocabulary
    )
    return TokenModel(
        package.MambaForCausalLM(configuration), lambda model, x: model(x)[..., : shape.vocabulary]
    )


def transformers_mamba(package: Any, shape: Shape) -> nn.Module:
    """MambaForCausalLM of the transformers library."""
    configuration = package.MambaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        use_cache=False,
    )
    return TokenModel(package.MambaForCausalLM(configuration), lambda model, x: model(x).logits)


def mamba3_ssm(package: Any, shape: Shape) -> nn.Module:
    """MambaLMHeadModel with Mamba-3 layers."""
    layer = {"d_state": 32, "headdim": shape.width // shape.heads}
    configuration = package.MambaConfig(
        d_model=shape.width, n_layer=shape.layers, vocab_size=shape.vocabulary, ssm_cfg=layer
    )
    return TokenModel(
        package.MambaLMHeadModel(configuration), lambda model, x: model(x)[..., : shape.vocabulary]
    )


def titans_pytorch(package: Any, shape: Shape) -> nn.Module:
    """MemoryAsContextTransformer with a memory in every layer."""
    network = package.MemoryAsContextTransformer(
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


def xlstm(package: Any, shape: Shape) -> nn.Module:
    """xLSTMLMModel of mLSTM blocks alone."""
    layer = package.mLSTMLayerConfig(
        conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=shape.heads
    )
    configuration = package.xLSTMLMModelConfig(
        mlstm_block=package.mLSTMBlockConfig(mlstm=layer),
        context_length=shape.length,
        num_blocks=shape.layers,
        embedding_dim=shape.width,
        vocab_size=shape.vocabulary,
    )
    return TokenModel(package.xLSTMLMModel(configuration), lambda model, x: model(x))


def min_gru(package: Any, shape: Shape) -> nn.Module:
    """minLM."""
    network = package.minLM(
        num_tokens=shape.vocabulary,
        dim=shape.width,
        depth=shape.layers,
        ff_mult=shape.feed_forward / shape.width,
    )
    return TokenModel(network, lambda model, x: model(x))


def rwkv7_hf(package: Any, shape: Shape) -> nn.Module:
    """RWKV7ForCausalLM."""
    configuration = package.RWKV7Config(
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
        package.RWKV7ForCausalLM(configuration), lambda model, x: model(x, use_cache=False).logits
    )


NO_MLP = {"mlp": False}
PEERS = (
    Peer("transformers", "transformers", "gpt2", transformers_gpt2, sized=True),
    Peer("x-transformers", "x_transformers", "gpt2_rope", x_transformers, sized=True),
    Peer(
        "yet-another-retnet", "yet_another_retnet.retnet", "retnet", yet_another_retnet, sized=True
    ),
    Peer("minGRU-pytorch", "minGRU_pytorch.minLM", "min_gru", min_gru, sized=True),
    Peer("mambapy", "mambapy.mamba", "mamba", mambapy, NO_MLP),
    Peer("minimamba", "minimamba", "mamba", minimamba, NO_MLP),
    Peer("transformers", "transformers", "mamba", transformers_mamba, NO_MLP),
    Peer("mamba3-ssm", "mamba3_ssm.block", "mamba3", mamba3_ssm, NO_MLP),
    Peer("xlstm", "xlstm", "mlstm", xlstm, NO_MLP),
    Peer("titans-pytorch", "titans_pytorch", "titans", titans_pytorch),
    Peer("rwkv7-hf", "rwkv7_hf", "rwkv7", rwkv7_hf),
)
