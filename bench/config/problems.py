"""What is refused, in words of the command line, and which setting was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from core.errors import UserError, nearest

# What other projects call a setting of ours.
ELSEWHERE = {
    "lr": ("learning_rate", "max_lr", "base_lr"),
    "width": ("d_model", "dim", "model_dim", "hidden_size", "hidden_dim", "n_embd", "embed_dim"),
    "layers": ("n_layer", "n_layers", "num_layers", "num_hidden_layers", "depth", "blocks"),
    "heads": ("n_head", "n_heads", "num_heads", "num_attention_heads"),
    "state": ("d_state", "state_size", "ssm_state_size"),
    "convolution": ("d_conv", "conv_size", "kernel_size"),
    "steps": ("max_steps", "num_steps", "train_steps", "iterations", "max_iters"),
    "batch_size": ("batch", "bs", "train_batch_size", "per_device_train_batch_size"),
    "weight_decay": ("wd", "decay"),
    "store": ("records", "output", "output_dir", "run_dir"),
    "warmup_steps": ("warmup", "warmup_iters", "num_warmup_steps"),
}
TRUTH_VALUE = "truth_value"  # an error of a whole section, which names its field


@contextmanager
def first_problem_in_a_sentence(beginning: str = "") -> Iterator[None]:
    """Turn what pydantic refuses in the block into a user's mistake, after some words."""
    try:
        yield
    except ValidationError as error:
        raise UserError(beginning + first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """What pydantic refused first, in words of the command line."""
    first = error.errors()[0]
    if first["type"] == TRUTH_VALUE:
        field = first["ctx"]["field"]
        first |= {"loc": (*first["loc"], field), "input": first["input"][field]}
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    place = "".join(parts).removeprefix(".")
    message = first["msg"].removeprefix("Value error, ")
    if place in ("", "training", "sweep"):
        return message
    if first["type"] == "missing":
        return f"{place} is missing"
    return f"{place}={first['input']!r} cannot be used: {message[0].lower()}{message[1:]}"


def hint(key: str, valid: Iterable[str]) -> str:
    """A clause that names the setting that was meant, or lists those of its section.

    Args:
        key: what was given, such as "training.learning_rate", or "lr" without its section.
        valid: all settings with their sections.
    """
    valid = sorted(valid)
    section, _, name = key.rpartition(".")
    inside = (
        [setting for setting in valid if setting.rpartition(".")[0] == section]
        if section
        else valid
    )
    by_name: dict[str, str] = {}
    for setting in inside:
        by_name.setdefault(setting.rpartition(".")[2], setting)
    ours = next(
        (our_name for our_name, others in ELSEWHERE.items() if name.lower() in others), name
    )
    match = by_name.get(ours) or next(
        (by_name[close] for close in difflib.get_close_matches(name, by_name, n=1)), None
    )
    if match:
        return f"did you mean '{match}'?"
    return nearest("", inside) if inside else nearest(key, valid)
