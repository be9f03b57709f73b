"""Training FLOPs, counted by operator on a real batch with PyTorch's own counter.

A multiply-add is two operations. Elementwise work is not counted, for any model, as is usual.
PyTorch's counter knows matrix products, convolutions and attention on a GPU; attention on a CPU and
the recurrent and Fourier kernels, which it leaves out, are added here, or models would look cheaper
than they are. Attention counts all pairs of positions, the masked ones included, on every device.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from tasks.interface import Batch

_aten: Any = torch.ops.aten


def count_training_flops(
    model: nn.Module, batch: Batch, loss: Callable[[nn.Module, Batch], Tensor]
) -> float:
    """FLOPs of one forward and backward pass over ``batch``; gradients are cleared again."""
    with FlopCounterMode(display=False, custom_mapping=_extra_formulas()) as counter:
        loss(model, batch).backward()
    model.zero_grad(set_to_none=True)
    return float(counter.get_total_flops())


def _numel(shape: Any) -> int:
    return math.prod(shape)


def _lstm_layer(input_shape: Any, w_input: Any, w_hidden: Any, *_: Any, **__: Any) -> int:
    """Each position multiplies both weight matrices once: (4h, in) and (4h, h)."""
    positions = _numel(input_shape[:-1])
    return 2 * positions * (_numel(w_input) + _numel(w_hidden))


def _lstm_layer_backward(input_shape: Any, w1: Any, w2: Any, *_: Any, **__: Any) -> int:
    return 2 * _lstm_layer(input_shape, w1, w2)


def _cudnn_lstm(input_shape: Any, weights: Any, *_: Any, **__: Any) -> int:
    """On a GPU the weights come as one list, biases among them."""
    matrices = [shape for shape in weights if len(shape) == 2]
    return 2 * _numel(input_shape[:-1]) * sum(_numel(shape) for shape in matrices)


def _cudnn_lstm_backward(input_shape: Any, weights: Any, *_: Any, **__: Any) -> int:
    return 2 * _cudnn_lstm(input_shape, weights)


def _fourier(numbers: int, length: int, real: bool) -> int:
    """5 n log2 n real operations for a complex transform of length n, half of that for a real one
    (the radix-2 count)."""
    return int((2.5 if real else 5) * numbers * math.log2(max(2, length)))


def _fourier_from_real(shape: Any, dim: Any, *_: Any, **__: Any) -> int:
    return _fourier(_numel(shape), _numel([shape[d] for d in dim]), real=True)


def _fourier_to_real(shape: Any, dim: Any, normalization: Any, length: int, **__: Any) -> int:
    """``length`` is that of the real side; the complex side holds about half of it."""
    others = _numel(shape) // shape[dim[-1]]
    rest = _numel([shape[d] for d in dim[:-1]])
    return _fourier(others * length, rest * length, real=True)


def _fourier_complex(shape: Any, dim: Any, *_: Any, **__: Any) -> int:
    return _fourier(_numel(shape), _numel([shape[d] for d in dim]), real=False)


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _attention_backward(
    grad_output: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any
) -> int:
    return sdpa_backward_flop_count(grad_output, query, key, value)


def _linear_cross_entropy(input_shape: Any, matrix: Any, *_: Any, **__: Any) -> int:
    """Scores, and already the gradients of both factors: three products of one size."""
    return 3 * 2 * _numel(input_shape) * matrix[0]


def _extra_formulas() -> dict[Any, Any]:
    wanted: dict[str, Callable[..., int]] = {
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
        "mkldnn_rnn_layer": _lstm_layer,
        "mkldnn_rnn_layer_backward": _lstm_layer_backward,
        "_cudnn_rnn": _cudnn_lstm,
        "_cudnn_rnn_backward": _cudnn_lstm_backward,
        "_fft_r2c": _fourier_from_real,
        "_fft_c2r": _fourier_to_real,
        "_fft_c2c": _fourier_complex,
    }
    formulas = {getattr(_aten, name): rule for name, rule in wanted.items() if hasattr(_aten, name)}
    if importlib.util.find_spec("torch.nn.modules.linear_cross_entropy"):  # since PyTorch 2.13
        importlib.import_module("torch.nn.modules.linear_cross_entropy")
        formulas[torch.ops.torch_nn._linear_cross_entropy_batch_chunked] = _linear_cross_entropy
    return formulas
