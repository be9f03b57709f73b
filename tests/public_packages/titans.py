"""Adapters: Titans: memories that learn at test time."""

from typing import Any

from torch import nn

from tests.public_packages.contender import (
    HEADS,
    LAYERS,
    MAXIMUM_LENGTH,
    SIZES,
    WIDTH,
    Wrapped,
    contender,
)
from tests.public_packages.pins import AXIAL, EINOPS, EINOPS_UTILS, EINX, HYPER_CONNECTIONS, ROTARY


@contender(
    "titans-pytorch MemoryAsContextTransformer",
    "titans-pytorch==0.5.5",
    EINOPS,
    *EINX,
    EINOPS_UTILS,
    "assoc-scan==0.0.6",
    AXIAL,
    HYPER_CONNECTIONS,
    ROTARY,
    "tensordict==0.15.3",
    "x-transformers==2.31.10",
    "loguru==0.7.3",
    "pyvers==0.2.3",
    "orjson==3.13.0",
    rival="titans",
    regbench=False,
    changes={
        "neural_mem_gate_attn_output": True,
        "neural_memory_add_value_residual": True,
        "num_longterm_mem_tokens": 0,
        "num_persist_mem_tokens": 2,
        "neural_memory_batch_size": 32,
        "neural_memory_qkv_receives_diff_views": True,
        "ff_mult": 2,
        "num_residual_streams": 1,
        "neural_memory_segment_len": 4,
        "sliding_window_attn": True,
    },
)
def titans(vocabulary: int, **changes: Any) -> Wrapped:
    from titans_pytorch import MemoryAsContextTransformer

    options = {
        **SIZES,
        "segment_len": 16,
        "num_persist_mem_tokens": 4,
        "num_longterm_mem_tokens": 4,
        "neural_memory_layers": (2,),
        "use_flex_attn": False,
    } | changes
    network = MemoryAsContextTransformer(num_tokens=vocabulary, **options)
    return Wrapped(network)


def titans_memory_model(name: str, vocabulary: int, **changes: Any) -> Wrapped:
    """One of the four models of titans-memory."""
    import titans as package

    options = {
        "d_model": WIDTH,
        "n_layers": LAYERS,
        "n_persistent": 4,
        "chunk_size": 16,
        "max_seq_len": MAXIMUM_LENGTH,
    } | changes
    network = getattr(package, name)(vocabulary, **options)
    return Wrapped(network, lambda m, x: m(x)["logits"])


TITANS_MEMORY_CHANGES = {
    "mem_layers": 3,
    "d_hidden": 64,
    "n_persistent": 2,
    "chunk_size": 4,
    "ffn_mult": 2,
    "use_momentum": False,
    "use_decay": False,
}


@contender(
    "titans-memory TitansLMM",
    "titans-memory==0.3.0",
    rival="titans",
    regbench=False,
    changes=TITANS_MEMORY_CHANGES,
)
def titans_memory_lmm(vocabulary: int, **changes: Any) -> Wrapped:
    return titans_memory_model("TitansLMM", vocabulary, **changes)


@contender(
    "titans-memory TitansMAG",
    "titans-memory==0.3.0",
    rival="titans",
    regbench=False,
    changes=TITANS_MEMORY_CHANGES | {"window": 4},
)
def titans_memory_mag(vocabulary: int, **changes: Any) -> Wrapped:
    return titans_memory_model("TitansMAG", vocabulary, **changes)


def titans_unofficial_model(name: str, vocabulary: int, **changes: Any) -> Wrapped:
    """One of the models of titans-unofficial between an embedding and an output matrix."""
    import titans.models as package

    options = {
        "d_model": WIDTH,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "window_size": 16,
        "persistent_tokens": 4,
        "dropout": 0.0,
    } | changes
    made = getattr(package, name)(**options)
    network = nn.ModuleList(
        [nn.Embedding(vocabulary, WIDTH), made, nn.Linear(WIDTH, vocabulary, bias=False)]
    )
    return Wrapped(network, lambda m, x: m[2](m[1](m[0](x))))


TITANS_UNOFFICIAL_CHANGES = {"memory_depth": 1, "persistent_tokens": 2, "dropout": 0.5}


@contender(
    "titans-unofficial TitansMAG",
    "titans-unofficial==2.0.0",
    rival="titans",
    regbench=False,
    long_length=256,
    changes=TITANS_UNOFFICIAL_CHANGES | {"window_size": 4},
)
def titans_unofficial_mag(vocabulary: int, **changes: Any) -> Wrapped:
    return titans_unofficial_model("TitansMAG", vocabulary, **changes)


@contender(
    "titans-unofficial TitansMAC",
    "titans-unofficial==2.0.0",
    rival="titans",
    regbench=False,
    long_length=256,
    changes=TITANS_UNOFFICIAL_CHANGES | {"window_size": 4, "chunk_size": 8},
)
def titans_unofficial_mac(vocabulary: int, **changes: Any) -> Wrapped:
    return titans_unofficial_model("TitansMAC", vocabulary, **({"chunk_size": 16} | changes))


@contender(
    "titans-trainer TitansModel",
    "titans-trainer==0.1.1",
    rival="titans",
    regbench=False,
    changes={"d_ff": 64, "memory_depth": 1, "n_persistent": 2, "chunk_size": 4, "dropout": 0.5},
)
def titans_trainer(vocabulary: int, **changes: Any) -> Wrapped:
    from titans_trainer import TitansModel

    options = {
        "d_model": WIDTH,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "n_persistent": 4,
        "chunk_size": 16,
        "max_seq_len": MAXIMUM_LENGTH,
        "dropout": 0.0,
    } | changes
    network = TitansModel(vocab_size=vocabulary, causal=True, **options)
    return Wrapped(network, lambda m, x: m(x)["logits"])
