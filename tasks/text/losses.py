"""Cross-entropy of next tokens over large vocabularies, without all logits at once.

Logits of a batch of 512-token windows over 50,304 tokens take gigabytes. A model that offers
``hidden`` and ``output_matrix`` (``models/specification.py``) is asked for the vectors before its
output map, which is then applied to a few positions at a time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SMALL_VOCABULARY = 8192  # below it all logits at once are as fast, and fit
CPU_CHUNK = 64  # positions whose logits stay in the cache: half the time of all logits at once
EVALUATION_CHUNK = 256
LOGITS_AT_ONCE = 2**26  # for a model that only gives logits: 256 MiB of float32


def offers_hidden(model: nn.Module) -> bool:
    """Whether the vectors before the output map can be had."""
    return hasattr(model, "hidden") and hasattr(model, "output_matrix")


def training_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats of int64 targets (batch, time) after inputs (batch, time)."""
    model_: Any = model
    fused = getattr(functional, "linear_cross_entropy", None)  # PyTorch 2.13 has it, 2.10 does not
    if fused is None or not offers_hidden(model) or len(model_.output_matrix) < SMALL_VOCABULARY:
        outputs = model(inputs)
        return functional.cross_entropy(outputs.flatten(0, 1).float(), targets.flatten())
    hidden = model_.hidden(inputs).flatten(0, 1)
    on_cpu = hidden.device.type == "cpu"
    options = torch.nn.LinearCrossEntropyOptions(
        batch_chunk_size=CPU_CHUNK if on_cpu else None, chunking_method=None if on_cpu else "auto"
    )
    # Autocast does not know this function, and a norm gives float32: without the casts the largest
    # product of the model would be the only one in float32.
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    matrix = model_.output_matrix.to(dtype)
    return fused(hidden.to(dtype), matrix, targets.flatten(), options=options).float()


def token_losses(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each target in nats, float32 (batch, time), without gradients."""
    model_: Any = model
    if not offers_hidden(model):
        outputs = model(inputs).float()
        losses = functional.cross_entropy(
            outputs.flatten(0, 1), targets.flatten(), reduction="none"
        )
        return losses.view_as(targets)
    hidden = model_.hidden(inputs).flatten(0, 1)
    parts = [
        functional.cross_entropy(
            functional.linear(part, model_.output_matrix).float(), wanted, reduction="none"
        )
        for part, wanted in zip(
            hidden.split(EVALUATION_CHUNK), targets.flatten().split(EVALUATION_CHUNK), strict=True
        )
    ]
    return torch.cat(parts).view_as(targets)


def rows_at_once(model: nn.Module, length: int, vocabulary: int) -> int:
    """How many sequences of ``length`` to evaluate in one pass, in bounded memory."""
    if offers_hidden(model):
        # Without logits only hidden vectors are held: 8,192 positions.
        return max(1, 2**13 // length)
    return max(1, min(2**13, LOGITS_AT_ONCE // vocabulary) // length)
