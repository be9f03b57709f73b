"""Training FLOPs, counted by operator on a real batch with PyTorch's own counter.

A multiply-add is two operations. Elementwise work is not counted, for any model, as is usual.
PyTorch's counter knows matrix products, convolutions and attention on a GPU; attention on a CPU and
the recurrent and Fourier kernels, which it leaves out, are added here, or models would look cheaper
than they are. Attention counts all pairs of positions, the masked ones included, on every device.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from math import log, log2, prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from tasks.interface import Batch, Task

SEEN = 64  # batches that are looked at, each made in less than a tenth of a millisecond

_aten: Any = torch.ops.aten


def count_training_flops(
    model: nn.Module, batch: Batch, loss: Callable[[nn.Module, Batch], Tensor]
) -> float:
    """FLOPs of one forward and backward pass over ``batch``; gradients are cleared again."""
    with _counter() as counter:
        loss(model, batch).backward()
    model.zero_grad(set_to_none=True)
    return float(counter.get_total_flops())


def typical_batch(task: Task, seed: int, size: int, steps: int) -> Batch:
    """Of the first batches of a training of so many steps the one that is most like all of them in
    its share of padding and in its length; of one step its only batch.

    A model that leaves padding out does less work on a position of a batch that has much of it, and
    attention more on one of a long batch. Batches of sequences of one length differ in it.
    """
    first = task.training_batch(seed, 0, size)
    # No padding: all batches cost the same, and one stands for them.
    if _useful(first) == 1:
        return first
    batches = [
        first,
        *(task.training_batch(seed, step, size) for step in range(1, min(SEEN, steps))),
    ]
    share, length = _useful(*batches), _length(*batches)

    def unlike(batch: Batch) -> float:
        # By factors: half and twice the mean are equally far from it.
        return abs(log(_useful(batch) / share)) + abs(log(_length(batch) / length))

    return min(batches, key=unlike)


def _length(*batches: Batch) -> float:
    """The mean over their positions of how long the batch of a position is."""
    positions = weighted = 0
    for batch in batches:
        count, time = batch.inputs.shape[:2]
        positions, weighted = positions + count * time, weighted + count * time**2
    return weighted / positions


def _useful(*batches: Batch) -> float:
    """The share of their positions that carry input."""
    positions = sum(batch.inputs.shape[0] * batch.inputs.shape[1] for batch in batches)
    return sum(batch.tokens for batch in batches) / positions


def formulas() -> dict[Any, Callable[..., int]]:
    """Operator -> the FLOPs of a call, as a function of its arguments and of ``out_val``."""
    return dict(_counter().flop_registry)


def _counter() -> FlopCounterMode:
    return FlopCounterMode(display=False, custom_mapping=_extra_formulas())


def _lstm(passes: int, input_shape: Any, *weights: Any, **_: Any) -> int:
    """Each position multiplies the matrices of a layer, (4h, in) and (4h, h), once in a pass. On a
    CPU they come first; on a GPU as one list with the biases."""
    first = weights[:2] if isinstance(weights[0], torch.Size) else weights[0]
    matrices = (shape for shape in first if len(shape) == 2)
    # 2 for multiply and add, times positions, times entries of the two matrices.
    return 2 * passes * prod(input_shape[:-1]) * sum(map(prod, matrices))


def _fourier(numbers: int, length: int, real: bool = True) -> int:
    """5 n log2 n real operations for a complex transform of length n, half of that for a real one
    (the radix-2 count)."""
    return int((2.5 if real else 5) * numbers * log2(max(2, length)))


def _fourier_of(shape: Any, dim: Any, *_: Any, real: bool, **__: Any) -> int:
    return _fourier(prod(shape), prod(shape[d] for d in dim), real)


def _fourier_to_real(shape: Any, dim: Any, normalization: Any, length: int, **__: Any) -> int:
    """``length`` is that of the real side; the complex side holds about half of it."""
    others = prod(shape) // shape[dim[-1]]
    rest = prod(shape[d] for d in dim[:-1])
    return _fourier(others * length, rest * length)


def _attention(*shapes: Any, **_: Any) -> int:
    return sdpa_flop_count(*shapes[:3])


def _attention_backward(*shapes: Any, **_: Any) -> int:
    return sdpa_backward_flop_count(*shapes[:4])


def _linear_cross_entropy(input_shape: Any, matrix: Any, *_: Any, **__: Any) -> int:
    """Scores, and already the gradients of both factors: three products of one size."""
    # One product forward, two for gradients; each batch · width · vocabulary multiply-adds.
    return 3 * 2 * prod(input_shape) * matrix[0]


def _extra_formulas() -> dict[Any, Any]:
    wanted: dict[str, Callable[..., int]] = {
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
        "mkldnn_rnn_layer": partial(_lstm, 1),
        "mkldnn_rnn_layer_backward": partial(_lstm, 2),
        "_cudnn_rnn": partial(_lstm, 1),
        "_cudnn_rnn_backward": partial(_lstm, 2),
        "_fft_r2c": partial(_fourier_of, real=True),
        "_fft_c2r": _fourier_to_real,
        "_fft_c2c": partial(_fourier_of, real=False),
    }
    formulas = {getattr(_aten, name): rule for name, rule in wanted.items() if hasattr(_aten, name)}
    if importlib.util.find_spec("torch.nn.modules.linear_cross_entropy"):  # since PyTorch 2.13
        importlib.import_module("torch.nn.modules.linear_cross_entropy")
        formulas[torch.ops.torch_nn._linear_cross_entropy_batch_chunked] = _linear_cross_entropy
    return formulas
