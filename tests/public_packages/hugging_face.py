"""Adapters: models in the form of transformers."""

from typing import Any

from torch import Tensor, nn

from tests.public_packages.contender import HEADS, LAYERS, MAXIMUM_LENGTH, WIDTH, Wrapped, contender
from tests.public_packages.pins import TRANSFORMERS


def hugging_face_cache(model: nn.Module, tokens: Tensor, cache: Any) -> tuple[Tensor, Any]:
    """The calls that ``generate`` of transformers makes, with the cache under its usual name."""
    outputs = model(tokens, past_key_values=cache, use_cache=True)
    return outputs.logits, outputs.past_key_values


def hugging_face(name: str, vocabulary: int, **options: Any) -> nn.Module:
    """A causal language model of transformers from its configuration, with new weights."""
    import transformers

    config = getattr(transformers, f"{name}Config")(vocab_size=vocabulary, **options)
    return transformers.AutoModelForCausalLM.from_config(config)


@contender(
    "transformers GPT2LMHeadModel",
    TRANSFORMERS,
    rival="gpt2",
    changes={
        "n_inner": 64,
        "activation_function": "relu",
        "resid_pdrop": 0.5,
        "embd_pdrop": 0.5,
        "attn_pdrop": 0.5,
        "layer_norm_epsilon": 0.1,
        "initializer_range": 0.5,
        "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True,
        "tie_word_embeddings": False,
    },
)
def hf_gpt2(vocabulary: int, **changes: Any) -> Wrapped:
    options = {
        "n_positions": MAXIMUM_LENGTH,
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    } | changes
    network = hugging_face("GPT2", vocabulary, **options)
    return Wrapped(network, lambda m, x: m(x, use_cache=False).logits, hugging_face_cache)


@contender(
    "rwkv7-hf RWKV7ForCausalLM",
    "rwkv7-hf==0.9.0",
    TRANSFORMERS,
    rival="rwkv7",
    regbench=False,
    changes={
        "hidden_ratio": 2.0,
        "head_dim": 16,
        "decay_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "norm_eps": 0.1,
        "norm_bias": False,
        "initializer_range": 0.5,
        "tie_word_embeddings": True,
    },
)
def rwkv7_hf(vocabulary: int, **changes: Any) -> Wrapped:
    from rwkv7_hf import RWKV7Config, RWKV7ForCausalLM

    options = {
        "vocab_size": vocabulary,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "head_dim": 32,
        "decay_low_rank_dim": 16,
        "gate_low_rank_dim": 16,
        "a_low_rank_dim": 16,
        "v_low_rank_dim": 16,
    } | changes
    network = RWKV7ForCausalLM(RWKV7Config(**options))
    return Wrapped(network, lambda m, x: m(x, use_cache=False).logits, hugging_face_cache)


@contender(
    "transformers MambaForCausalLM",
    TRANSFORMERS,
    rival="mamba",
    changes={
        "state_size": 8,
        "expand": 1,
        "conv_kernel": 2,
        "layer_norm_epsilon": 0.1,
        "use_bias": True,
        "use_conv_bias": False,
        "hidden_act": "gelu",
        "initializer_range": 0.5,
        "time_step_rank": 8,
        "time_step_scale": 3.0,
        "time_step_min": 0.01,
        "time_step_max": 0.5,
        "time_step_init_scheme": "constant",
        "time_step_floor": 0.05,
        "rescale_prenorm_residual": True,
        "residual_in_fp32": False,
        "tie_word_embeddings": False,
    },
)
def hf_mamba(vocabulary: int, **changes: Any) -> Wrapped:
    options = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS} | changes
    network = hugging_face("Mamba", vocabulary, **options)

    def advance(model: nn.Module, tokens: Tensor, cache: Any) -> tuple[Tensor, Any]:
        outputs = model(tokens, cache_params=cache, use_cache=True)
        return outputs.logits, outputs.cache_params

    return Wrapped(network, lambda m, x: m(x, use_cache=False).logits, advance)
